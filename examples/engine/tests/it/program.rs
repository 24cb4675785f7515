//! Runs the binary.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// The folder of the model that comes with a plugin.
pub(crate) fn model(plugin: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(plugin).join("models").join(name)
}

/// `reference.json` of a model.
pub(crate) fn reference(plugin: &str, name: &str) -> Value {
    let path = model(plugin, name).join("reference.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Runs `engine` with arguments.
pub(crate) fn engine<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Output {
    with_libraries(None, args)
}

/// The same with a folder where libraries are looked for first.
pub(crate) fn with_libraries<S: AsRef<std::ffi::OsStr>>(
    libraries: Option<&Path>,
    args: impl IntoIterator<Item = S>,
) -> Output {
    let mut engine = Command::new(env!("CARGO_BIN_EXE_engine"));
    if let Some(folder) = libraries {
        engine.env("LD_LIBRARY_PATH", folder);
    }
    engine.args(args).output().unwrap()
}

/// Runs a command that must succeed, and reads the one JSON object that it prints.
pub(crate) fn json<S: AsRef<std::ffi::OsStr>>(args: impl IntoIterator<Item = S>) -> Value {
    let out = engine(args);
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e} in {:?}", String::from_utf8_lossy(&out.stdout)))
}

/// A temporary folder with a file in it.
pub(crate) fn file(name: &str, text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, text).unwrap();
    (dir, path)
}
