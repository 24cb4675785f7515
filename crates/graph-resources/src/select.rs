//! Which tokens of a row are kept: the largest ones, without sorting.

/// Keeps the tokens above a key, and the first of those at it, in order of ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    key: u32,
    /// How many tokens at the key are kept.
    ties: u64,
}

impl Cut {
    pub(crate) const ALL: Cut = Cut { key: 0, ties: u64::MAX };
}

/// The kept tokens in order of ids, with their logits.
pub(crate) fn kept(logits: &[f32], cut: Cut) -> impl Iterator<Item = (usize, f32)> {
    let mut ties = cut.ties;
    logits.iter().copied().enumerate().filter(move |(_, logit)| {
        let key = key(*logit);
        let tie = key == cut.key && ties > 0;
        ties -= u64::from(tie);
        key > cut.key || tie
    })
}

/// The smallest cut within `cut` whose tokens weigh `enough`, which is at least 1 and at most what all kept ones weigh.
///
/// Four passes over the row, one per byte of the key: no memory but a table of 256 sums.
pub(crate) fn threshold(logits: &[f32], cut: Cut, weigh: impl Fn(f32) -> u64, enough: u64) -> Cut {
    let (mut prefix, mut above) = (0_u32, 0_u64);
    let mut each = 1;
    for shift in [24, 16, 8, 0] {
        let mut sums = [0_u64; 256];
        for (_, logit) in kept(logits, cut) {
            let key = key(logit);
            // The bytes before this one are decided.
            if u64::from(key ^ prefix) >> (shift + 8) == 0 {
                sums[(key >> shift & 0xff) as usize] += weigh(logit);
            }
        }
        let mut byte = 255;
        while byte > 0 && above + sums[byte] < enough {
            above += sums[byte];
            byte -= 1;
        }
        prefix |= (byte as u32) << shift;
    }
    if let Some((_, logit)) = kept(logits, cut).find(|(_, logit)| key(*logit) == prefix) {
        each = weigh(logit).max(1);
    }
    Cut { key: prefix, ties: enough.saturating_sub(above).div_ceil(each) }
}

/// Ordered as the logits are; -0 is 0, and NaN is below everything.
fn key(logit: f32) -> u32 {
    let bits = (logit + 0.0).to_bits();
    match logit.is_nan() {
        true => 0,
        false if bits >> 31 == 1 => !bits,
        false => bits | 1 << 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(logits: &[f32], cut: Cut) -> Vec<usize> {
        kept(logits, cut).map(|(id, _)| id).collect()
    }

    #[test]
    fn keys_order_as_logits_do() {
        let ordered = [f32::NAN, f32::NEG_INFINITY, -1e9, -1.0, -1e-40, 0.0, 1e-40, 1.0, 1e9, f32::INFINITY];
        assert!(ordered.map(key).is_sorted_by(|a, b| a < b));
        assert_eq!((key(-0.0), key(-f32::NAN)), (key(0.0), key(f32::NAN)));
    }

    #[test]
    fn the_k_largest_and_of_equals_the_lowest_id() {
        let logits = [1.0, 3.0, -2.0, 3.0, f32::NAN, 1.0, 3.0];
        let top = |k| ids(&logits, threshold(&logits, Cut::ALL, |_| 1, k));
        assert_eq!(top(1), [1]);
        assert_eq!(top(2), [1, 3]);
        assert_eq!(top(4), [0, 1, 3, 6]);
        assert_eq!(top(5), [0, 1, 3, 5, 6]);
        assert_eq!(top(6), [0, 1, 2, 3, 5, 6]);
        assert_eq!(top(7), [0, 1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn a_cut_within_a_cut() {
        let logits = [2.0, 2.0, 1.0, 2.0, 0.0];
        let weigh = |logit: f32| logit as u64 * 10;
        let two = threshold(&logits, Cut::ALL, |_| 1, 2);
        assert_eq!(ids(&logits, threshold(&logits, two, weigh, 20)), [0]);
        assert_eq!(ids(&logits, threshold(&logits, two, weigh, 21)), [0, 1]);
        assert_eq!(ids(&logits, threshold(&logits, Cut::ALL, weigh, 61)), [0, 1, 2, 3]);
    }
}
