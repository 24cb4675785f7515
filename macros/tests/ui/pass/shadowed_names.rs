//! Types and functions of the author that are called like what generated code uses.
#![allow(dead_code)]
include!("../common/prelude.rs");

mod shadowed {
    use super::{Cx, Model, Nothing, PiecewiseRegion};

    struct Vec;
    struct Option;
    struct Result;
    struct Box;
    struct Some;
    struct None;
    struct Ok;
    struct Err;
    struct String;
    struct PhantomData;
    struct Schema;
    struct Statics;
    struct Wire;
    struct Pad;
    trait FnMut {}
    trait RegionSpec {}
    trait Args {}
    mod std {}
    mod core {}
    mod graph_core {}
    #[allow(unused_macros)]
    macro_rules! line { () => { "no line" } }
    #[allow(unused_macros)]
    macro_rules! file { () => { 0 } }
    #[allow(unused_macros)]
    macro_rules! env { ($e:expr) => { 0 } }

    /// `input` and `wired_output` for everything: what is generated names its types.
    trait Everywhere {
        fn input(self, _: u8) -> u8
        where
            Self: Sized,
        {
            0
        }
        fn dims(self) -> u8
        where
            Self: Sized,
        {
            0
        }
        fn axis(self, _: u8) -> u8
        where
            Self: Sized,
        {
            0
        }
    }
    impl<T> Everywhere for T {}

    #[derive(PiecewiseRegion)]
    #[region(node = "n", name = "r", packed(total_tokens = [16]), backends(Nothing))]
    #[input(x: f16 [tokens, self.hidden], pad = value(0.5), wire = h[0])]
    #[input(ids: i32 [tokens], host, pad = repeat_last)]
    #[output(y: f16 [tokens, self.hidden], wire = h[1])]
    struct R<B: super::Backend> {
        hidden: usize,
        model: ::std::sync::Arc<Model<B>>,
    }

    impl<B: super::Backend> super::Region for R<B> {
        type Submodule = Model<B>;
        fn instances(_: &::std::sync::Arc<Model<B>>) -> ::std::vec::Vec<::std::sync::Arc<Self>> {
            ::std::vec![]
        }
        fn forward(
            &self,
            _: &mut Cx<'_, B>,
            _: &RInputs<'_, B>,
            _: &ROutputs<'_, B>,
        ) -> super::Result<()> {
            ::std::result::Result::Ok(())
        }
    }
}

fn main() {
    let line = include_str!("shadowed_names.rs").lines().position(|l| l.contains("struct R<")).unwrap() + 1;
    assert_eq!(graph_core::Registry::collect().unwrap().regions()[0].at.line as usize, line);
}
