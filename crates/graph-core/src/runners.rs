//! The runners of an engine, until their nodes take them.

use std::{
    any::{Any, TypeId, type_name},
    marker::PhantomData,
};

use crate::{Backend, ErrorKind, Region, Result, Runner};

/// The runners of an engine, by the type of their region, until a node takes them.
///
/// ```
#[doc = include_str!("doc/scale.md")]
/// let mut engine = Engine::builder(Host::new()).build(&registry)?;
/// let scale: Runner<Scale> = engine.runners().take_one()?;
/// assert_eq!(scale.region().schema().full_name(), "toy.scale");
///
/// let error = engine.runners().take_one::<Scale>().expect_err("a runner has one owner");
/// assert!(error.to_string().contains("taken already"));
/// # Ok::<(), graph_core::Error>(())
/// ```
pub struct Runners<B: Backend> {
    all: Vec<(String, TypeId, Box<dyn Any + Send>)>,
    backend: PhantomData<B>,
}

impl<B: Backend> Runners<B> {
    pub(crate) fn new() -> Self {
        Runners { all: Vec::new(), backend: PhantomData }
    }

    pub(crate) fn insert<R: Region<Backend = B>>(&mut self, name: String, runners: Vec<Runner<R>>) {
        self.all.push((name, TypeId::of::<R>(), Box::new(runners)));
    }

    /// One runner per instance, in order. Taken: the eager code owns them, as fields that it can borrow apart.
    ///
    /// # Errors
    /// [`NoRunner`](ErrorKind::NoRunner), which says why: not on this backend, no instance, or taken already.
    pub fn take<R: Region<Backend = B>>(&mut self) -> Result<Vec<Runner<R>>> {
        self.take_where::<R>(|_| true, type_name::<R>())
    }

    /// The same for a hand-written region, whose type says nothing: by `node.name`.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub fn take_named<R: Region<Backend = B>>(&mut self, name: &str) -> Result<Vec<Runner<R>>> {
        self.take_where::<R>(|n| n == name, name)
    }

    /// The only runner of a region.
    ///
    /// # Errors
    /// As [`take`](Self::take), and where there is more than one, which stay here.
    pub fn take_one<R: Region<Backend = B>>(&mut self) -> Result<Runner<R>> {
        let mut runners = self.take::<R>()?;
        match (runners.pop(), runners.len()) {
            (Some(runner), 0) => Ok(runner),
            (last, rest) => {
                let name = runners.first().map_or_else(String::new, |r| r.region().schema().full_name());
                runners.extend(last);
                self.insert(name, runners);
                let why = format!("it has {} instances; use `take`", rest + 1);
                Err(Self::none::<R>(type_name::<R>(), why))
            }
        }
    }

    fn take_where<R: Region<Backend = B>>(
        &mut self,
        name: impl Fn(&str) -> bool,
        asked: &str,
    ) -> Result<Vec<Runner<R>>> {
        let found = self.all.iter().position(|(n, id, _)| *id == TypeId::of::<R>() && name(n));
        let Some(i) = found else {
            return Err(Self::none::<R>(asked, "not registered for this backend, without instances, or taken already (its node's `bind` takes it)".into()));
        };
        let (name, _, any) = self.all.swap_remove(i);
        match any.downcast::<Vec<Runner<R>>>() {
            Ok(runners) => Ok(*runners),
            Err(_) => Err(Self::none::<R>(&name, "its type is another".into())),
        }
    }

    fn none<R>(region: &str, why: String) -> crate::Error {
        let (region, rust_type) = (region.into(), type_name::<R>());
        ErrorKind::NoRunner { region, rust_type, backend: B::NAME, why }.into()
    }
}
