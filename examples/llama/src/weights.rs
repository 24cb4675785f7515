//! The weights of a folder, on the host, in `f32`.

use std::path::Path;

use model_support::{Dim, ModelError, TensorFiles};

use crate::LlamaConfig;

/// Everything that a model needs besides its sizes. Matrices are `[out, in]`.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[vocab, hidden]`.
    pub embed: Vec<f32>,
    /// One per layer.
    pub layers: Vec<LayerWeights>,
    /// `[hidden]`.
    pub norm: Vec<f32>,
    /// `[vocab, hidden]`; `None` where the head is the embedding.
    pub head: Option<Vec<f32>>,
}

/// The weights of one layer.
#[derive(Clone, Debug)]
pub struct LayerWeights {
    /// `[hidden]`.
    pub input_norm: Vec<f32>,
    /// `[heads * head_dim, hidden]`.
    pub q: Vec<f32>,
    /// `[kv_heads * head_dim, hidden]`.
    pub k: Vec<f32>,
    /// `[kv_heads * head_dim, hidden]`.
    pub v: Vec<f32>,
    /// `[hidden, heads * head_dim]`.
    pub o: Vec<f32>,
    /// `[hidden]`.
    pub post_norm: Vec<f32>,
    /// `[intermediate, hidden]`.
    pub gate: Vec<f32>,
    /// `[intermediate, hidden]`.
    pub up: Vec<f32>,
    /// `[hidden, intermediate]`.
    pub down: Vec<f32>,
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
        let embed = files.read("model.embed_tokens.weight", &[vocab, hidden])?;
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
        let read =
            |name: &str, must: &[Dim]| files.read(&format!("model.layers.{layer}.{name}.weight"), must);
        Ok(LayerWeights {
            input_norm: read("input_layernorm", &[hidden])?,
            q: read("self_attn.q_proj", &[queries, hidden])?,
            k: read("self_attn.k_proj", &[keys, hidden])?,
            v: read("self_attn.v_proj", &[keys, hidden])?,
            o: read("self_attn.o_proj", &[hidden, queries])?,
            post_norm: read("post_attention_layernorm", &[hidden])?,
            gate: read("mlp.gate_proj", &[inner, hidden])?,
            up: read("mlp.up_proj", &[inner, hidden])?,
            down: read("mlp.down_proj", &[hidden, inner])?,
        })
    }
}

/// A head of its own where the configuration says so. A tied one may be in the file all the same, if it is the same.
fn head(
    files: &TensorFiles,
    config: &LlamaConfig,
    must: &[Dim],
    embed: &[f32],
) -> Result<Option<Vec<f32>>, ModelError> {
    const NAME: &str = "lm_head.weight";
    if !config.tie_word_embeddings {
        return files.read(NAME, must).map(Some);
    }
    if files.has(NAME) && files.read(NAME, must)? != embed {
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
