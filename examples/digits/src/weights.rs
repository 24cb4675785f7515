//! The weights of a folder, on the host, in `f32`.

use std::path::Path;

use model_support::{Dim, ModelError, TensorFiles};

use crate::{DigitsConfig, PATCH, TOKENS};

/// Everything that a model needs besides its sizes. Matrices are `[out, in]`.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[hidden, 4]`.
    pub patch_embed: Vec<f32>,
    /// `[hidden]`.
    pub patch_bias: Vec<f32>,
    /// `[16, hidden]`.
    pub pos_embed: Vec<f32>,
    /// One per block.
    pub blocks: Vec<BlockWeights>,
    /// `[hidden]`.
    pub norm: Vec<f32>,
    /// `[classes, hidden]`.
    pub head: Vec<f32>,
    /// `[classes]`.
    pub head_bias: Vec<f32>,
}

/// The weights of one block.
#[derive(Clone, Debug)]
pub struct BlockWeights {
    /// `[hidden]`.
    pub norm1: Vec<f32>,
    /// `[hidden, hidden]`.
    pub q: Vec<f32>,
    /// `[hidden, hidden]`.
    pub k: Vec<f32>,
    /// `[hidden, hidden]`.
    pub v: Vec<f32>,
    /// `[hidden, hidden]`.
    pub o: Vec<f32>,
    /// `[hidden]`.
    pub norm2: Vec<f32>,
    /// `[intermediate, hidden]`.
    pub up: Vec<f32>,
    /// `[hidden, intermediate]`.
    pub down: Vec<f32>,
}

impl Weights {
    /// Reads the weights of a folder, every shape as `config` says.
    pub fn from_dir(dir: &Path, config: &DigitsConfig) -> Result<Self, ModelError> {
        let files = TensorFiles::open(dir)?;
        let (hidden, classes) = (Dim("hidden_size", config.hidden), Dim("num_classes", config.classes));
        let blocks = (0..config.layers).map(|i| BlockWeights::read(&files, config, i));
        Ok(Weights {
            blocks: blocks.collect::<Result<_, _>>()?,
            patch_embed: files.read("patch_embed.weight", &[hidden, Dim("patch_size^2", PATCH)])?,
            patch_bias: files.read("patch_embed.bias", &[hidden])?,
            pos_embed: files.read("pos_embed.weight", &[Dim("patches", TOKENS), hidden])?,
            norm: files.read("norm.weight", &[hidden])?,
            head: files.read("head.weight", &[classes, hidden])?,
            head_bias: files.read("head.bias", &[classes])?,
        })
    }
}

impl BlockWeights {
    fn read(files: &TensorFiles, config: &DigitsConfig, block: usize) -> Result<Self, ModelError> {
        let hidden = Dim("hidden_size", config.hidden);
        let inner = Dim("intermediate_size", config.intermediate);
        let read = |name: &str, must: &[Dim]| files.read(&format!("blocks.{block}.{name}.weight"), must);
        Ok(BlockWeights {
            norm1: read("norm1", &[hidden])?,
            q: read("attn.q_proj", &[hidden, hidden])?,
            k: read("attn.k_proj", &[hidden, hidden])?,
            v: read("attn.v_proj", &[hidden, hidden])?,
            o: read("attn.o_proj", &[hidden, hidden])?,
            norm2: read("norm2", &[hidden])?,
            up: read("mlp.up_proj", &[inner, hidden])?,
            down: read("mlp.down_proj", &[hidden, inner])?,
        })
    }
}
