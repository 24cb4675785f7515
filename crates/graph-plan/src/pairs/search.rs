use super::field::{Field, Place};

/// Longer lists are improved one bucket at a time only: trying every two of them takes time with the cube of the length
/// and, in a long list, saves next to nothing.
const MOST_FOR_TWO: usize = 48;

/// Improves a list of buckets until no change of one, or in lists of up to [`MOST_FOR_TWO`] of two, of them helps.
///
/// Each move takes buckets out and puts the best ones back, one after the other. [`best_addition`] finds the best
/// of all places in one pass over the field, so a move costs `O(levels x tokens)`.
pub(super) fn improve(field: &Field, mut places: Vec<Place>, count: usize) -> (Vec<Place>, f64) {
    grow(field, &mut places, count);
    let mut total = field.total(&places);
    loop {
        let before = total;
        for at in 0..places.len() {
            try_without(field, &mut places, &mut total, count, &[at]);
        }
        if total < before {
            continue;
        }
        let firsts = if places.len() > MOST_FOR_TWO { 0 } else { places.len() };
        for first in 0..firsts {
            for second in first + 1..places.len() {
                try_without(field, &mut places, &mut total, count, &[first, second]);
            }
        }
        if total >= before {
            return (places, total);
        }
    }
}

/// Adds the best bucket, one at a time, until there are `count` or none helps.
pub(super) fn grow(field: &Field, places: &mut Vec<Place>, count: usize) {
    while places.len() < count {
        match best_addition(field, places) {
            Some((place, saving)) if saving > 0.0 => {
                let at = places.partition_point(|&other| other < place);
                places.insert(at, place);
            }
            _ => return,
        }
    }
}

fn try_without(field: &Field, places: &mut Vec<Place>, total: &mut f64, count: usize, out: &[usize]) {
    // The list can have become shorter: with costs that fall, a bucket less may be better than any in its place.
    if out.iter().any(|&at| places.get(at).is_none_or(|place| field.mandatory.contains(place))) {
        return;
    }
    let mut other = places.clone();
    for &at in out.iter().rev() {
        other.remove(at);
    }
    grow(field, &mut other, count);
    let cost = field.total(&other);
    // Rounding must not make two lists chase each other.
    if cost < *total - 1e-9 * total.abs() {
        *places = other;
        *total = cost;
    }
}

/// The place whose bucket would save most, and what it would save.
///
/// A new bucket at `(level, token)` takes over, from each level up to its own, the steps above the next smaller
/// bucket that serves them. With `moved` for these steps and `cost` for what each costs now, summed over the levels,
/// it saves `cost - moved x (its own cost)`.
fn best_addition(field: &Field, places: &[Place]) -> Option<(Place, f64)> {
    let levels = field.levels.len();
    let mut served = vec![0.0; levels];
    let mut best: Option<(Place, f64)> = None;
    let mut next = 0;
    // For each level the bucket that serves it from here up.
    let mut server = vec![None; levels];
    for token in 0..field.tokens.len() {
        while next < places.len() && places[next].token < token {
            let steps = field.below(places[next].token);
            let top = places[next].level;
            served[..=top].copy_from_slice(&steps[..=top]);
            server[..=top].fill(None);
            next += 1;
        }
        let here = places[next..].iter().take_while(|place| place.token == token).count();
        let steps = field.below(token);
        let mut moved = 0.0;
        let mut cost = 0.0;
        for level in 0..levels {
            let serving = match server[level] {
                Some(cost) => cost,
                None => {
                    let place = places[next..].iter().find(|place| place.level >= level)?;
                    let cost = field.cost(*place);
                    server[level] = Some(cost);
                    cost
                }
            };
            let gain = steps[level] - served[level];
            moved += gain;
            cost += gain * serving;
            let place = Place { token, level };
            if places[next..next + here].contains(&place) {
                // It is there already; levels up to this one gain nothing from a taller bucket.
                (moved, cost) = (0.0, 0.0);
                continue;
            }
            let saving = cost - moved * field.cost(place);
            if best.is_none_or(|(_, most)| saving > most) {
                best = Some((place, saving));
            }
        }
    }
    best
}
