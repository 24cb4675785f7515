//! Every kernel against the kernel on slices that defines it.

use graph_cuda::Cuda;
use plugins_on_cuda::{CASES, Rig};

use crate::report::Check;

pub(crate) fn kernels(device: &Cuda) -> impl Iterator<Item = Check> {
    CASES.iter().copied().flatten().map(|case| {
        let rig = Rig::on(device.clone(), case.source).map_err(|error| error.to_string());
        Check::new(
            format!("kernel {} of {}", case.kernel, case.source.name),
            rig.and_then(|rig| (case.check)(&rig)),
        )
    })
}
