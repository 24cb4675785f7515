//! The model on a device: its weights. Keys and values are a resource of the node.

use std::ops::Range;

use graph_core::{Error, LoadCx, Result, Submodule, Tensor};
use model_support::{Activation, Stored};

use crate::{LayerWeights, LlamaConfig, LlamaOps, LlamaOptions, Prefill, Weights};

/// The weights on a device, and the options that they were loaded with.
pub struct LlamaModel<B: LlamaOps> {
    pub(crate) config: LlamaConfig,
    pub(crate) options: LlamaOptions,
    pub(crate) embed: B::Weight,
    pub(crate) layers: Vec<Layer<B>>,
    pub(crate) norm: Tensor<B, f32, 1>,
    /// The embedding's memory where they are tied.
    pub(crate) head: B::Weight,
    pub(crate) inverse_frequencies: Tensor<B, f32, 1>,
    _kernels: B::Kernels,
}

pub(crate) struct Layer<B: LlamaOps> {
    pub(crate) input_norm: Tensor<B, f32, 1>,
    pub(crate) q: B::Weight,
    pub(crate) k: B::Weight,
    pub(crate) v: B::Weight,
    pub(crate) o: B::Weight,
    pub(crate) post_norm: Tensor<B, f32, 1>,
    pub(crate) gate: B::Weight,
    pub(crate) up: B::Weight,
    pub(crate) down: B::Weight,
}

impl<B: LlamaOps> Submodule<B> for LlamaModel<B> {
    fn load(cx: &LoadCx<'_, B>) -> Result<Self> {
        let options = cx.options.get::<LlamaOptions>().cloned().unwrap_or_default();
        options.check().map_err(Error::plugin)?;
        let config = LlamaConfig::from_dir(&options.dir).map_err(Error::plugin)?;
        let weights = Weights::from_dir(&options.dir, &config).map_err(Error::plugin)?;
        let tokens = [config.vocab_size, config.hidden_size];
        let kernels = B::kernels(cx.device)?;
        let embed = B::weight(&kernels, cx.device, cx.stream, &weights.embed, tokens)?;
        let head = match &weights.head {
            Some(head) => B::weight(&kernels, cx.device, cx.stream, head, tokens)?,
            None => embed.clone(),
        };
        let layers = weights.layers.iter().map(|layer| Layer::load(cx, &kernels, &config, layer));
        Ok(LlamaModel {
            layers: layers.collect::<Result<_>>()?,
            norm: vector(cx, &weights.norm)?,
            inverse_frequencies: vector(cx, &config.inverse_frequencies())?,
            config,
            options,
            embed,
            head,
            _kernels: kernels,
        })
    }
}

impl<B: LlamaOps> Layer<B> {
    fn load(
        cx: &LoadCx<'_, B>,
        kernels: &B::Kernels,
        config: &LlamaConfig,
        w: &LayerWeights,
    ) -> Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (q_dim, kv_dim) = (config.q_dim(), config.kv_dim());
        let matrix =
            |stored: &Stored, out, inner| B::weight(kernels, cx.device, cx.stream, stored, [out, inner]);
        Ok(Layer {
            input_norm: vector(cx, &w.input_norm)?,
            q: matrix(&w.q, q_dim, hidden)?,
            k: matrix(&w.k, kv_dim, hidden)?,
            v: matrix(&w.v, kv_dim, hidden)?,
            o: matrix(&w.o, hidden, q_dim)?,
            post_norm: vector(cx, &w.post_norm)?,
            gate: matrix(&w.gate, inner, hidden)?,
            up: matrix(&w.up, inner, hidden)?,
            down: matrix(&w.down, hidden, inner)?,
        })
    }
}

fn vector<B: LlamaOps>(cx: &LoadCx<'_, B>, data: &[f32]) -> Result<Tensor<B, f32, 1>> {
    Tensor::from_slice(cx.device, cx.stream, data, [data.len()])
}

impl<B: LlamaOps> LlamaModel<B> {
    /// Its sizes.
    pub fn config(&self) -> &LlamaConfig {
        &self.config
    }

    /// The options that it was loaded with.
    pub fn options(&self) -> &LlamaOptions {
        &self.options
    }

    /// Whether these are the activations of its options: the regions of others have no instance.
    pub(crate) fn computes_in<A: Activation>(&self) -> bool {
        self.options.activations == A::ACTIVATIONS
    }

    /// The layers that have regions of their own, with these activations.
    pub(crate) fn piecewise_layers<A: Activation>(&self) -> Range<usize> {
        match self.options.prefill {
            Prefill::Piecewise if self.computes_in::<A>() => 0..self.layers.len(),
            Prefill::Piecewise | Prefill::BlockLoop => 0..0,
        }
    }
}
