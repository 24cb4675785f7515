//! Padded rows write to the sink only.

use graph_core::Engine;
use graph_host::Host;
use llama_plugin::LlamaModel;

use crate::{engine::step, replay::probed};

/// The rows of keys and values, of all layers together, as bits.
fn rows(engine: &Engine<Host>, model: &LlamaModel<Host>) -> Vec<Vec<u32>> {
    let mut rows = vec![Vec::new(); model.layout().rows()];
    for layer in 0..model.config().num_hidden_layers {
        for cache in model.kv(layer).expect("a layer") {
            let data = cache.to_vec(engine.stream()).expect("read back");
            for (row, values) in rows.iter_mut().zip(data.chunks(model.config().kv_dim())) {
                row.extend(values.iter().map(|v| v.to_bits()));
            }
        }
    }
    rows
}

fn changed(before: &[Vec<u32>], after: &[Vec<u32>]) -> Vec<usize> {
    (0..before.len()).filter(|i| before[*i] != after[*i]).collect()
}

#[test]
fn padded_decode_writes_its_rows_and_the_sink() {
    let (mut engine, model) = probed();
    let row = |slot, position| model.layout().row(slot, position).expect("in range");
    for slot in 1..=5 {
        step(&mut engine, "prefill", 0, &[(0, slot, &[84, 111, 32])]).expect("a step");
    }
    let before = rows(&engine, &model);
    // Five requests in the bucket of eight: three padded rows.
    let step_of = |slot, token: &'static [u32; 1]| (3, slot, &token[..]);
    let requests =
        [step_of(5, &[98]), step_of(2, &[99]), step_of(1, &[100]), step_of(4, &[101]), step_of(3, &[102])];
    step(&mut engine, "decode", 0, &requests).expect("a step");
    let want: Vec<usize> = (1..=5).map(|slot| row(slot, 3)).collect();
    let after = rows(&engine, &model);
    let got = changed(&before, &after);
    assert!(got.iter().all(|r| *r == row(0, 0) || want.contains(r)), "{got:?}");
    assert!(want.iter().all(|r| got.contains(r)), "{got:?}");

    // The capture and every padded step so far have written to the sink: it alone holds more than zeros.
    let zero = vec![0; after[0].len()];
    let used = |slot, position| after[row(slot, position)] != zero;
    assert!(used(0, 0));
    assert!((1..model.layout().context as i32).all(|position| !used(0, position)));
    assert!((1..=5).all(|slot| (0..4).all(|p| used(slot, p)) && !used(slot, 4)));
    assert!((0..model.layout().context as i32).all(|position| !used(6, position)));
}

#[test]
fn padded_prefill_writes_its_rows_only() {
    let (mut engine, model) = probed();
    let before = rows(&engine, &model);
    step(&mut engine, "prefill", 0, &[(0, 2, &[84, 111, 32, 98, 101]), (0, 4, &[79, 33])]).expect("a step");
    let row = |slot, position| model.layout().row(slot, position).expect("in range");
    let want: Vec<usize> = (0..5).map(|p| row(2, p)).chain((0..2).map(|p| row(4, p))).collect();
    assert_eq!(changed(&before, &rows(&engine, &model)), want);
}
