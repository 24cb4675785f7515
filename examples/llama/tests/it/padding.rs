//! Padded rows write to the padding page only.

use graph_core::{Engine, Label, RequestId, Resource, Resources};
use graph_host::Host;
use graph_resources::{KvPages, PADDING_PAGE, PagedKv};
use llama_plugin::Prefill;

use crate::{
    engine::{engine_with, ingest, options, step},
    reference::references,
};

/// The rows of keys and values, of all layers together, as bits.
fn rows(engine: &mut Engine<Host>) -> Vec<Vec<u32>> {
    let stream = engine.stream().clone();
    let mut shared = Resources::default();
    kv(engine).share(&mut shared);
    let pages: &KvPages<Host> = shared.get().expect("allocated");
    let mut rows = Vec::new();
    for layer in 0..pages.layers() {
        for cache in [pages.keys(layer), pages.values(layer)].map(|cache| cache.expect("a layer")) {
            let [count, width] = cache.dims();
            rows.resize(count, Vec::new());
            let data = cache.to_vec(&stream).expect("read back");
            for (row, values) in rows.iter_mut().zip(data.chunks(width)) {
                row.extend(values.iter().map(|v| v.to_bits()));
            }
        }
    }
    rows
}

fn kv(engine: &mut Engine<Host>) -> &PagedKv<Host> {
    engine.node("llama").expect("there").steps().get().expect("a cache")
}

/// The row of a request's token.
fn row(engine: &mut Engine<Host>, request: u64, token: usize) -> usize {
    let size = options().page_size;
    let stream = kv(engine).stream(RequestId(request), Label::MAIN).expect("it has tokens");
    stream.pages[token / size] as usize * size + token % size
}

fn changed(before: &[Vec<u32>], after: &[Vec<u32>]) -> Vec<usize> {
    (0..before.len()).filter(|i| before[*i] != after[*i]).collect()
}

#[test]
fn padded_decode_writes_its_rows_and_the_padding_page() {
    let mut engine = engine_with(options());
    ingest(&mut engine, 1..=5);
    for request in 1..=5 {
        step(&mut engine, "prefill", 0, &[(request, &[84, 111, 32])]).expect("a step");
    }
    let before = rows(&mut engine);
    // Five requests in the bucket of eight: three padded rows.
    let requests: [(u64, &[u32]); 5] = [(5, &[98]), (2, &[99]), (1, &[100]), (4, &[101]), (3, &[102])];
    step(&mut engine, "decode", 0, &requests).expect("a step");
    let padding = PADDING_PAGE * options().page_size;
    let mut want: Vec<usize> = (1..=5).map(|request| row(&mut engine, request, 3)).collect();
    want.sort_unstable();
    let after = rows(&mut engine);
    let got = changed(&before, &after);
    assert_eq!(got.into_iter().filter(|r| *r != padding).collect::<Vec<_>>(), want);

    // The captures and every padded step so far have written to one row of the padding page.
    let used: Vec<usize> = (0..after.len()).filter(|r| after[*r].iter().any(|v| *v != 0)).collect();
    let mut mine: Vec<usize> = (1..=5)
        .flat_map(|r| (0..4).map(move |token| (r, token)))
        .map(|(r, t)| row(&mut engine, r, t))
        .collect();
    mine.push(padding);
    mine.sort_unstable();
    assert_eq!(used, mine);
}

#[test]
fn padded_prefill_writes_its_rows_only() {
    for prefill in [Prefill::Piecewise, Prefill::BlockLoop] {
        let mut engine = engine_with(llama_plugin::LlamaOptions { prefill, ..options() });
        ingest(&mut engine, [2, 4]);
        let before = rows(&mut engine);
        let requests: [(u64, &[u32]); 2] = [(2, &[84, 111, 32, 98, 101]), (4, &[79, 33])];
        step(&mut engine, prefill.walk(), 0, &requests).expect("a step");
        let mut want: Vec<usize> = (0..5).map(|token| row(&mut engine, 2, token)).collect();
        want.extend((0..2).map(|token| row(&mut engine, 4, token)));
        want.sort_unstable();
        let padding = PADDING_PAGE * options().page_size;
        let got = changed(&before, &rows(&mut engine));
        assert_eq!(got.into_iter().filter(|r| *r != padding).collect::<Vec<_>>(), want, "{prefill:?}");
    }
}

#[test]
fn pages_come_back_and_a_stream_needs_what_its_tokens_need() {
    let mut engine = engine_with(llama_plugin::LlamaOptions { page_size: 4, pages: Some(9), ..options() });
    ingest(&mut engine, [1, 2]);
    let tokens: Vec<u32> = references()[0].prompt.bytes().cycle().take(17).map(u32::from).collect();
    step(&mut engine, "prefill", 0, &[(1, &tokens)]).expect("five pages");
    assert_eq!((kv(&mut engine).counts().total, kv(&mut engine).counts().free), (9, 4));
    let text = step(&mut engine, "prefill", 0, &[(2, &tokens)]).expect_err("one short").to_string();
    assert!(text.contains("1 page(s) short for request 2"), "{text}");
    kv(&mut engine).assert_consistent();
    engine.node("llama").expect("there").remove(RequestId(1));
    step(&mut engine, "prefill", 0, &[(2, &tokens)]).expect("they came back");
    assert_eq!((kv(&mut engine).counts().free, kv(&mut engine).counts().peak), (4, 5));
}
