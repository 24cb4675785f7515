//! The model on a device, and its forward: the same code eagerly and in a capture.

use std::path::PathBuf;

use graph_core::{Cx, Error, In, LoadCx, Out, Result, Submodule, Tensor, bf16};
use model_support::{Activation, Activations, Stored};

use crate::{BlockWeights, DigitsConfig, DigitsOps, PATCH, TOKENS, Weights};

/// Where the model is. An engine puts it into its `Options`; without it, the bundled model is loaded.
#[derive(Clone, Debug)]
pub struct DigitsOptions {
    /// The folder with `config.json` and the weights.
    pub dir: PathBuf,
    /// The element of everything between the images and the logits, which are `f32`.
    pub activations: Activations,
}

impl Default for DigitsOptions {
    /// The model that is part of this crate, in `f32`.
    fn default() -> Self {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/models/digits").into();
        DigitsOptions { dir, activations: Activations::F32 }
    }
}

/// The weights on a device.
pub struct DigitsModel<B: DigitsOps> {
    config: DigitsConfig,
    activations: Activations,
    patch_embed: B::Weight,
    patch_bias: Tensor<B, f32, 2>,
    pos_embed: Tensor<B, f32, 2>,
    blocks: Vec<Block<B>>,
    norm: Tensor<B, f32, 1>,
    head: B::Weight,
    head_bias: Tensor<B, f32, 2>,
    _kernels: B::Kernels,
}

struct Block<B: DigitsOps> {
    norm1: Tensor<B, f32, 1>,
    q: B::Weight,
    k: B::Weight,
    v: B::Weight,
    o: B::Weight,
    norm2: Tensor<B, f32, 1>,
    up: B::Weight,
    down: B::Weight,
}

impl<B: DigitsOps> Submodule<B> for DigitsModel<B> {
    fn load(cx: &LoadCx<'_, B>) -> Result<Self> {
        let options = cx.options.get::<DigitsOptions>().cloned().unwrap_or_default();
        let config = DigitsConfig::from_dir(&options.dir).map_err(Error::plugin)?;
        let w = Weights::from_dir(&options.dir, &config).map_err(Error::plugin)?;
        let (hidden, classes) = (config.hidden, config.classes);
        let kernels = B::kernels(cx.device)?;
        let matrix =
            |stored: &Stored, out, inner| B::weight(&kernels, cx.device, cx.stream, stored, [out, inner]);
        let rows = |data: &[f32], rows, width| Tensor::from_slice(cx.device, cx.stream, data, [rows, width]);
        let blocks =
            w.blocks.iter().map(|block| Block::load(cx, &kernels, &config, block)).collect::<Result<_>>()?;
        Ok(DigitsModel {
            patch_embed: matrix(&w.patch_embed, hidden, PATCH)?,
            patch_bias: rows(&w.patch_bias, 1, hidden)?,
            pos_embed: rows(&w.pos_embed, TOKENS, hidden)?,
            blocks,
            norm: Tensor::from_slice(cx.device, cx.stream, &w.norm, [hidden])?,
            head: matrix(&w.head, classes, hidden)?,
            head_bias: rows(&w.head_bias, 1, classes)?,
            config,
            activations: options.activations,
            _kernels: kernels,
        })
    }
}

impl<B: DigitsOps> Block<B> {
    fn load(
        cx: &LoadCx<'_, B>,
        kernels: &B::Kernels,
        config: &DigitsConfig,
        w: &BlockWeights,
    ) -> Result<Self> {
        let (hidden, inner) = (config.hidden, config.intermediate);
        let vector = |data: &[f32]| Tensor::from_slice(cx.device, cx.stream, data, [hidden]);
        let matrix =
            |stored: &Stored, out, inner| B::weight(kernels, cx.device, cx.stream, stored, [out, inner]);
        Ok(Block {
            norm1: vector(&w.norm1)?,
            q: matrix(&w.q, hidden, hidden)?,
            k: matrix(&w.k, hidden, hidden)?,
            v: matrix(&w.v, hidden, hidden)?,
            o: matrix(&w.o, hidden, hidden)?,
            norm2: vector(&w.norm2)?,
            up: matrix(&w.up, inner, hidden)?,
            down: matrix(&w.down, hidden, inner)?,
        })
    }
}

impl<B: DigitsOps> DigitsModel<B> {
    /// Its sizes.
    pub fn config(&self) -> &DigitsConfig {
        &self.config
    }

    /// The logits of images, given as tokens.
    pub fn forward(
        &self,
        cx: &mut Cx<'_, B>,
        patches: In<'_, B, f32, 2>,
        logits: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        match self.activations {
            Activations::F32 => self.forward_in::<f32>(cx, patches, logits),
            Activations::Bf16 => self.forward_in::<bf16>(cx, patches, logits),
        }
    }

    fn forward_in<A: Activation>(
        &self,
        cx: &mut Cx<'_, B>,
        patches: In<'_, B, f32, 2>,
        logits: Out<'_, B, f32, 2>,
    ) -> Result<()> {
        let ([tokens, _], [images, _]) = (patches.dims(), logits.dims());
        let DigitsConfig { hidden, intermediate, heads, rms_norm_eps: eps, .. } = self.config;
        let (s, wide) = (cx.stream(), [tokens, hidden]);
        let mut scratch = |dims| cx.scratch::<A, 2>(dims);
        let (h, mid, x, product) = (scratch(wide)?, scratch(wide)?, scratch(wide)?, scratch(wide)?);
        let (q, k, v) = (scratch(wide)?, scratch(wide)?, scratch(wide)?);
        let (up, act) = (scratch([tokens, intermediate])?, scratch([tokens, intermediate])?);
        let pooled = scratch([images, hidden])?;
        let scores = cx.scratch(logits.dims())?;

        B::linear(s, patches, &self.patch_embed, product.view_mut())?;
        B::add_bias(s, product.view(), self.patch_bias.view(), mid.view_mut())?;
        B::add_bias(s, mid.view(), self.pos_embed.view(), h.view_mut())?;
        for block in &self.blocks {
            B::rms_norm(s, h.view(), block.norm1.view(), eps, x.view_mut())?;
            B::linear(s, x.view(), &block.q, q.view_mut())?;
            B::linear(s, x.view(), &block.k, k.view_mut())?;
            B::linear(s, x.view(), &block.v, v.view_mut())?;
            B::attend(s, q.view(), k.view(), v.view(), heads, x.view_mut())?;
            B::linear(s, x.view(), &block.o, product.view_mut())?;
            B::add(s, h.view(), product.view(), mid.view_mut())?;
            B::rms_norm(s, mid.view(), block.norm2.view(), eps, x.view_mut())?;
            B::linear(s, x.view(), &block.up, up.view_mut())?;
            B::silu(s, up.view(), act.view_mut())?;
            B::linear(s, act.view(), &block.down, product.view_mut())?;
            B::add(s, mid.view(), product.view(), h.view_mut())?;
        }
        B::rms_norm(s, h.view(), self.norm.view(), eps, x.view_mut())?;
        B::mean(s, x.view(), pooled.view_mut())?;
        B::linear(s, pooled.view(), &self.head, scores.view_mut())?;
        B::add_bias(s, scores.view(), self.head_bias.view(), logits)
    }
}
