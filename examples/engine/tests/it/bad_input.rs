//! Bad input: exit code 1 with a message that says what, got, allowed; exit code 2 for a wrong command line.

use std::{fs, path::Path};

use crate::program;

/// Runs a command that must fail, and gives its last line on standard error.
fn fails(args: &[&str], code: i32) -> String {
    let out = program::engine(args);
    let errors = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(code), "{args:?}\n{errors}");
    assert!(out.stdout.is_empty(), "{args:?} printed {:?}", String::from_utf8_lossy(&out.stdout));
    errors
}

#[track_caller]
fn says(args: &[&str], words: &[&str]) {
    let errors = fails(args, 1);
    let last = errors.lines().rfind(|l| l.starts_with("error: ")).unwrap_or_default();
    words.iter().for_each(|w| assert!(errors.contains(w), "{w:?} in {last:?}"));
}

/// A copy of a model folder.
fn copy(plugin: &str, name: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(program::model(plugin, name)).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    dir
}

fn edit_config(dir: &Path, from: &str, to: &str) {
    let path = dir.join("config.json");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from));
    fs::write(path, text.replace(from, to)).unwrap();
}

#[test]
fn a_missing_model() {
    says(&["serve", "--model", "/nowhere", "hi"], &["/nowhere", "config.json"]);
    let dir = copy("llama", "shakespeare");
    fs::remove_file(dir.path().join("model.safetensors")).unwrap();
    says(&["serve", "--model", dir.path().to_str().unwrap(), "hi"], &["model.safetensors"]);
}

#[test]
fn a_truncated_model() {
    let dir = copy("llama", "shakespeare");
    let path = dir.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    says(&["serve", "--model", dir.path().to_str().unwrap(), "hi"], &["model.safetensors"]);
}

/// Another element of the same width, so that only the header is wrong.
#[test]
fn a_wrong_dtype() {
    let dir = copy("llama", "shakespeare");
    let path = dir.path().join("model.safetensors");
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(6).position(|w| w == b"\"BF16\"").unwrap();
    let mut wrong = bytes.clone();
    wrong[at..at + 6].copy_from_slice(b"\"I16\" ");
    fs::write(&path, wrong).unwrap();
    says(&["serve", "--model", dir.path().to_str().unwrap(), "hi"], &["I16", "BF16"]);
}

#[test]
fn a_config_that_contradicts_the_weights() {
    let dir = copy("llama", "shakespeare");
    edit_config(dir.path(), "\"intermediate_size\": 352", "\"intermediate_size\": 320");
    says(&["serve", "--model", dir.path().to_str().unwrap(), "hi"], &["352", "320", "proj"]);
    let dir = copy("digits", "digits");
    edit_config(dir.path(), "\"hidden_size\": 64", "\"hidden_size\": 32");
    let images = program::model("digits", "digits").join("test_images.json");
    let (dir, images) = (dir.path().to_str().unwrap(), images.to_str().unwrap());
    says(&["classify", "--model", dir, "--images", images, "--batch-size", "1"], &["64", "32"]);
}

#[test]
fn prompts() {
    says(&["serve"], &["no prompt", "--prompts"]);
    says(&["serve", ""], &["prompt 1", "empty"]);
    says(&["serve", "hi", &"x".repeat(513)], &["prompt 2", "513", "512"]);
    says(&["serve", "snow \u{2603}"], &["prompt 1"]);
    let (_dir, path) = program::file("prompts.json", "{\"not\": \"an array\"}");
    says(&["serve", "--prompts", path.to_str().unwrap()], &["prompts.json", "array of strings"]);
}

#[test]
fn bucket_files() {
    for (text, words) in [
        (r#"{"llama.dekode": {"batch_sizes": [1]}}"#, &["llama.dekode", "llama.decode"][..]),
        (r#"{"llama.decode": {"batch_sizes": [1, 0]}}"#, &["llama.decode", "batch_sizes", "0"]),
        (r#"{"llama.decode": {"batch_sizes": []}}"#, &["llama.decode", "empty"]),
        (r#"{"llama.decode": {"total_tokens": [4]}}"#, &["llama.decode", "total_tokens", "batch_sizes"]),
        (r#"{"llama.decode": {"sizes": [4]}}"#, &["sizes", "batch_sizes"]),
        ("nonsense", &["buckets.json"]),
    ] {
        let (_dir, path) = program::file("buckets.json", text);
        says(&["serve", "--buckets", path.to_str().unwrap(), "hi"], words);
    }
    says(&["serve", "--buckets", "/nowhere.json", "hi"], &["/nowhere.json"]);
}

#[test]
fn a_batch_that_no_bucket_holds_in_strict_mode() {
    let (_dir, path) = program::file("buckets.json", r#"{"llama.decode": {"batch_sizes": [1, 2]}}"#);
    let buckets = path.to_str().unwrap();
    says(&["serve", "--strict", "--buckets", buckets, "a", "b", "c"], &["batch of 3", "(2)", "strict"]);
    let images = program::model("digits", "digits").join("test_images.json");
    let images = images.to_str().unwrap();
    says(
        &["classify", "--strict", "--images", images, "--batch-size", "33"],
        &["digits.classify", "33", "32", "strict"],
    );
}

#[test]
fn images() {
    for (text, words) in [
        (r#"{"images": [[1, 2, 3]]}"#, &["image 0", "3", "64"][..]),
        (&format!(r#"{{"images": [{:?}]}}"#, [17; 64]), &["image 0", "17"]),
    ] {
        let (_dir, path) = program::file("images.json", text);
        says(&["classify", "--images", path.to_str().unwrap(), "--batch-size", "1"], words);
    }
}

#[test]
fn command_lines() {
    for args in
        [&["serve", "--max-batch", "0", "hi"][..], &["nonsense"], &["serve", "--eager", "--strict", "hi"]]
    {
        fails(args, 2);
    }
}
