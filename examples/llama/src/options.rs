//! What the plugin is loaded with.

use std::path::PathBuf;

use graph_resources::KvOptions;
use model_support::Activations;

use crate::LlamaConfig;

/// How prefill runs. An engine captures one of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefill {
    /// Walk `prefill`: the regions `embed`, `qkv` and `mlp`, with eager attention between them.
    #[default]
    Piecewise,
    /// Walk `prefill_block_loop`: the regions `embed` and `block_loop`, which has all layers with their attention.
    BlockLoop,
}

impl Prefill {
    /// Its walk.
    pub const fn walk(self) -> &'static str {
        match self {
            Prefill::Piecewise => "prefill",
            Prefill::BlockLoop => "prefill_block_loop",
        }
    }
}

/// Where the model is and how much it serves. An engine puts it into its `Options`; without it, the defaults hold.
#[derive(Clone, Debug)]
pub struct LlamaOptions {
    /// The folder with `config.json` and the weights.
    pub dir: PathBuf,
    /// Requests at a time.
    pub max_requests: usize,
    /// Caps the context of a request, which is the model's otherwise.
    pub max_context: usize,
    /// Tokens of a page of keys and values.
    pub page_size: usize,
    /// Pages that the requests share; `None` for as many as `max_requests` whole contexts take.
    pub pages: Option<usize>,
    /// How prefill runs.
    pub prefill: Prefill,
    /// The element of everything between the tokens and the logits, keys and values included. Logits are `f32`.
    pub activations: Activations,
}

impl Default for LlamaOptions {
    /// The model that is part of this crate, 32 requests of at most 2,048 positions each, pages of 16 tokens, in `f32`.
    fn default() -> Self {
        LlamaOptions {
            dir: concat!(env!("CARGO_MANIFEST_DIR"), "/models/shakespeare").into(),
            max_requests: 32,
            max_context: 2048,
            page_size: 16,
            pages: None,
            prefill: Prefill::Piecewise,
            activations: Activations::F32,
        }
    }
}

/// Options that leave no room for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("LlamaOptions: `{option}` is 0, must be 1 or more")]
pub struct OptionsError {
    /// The option.
    pub option: &'static str,
}

impl LlamaOptions {
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let sizes = [
            ("max_requests", self.max_requests),
            ("max_context", self.max_context),
            ("page_size", self.page_size),
            ("pages", self.pages.unwrap_or(1)),
        ];
        match sizes.into_iter().find(|(_, size)| *size == 0) {
            Some((option, _)) => Err(OptionsError { option }),
            None => Ok(()),
        }
    }

    /// Tokens that a request may have.
    pub fn context(&self, config: &LlamaConfig) -> usize {
        config.max_position_embeddings.min(self.max_context)
    }

    /// Pages that the requests share.
    pub fn shared_pages(&self, config: &LlamaConfig) -> usize {
        let whole = self.context(config).div_ceil(self.page_size.max(1));
        self.pages.unwrap_or_else(|| self.max_requests.saturating_mul(whole))
    }

    /// The sizes of the cache: the shared pages, and one for padding.
    pub(crate) fn kv(&self, config: &LlamaConfig) -> KvOptions {
        let pages = self.shared_pages(config);
        let tokens = self.context(config).min(pages.saturating_mul(self.page_size));
        KvOptions::new(pages.saturating_add(1), self.page_size)
            .layers(config.num_hidden_layers, config.kv_dim())
            .max_tokens(tokens)
    }
}
