//! A request on its way through the scheduler.

use std::hash::{DefaultHasher, Hasher};

use graph_core::RequestId;
use graph_resources::SampleParams;

/// What became of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// As it was submitted.
    pub request: RequestId,
    /// The prompt's tokens and the generated ones.
    pub tokens: Vec<u32>,
    /// How many were generated.
    pub new_tokens: usize,
    /// A digest of the bits of all logits that were sampled from: two runs agree only if they computed the same.
    pub logits: u64,
}

/// A request that is not finished.
pub(super) struct Request {
    pub(super) id: RequestId,
    /// Earlier ones first: when pages run out, the last of them gives way.
    pub(super) order: u64,
    /// The prompt's tokens and the generated ones.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    /// Tokens that are in the cache.
    pub(super) done: usize,
    pub(super) params: SampleParams,
    digest: DefaultHasher,
}

impl Request {
    pub(super) fn new(id: RequestId, order: u64, tokens: Vec<u32>, params: SampleParams) -> Self {
        let prompt = tokens.len();
        Request { id, order, tokens, prompt, done: 0, params, digest: DefaultHasher::new() }
    }

    pub(super) fn new_tokens(&self) -> usize {
        self.tokens.len() - self.prompt
    }

    /// All but its newest token are in the cache.
    pub(super) fn decodes(&self) -> bool {
        self.done > 0 && self.done + 1 == self.tokens.len()
    }

    /// A new token, drawn from these logits.
    pub(super) fn push(&mut self, token: u32, logits: &[f32]) {
        logits.iter().for_each(|logit| self.digest.write_u32(logit.to_bits()));
        self.tokens.push(token);
    }

    pub(super) fn finish(self) -> Finished {
        let new_tokens = self.new_tokens();
        Finished { request: self.id, tokens: self.tokens, new_tokens, logits: self.digest.finish() }
    }
}
