//! A binary without the feature `cuda` has no CUDA device.

use super::{Device, Missing};

pub(super) fn open(_ordinal: usize) -> Result<Device, Missing> {
    Err(Missing {
        reason: "this binary was built without `--features cuda`".into(),
        remedy: "build it with `cargo build --release -p engine --features cuda`",
    })
}
