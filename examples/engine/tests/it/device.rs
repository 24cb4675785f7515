//! `--device`: which device a command takes, and what it says where it cannot have one.

use std::process::Output;

use serde_json::Value;

use crate::program;

/// Classifies one image; the output, and what was said about the device.
fn classify(args: &[&str], libraries: Option<&std::path::Path>) -> (Output, String) {
    let (_dir, path) = program::file("images.json", &format!(r#"{{"images": [{:?}]}}"#, [3; 64]));
    let images = ["classify", "--json", "--batch-size", "1", "--images", path.to_str().unwrap()];
    let out = program::with_libraries(libraries, images.iter().chain(args));
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    let about = |line: &&str| line.starts_with("device: ") || line.starts_with("error: ");
    let said = errors.lines().filter(about).collect::<Vec<_>>().join("\n");
    assert!(!errors.contains("panicked"), "{errors}");
    (out, said)
}

fn falls_back(libraries: Option<&std::path::Path>, reason: &str) {
    for args in [&[][..], &["--device", "auto"]] {
        let (out, said) = classify(args, libraries);
        assert_eq!(said, format!("device: host, because cuda:0 cannot be used: {reason}"));
        let json: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(json["device"], "host");
        assert_eq!(out.status.code(), Some(0));
    }
}

fn refuses(device: &str, libraries: Option<&std::path::Path>, reason: &str, remedy: &str) {
    let (out, said) = classify(&["--device", device], libraries);
    let named = if device == "cuda" { "cuda:0" } else { device };
    assert_eq!(said, format!("error: --device {named}: {reason}; {remedy}, or use `--device host`"));
    assert_eq!(out.status.code(), Some(1));
    assert!(out.stdout.is_empty());
}

#[test]
fn the_host_is_taken_where_it_is_asked_for() {
    let (out, said) = classify(&["--device", "host"], None);
    assert_eq!(said, "device: host");
    assert_eq!(serde_json::from_slice::<Value>(&out.stdout).unwrap()["device"], "host");
    // Before the command, too.
    let serve = ["--device", "host", "serve", "--json", "--max-new-tokens", "1", "hi"];
    assert_eq!(program::json(serve)["device"], "host");
}

#[test]
fn a_device_that_is_none_is_a_wrong_command_line() {
    for wrong in ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda0", "host:0", ""] {
        let (out, said) = classify(&["--device", wrong], None);
        assert_eq!(
            said,
            format!(
                "error: invalid value '{wrong}' for '--device <DEVICE>': use auto, host, cuda, or cuda:N with the \
                 number of a device, such as cuda:0"
            )
        );
        assert_eq!(out.status.code(), Some(2));
    }
}

#[cfg(not(feature = "cuda"))]
mod without_the_feature {
    use super::{falls_back, refuses};

    const REASON: &str = "this binary was built without `--features cuda`";

    #[test]
    fn auto_takes_the_host() {
        falls_back(None, REASON);
    }

    #[test]
    fn a_cuda_device_is_refused_with_the_command_that_builds_it_in() {
        let remedy = "build it with `cargo build --release -p engine --features cuda`";
        ["cuda", "cuda:0", "cuda:3"].into_iter().for_each(|device| refuses(device, None, REASON, remedy));
    }
}

/// Drivers that lack something, under the driver's name in a folder that the program looks in first.
#[cfg(all(feature = "cuda", target_os = "linux"))]
mod drivers {
    use std::path::Path;
    use std::process::Command;

    use super::{falls_back, refuses};

    const LOADING: &str = "cuda: loading the driver failed: ";
    const INSTALL: &str = "install NVIDIA's driver, for CUDA 12.3 or newer";

    /// A folder with a driver of this C source; `None`, and a line that says so, where there is no C compiler.
    fn driver(test: &str, source: &str) -> Option<tempfile::TempDir> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("driver.c");
        std::fs::write(&path, source).unwrap();
        let compiles = |compiler: &&str| {
            let mut command = Command::new(compiler);
            command.args(["-shared", "-fPIC", "-o"]).arg(dir.path().join("libcuda.so")).arg(&path);
            command.status().is_ok_and(|status| status.success())
        };
        if !["cc", "gcc", "clang"].iter().any(compiles) {
            eprintln!("NOT RUN: {test}: no C compiler");
            return None;
        }
        Some(dir)
    }

    fn version(version: u32) -> String {
        format!("int cuDriverGetVersion(int* version) {{ *version = {version}; return 0; }}\n")
    }

    /// What a device that was asked for by number is refused with.
    fn reason(libraries: &Path) -> String {
        let (_, said) = super::classify(&["--device", "cuda:0"], Some(libraries));
        let said = said.strip_prefix("error: --device cuda:0: ").expect("an error");
        said.split("; ").next().expect("a reason").to_owned()
    }

    #[test]
    fn none_at_all() {
        if !graph_cuda::Cuda::available()
            .is_err_and(|error| error.to_string().contains("there is no libcuda.so"))
        {
            eprintln!("NOT RUN: none_at_all: this machine has a driver");
            return;
        }
        let reason = format!(
            "{LOADING}CUDA_ERROR_NOT_FOUND (500): there is no libcuda.so, libcuda.so.1 on this machine"
        );
        falls_back(None, &reason);
        ["cuda", "cuda:0", "cuda:3"].into_iter().for_each(|device| refuses(device, None, &reason, INSTALL));
    }

    #[test]
    fn one_that_is_too_old() {
        let Some(dir) = driver("one_that_is_too_old", &version(12_020)) else { return };
        let reason = reason(dir.path());
        let start = "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER (36): the driver supports CUDA 12.2, 12.3 is the oldest that works";
        assert_eq!(reason, format!("{LOADING}{start}"));
        let (_, said) = super::classify(&["--device", "cuda:0"], Some(dir.path()));
        assert!(said.ends_with("; update NVIDIA's driver, or use `--device host`"), "{said}");
        let (_, said) = super::classify(&[], Some(dir.path()));
        assert!(
            said.starts_with(&format!(
                "device: host, because cuda:0 cannot be used: {LOADING}{start}; it lacks "
            )),
            "{said}"
        );
    }

    #[test]
    fn one_without_functions_then_with_them_but_without_a_device() {
        let test = "one_without_functions_then_with_them_but_without_a_device";
        let Some(poor) = driver(test, &version(13_000)) else { return };
        let lacking = reason(poor.path());
        falls_back(Some(poor.path()), &lacking);
        refuses("cuda:0", Some(poor.path()), &lacking, INSTALL);
        let names =
            lacking.strip_prefix(&format!("{LOADING}CUDA_ERROR_NOT_FOUND (500): driver 13.0 has no "));
        let names: Vec<&str> = names.expect("names of functions").split(", ").collect();
        assert!(names.contains(&"cuInit") && names.contains(&"cuGraphLaunch"), "{names:?}");

        // What the message names is all that it takes.
        let stub = |name: &&str| {
            format!("int {name}(void) {{ return {}; }}\n", if **name == *"cuInit" { 100 } else { 999 })
        };
        let source = version(13_000) + &names.iter().map(stub).collect::<String>();
        let Some(idle) = driver(test, &source) else { return };
        let reason = "cuda: cuInit failed: CUDA_ERROR_NO_DEVICE (100)";
        falls_back(Some(idle.path()), reason);
        refuses("cuda:1", Some(idle.path()), reason, "`nvidia-smi -L` lists the devices");
    }

    /// The stand-in driver, in a process that has not asked for it, and no NVRTC.
    #[test]
    fn one_with_a_device_but_no_compiler_for_kernels() {
        let dir = tempfile::tempdir().unwrap();
        let stand_in = stand_in_driver::load().expect("the stand-in driver").path().to_owned();
        std::os::unix::fs::symlink(stand_in, dir.path().join("libcuda.so")).unwrap();
        let range =
            "cuda: opening device 1 failed: CUDA_ERROR_INVALID_DEVICE (101): the driver has 1 device(s)";
        refuses("cuda:1", Some(dir.path()), range, "`nvidia-smi -L` lists the devices");
        let (_, said) = super::classify(&["--device", "cuda:0"], Some(dir.path()));
        if !said.contains("NVRTC") {
            eprintln!("NOT RUN: one_with_a_device_but_no_compiler_for_kernels: this machine has NVRTC");
            return;
        }
        let reason = "cuda: loading NVRTC failed: CUDA_ERROR_NOT_FOUND (500): there is no libnvrtc.so, libnvrtc.so.13, \
                      libnvrtc.so.12 on this machine; install CUDA's NVRTC, or give module images";
        falls_back(Some(dir.path()), reason);
        refuses("cuda:0", Some(dir.path()), reason, "make NVRTC findable, such as by LD_LIBRARY_PATH");
    }
}
