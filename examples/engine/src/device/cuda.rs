//! CUDA devices.

use graph_core::{Error, ErrorKind};
use graph_cuda::{Cuda, codes};

use super::{Device, Missing};

pub(super) fn open(ordinal: usize) -> Result<Device, Missing> {
    Cuda::new(ordinal)
        .map(Device::Cuda)
        .map_err(|error| Missing { reason: error.to_string(), remedy: remedy(&error) })
}

/// Its name and what it is.
pub(super) fn description(device: &Cuda) -> String {
    let (version, ordinal) = (device.driver_version(), device.ordinal());
    let capability = match device.compute_capability() {
        Ok((major, minor)) => format!("compute capability {major}.{minor}, "),
        Err(_) => String::new(),
    };
    format!("cuda:{ordinal} ({capability}driver for CUDA {}.{})", version / 1000, version % 1000 / 10)
}

fn remedy(error: &Error) -> &'static str {
    let ErrorKind::Driver { call, code, .. } = error.kind() else { return SETUP };
    match (call.as_str(), *code) {
        ("loading the driver", codes::CALL_REQUIRES_NEWER_DRIVER) => "update NVIDIA's driver",
        ("loading the driver", _) => "install NVIDIA's driver, for CUDA 12.3 or newer",
        ("loading NVRTC", _) => "make NVRTC findable, such as by LD_LIBRARY_PATH",
        (_, codes::INVALID_DEVICE | codes::NO_DEVICE) => "`nvidia-smi -L` lists the devices",
        _ => SETUP,
    }
}

/// For failures that the engine has no advice of its own about.
const SETUP: &str = "see whether `nvidia-smi` works";
