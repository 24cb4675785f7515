//! Numbers whose change cannot be seen in a result, each with the reason.

use super::source::Change;

/// A number that is not changed.
pub(crate) struct Listed {
    file: &'static str,
    /// As it is written.
    number: &'static str,
    /// The part of its line that it is in.
    within: &'static str,
    pub(crate) reason: &'static str,
}

const BOUNDS: &str = "launch bounds: the compiler's to use, and no part of a result";
const ROOM: &str = "room: what is beyond is never used";
const ONE_THREAD: &str = "one thread does it, whichever";
const SCALED: &str = "the first keys scale it by exp(-infinity), which is 0";
const OTHER_FACTOR: &str = "beyond `inner` the other factor is 0, and beyond the matrix nothing is stored";
const HEAVY: &str = "the largest token weighs 2^32, so neither the sum nor what is enough is near 1";
const NO_SUCH_KEY: &str = "only NaN has so small a key, and it weighs nothing";

pub(crate) const LISTED: &[Listed] = &[
    listed("bf16.cuh", "0x400000u", "bits | 0x400000u", "one more is in the half that is dropped"),
    listed("common.cuh", "0x7fc00000u", "0x7fc00000u", "any NaN will do"),
    listed("common.cuh", "0", "threadIdx.x % WARP == 0", "every lane has the sum of its warp"),
    listed("attention.cuh", "4", "LANE_DIMS 4", "room for wider heads: a lane skips what is beyond the head"),
    listed("attention.cuh", "0.0f", "total = 0.0f", SCALED),
    listed("attention.cuh", "0", "u32 j = 0; j < LANE_DIMS; ++j) sum[j] = 0.0f", SCALED),
    listed("attention.cuh", "0.0f", "sum[j] = 0.0f", SCALED),
    listed("attention.cuh", "0.0f", "score = 0.0f", "added to every score, which changes no softmax"),
    listed("digits.cu", "32", "__launch_bounds__(32)", BOUNDS),
    listed("paged.cu", "32", "__launch_bounds__(32)", BOUNDS),
    listed("linear.cu", "128", "__launch_bounds__(128)", BOUNDS),
    listed(
        "linear.cu",
        "1",
        "[TILE_COLS][TILE_DEPTH + 1]",
        "against conflicts of banks, which take time only",
    ),
    listed("linear.cu", "0.0f", "inner + k) : 0.0f", OTHER_FACTOR),
    listed("rowwise.cu", "128", "__launch_bounds__(128)", BOUNDS),
    listed("rowwise.cu", "4", "NORM_WARPS 4", ROOM),
    listed("sample.cu", "14", "TAYLOR[14]", ROOM),
    listed("sample.cu", "0", "is_nan(logit)) return 0;", "any key below that of minus infinity will do"),
    listed("sample.cu", "31", "<< 31 | (0x7fffffffu - id)", "a bit more between the key and the id"),
    listed("sample.cu", "2", "found[2]", ROOM),
    listed("sample.cu", "0", "if (threadIdx.x == 0)", ONE_THREAD),
    listed(
        "sample.cu",
        "32.0",
        "x < -32.0",
        "below it the weight is 0 anyway; it is there for the width of the shift",
    ),
    listed(
        "sample.cu",
        "1",
        "] = 1;",
        "against a division by zero where no token at the key weighs anything",
    ),
    listed("sample.cu", "0", "weigh(logits[id]) > 0", "a weight of 1 is what is there already"),
    listed("sample.cu", "0", "enough - above : 0", "what is above the key is less than enough"),
    listed(
        "sample.cu",
        "0",
        "found[0] = count",
        "every key of a cut has its tokens, except where nothing weighs anything",
    ),
    listed("sample.cu", "0", "u64 best = 0", "the rank of every token is larger"),
    listed(
        "sample.cu",
        "0",
        "at < state_rows ? at : 0",
        "a row that there is not draws greedily: its words are not used",
    ),
    listed("sample.cu", "0", "Cut cut = {0, 0xffffffffu}", NO_SUCH_KEY),
    listed("sample.cu", "0xffffffffu", "Cut cut = {0, 0xffffffffu}", NO_SUCH_KEY),
    listed(
        "sample.cu",
        "1.0f",
        "top_p < 1.0f",
        "from 1 on every token with a weight stays, whether or not they are looked for",
    ),
    listed("sample.cu", "1", "sum > 1 ? sum : 1", HEAVY),
    listed("sample.cu", "1", "enough < 1 ? 1", HEAVY),
];

const fn listed(
    file: &'static str,
    number: &'static str,
    within: &'static str,
    reason: &'static str,
) -> Listed {
    Listed { file, number, within, reason }
}

impl Listed {
    pub(crate) fn is(&self, change: &Change) -> bool {
        let line = change.file.line(change.literal.line);
        let start = change.file.text[..change.literal.at.start].rfind('\n').map_or(0, |end| end + 1);
        let at = change.literal.at.start - start;
        let covers = |from: usize| from <= at && at + self.number.len() <= from + self.within.len();
        self.file == change.file.name
            && self.number == change.number()
            && line.match_indices(self.within).any(|(from, _)| covers(from))
    }

    /// As a person finds it.
    pub(crate) fn place(&self) -> String {
        format!("{} in `{}` of {}", self.number, self.within, self.file)
    }
}
