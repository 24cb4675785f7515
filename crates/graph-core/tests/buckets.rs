//! The bucket table against the rule, word for word, on random lists.

use graph_core::{BucketTable, Dims, Miss};
use proptest::prelude::*;

/// Smallest (tokens, bs) that holds both; the first of equal ones.
fn by_the_rule(buckets: &[(Dims, bool)], d: Dims) -> Option<usize> {
    let fits = buckets.iter().enumerate().filter(|(_, (b, _))| b.bs >= d.bs && b.tokens >= d.tokens);
    fits.min_by_key(|(i, (b, _))| (b.tokens, b.bs, *i)).map(|(i, _)| i)
}

/// Smallest (bs, tokens) of a batched configuration that holds the requests.
fn batched_by_the_rule(buckets: &[(Dims, bool)], bs: usize) -> Option<usize> {
    let fits = buckets.iter().enumerate().filter(|(_, (b, batched))| *batched && b.bs >= bs);
    fits.min_by_key(|(i, (b, _))| (b.bs, b.tokens, *i)).map(|(i, _)| i)
}

fn bucket(most: usize) -> impl Strategy<Value = (Dims, bool)> {
    (0..most, 0..most, any::<bool>()).prop_map(|(bs, tokens, batched)| (Dims { bs, tokens }, batched))
}

proptest! {
    #[test]
    fn choice_is_the_smallest_that_fits(
        buckets in proptest::collection::vec(bucket(40), 0..60),
        bs in 0..45_usize,
        tokens in 0..45_usize,
    ) {
        let table = BucketTable::new(buckets.clone());
        let d = Dims { bs, tokens };
        prop_assert_eq!(table.choose(d).ok().map(|b| b.index()), by_the_rule(&buckets, d));
        prop_assert_eq!(table.choose_batched(bs).ok().map(|b| b.index()), batched_by_the_rule(&buckets, bs));
    }

    /// Sizes beyond those that are looked up directly.
    #[test]
    fn large_sizes_are_searched(
        buckets in proptest::collection::vec(bucket(400_000), 1..20),
        bs in 0..450_000_usize,
        tokens in 0..450_000_usize,
    ) {
        let table = BucketTable::new(buckets.clone());
        let d = Dims { bs, tokens };
        prop_assert_eq!(table.choose(d).ok().map(|b| b.index()), by_the_rule(&buckets, d));
    }

    /// One batched configuration: bs and tokens rise together.
    #[test]
    fn rising_sizes_need_no_grid(sizes in proptest::collection::btree_set(1..5000_usize, 1..200), bs in 0..5100_usize) {
        let buckets: Vec<_> = sizes.iter().map(|n| (Dims { bs: *n, tokens: n * 16 }, true)).collect();
        let table = BucketTable::new(buckets.clone());
        let d = Dims { bs, tokens: bs * 16 };
        prop_assert_eq!(table.choose(d).ok().map(|b| b.index()), by_the_rule(&buckets, d));
    }
}

/// Invariant 10: no fit is a typed reason with its numbers.
#[test]
fn invariant_10_a_miss_has_its_numbers() {
    let at = |bs, tokens| Dims { bs, tokens };
    let table = BucketTable::new([(at(8, 16), false), (at(2, 64), false)]);
    assert_eq!(table.choose(at(9, 1)), Err(Miss::TooManyRequests { bs: 9, largest: 8 }));
    assert_eq!(table.choose(at(1, 65)), Err(Miss::TooManyTokens { tokens: 65, largest: 64 }));
    assert_eq!(table.choose(at(8, 64)), Err(Miss::NoFit { bs: 8, tokens: 64 }));
    assert_eq!(table.choose_batched(1), Err(Miss::NoBuckets));
    assert_eq!(BucketTable::new([]).choose(at(1, 1)), Err(Miss::NoBuckets));
    assert_eq!(
        Miss::NoFit { bs: 8, tokens: 64 }.to_string(),
        "no bucket holds both 8 requests and 64 tokens"
    );
}

#[test]
fn a_list_in_no_order_of_twenty_thousand_sizes_takes_no_gigabyte() {
    const N: usize = 20_000;
    let falling = (1..=N).map(|n| (Dims { bs: N + 1 - n, tokens: n }, false));
    let buckets: Vec<_> = falling.chain([(Dims { bs: 7, tokens: 2 * N }, true)]).collect();
    let table = BucketTable::new(buckets.clone());
    for d in [(1, 1), (N, 1), (5, N - 4), (6, N - 4), (7, N), (8, N + 1), (N + 1, 1), (1, 2 * N + 1)] {
        let d = Dims { bs: d.0, tokens: d.1 };
        assert_eq!(table.choose(d).ok().map(|ix| ix.index()), by_the_rule(&buckets, d), "{d:?}");
    }
    assert_eq!(table.choose(Dims { bs: 8, tokens: N + 1 }), Err(Miss::NoFit { bs: 8, tokens: N as u32 + 1 }));
}
