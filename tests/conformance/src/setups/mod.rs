//! Runners built from setups, each once.

pub(crate) mod data;
pub(crate) mod outcome;
pub(crate) mod piecewise;
pub(crate) mod probe;
pub(crate) mod seen;
pub(crate) mod spec;
pub(crate) mod whole;

use std::{cell::RefCell, collections::BTreeMap, rc::Rc};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use self::{
    piecewise::Piecewise,
    spec::{PiecewiseSpec, WholeSpec},
    whole::Whole,
};
use crate::{differences::expected, vectors::Problem};

/// The setups of one file.
pub(crate) struct Setups<'f> {
    raw: &'f BTreeMap<String, Value>,
    whole: RefCell<BTreeMap<String, Rc<Whole>>>,
    piecewise: RefCell<BTreeMap<String, Rc<Piecewise>>>,
}

impl<'f> Setups<'f> {
    /// Nothing is built yet.
    pub(crate) fn new(raw: &'f BTreeMap<String, Value>) -> Self {
        Setups { raw, whole: RefCell::default(), piecewise: RefCell::default() }
    }

    /// A setup as it is written.
    pub(crate) fn spec<T: DeserializeOwned>(&self, name: &str) -> Result<T, Problem> {
        let raw = self.raw.get(name).ok_or_else(|| format!("there is no setup `{name}` in this file"))?;
        T::deserialize(raw).map_err(|e| format!("setup `{name}`: {e}"))
    }

    /// Checks that what was built is what the setups say: every bucket whose captures all go through, in order, and
    /// nothing else; or the error that graph-core refuses the setup with.
    pub(crate) fn check(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let mut compare = |name: &str, got: Value, want: Value| {
            if got != want {
                problems.push(format!("setup `{name}`: graph-core has {got}, expected {want}"));
            }
        };
        for (name, whole) in self.whole.borrow().iter() {
            compare(name, either(whole.buckets()), either(expected(&whole.spec)));
        }
        for (name, piecewise) in self.piecewise.borrow().iter() {
            compare(name, either(piecewise.shapes()), either(piecewise.spec.expected()));
        }
        problems
    }

    /// The whole-forward runner of a setup.
    pub(crate) fn whole(&self, name: &str) -> Result<Rc<Whole>, Problem> {
        if let Some(built) = self.whole.borrow().get(name) {
            return Ok(built.clone());
        }
        let built = Rc::new(Whole::build(self.spec::<WholeSpec>(name)?)?);
        self.whole.borrow_mut().insert(name.into(), built.clone());
        Ok(built)
    }

    /// The region's runner of a setup.
    pub(crate) fn piecewise(&self, name: &str) -> Result<Rc<Piecewise>, Problem> {
        if let Some(built) = self.piecewise.borrow().get(name) {
            return Ok(built.clone());
        }
        let built = Rc::new(Piecewise::build(self.spec::<PiecewiseSpec>(name)?));
        self.piecewise.borrow_mut().insert(name.into(), built.clone());
        Ok(built)
    }
}

/// A list, or an error as JSON.
fn either(list: Result<impl Serialize, Value>) -> Value {
    list.map_or_else(|error| error, |list| json!(list))
}
