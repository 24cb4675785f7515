//! `config.json` in the style of Hugging Face: sizes, checked before any weight is read.

use std::path::Path;

use model_support::{ModelError, read_json};
use serde::Deserialize;

use crate::kernels::Heads;

/// The sizes of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct LlamaConfig {
    /// Width of the hidden state.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Query heads.
    pub num_attention_heads: usize,
    /// Key and value heads; the number of query heads is a multiple.
    pub num_key_value_heads: usize,
    /// Width of a head; even.
    pub head_dim: usize,
    /// Width of the gated MLP.
    pub intermediate_size: usize,
    /// Tokens.
    pub vocab_size: usize,
    /// Positions that the model knows.
    pub max_position_embeddings: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Of every norm.
    pub rms_norm_eps: f32,
    /// Whether the head is the embedding.
    pub tie_word_embeddings: bool,
}

/// The fields as they are in the file.
#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    architectures: Option<Vec<String>>,
    #[serde(default)]
    model_type: Option<String>,
    #[serde(default)]
    hidden_act: Option<String>,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    #[serde(default)]
    num_key_value_heads: Option<usize>,
    #[serde(default)]
    head_dim: Option<usize>,
    intermediate_size: usize,
    vocab_size: usize,
    max_position_embeddings: usize,
    #[serde(default)]
    rope_theta: Option<f32>,
    #[serde(default)]
    rope_scaling: Option<Rope>,
    #[serde(default)]
    rope_parameters: Option<Rope>,
    rms_norm_eps: f32,
    #[serde(default)]
    tie_word_embeddings: bool,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
}

#[derive(Deserialize)]
struct Rope {
    #[serde(default, alias = "type")]
    rope_type: Option<String>,
    #[serde(default)]
    rope_theta: Option<f32>,
}

impl LlamaConfig {
    /// Reads and checks the `config.json` of a folder.
    pub fn from_dir(dir: &Path) -> Result<Self, ModelError> {
        let file = dir.join("config.json");
        let json: Json = read_json(&file)?;
        json.check_supported(&file)?;
        json.checked(&file)
    }

    /// Width of all query heads together.
    pub fn q_dim(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Width of all key (or value) heads together.
    pub fn kv_dim(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }

    /// The sizes of attention.
    pub fn heads(&self) -> Heads {
        Heads { heads: self.num_attention_heads, kv_heads: self.num_key_value_heads, head_dim: self.head_dim }
    }

    /// The rotary frequency of each pair of a head.
    pub fn inverse_frequencies(&self) -> Vec<f32> {
        let exponent = |i: usize| 2.0 * i as f32 / self.head_dim as f32;
        (0..self.head_dim / 2).map(|i| 1.0 / self.rope_theta.powf(exponent(i))).collect()
    }
}

impl Json {
    /// What this plugin does not compute.
    fn check_supported(&self, file: &Path) -> Result<(), ModelError> {
        let refuse = |what, got: &str, must| {
            Err(ModelError::Unsupported { file: file.into(), what, got: got.into(), must })
        };
        match (&self.architectures, &self.model_type) {
            (Some(all), _) if !all.iter().any(|a| a == "LlamaForCausalLM") => {
                return refuse("architecture", &all.join(", "), "LlamaForCausalLM");
            }
            (None, Some(kind)) if kind != "llama" => return refuse("model_type", kind, "llama"),
            _ => {}
        }
        if let Some(act) = self.hidden_act.as_deref().filter(|act| *act != "silu") {
            return refuse("hidden_act", act, "silu");
        }
        for rope in [&self.rope_scaling, &self.rope_parameters].into_iter().flatten() {
            if let Some(kind) = rope.rope_type.as_deref().filter(|kind| *kind != "default") {
                return refuse("rope_type", kind, "default");
            }
        }
        match (self.attention_bias, self.mlp_bias) {
            (false, false) => Ok(()),
            (true, _) => refuse("attention_bias", "true", "false"),
            (_, true) => refuse("mlp_bias", "true", "false"),
        }
    }

    fn checked(self, file: &Path) -> Result<LlamaConfig, ModelError> {
        let wrong =
            |field, got: String, must: String| ModelError::Field { file: file.into(), field, got, must };
        let heads = self.num_attention_heads;
        let kv_heads = self.num_key_value_heads.unwrap_or(heads);
        for (field, got) in [
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", heads),
            ("num_key_value_heads", kv_heads),
            ("intermediate_size", self.intermediate_size),
            ("vocab_size", self.vocab_size),
            ("max_position_embeddings", self.max_position_embeddings),
        ] {
            if got == 0 || got > i32::MAX as usize {
                return Err(wrong(field, got.to_string(), format!("1 to {}", i32::MAX)));
            }
        }
        if !heads.is_multiple_of(kv_heads) {
            let must = format!("a divisor of num_attention_heads ({heads})");
            return Err(wrong("num_key_value_heads", kv_heads.to_string(), must));
        }
        if self.head_dim.is_none() && !self.hidden_size.is_multiple_of(heads) {
            let must = format!("a multiple of num_attention_heads ({heads}), or head_dim given");
            return Err(wrong("hidden_size", self.hidden_size.to_string(), must));
        }
        let head_dim = self.head_dim.unwrap_or(self.hidden_size / heads);
        if head_dim == 0 || !head_dim.is_multiple_of(2) || head_dim > 1 << 16 {
            return Err(wrong("head_dim", head_dim.to_string(), "even, 2 to 65536".into()));
        }
        let in_rope = self.rope_parameters.and_then(|rope| rope.rope_theta);
        let rope_theta = self.rope_theta.or(in_rope).unwrap_or(10_000.0);
        for (field, got) in [("rope_theta", rope_theta), ("rms_norm_eps", self.rms_norm_eps)] {
            if !(got.is_finite() && got > 0.0) {
                return Err(wrong(field, got.to_string(), "a positive number".into()));
            }
        }
        Ok(LlamaConfig {
            hidden_size: self.hidden_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: heads,
            num_key_value_heads: kv_heads,
            head_dim,
            intermediate_size: self.intermediate_size,
            vocab_size: self.vocab_size,
            max_position_embeddings: self.max_position_embeddings,
            rope_theta,
            rms_norm_eps: self.rms_norm_eps,
            tie_word_embeddings: self.tie_word_embeddings,
        })
    }
}
