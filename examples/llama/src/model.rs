//! The model on a device: weights, and the keys and values of all requests.

use std::path::PathBuf;

use graph_core::{Error, LoadCx, Result, Submodule, Tensor};

use crate::{LayerWeights, LlamaConfig, LlamaOps, Weights, kernels::KvLayout};

/// Where the model is and how much it serves. An engine puts it into its `Options`; without it, the defaults hold.
#[derive(Clone, Debug)]
pub struct LlamaOptions {
    /// The folder with `config.json` and the weights.
    pub dir: PathBuf,
    /// Requests at a time: they use the KV slots `1..=max_requests`.
    pub max_requests: usize,
    /// Caps the context of a request, which is the model's otherwise.
    pub max_context: usize,
}

impl Default for LlamaOptions {
    /// The model that is part of this crate, 32 requests, at most 2,048 positions each.
    fn default() -> Self {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/models/shakespeare").into();
        LlamaOptions { dir, max_requests: 32, max_context: 2048 }
    }
}

/// Options that leave no room for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("LlamaOptions: `{option}` is 0, must be 1 or more")]
pub struct OptionsError {
    /// The option.
    pub option: &'static str,
}

/// The weights on a device, and the keys and values of all requests.
pub struct LlamaModel<B: LlamaOps> {
    pub(crate) config: LlamaConfig,
    pub(crate) layout: KvLayout,
    pub(crate) embed: Tensor<B, f32, 2>,
    pub(crate) layers: Vec<Layer<B>>,
    pub(crate) norm: Tensor<B, f32, 1>,
    /// The embedding's memory where they are tied.
    pub(crate) head: Tensor<B, f32, 2>,
    pub(crate) inverse_frequencies: Tensor<B, f32, 1>,
}

pub(crate) struct Layer<B: LlamaOps> {
    pub(crate) input_norm: Tensor<B, f32, 1>,
    pub(crate) q: Tensor<B, f32, 2>,
    pub(crate) k: Tensor<B, f32, 2>,
    pub(crate) v: Tensor<B, f32, 2>,
    pub(crate) o: Tensor<B, f32, 2>,
    pub(crate) post_norm: Tensor<B, f32, 1>,
    pub(crate) gate: Tensor<B, f32, 2>,
    pub(crate) up: Tensor<B, f32, 2>,
    pub(crate) down: Tensor<B, f32, 2>,
    /// Keys and values of all requests, `[slots * context, kv_dim]` each.
    pub(crate) kv: [Tensor<B, f32, 2>; 2],
}

impl<B: LlamaOps> Submodule<B> for LlamaModel<B> {
    fn load(cx: &LoadCx<'_, B>) -> Result<Self> {
        let options = cx.options.get::<LlamaOptions>().cloned().unwrap_or_default();
        for (option, got) in [("max_requests", options.max_requests), ("max_context", options.max_context)] {
            if got == 0 {
                return Err(Error::plugin(OptionsError { option }));
            }
        }
        let config = LlamaConfig::from_dir(&options.dir).map_err(Error::plugin)?;
        let weights = Weights::from_dir(&options.dir, &config).map_err(Error::plugin)?;
        let context = config.max_position_embeddings.min(options.max_context);
        let layout = KvLayout { context, slots: options.max_requests + 1 };
        let tokens = [config.vocab_size, config.hidden_size];
        let embed = Tensor::from_slice(cx.device, cx.stream, &weights.embed, tokens)?;
        let head = match &weights.head {
            Some(head) => Tensor::from_slice(cx.device, cx.stream, head, tokens)?,
            None => embed.clone(),
        };
        let layers = weights.layers.iter().map(|layer| Layer::load(cx, &config, layout, layer));
        Ok(LlamaModel {
            layers: layers.collect::<Result<_>>()?,
            norm: vector(cx, &weights.norm)?,
            inverse_frequencies: vector(cx, &config.inverse_frequencies())?,
            config,
            layout,
            embed,
            head,
        })
    }
}

impl<B: LlamaOps> Layer<B> {
    fn load(cx: &LoadCx<'_, B>, config: &LlamaConfig, kv: KvLayout, w: &LayerWeights) -> Result<Self> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let (q_dim, kv_dim) = (config.q_dim(), config.kv_dim());
        let matrix = |data: &[f32], out, inner| Tensor::from_slice(cx.device, cx.stream, data, [out, inner]);
        let cache = || Tensor::zeros(cx.device, cx.stream, [kv.rows(), kv_dim]);
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
            kv: [cache()?, cache()?],
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

    /// How the keys and values of requests lie in their buffers.
    pub fn layout(&self) -> KvLayout {
        self.layout
    }

    /// Keys and values of a layer, `[slots * context, kv_dim]` each; `None` for a layer that it has not.
    pub fn kv(&self, layer: usize) -> Option<&[Tensor<B, f32, 2>; 2]> {
        self.layers.get(layer).map(|layer| &layer.kv)
    }
}
