//! The digits model's reference through the engine, captured and eager.

use digits_plugin::DigitsOptions;
use graph_core::Engine;
use plugins_on_cuda::{
    models::digits::{IMAGE, check, classify, tokens},
    open, registry, same, session,
};

#[test]
fn digits_captured_and_eager_give_the_reference_to_the_same_bit() {
    let Some(session) = session("digits_captured_and_eager_give_the_reference_to_the_same_bit") else {
        return;
    };
    let mut engine = Engine::builder(open(None)).build(&registry("digits")).expect("an engine");
    let tokens = tokens(&DigitsOptions::default().dir);
    let alone = classify(&mut engine, &tokens, 1).expect("every image");
    assert_eq!(check(&DigitsOptions::default().dir, &alone), Ok(()));
    for (images, batch) in [(12, 5), (40, 32)] {
        let got = classify(&mut engine, &tokens[..images * IMAGE], batch).expect("some images");
        assert_eq!(same("captured", &got, &alone[..10 * images]), Ok(()), "batches of {batch}");
    }
    let stats = engine.stats();
    let region = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert!(region.failures.is_empty() && region.eager.is_empty(), "{:?}", region.eager);
    assert!(region.buckets.iter().any(|b| b.padded_rows > 0));

    engine.node("digits").expect("there").set_eager(true);
    for (images, batch) in [(9, 7), (40, 40)] {
        let got = classify(&mut engine, &tokens[..images * IMAGE], batch).expect("some images");
        assert_eq!(same("eager", &got, &alone[..10 * images]), Ok(()), "batches of {batch}");
    }
    drop(engine);
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
    assert!(graph_cuda::lost().is_empty());
}
