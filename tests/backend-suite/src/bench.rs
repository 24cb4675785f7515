//! Cases, and what they run on.

use std::path::PathBuf;

use digits_plugin::DigitsOptions;
use graph_core::Result;
use llama_plugin::LlamaOptions;

use crate::{SuiteOps, groups};

/// What a case runs on: fresh devices, and the folders of the models.
pub struct Bench<B> {
    open: Box<dyn Fn() -> Result<B>>,
    /// The llama model's.
    pub llama: PathBuf,
    /// The digits model's.
    pub digits: PathBuf,
}

impl<B> Bench<B> {
    /// Devices that `open` gives, and the models that are part of the plugins' crates.
    pub fn new(open: impl Fn() -> Result<B> + 'static) -> Self {
        let (llama, digits) = (LlamaOptions::default().dir, DigitsOptions::default().dir);
        Bench { open: Box::new(open), llama, digits }
    }

    /// A device that nothing has run on.
    ///
    /// # Errors
    /// As its backend's.
    pub fn device(&self) -> Result<B> {
        (self.open)()
    }
}

/// One thing that every backend must do.
pub struct Case<B> {
    /// The part of graph-core that it is about.
    pub group: &'static str,
    /// What holds.
    pub name: &'static str,
    /// Panics, or returns an error, where it does not hold.
    pub run: fn(&Bench<B>) -> Result<()>,
}

/// Every case, in the order of the list.
pub fn cases<B: SuiteOps>() -> Vec<Case<B>> {
    macro_rules! table {
        ($($group:ident { $($name:ident,)* })*) => {
            vec![$($(Case {
                group: stringify!($group),
                name: stringify!($name),
                run: groups::$group::$name::<B>,
            },)*)*]
        };
    }
    crate::each_case!(table)
}
