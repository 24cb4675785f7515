//! What a scheduler refuses.

use graph_core::RequestId;

/// A request that cannot be served, or a model that gives no logits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// More pages than there are: it would never run, even alone.
    #[error(
        "request {} needs {needs} page(s) for its {tokens} token(s), all requests share {total}; use more pages, \
         a shorter prompt or fewer new tokens",
        request.0
    )]
    NeverFits {
        /// The request.
        request: RequestId,
        /// Tokens that it will have in the cache.
        tokens: usize,
        /// Pages that they take.
        needs: usize,
        /// Pages that there are.
        total: usize,
    },
    /// A prompt without tokens.
    #[error("request {} has no token; give it at least one", request.0)]
    Empty {
        /// The request.
        request: RequestId,
    },
    /// A prompt that the context does not hold.
    #[error("request {} has {got} tokens, the context holds {most}; shorten it", request.0)]
    TooLong {
        /// The request.
        request: RequestId,
        /// Tokens of the prompt.
        got: usize,
        /// Tokens of the context.
        most: usize,
    },
    /// A request that is there already.
    #[error("request {} is being served already; use another number", request.0)]
    Known {
        /// The request.
        request: RequestId,
    },
    /// A step may hold no token.
    #[error("`{limit}` is 0, must be 1 or more")]
    Zero {
        /// The limit.
        limit: &'static str,
    },
    /// Logits that are not numbers.
    #[error("the model produced NaN for token {token} of request {}", request.0)]
    NotANumber {
        /// The request.
        request: RequestId,
        /// The first token whose logit is none.
        token: usize,
    },
    /// A node that is not served by this scheduler.
    #[error("node `{node}` has no {resource}; the scheduler serves nodes with a paged cache and a sampler")]
    NoResource {
        /// The node.
        node: &'static str,
        /// What it lacks.
        resource: &'static str,
    },
}
