//! Folders that are wrong: each with its own message. And layouts that are right: sharded, a head of its own.

use std::{fs, path::Path};

use graph_core::bf16;
use llama_plugin::{LlamaConfig, ModelError, Stored, Tokenizer, Weights};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::reference::shakespeare;

/// A copy of the bundled model with fields of its configuration replaced; null takes a field away.
fn folder(changes: &Value) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::copy(shakespeare().join("model.safetensors"), dir.path().join("model.safetensors")).expect("copied");
    let mut config: Value = model_support::read_json(&shakespeare().join("config.json")).expect("JSON");
    for (field, value) in changes.as_object().expect("fields") {
        let fields = config.as_object_mut().expect("an object");
        match value {
            Value::Null => fields.remove(field),
            _ => fields.insert(field.clone(), value.clone()),
        };
    }
    fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    dir
}

fn read(dir: &Path) -> Result<(LlamaConfig, Weights), ModelError> {
    let config = LlamaConfig::from_dir(dir)?;
    let weights = Weights::from_dir(dir, &config)?;
    Ok((config, weights))
}

#[track_caller]
fn assert_message(changes: Value, wants: &[&str]) {
    let dir = folder(&changes);
    let text = read(dir.path()).expect_err("must not load").to_string();
    assert!(text.starts_with(&dir.path().display().to_string()), "{text}");
    for want in wants {
        assert!(text.contains(want), "`{want}` is not in: {text}");
    }
}

#[test]
fn configurations_that_make_no_sense() {
    assert_message(json!({"hidden_size": null}), &["config.json", "missing field `hidden_size`"]);
    assert_message(json!({"num_hidden_layers": 0}), &["`num_hidden_layers` is 0, must be 1 to"]);
    assert_message(
        json!({"num_key_value_heads": 3}),
        &["`num_key_value_heads` is 3, must be a divisor of num_attention_heads (4)"],
    );
    assert_message(json!({"head_dim": 31}), &["`head_dim` is 31, must be even"]);
    assert_message(
        json!({"head_dim": null, "hidden_size": 126}),
        &["`hidden_size` is 126, must be a multiple of num_attention_heads (4)"],
    );
    assert_message(json!({"rms_norm_eps": -1.0}), &["`rms_norm_eps` is -1, must be a positive number"]);
    assert_message(json!({"vocab_size": "many"}), &["config.json", "invalid type: string"]);
}

#[test]
fn models_of_another_kind() {
    assert_message(
        json!({"architectures": ["GPT2LMHeadModel"]}),
        &["architecture `GPT2LMHeadModel` is not supported, only LlamaForCausalLM"],
    );
    assert_message(
        json!({"architectures": null, "model_type": "bert"}),
        &["model_type `bert`", "only llama"],
    );
    assert_message(json!({"hidden_act": "gelu"}), &["hidden_act `gelu`", "only silu"]);
    assert_message(json!({"rope_scaling": {"type": "linear", "factor": 2.0}}), &["rope_type `linear`"]);
    assert_message(json!({"rope_parameters": {"rope_type": "yarn"}}), &["rope_type `yarn`"]);
    assert_message(json!({"attention_bias": true}), &["attention_bias `true`"]);
}

#[test]
fn configurations_that_contradict_the_weights() {
    assert_message(
        json!({"intermediate_size": 350}),
        &[
            "model.safetensors: tensor `model.layers.0.mlp.gate_proj.weight` is [352, 128]",
            "must be [intermediate_size 350, hidden_size 128] by config.json",
        ],
    );
    assert_message(
        json!({"num_hidden_layers": 3}),
        &["the weights have `model.layers.3.", "config.json says that num_hidden_layers is 3"],
    );
    assert_message(
        json!({"num_hidden_layers": 5}),
        &["tensor `model.layers.4.input_layernorm.weight` is missing, must be [hidden_size 128]"],
    );
    assert_message(json!({"tie_word_embeddings": false}), &["`lm_head.weight` is missing"]);
}

#[test]
fn missing_and_truncated_files() {
    let dir = folder(&json!({}));
    let file = dir.path().join("model.safetensors");
    let bytes = fs::read(&file).expect("read");
    fs::write(&file, &bytes[..bytes.len() / 2]).expect("written");
    let text = read(dir.path()).expect_err("truncated").to_string();
    let want = format!("truncated: it has {} byte(s), its header announces {}", bytes.len() / 2, bytes.len());
    assert!(text.contains(&want), "{text}");
    fs::remove_file(&file).expect("removed");
    assert!(matches!(read(dir.path()), Err(ModelError::Read { file: f, .. }) if f == file));
    fs::remove_file(dir.path().join("config.json")).expect("removed");
    assert!(matches!(read(dir.path()), Err(ModelError::Read { file: f, .. }) if f.ends_with("config.json")));
}

