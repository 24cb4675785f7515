//! Where the cdylib is.
use std::path::{Path, PathBuf};
use std::process::Command;

/// The places where cargo puts the cdylib of the build that this code is from, likeliest first.
pub(super) fn candidates() -> Vec<PathBuf> {
    let file = format!("{}stand_in_driver{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let mut folders = Vec::new();
    // OUT_DIR is TARGET/PROFILE/build/stand-in-driver-HASH/out.
    if let Some(profile) = Path::new(env!("OUT_DIR")).ancestors().nth(3) {
        folders.push(profile.to_path_buf());
    }
    // Programs are in TARGET/PROFILE, tests in its `deps`, examples in its `examples`. A whole target folder
    // can have been moved since it was built.
    if let Ok(program) = std::env::current_exe() {
        folders.extend(program.ancestors().skip(1).take(2).map(Path::to_path_buf));
    }
    let mut found = Vec::new();
    for folder in folders {
        for path in [folder.join("deps").join(&file), folder.join(&file)] {
            if !found.contains(&path) {
                found.push(path);
            }
        }
    }
    found
}

/// Asks cargo to build the cdylib and to say where it put it. For programs that do not come out of this
/// workspace's target folder; under `cargo test` the file is always there.
pub(super) fn build() -> Result<PathBuf, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--quiet", "--lib", "--message-format=json"]);
    cargo.args(["--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")]);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let quoted = text
        .split('"')
        .find(|word| word.ends_with(std::env::consts::DLL_SUFFIX) && word.contains("stand_in_driver"));
    quoted.map(PathBuf::from).ok_or_else(|| "cargo named no cdylib".to_owned())
}
