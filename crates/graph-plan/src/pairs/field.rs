use super::{PairCost, PairHistogram, PairRules};
use crate::{PlanError, exact::checked_cost};

/// A bucket by its places in a [`Field`]. Ordered by tokens, then requests: the order in which a step looks for
/// its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) token: usize,
    pub(super) level: usize,
}

/// The steps of a pair histogram on the grid of the sizes a bucket may have: `levels` of requests, and tokens.
pub(super) struct Field {
    pub(super) levels: Vec<u32>,
    pub(super) tokens: Vec<u32>,
    pub(super) level_cost: Vec<f64>,
    pub(super) token_cost: Vec<f64>,
    /// `below[token * levels + level]`: steps of this level with at most that many tokens.
    below: Vec<f64>,
    /// What the steps would cost in buckets of exactly their size.
    pub(super) floor: f64,
    /// Buckets that every list holds, in order.
    pub(super) mandatory: Vec<Place>,
}

impl Field {
    pub(super) fn new(
        seen: &PairHistogram,
        cost: &PairCost<'_>,
        rules: &PairRules,
    ) -> Result<Self, PlanError> {
        let top = rules.top(seen)?;
        let fits: Vec<_> = seen.iter().filter(|((r, t), _)| *r <= top.0 && *t <= top.1).collect();
        let levels = rules.requests.round_up(fits.iter().map(|((r, _), _)| *r), top.0);
        let tokens = rules.tokens.round_up(fits.iter().map(|((_, t), _)| *t), top.1);
        let price = |model: &dyn crate::CostModel, sizes: &[u32]| {
            sizes.iter().map(|&size| checked_cost(model, size)).collect::<Result<Vec<f64>, _>>()
        };
        let level_cost = price(cost.requests, &levels)?;
        let token_cost = price(cost.tokens, &tokens)?;

        let mut below = vec![0.0; tokens.len() * levels.len()];
        let mut floor = 0.0;
        for &((requests, size), weight) in &fits {
            let level = levels.partition_point(|&level| level < requests);
            let token = tokens.partition_point(|&token| token < size);
            below[token * levels.len() + level] += weight;
            floor += weight * (checked_cost(cost.requests, requests)? + checked_cost(cost.tokens, size)?);
        }
        for at in levels.len()..below.len() {
            below[at] += below[at - levels.len()];
        }
        let mut field = Self { levels, tokens, level_cost, token_cost, below, floor, mandatory: vec![] };
        let (last_level, last_token) = (field.levels.len() - 1, field.tokens.len() - 1);
        let wide = (0..=last_token).filter(|&token| rules.tokens.forces(field.tokens[token]));
        let tall = (0..=last_level).filter(|&level| rules.requests.forces(field.levels[level]));
        let mut mandatory: Vec<Place> = wide.map(|token| Place { token, level: last_level }).collect();
        mandatory.extend(tall.map(|level| Place { token: last_token, level }));
        mandatory.push(Place { token: last_token, level: last_level });
        mandatory.sort_unstable();
        mandatory.dedup();
        field.mandatory = mandatory;
        Ok(field)
    }

    /// Steps per level with at most this many tokens.
    pub(super) fn below(&self, token: usize) -> &[f64] {
        &self.below[token * self.levels.len()..][..self.levels.len()]
    }

    pub(super) fn cost(&self, place: Place) -> f64 {
        self.token_cost[place.token] + self.level_cost[place.level]
    }

    /// What all steps cost with these buckets, which are in order and hold the largest.
    pub(super) fn total(&self, places: &[Place]) -> f64 {
        let mut served = vec![0.0; self.levels.len()];
        let mut total = 0.0;
        for &place in places {
            let steps = self.below(place.token);
            let cost = self.cost(place);
            for level in 0..=place.level {
                total += (steps[level] - served[level]) * cost;
                served[level] = steps[level];
            }
        }
        total
    }

    /// All buckets of a grid whose sizes are on the field, in order.
    pub(super) fn product(&self, requests: &[u32], tokens: &[u32]) -> Vec<Place> {
        let level = |size: u32| self.levels.partition_point(|&level| level < size);
        let token = |size: u32| self.tokens.partition_point(|&token| token < size);
        let row = |&t: &u32| requests.iter().map(move |&r| Place { token: token(t), level: level(r) });
        let mut places: Vec<Place> = tokens.iter().flat_map(row).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    pub(super) fn pair(&self, place: Place) -> (u32, u32) {
        (self.levels[place.level], self.tokens[place.token])
    }
}
