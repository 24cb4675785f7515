//! `--device`: where the models run.

#[cfg_attr(not(feature = "cuda"), path = "without_cuda.rs")]
mod cuda;

use anyhow::{Result, bail};
use graph_host::Host;

/// What `--device` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The first CUDA device, or the host where there is none.
    Auto,
    Host,
    /// The CUDA device of that number.
    Cuda(usize),
}

/// A device that is open.
pub(crate) enum Device {
    Host(Host),
    #[cfg(feature = "cuda")]
    Cuda(graph_cuda::Cuda),
}

/// Why a CUDA device cannot be had.
struct Missing {
    reason: String,
    /// What to do about it.
    remedy: &'static str,
}

/// Reads `--device`.
pub(crate) fn choice(text: &str) -> Result<Choice, String> {
    let number = |digits: &str| match digits.bytes().all(|b| b.is_ascii_digit()) {
        true => digits.parse().ok(),
        false => None,
    };
    let cuda = || match text.strip_prefix("cuda")? {
        "" => Some(0),
        rest => number(rest.strip_prefix(':')?),
    };
    match text {
        "auto" => Ok(Choice::Auto),
        "host" => Ok(Choice::Host),
        _ => cuda().map(Choice::Cuda).ok_or_else(|| {
            "use auto, host, cuda, or cuda:N with the number of a device, such as cuda:0".into()
        }),
    }
}

impl Choice {
    /// Opens the device and says on standard error which it is, and why if it is not the one that was wanted.
    ///
    /// # Errors
    /// A CUDA device that was asked for by number and cannot be had: why, and what to do.
    pub(crate) fn open(self) -> Result<Device> {
        let host = || Device::Host(Host::new());
        let device = match self {
            Choice::Host => host(),
            Choice::Cuda(ordinal) => match cuda::open(ordinal) {
                Ok(device) => device,
                Err(Missing { reason, remedy }) => {
                    bail!("--device cuda:{ordinal}: {reason}; {remedy}, or use `--device host`")
                }
            },
            Choice::Auto => match cuda::open(0) {
                Ok(device) => device,
                Err(Missing { reason, .. }) => {
                    eprintln!("device: host, because cuda:0 cannot be used: {reason}");
                    return Ok(host());
                }
            },
        };
        eprintln!("device: {}", device.description());
        Ok(device)
    }
}

impl Device {
    fn description(&self) -> String {
        match self {
            Device::Host(_) => "host".into(),
            #[cfg(feature = "cuda")]
            Device::Cuda(device) => cuda::description(device),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Choice, choice};

    #[test]
    fn every_form_is_read_and_nothing_else() {
        assert_eq!(choice("auto"), Ok(Choice::Auto));
        assert_eq!(choice("host"), Ok(Choice::Host));
        assert_eq!(choice("cuda"), Ok(Choice::Cuda(0)));
        assert_eq!(choice("cuda:0"), Ok(Choice::Cuda(0)));
        assert_eq!(choice("cuda:12"), Ok(Choice::Cuda(12)));
        for wrong in
            ["", "gpu", "Cuda", "cuda0", "cuda:", "cuda:+1", "cuda:-1", "cuda:1x", "cuda: 1", "host:0"]
        {
            assert!(choice(wrong).is_err(), "{wrong}");
        }
        let beyond = format!("cuda:{}0", usize::MAX);
        assert!(choice(&beyond).is_err());
    }
}
