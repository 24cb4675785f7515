//! Every way in which a folder of weights can be wrong, and the three elements and two layouts that are read.

use std::{fs, path::Path};

use half::{bf16, f16};
use model_support::{Dim, ModelError, Stored, TensorFiles};
use safetensors::{Dtype, tensor::TensorView};

const VALUES: [f32; 6] = [0.0, 1.0, -2.5, 0.5, 100.0, -0.125];
const SHAPE: [Dim; 2] = [Dim("out", 2), Dim("in", 3)];

type Entry<'a> = (&'a str, Dtype, &'a [usize], &'a [u8]);

fn write(file: &Path, tensors: &[Entry<'_>]) {
    let views = tensors.iter().map(|(name, dtype, shape, data)| {
        (*name, TensorView::new(*dtype, shape.to_vec(), data).expect("a valid tensor"))
    });
    fs::write(file, safetensors::serialize(views, None).expect("serializes")).expect("written");
}

fn f32_bytes() -> Vec<u8> {
    VALUES.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn with_one_tensor(dir: &Path) -> std::path::PathBuf {
    let file = dir.join("model.safetensors");
    write(&file, &[("w", Dtype::F32, &[2, 3], &f32_bytes())]);
    file
}

fn failure(dir: &Path) -> ModelError {
    match TensorFiles::open(dir).and_then(|files| files.read("w", &SHAPE)) {
        Ok(_) => panic!("no error"),
        Err(error) => error,
    }
}

#[test]
fn three_elements_are_widened_and_bf16_is_kept_for_who_asks() {
    let dir = tempfile::tempdir().expect("a folder");
    let halves: Vec<u8> = VALUES.iter().flat_map(|v| f16::from_f32(*v).to_le_bytes()).collect();
    let brains: Vec<u8> = VALUES.iter().flat_map(|v| bf16::from_f32(*v).to_le_bytes()).collect();
    for (dtype, data) in [(Dtype::F32, f32_bytes()), (Dtype::F16, halves), (Dtype::BF16, brains)] {
        write(&dir.path().join("model.safetensors"), &[("w", dtype, &[2, 3], &data)]);
        let files = TensorFiles::open(dir.path()).expect("opens");
        assert_eq!(files.read("w", &SHAPE).expect("reads"), VALUES, "{dtype}");
        let want = match dtype {
            Dtype::BF16 => Stored::Bf16(VALUES.map(bf16::from_f32).to_vec()),
            _ => Stored::F32(VALUES.to_vec()),
        };
        assert_eq!(files.read_stored("w", &SHAPE).expect("reads"), want, "{dtype}");
        assert_eq!(files.names(), ["w"]);
    }
}

#[test]
fn shards_are_found_through_the_index() {
    let dir = tempfile::tempdir().expect("a folder");
    let index = dir.path().join("model.safetensors.index.json");
    write(&dir.path().join("a.safetensors"), &[("w", Dtype::F32, &[2, 3], &f32_bytes())]);
    write(&dir.path().join("b.safetensors"), &[("v", Dtype::F32, &[3, 2], &f32_bytes())]);
    fs::write(&index, r#"{"weight_map": {"w": "a.safetensors", "v": "b.safetensors"}}"#).expect("written");
    let files = TensorFiles::open(dir.path()).expect("opens");
    assert_eq!(files.read("w", &SHAPE).expect("reads"), VALUES);
    assert_eq!(files.read("v", &[Dim("in", 3), Dim("out", 2)]).expect("reads"), VALUES);
    assert!(files.has("v") && !files.has("u"));

    fs::write(&index, r#"{"weight_map": {"w": "b.safetensors"}}"#).expect("written");
    let text = failure(dir.path()).to_string();
    assert!(text.contains("b.safetensors: tensor `w` is missing, must be [out 2, in 3]"), "{text}");

    fs::write(&index, r#"{"weight_map": {"w": "c.safetensors"}}"#).expect("written");
    assert!(matches!(failure(dir.path()), ModelError::Read { file, .. } if file.ends_with("c.safetensors")));

    fs::write(&index, r#"{"weight_map": {"w": "../a.safetensors"}}"#).expect("written");
    assert!(matches!(failure(dir.path()), ModelError::WrongShard { got, .. } if got == "../a.safetensors"));

    fs::write(&index, r#"{"weights": {}}"#).expect("written");
    let text = failure(dir.path()).to_string();
    assert!(text.contains("index.json: not the expected JSON: missing field `weight_map`"), "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let dir = tempfile::tempdir().expect("a folder");
    assert!(
        matches!(failure(dir.path()), ModelError::Read { file, .. } if file.ends_with("model.safetensors"))
    );
}

#[test]
fn a_truncated_file_says_how_long_it_must_be() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = with_one_tensor(dir.path());
    let whole = fs::read(&file).expect("read");
    for (keep, announces) in [(4, 8), (20, whole.len() - 24), (whole.len() - 1, whole.len())] {
        fs::write(&file, &whole[..keep]).expect("written");
        match failure(dir.path()) {
            ModelError::Truncated { got, must, .. } => {
                assert_eq!((got, must), (keep as u64, announces as u64));
            }
            other => panic!("{keep} bytes: {other}"),
        }
    }
    fs::write(&file, b"<html>404 Not Found</html>").expect("written");
    assert!(matches!(failure(dir.path()), ModelError::NotSafetensors { .. }));
}

#[test]
fn wrong_tensors_are_named_with_what_they_must_be() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("model.safetensors");
    write(&file, &[("w", Dtype::I32, &[2, 3], &f32_bytes())]);
    let text = failure(dir.path()).to_string();
    assert!(text.ends_with("model.safetensors: tensor `w` is I32, must be F32, F16 or BF16"), "{text}");

    write(&file, &[("w", Dtype::F32, &[3, 2], &f32_bytes())]);
    let text = failure(dir.path()).to_string();
    assert!(text.ends_with("tensor `w` is [3, 2], must be [out 2, in 3] by config.json"), "{text}");

    write(&file, &[("v", Dtype::F32, &[2, 3], &f32_bytes())]);
    assert!(matches!(failure(dir.path()), ModelError::MissingTensor { tensor, .. } if tensor == "w"));
}
