//! The weights of a folder, on the host.

use std::path::Path;

use model_support::{Dim, ModelError, Stored, TensorFiles};

use crate::{DigitsConfig, PATCH, TOKENS};

/// Everything that a model needs besides its sizes. Matrices are `[out, in]` and have the element that the file has;
/// vectors and what is added to activations are `f32`.
#[derive(Clone, Debug)]
pub struct Weights {
    /// `[hidden, 4]`.
    pub patch_embed: Stored,
    /// `[hidden]`.
    pub patch_bias: Vec<f32>,
    /// `[16, hidden]`.
    pub pos_embed: Vec<f32>,
    /// One per block.
    pub blocks: Vec<BlockWeights>,
    /// `[hidden]`.
    pub norm: Vec<f32>,
    /// `[classes, hidden]`.
    pub head: Stored,
    /// `[classes]`.
    pub head_bias: Vec<f32>,
}

/// The weights of one block.
#[derive(Clone, Debug)]
pub struct BlockWeights {
    /// `[hidden]`.
    pub norm1: Vec<f32>,
    /// `[hidden, hidden]`.
    pub q: Stored,
    /// `[hidden, hidden]`.
    pub k: Stored,
    /// `[hidden, hidden]`.
    pub v: Stored,
    /// `[hidden, hidden]`.
    pub o: Stored,
    /// `[hidden]`.
    pub norm2: Vec<f32>,
    /// `[intermediate, hidden]`.
    pub up: Stored,
    /// `[hidden, intermediate]`.
    pub down: Stored,
}

impl Weights {
    /// Reads the weights of a folder, every shape as `config` says.
    pub fn from_dir(dir: &Path, config: &DigitsConfig) -> Result<Self, ModelError> {
        let files = TensorFiles::open(dir)?;
        let (hidden, classes) = (Dim("hidden_size", config.hidden), Dim("num_classes", config.classes));
        let blocks = (0..config.layers).map(|i| BlockWeights::read(&files, config, i));
        Ok(Weights {
            blocks: blocks.collect::<Result<_, _>>()?,
            patch_embed: files.read_stored("patch_embed.weight", &[hidden, Dim("patch_size^2", PATCH)])?,
            patch_bias: files.read("patch_embed.bias", &[hidden])?,
            pos_embed: files.read("pos_embed.weight", &[Dim("patches", TOKENS), hidden])?,
            norm: files.read("norm.weight", &[hidden])?,
            head: files.read_stored("head.weight", &[classes, hidden])?,
            head_bias: files.read("head.bias", &[classes])?,
        })
    }
}

impl BlockWeights {
    fn read(files: &TensorFiles, config: &DigitsConfig, block: usize) -> Result<Self, ModelError> {
        let hidden = Dim("hidden_size", config.hidden);
        let inner = Dim("intermediate_size", config.intermediate);
        let of = |name: &str| format!("blocks.{block}.{name}.weight");
        let vector = |name: &str| files.read(&of(name), &[hidden]);
        let matrix = |name: &str, must: &[Dim]| files.read_stored(&of(name), must);
        Ok(BlockWeights {
            norm1: vector("norm1")?,
            q: matrix("attn.q_proj", &[hidden, hidden])?,
            k: matrix("attn.k_proj", &[hidden, hidden])?,
            v: matrix("attn.v_proj", &[hidden, hidden])?,
            o: matrix("attn.o_proj", &[hidden, hidden])?,
            norm2: vector("norm2")?,
            up: matrix("mlp.up_proj", &[inner, hidden])?,
            down: matrix("mlp.down_proj", &[hidden, inner])?,
        })
    }
}