/// The bundled tensors with a head of its own, in two files: the same model.
#[test]
fn sharded_weights_with_a_head_are_the_same_model() {
    let dir = folder(&json!({"tie_word_embeddings": false, "head_dim": null}));
    let file = dir.path().join("model.safetensors");
    let bytes = fs::read(&file).expect("read");
    fs::remove_file(&file).expect("removed");
    let tensors = SafeTensors::deserialize(&bytes).expect("safetensors");
    let mut all = tensors.tensors();
    let embed = tensors.tensor("model.embed_tokens.weight").expect("there");
    all.push(("lm_head.weight".into(), embed));
    let index = dir.path().join("model.safetensors.index.json");
    let mut map = serde_json::Map::new();
    for (i, shard) in all.chunks(all.len().div_ceil(2)).enumerate() {
        let name = format!("model-{i}.safetensors");
        let views = shard.iter().map(|(n, v)| (n.as_str(), v));
        let bytes = safetensors::serialize::<_, &TensorView<'_>, _>(views, None).expect("serializes");
        fs::write(dir.path().join(&name), bytes).expect("written");
        map.extend(shard.iter().map(|(n, _)| (n.clone(), Value::from(name.as_str()))));
    }
    fs::write(index, json!({"metadata": {}, "weight_map": map}).to_string()).expect("written");

    let (config, weights) = read(dir.path()).expect("the sharded model");
    let (tied_config, tied) = read(&shakespeare()).expect("the bundled model");
    assert_eq!(LlamaConfig { tie_word_embeddings: true, ..config }, tied_config);
    assert_eq!(weights.head.as_ref(), Some(&tied.embed));
    assert_eq!(weights.layers[3].down, tied.layers[3].down);
    assert_eq!(tied.head, None);
}

/// The bundled model with its weights in f32: the same numbers.
pub(crate) fn widened() -> TempDir {
    let dir = folder(&json!({}));
    let file = dir.path().join("model.safetensors");
    let bytes = fs::read(&file).expect("read");
    let wide = |(name, view): (String, TensorView<'_>)| {
        let pairs = view.data().as_chunks::<2>().0.iter();
        let data: Vec<u8> = pairs.flat_map(|b| bf16::from_le_bytes(*b).to_f32().to_le_bytes()).collect();
        (name, view.shape().to_vec(), data)
    };
    let tensors: Vec<_> =
        SafeTensors::deserialize(&bytes).expect("safetensors").tensors().into_iter().map(wide).collect();
    let views = tensors.iter().map(|(name, shape, data)| {
        (name, TensorView::new(Dtype::F32, shape.clone(), data).expect("as many numbers"))
    });
    fs::write(file, safetensors::serialize(views, None).expect("serializes")).expect("written");
    dir
}

#[test]
fn weights_keep_the_element_of_the_file() {
    let dir = widened();
    let (_, wide) = read(dir.path()).expect("the model in f32");
    let (_, bundled) = read(&shakespeare()).expect("the bundled model");
    for (wide, bundled) in [(&wide.embed, &bundled.embed), (&wide.layers[1].up, &bundled.layers[1].up)] {
        assert!(matches!((wide, bundled), (Stored::F32(_), Stored::Bf16(_))));
        assert_eq!(wide.widened(), bundled.widened());
    }
    assert_eq!(wide.norm, bundled.norm);
}

#[test]
fn tokenizers_of_folders() {
    let dir = tempfile::tempdir().expect("a folder");
    let error = Tokenizer::for_model(dir.path(), 32_000).err().expect("no tokenizer").to_string();
    assert!(error.contains("tokenizer.json") && error.contains("must be 256 (bytes), not 32000"), "{error}");
    assert_eq!(Tokenizer::bytes().encode("a€").expect_err("no byte").to_string().matches('€').count(), 1);
    assert!(Tokenizer::bytes().decode(&[97, 256]).is_err());
    fs::write(dir.path().join("tokenizer.json"), "{}").expect("written");
    let error = Tokenizer::for_model(dir.path(), 256).err().expect("not one").to_string();
    assert!(error.contains("tokenizer.json"), "{error}");
}

#[cfg(feature = "tokenizers")]
#[test]
fn a_tokenizer_of_words() {
    let dir = tempfile::tempdir().expect("a folder");
    let words = json!({
        "version": "1.0",
        "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "to": 1, "be": 2}, "unk_token": "[UNK]"},
    });
    fs::write(dir.path().join("tokenizer.json"), words.to_string()).expect("written");
    let tokenizer = Tokenizer::for_model(dir.path(), 256).expect("a tokenizer");
    assert_eq!(tokenizer.encode("to be or").expect("tokens"), [1, 2, 0]);
    assert_eq!(tokenizer.decode(&[2, 1]).expect("text"), "be to");
}
