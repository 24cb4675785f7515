//! Files that are wrong: each with its own message.

use std::fs;

use digits_plugin::{DigitsConfig, DigitsOptions, Images, Weights};
use graph_core::{Engine, Options, Registry};
use graph_host::Host;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::reference::folder;

/// A copy of the bundled model with one field of its configuration replaced.
fn with(field: &str, value: Value) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::copy(folder().join("model.safetensors"), dir.path().join("model.safetensors")).expect("copied");
    let mut config: Value = model_support::read_json(&folder().join("config.json")).expect("JSON");
    config[field] = value;
    fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    dir
}

#[track_caller]
fn assert_message(field: &str, value: Value, want: &str) {
    let dir = with(field, value);
    let loaded = DigitsConfig::from_dir(dir.path()).and_then(|config| Weights::from_dir(dir.path(), &config));
    let text = loaded.expect_err("must not load").to_string();
    assert!(text.contains(want), "`{want}` is not in: {text}");
}

#[test]
fn configurations() {
    assert_message("num_heads", json!(0), "`num_heads` is 0, must be 1 or more");
    assert_message("num_heads", json!(3), "`hidden_size` is 64, must be a multiple of num_heads (3)");
    assert_message("image_size", json!(28), "image_size `28` is not supported, only 8");
    assert_message("patch_size", json!(4), "patch_size `4` is not supported, only 2");
    assert_message("rms_norm_eps", json!(0.0), "`rms_norm_eps` is 0, must be a positive number");
    assert_message("num_classes", json!("ten"), "invalid type: string");
    assert_message(
        "num_classes",
        json!(11),
        "`head.weight` is [10, 64], must be [num_classes 11, hidden_size 64]",
    );
    assert_message("num_layers", json!(3), "`blocks.2.norm1.weight` is missing, must be [hidden_size 64]");
}

#[test]
fn an_engine_says_what_is_wrong_with_the_folder() {
    let dir = with("num_classes", json!(11));
    let options =
        Options::default().with(DigitsOptions { dir: dir.path().into(), ..DigitsOptions::default() });
    let built =
        Engine::builder(Host::new()).options(options).build(&Registry::collect().expect("no duplicates"));
    let text = built.expect_err("an error").to_string();
    assert!(text.contains("`head.weight` is [10, 64]"), "{text}");
}

#[test]
fn images() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("images.json");
    let refuse = |content: Value, want: &str| {
        fs::write(&file, content.to_string()).expect("written");
        let text = Images::read(&file).expect_err("must not be read").to_string();
        assert!(text.contains("images.json") && text.contains(want), "`{want}` is not in: {text}");
    };
    let image = vec![1; 64];
    refuse(json!({"images": [image, [1, 2]]}), "image 1 is 2 integer(s), must be 64 integers of 0 to 16");
    let bright: Vec<i64> = (0..64).map(|i| i % 18).collect();
    refuse(json!({"images": [bright]}), "image 0 is one with a pixel of 17");
    refuse(json!({"images": [vec![-1; 64]]}), "image 0 is one with a pixel of -1");
    refuse(json!({"images": [image], "labels": [1, 2]}), "2 label(s) for 1 image(s)");
    refuse(json!({"pictures": []}), "missing field `images`");
    fs::write(&file, json!({"images": [image]}).to_string()).expect("written");
    assert_eq!(Images::read(&file).expect("one image").images.len(), 1);
}
