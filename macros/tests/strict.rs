//! Generated code gives no lint anything to say, however strict the author is. What fails here fails to compile.

#![forbid(unsafe_code, missing_docs)]
#![deny(
    warnings,
    future_incompatible,
    keyword_idents,
    let_underscore,
    nonstandard_style,
    refining_impl_trait
)]
#![deny(rust_2018_idioms, rust_2021_compatibility, rust_2024_compatibility, unused)]
#![deny(
    absolute_paths_not_starting_with_crate,
    elided_lifetimes_in_paths,
    explicit_outlives_requirements,
    macro_use_extern_crate,
    meta_variable_misuse,
    redundant_imports,
    redundant_lifetimes,
    single_use_lifetimes,
    trivial_casts,
    trivial_numeric_casts,
    unit_bindings,
    unnameable_types,
    unreachable_pub,
    unused_import_braces,
    unused_lifetimes,
    unused_qualifications,
    unused_results,
    variant_size_differences
)]
#![deny(missing_debug_implementations, missing_copy_implementations)]
#![deny(clippy::all, clippy::pedantic, clippy::nursery, clippy::cargo)]
#![deny(
    clippy::absolute_paths,
    clippy::allow_attributes_without_reason,
    clippy::arbitrary_source_item_ordering,
    clippy::as_conversions,
    clippy::clone_on_ref_ptr,
    clippy::exhaustive_structs,
    clippy::expect_used,
    clippy::field_scoped_visibility_modifiers,
    clippy::implicit_return,
    clippy::indexing_slicing,
    clippy::integer_division,
    clippy::min_ident_chars,
    clippy::missing_const_for_fn,
    clippy::missing_docs_in_private_items,
    clippy::missing_inline_in_public_items,
    clippy::missing_trait_methods,
    clippy::multiple_inherent_impl,
    clippy::panic,
    clippy::partial_pub_fields,
    clippy::pattern_type_mismatch,
    clippy::pub_use,
    clippy::question_mark_used,
    clippy::shadow_reuse,
    clippy::shadow_same,
    clippy::shadow_unrelated,
    clippy::single_call_fn,
    clippy::single_char_lifetime_names,
    clippy::std_instead_of_core,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm
)]

graph_core::backends!(graph_host::Host);

/// The declarations.
#[cfg(test)]
pub mod declared {
    use core::marker::PhantomData;

    use graph_core::PiecewiseRegion;
    use graph_host::Host;

    /// A region whose author reads none of what is generated.
    #[derive(Debug, PiecewiseRegion)]
    #[region(node = "strict", name = "generic", packed(total_tokens = [16, 64]), batch_sizes = [1, 2])]
    #[input(x: f32 [tokens, self.hidden], pad = value(1.0), wire = h[self.hidden])]
    #[input(ids: i32 [3, tokens], host, pad = repeat_last)]
    #[input(fixed: f16 [4])]
    #[output(y: bf16 [bs, self.hidden], wire = h[1])]
    pub struct Generic<B: graph_core::Backend> {
        /// The backend.
        backend: PhantomData<B>,
        /// Columns.
        hidden: usize,
    }

    /// A region over an element.
    #[derive(Debug, PiecewiseRegion)]
    #[region(node = "strict", name = "over", packed(total_tokens = [16]), elements(A = [f32, bf16]))]
    #[input(x: A [tokens], pad = value(1.0))]
    #[output(y: i32 [bs])]
    pub struct Over<B: graph_core::Backend, A: graph_core::Element> {
        /// The backend and the element.
        both: PhantomData<(B, A)>,
    }

    /// The same for one backend, and nothing declared.
    #[derive(Clone, Copy, Debug, PiecewiseRegion)]
    #[region(node = "strict", name = "single", batched(seq_len = 4), backend = Host, compile = true)]
    #[output(logits: f32 [bs, self.width])]
    pub struct Single {
        /// The width.
        width: usize,
    }
}

/// What the author writes is not what is looked at here.
#[cfg(test)]
#[allow(
    clippy::absolute_paths,
    clippy::allow_attributes_without_reason,
    clippy::arbitrary_source_item_ordering
)]
#[allow(clippy::implicit_return, clippy::missing_trait_methods, clippy::std_instead_of_core)]
#[allow(clippy::missing_inline_in_public_items, clippy::unwrap_used, unused_qualifications)]
mod author {
    use std::sync::Arc;

    use graph_core::{Backend, Cx, Element, NoModel, PiecewiseRegion, Region, Result};
    use graph_host::Host;

    use super::declared::{
        Generic, GenericInputs, GenericOutputs, Over, OverInputs, OverOutputs, Single, SingleInputs,
        SingleOutputs,
    };

    impl<B: Backend> Region for Generic<B> {
        type Submodule = NoModel;
        fn instances(_: &Arc<NoModel>) -> Vec<Arc<Self>> {
            Vec::new()
        }
        fn forward(
            &self,
            _: &mut Cx<'_, B>,
            _: &GenericInputs<'_, B>,
            _: &GenericOutputs<'_, B>,
        ) -> Result<()> {
            Ok(())
        }
    }

    impl<B: Backend, A: Element> Region for Over<B, A> {
        type Submodule = NoModel;
        fn instances(_: &Arc<NoModel>) -> Vec<Arc<Self>> {
            Vec::new()
        }
        fn forward(
            &self,
            _: &mut Cx<'_, B>,
            _: &OverInputs<'_, B, A>,
            _: &OverOutputs<'_, B, A>,
        ) -> Result<()> {
            Ok(())
        }
    }

    impl Region for Single {
        type Submodule = NoModel;
        fn instances(_: &Arc<NoModel>) -> Vec<Arc<Self>> {
            Vec::new()
        }
        fn forward(&self, _: &mut Cx<'_, Host>, _: &SingleInputs<'_>, _: &SingleOutputs<'_>) -> Result<()> {
            Ok(())
        }
    }

    /// Private, so that the compiler sees that nobody makes its arguments or reads its inputs.
    #[derive(Clone, Copy, Debug, PiecewiseRegion)]
    #[region(node = "strict", name = "private", packed(total_tokens = [16]), backend = Host)]
    #[input(x: f32 [tokens])]
    #[output(y: f32 [tokens])]
    struct Private;

    impl Region for Private {
        type Submodule = NoModel;
        fn instances(_: &Arc<NoModel>) -> Vec<Arc<Self>> {
            vec![Arc::new(Self)]
        }
        fn forward(&self, _: &mut Cx<'_, Host>, _: &PrivateInputs<'_>, _: &PrivateOutputs<'_>) -> Result<()> {
            Ok(())
        }
    }

    /// They are linked.
    #[test]
    fn strict_regions_are_registered() {
        let registry = graph_core::Registry::collect().unwrap();
        let names: Vec<_> = registry.regions().iter().map(|entry| entry.schema.name).collect();
        assert_eq!(names, ["generic", "over", "over_bf16", "private", "single"]);
    }
}
