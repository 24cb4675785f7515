//! Activations in bf16: every digit is told apart as in the reference, and the bits do not depend on how it runs.

use digits_plugin::{Activations, DigitsOptions};

use crate::{
    classify::{classify, engine_with},
    reference::assert_near_reference,
};

#[test]
fn captured_and_eager_give_every_digit_of_the_reference_to_the_same_bit() {
    let options = DigitsOptions { activations: Activations::Bf16, ..DigitsOptions::default() };
    let mut engine = engine_with(options);
    let bits = |logits: &[f32]| logits.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let alone = classify(&mut engine, 1);
    assert_near_reference(&alone, 5e-2);
    for batch in [3, 8, 27, 32] {
        assert_eq!(bits(&classify(&mut engine, batch)), bits(&alone), "batches of {batch}");
    }
    let stats = engine.stats();
    let region = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert!(region.failures.is_empty() && region.eager.is_empty(), "{:?}", region.eager);
    engine.node("digits").expect("there").set_eager(true);
    for batch in [1, 7, 240] {
        assert_eq!(bits(&classify(&mut engine, batch)), bits(&alone), "eager, batches of {batch}");
    }
    // What this would be in `f32` is nearer: the activations are in bf16.
    let in_f32 = classify(&mut engine_with(DigitsOptions::default()), 32);
    let furthest = alone.iter().zip(&in_f32).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(furthest > 1e-3, "{furthest}");
}
