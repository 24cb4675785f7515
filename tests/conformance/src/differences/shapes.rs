//! Differences that need no setup.

use serde_json::json;

use super::{Difference, Found};
use crate::{
    args::{OfPiecewise, SeqDim},
    setups::spec::Kind,
    vectors::Vector,
};

/// 18: the reference implementation takes the first axis of the right length for the varying one.
pub(super) fn seq_dim(vector: &Vector) -> Found {
    let SeqDim { shape, seq_len } = vector.args()?;
    let guess = shape.iter().position(|len| *len == seq_len).unwrap_or(0);
    Ok((guess != 0).then(|| Difference::new(18, json!(0))))
}

/// 16: a call for no request. 4: lengths that disagree with the requests, or that the shape does not hold.
pub(super) fn replay_seq_lens(vector: &Vector) -> Found {
    let OfPiecewise { kind, shape, seq_lens, real_bs, .. } = vector.args()?;
    if real_bs == 0 {
        return Ok(Some(Difference::new(16, json!({"error": "EmptyBatch"}))));
    }
    if real_bs > shape.bs {
        let ours = json!({"error": "BeyondBucket", "what": "requests", "got": real_bs, "most": shape.bs});
        return Ok(Some(Difference::new(4, ours)));
    }
    let Some(lens) = seq_lens else { return Ok(None) };
    if lens.len() != real_bs {
        let ours = json!({"error": "LengthsDisagree", "lens": lens.len(), "bs": real_bs});
        return Ok(Some(Difference::new(4, ours)));
    }
    let (tokens, most) = (lens.iter().sum::<usize>(), shape.total_tokens);
    if kind == Kind::Packed && tokens > most {
        let ours = json!({"error": "BeyondBucket", "what": "tokens", "got": tokens, "most": most});
        return Ok(Some(Difference::new(4, ours)));
    }
    Ok(None)
}
