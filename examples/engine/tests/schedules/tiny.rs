//! A model of one layer with random weights, small enough for thousands of schedules.

use std::{fs, path::Path};

use graph_resources::philox4x32_10;
use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;
use tempfile::TempDir;

pub(crate) const VOCAB: usize = 19;
/// Positions that it knows.
pub(crate) const CONTEXT: usize = 24;
const HIDDEN: usize = 16;
const INNER: usize = 24;
/// Four query heads and two key heads of four.
const KV: usize = 8;

/// Its folder.
pub(crate) fn tiny() -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let config = json!({
        "architectures": ["LlamaForCausalLM"], "hidden_size": HIDDEN, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": INNER,
        "vocab_size": VOCAB, "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5,
        "tie_word_embeddings": false,
    });
    fs::write(dir.path().join("config.json"), config.to_string()).expect("written");
    weights(dir.path());
    dir
}

fn weights(dir: &Path) {
    let layer = |name: &str| format!("model.layers.0.{name}.weight");
    let tensors: Vec<(String, Vec<usize>)> = vec![
        ("model.embed_tokens.weight".into(), vec![VOCAB, HIDDEN]),
        ("model.norm.weight".into(), vec![HIDDEN]),
        ("lm_head.weight".into(), vec![VOCAB, HIDDEN]),
        (layer("input_layernorm"), vec![HIDDEN]),
        (layer("self_attn.q_proj"), vec![HIDDEN, HIDDEN]),
        (layer("self_attn.k_proj"), vec![KV, HIDDEN]),
        (layer("self_attn.v_proj"), vec![KV, HIDDEN]),
        (layer("self_attn.o_proj"), vec![HIDDEN, HIDDEN]),
        (layer("post_attention_layernorm"), vec![HIDDEN]),
        (layer("mlp.gate_proj"), vec![INNER, HIDDEN]),
        (layer("mlp.up_proj"), vec![INNER, HIDDEN]),
        (layer("mlp.down_proj"), vec![HIDDEN, INNER]),
    ];
    let data: Vec<(String, Vec<usize>, Vec<u8>)> = tensors
        .into_iter()
        .enumerate()
        .map(|(t, (name, dims))| {
            let number = |i: usize| {
                let word = philox4x32_10([i as u32, t as u32, 0, 0], [7, 0])[0];
                let centred = f64::from(word) / f64::from(u32::MAX) - 0.5;
                // Norms around 1; matrices wide enough that attention matters to the tokens.
                (if dims.len() == 1 { 1.0 + centred } else { 1.6 * centred }) as f32
            };
            let bytes = (0..dims.iter().product()).flat_map(|i| number(i).to_le_bytes()).collect();
            (name, dims, bytes)
        })
        .collect();
    let views = data.iter().map(|(name, dims, bytes)| {
        (name, TensorView::new(Dtype::F32, dims.clone(), bytes).expect("as many numbers"))
    });
    let file = safetensors::serialize(views, None).expect("serializes");
    fs::write(dir.join("model.safetensors"), file).expect("written");
}
