//! The model on a device, and its forward: the same code eagerly and in a capture.

use std::path::PathBuf;

use graph_core::{Cx, Error, In, LoadCx, Out, Result, Submodule, Tensor};

use crate::{BlockWeights, DigitsConfig, DigitsOps, PATCH, TOKENS, Weights};

/// Where the model is. An engine puts it into its `Options`; without it, the bundled model is loaded.
#[derive(Clone, Debug)]
pub struct DigitsOptions {
    /// The folder with `config.json` and the weights.
    pub dir: PathBuf,
}

impl Default for DigitsOptions {
    /// The model that is part of this crate.
    fn default() -> Self {
        DigitsOptions { dir: concat!(env!("CARGO_MANIFEST_DIR"), "/models/digits").into() }
    }
}

/// The weights on a device.
pub struct DigitsModel<B: DigitsOps> {
    config: DigitsConfig,
    patch_embed: Tensor<B, f32, 2>,
    patch_bias: Tensor<B, f32, 2>,
    pos_embed: Tensor<B, f32, 2>,
    blocks: Vec<Block<B>>,
    norm: Tensor<B, f32, 1>,
    head: Tensor<B, f32, 2>,
    head_bias: Tensor<B, f32, 2>,
    _kernels: B::Kernels,
}

struct Block<B: DigitsOps> {
    norm1: Tensor<B, f32, 1>,
    q: Tensor<B, f32, 2>,
    k: Tensor<B, f32, 2>,
    v: Tensor<B, f32, 2>,
    o: Tensor<B, f32, 2>,
    norm2: Tensor<B, f32, 1>,
    up: Tensor<B, f32, 2>,
    down: Tensor<B, f32, 2>,
}

impl<B: DigitsOps> Submodule<B> for DigitsModel<B> {
    fn load(cx: &LoadCx<'_, B>) -> Result<Self> {
        let options = cx.options.get::<DigitsOptions>().cloned().unwrap_or_default();
        let config = DigitsConfig::from_dir(&options.dir).map_err(Error::plugin)?;
        let w = Weights::from_dir(&options.dir, &config).map_err(Error::plugin)?;
        let (hidden, classes) = (config.hidden, config.classes);
        let matrix = |data: &[f32], out, inner| Tensor::from_slice(cx.device, cx.stream, data, [out, inner]);
        let blocks = w.blocks.iter().map(|block| Block::load(cx, &config, block)).collect::<Result<_>>()?;
        Ok(DigitsModel {
            patch_embed: matrix(&w.patch_embed, hidden, PATCH)?,
            patch_bias: matrix(&w.patch_bias, 1, hidden)?,
            pos_embed: matrix(&w.pos_embed, TOKENS, hidden)?,
            blocks,
            norm: Tensor::from_slice(cx.device, cx.stream, &w.norm, [hidden])?,
            head: matrix(&w.head, classes, hidden)?,
            head_bias: matrix(&w.head_bias, 1, classes)?,
            config,
            _kernels: B::kernels(cx.device)?,
        })
    }
}

impl<B: DigitsOps> Block<B> {
    fn load(cx: &LoadCx<'_, B>, config: &DigitsConfig, w: &BlockWeights) -> Result<Self> {
        let (hidden, inner) = (config.hidden, config.intermediate);
        let vector = |data: &[f32]| Tensor::from_slice(cx.device, cx.stream, data, [hidden]);
        let matrix = |data: &[f32], out, inner| Tensor::from_slice(cx.device, cx.stream, data, [out, inner]);
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
        let ([tokens, _], [images, _]) = (patches.dims(), logits.dims());
        let DigitsConfig { hidden, intermediate, heads, rms_norm_eps: eps, .. } = self.config;
        let (s, wide) = (cx.stream(), [tokens, hidden]);
        let (h, mid, x, product) =
            (cx.scratch(wide)?, cx.scratch(wide)?, cx.scratch(wide)?, cx.scratch(wide)?);
        let (q, k, v) = (cx.scratch(wide)?, cx.scratch(wide)?, cx.scratch(wide)?);
        let (up, act) = (cx.scratch([tokens, intermediate])?, cx.scratch([tokens, intermediate])?);
        let pooled = cx.scratch([images, hidden])?;
        let scores = cx.scratch(logits.dims())?;

        B::linear(s, patches, self.patch_embed.view(), product.view_mut())?;
        B::add(s, product.view(), self.patch_bias.view(), mid.view_mut())?;
        B::add(s, mid.view(), self.pos_embed.view(), h.view_mut())?;
        for block in &self.blocks {
            B::rms_norm(s, h.view(), block.norm1.view(), eps, x.view_mut())?;
            B::linear(s, x.view(), block.q.view(), q.view_mut())?;
            B::linear(s, x.view(), block.k.view(), k.view_mut())?;
            B::linear(s, x.view(), block.v.view(), v.view_mut())?;
            B::attend(s, q.view(), k.view(), v.view(), heads, x.view_mut())?;
            B::linear(s, x.view(), block.o.view(), product.view_mut())?;
            B::add(s, h.view(), product.view(), mid.view_mut())?;
            B::rms_norm(s, mid.view(), block.norm2.view(), eps, x.view_mut())?;
            B::linear(s, x.view(), block.up.view(), up.view_mut())?;
            B::silu(s, up.view(), act.view_mut())?;
            B::linear(s, act.view(), block.down.view(), product.view_mut())?;
            B::add(s, mid.view(), product.view(), h.view_mut())?;
        }
        B::rms_norm(s, h.view(), self.norm.view(), eps, x.view_mut())?;
        B::mean(s, x.view(), pooled.view_mut())?;
        B::linear(s, pooled.view(), self.head.view(), scores.view_mut())?;
        B::add(s, scores.view(), self.head_bias.view(), logits)
    }
}
