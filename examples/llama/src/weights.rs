//! The weights of a folder, on the host.

use std::path::Path;

use model_support::{Dim, ModelError, Stored, TensorFiles};

use crate::LlamaConfig;

/// Everything that a model needs besides its sizes. Matrices are `[out, in]` and have the element that the file has;
/// norms are `f32`.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[vocab, hidden]`.
    pub embed: Stored,
    /// One per layer.
    pub layers: Vec<LayerWeights>,
    /// `[hidden]`.
    pub norm: Vec<f32>,
    /// `[vocab, hidden]`; `None` where the head is the embedding.
    pub head: Option<Stored>,
}

/// The weights of one layer.
#[derive(Clone, Debug)]
pub struct LayerWeights {
    /// `[hidden]`.
    pub input_norm: Vec<f32>,
    /// `[heads * head_dim, hidden]`.
    pub q: Stored,
    /// `[kv_heads * head_dim, hidden]`.
    pub k: Stored,
    /// `[kv_heads * head_dim, hidden]`.
    pub v: Stored,
    /// `[hidden, heads * head_dim]`.
    pub o: Stored,
    /// `[hidden]`.
    pub post_norm: Vec<f32>,
    /// `[intermediate, hidden]`.
    pub gate: Stored,
    /// `[intermediate, hidden]`.
    pub up: Stored,
    /// `[hidden, intermediate]`.
    pub down: Stored,
}

impl Weights {
    /// Reads the weights of a folder: bf16, f16 or f32, one file or several, every shape as `config` says.
    pub fn from_dir(dir: &Path, config: &LlamaConfig) -> Result<Self, ModelError> {
        let files = TensorFiles::open(dir)?;
        let (hidden, vocab) = (Dim("hidden_size", config.hidden_size), Dim("vocab_size", config.vocab_size));
        let layers = (0..config.num_hidden_layers)
            .map(|i| LayerWeights::read(&files, config, i))
            .collect::<Result<_, _>>()?;
        no_more_layers(&files, config)?;
        let embed = files.read_stored("model.embed_tokens.weight", &[vocab, hidden])?;
        Ok(Weights {
            layers,
            norm: files.read("model.norm.weight", &[hidden])?,
            head: head(&files, config, &[vocab, hidden], &embed)?,
            embed,
        })
    }
}

impl LayerWeights {
    fn read(files: &TensorFiles, config: &LlamaConfig, layer: usize) -> Result<Self, ModelError> {
        let hidden = Dim("hidden_size", config.hidden_size);
        let queries = Dim("num_attention_heads * head_dim", config.q_dim());
        let keys = Dim("num_key_value_heads * head_dim", config.kv_dim());
        let inner = Dim("intermediate_size", config.intermediate_size);
        let of = |name: &str| format!("model.layers.{layer}.{name}.weight");
        let norm = |name: &str| files.read(&of(name), &[hidden]);
        let matrix = |name: &str, must: &[Dim]| files.read_stored(&of(name), must);
        Ok(LayerWeights {
            input_norm: norm("input_layernorm")?,
            q: matrix("self_attn.q_proj", &[queries, hidden])?,
            k: matrix("self_attn.k_proj", &[keys, hidden])?,
            v: matrix("self_attn.v_proj", &[keys, hidden])?,
            o: matrix("self_attn.o_proj", &[hidden, queries])?,
            post_norm: norm("post_attention_layernorm")?,
            gate: matrix("mlp.gate_proj", &[inner, hidden])?,
            up: matrix("mlp.up_proj", &[inner, hidden])?,
            down: matrix("mlp.down_proj", &[hidden, inner])?,
        })
    }
}

/// A head of its own where the configuration says so. A tied one may be in the file all the same, if it is the same.
fn head(
    files: &TensorFiles,
    config: &LlamaConfig,
    must: &[Dim],
    embed: &Stored,
) -> Result<Option<Stored>, ModelError> {
    const NAME: &str = "lm_head.weight";
    if !config.tie_word_embeddings {
        return files.read_stored(NAME, must).map(Some);
    }
    if files.has(NAME) && files.read(NAME, must)? != *embed.widened() {
        let says = "tie_word_embeddings is true, and it differs from model.embed_tokens.weight".to_string();
        return Err(ModelError::Contradiction { file: files.path().into(), tensor: NAME.into(), says });
    }
    Ok(None)
}

fn no_more_layers(files: &TensorFiles, config: &LlamaConfig) -> Result<(), ModelError> {
    let number = |name: &str| name.strip_prefix("model.layers.")?.split('.').next()?.parse::<usize>().ok();
    match files.names().into_iter().find(|name| number(name).is_some_and(|n| n >= config.num_hidden_layers)) {
        None => Ok(()),
        Some(tensor) => Err(ModelError::Contradiction {
            file: files.path().into(),
            tensor: tensor.into(),
            says: format!("num_hidden_layers is {}", config.num_hidden_layers),
        }),
    }
}
