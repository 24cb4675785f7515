//! The README's plugin and engine, built from its text and run.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The code block behind a marker.
fn block<'r>(readme: &'r str, marker: &str) -> &'r str {
    let rest = readme.split_once(&format!("<!-- {marker} -->\n")).unwrap().1;
    let rest = rest.split_once('\n').unwrap().1;
    rest.split_once("```").unwrap().0
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn the_plugin_of_the_readme_builds_and_runs() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (plugin, engine) = (block(&readme, "plugin: src/lib.rs"), block(&readme, "engine: src/main.rs"));
    assert!(plugin.lines().count() <= 40, "the README promises at most 40 lines");

    let dir = tempfile::tempdir().unwrap();
    let framework = ["graph-core", "graph-host"]
        .map(|name| format!("{name} = {{ path = {:?} }}\n", root().join("crates").join(name)))
        .concat();
    let package =
        |name: &str| format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n[dependencies]\n{framework}");
    write(
        dir.path().join("Cargo.toml"),
        "[workspace]\nresolver = \"3\"\nmembers = [\"plugin\", \"engine\"]\n",
    );
    write(dir.path().join("plugin/Cargo.toml"), &package("scale-plugin"));
    write(dir.path().join("plugin/src/lib.rs"), plugin);
    // One line beside what any engine has.
    let dependencies = package("my-engine") + "scale-plugin = { path = \"../plugin\" }\n";
    write(dir.path().join("engine/Cargo.toml"), &dependencies);
    write(dir.path().join("engine/src/main.rs"), engine);
    fs::copy(root().join("Cargo.lock"), dir.path().join("Cargo.lock")).unwrap();

    let out = Command::new(env!("CARGO"))
        .args(["run", "-q", "--offline", "-p", "my-engine"])
        .current_dir(dir.path())
        .env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("readme"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{errors}");
    let printed = String::from_utf8(out.stdout).unwrap();
    let shown = readme.split_once("fn main() -> graph_core::Result<()>").unwrap().1;
    let shown = shown.split_once("```\n\n```\n").unwrap().1.split_once("```").unwrap().0;
    assert_eq!(printed.replace("plugin/src", "src"), shown);
}
