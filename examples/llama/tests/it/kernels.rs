//! A plain loop over the kernels, without the framework, gives the reference.

use crate::reference::{argmax, assert_close, references, shakespeare};
use llama_plugin::{
    LlamaConfig, Stored, Tokenizer, Weights,
    kernels::{Cache, Pages, Queries, add, attend_packed, gather, linear, rms_norm, rotary, silu_mul, store},
};

/// Pages in some order, for 192 tokens.
const PAGES: [i32; 4] = [2, 0, 3, 1];
const PAGE_SIZE: usize = 48;

struct Plain {
    config: LlamaConfig,
    weights: Weights,
    /// Keys and values of each layer.
    kv: Vec<(Vec<f32>, Vec<f32>)>,
}

impl Plain {
    fn new() -> Self {
        let config = LlamaConfig::from_dir(&shakespeare()).expect("a configuration");
        let weights = Weights::from_dir(&shakespeare(), &config).expect("weights");
        let cache = || vec![0.0; PAGES.len() * PAGE_SIZE * config.kv_dim()];
        let kv = (0..config.num_hidden_layers).map(|_| (cache(), cache())).collect();
        Plain { config, weights, kv }
    }

    /// The logits of the last token.
    fn forward(&mut self, tokens: &[u32], first: usize) -> Vec<f32> {
        let (c, w) = (&self.config, &self.weights);
        let positions: Vec<i32> = (first as i32..).take(tokens.len()).collect();
        let row = |p: &i32| PAGES[*p as usize / PAGE_SIZE] * PAGE_SIZE as i32 + *p % PAGE_SIZE as i32;
        let slot_mapping: Vec<i32> = positions.iter().map(row).collect();
        let ids: Vec<i32> = tokens.iter().map(|t| *t as i32).collect();
        let pages = Pages { indptr: &[0, PAGES.len() as i32], indices: &PAGES, page_size: PAGE_SIZE };
        let queries = Queries { indptr: &[0, tokens.len() as i32], positions: &positions };
        let sizes = c.heads();
        let frequencies = c.inverse_frequencies();
        let buffer = |width: usize| vec![0.0; tokens.len() * width];
        let normed = |x: &[f32], weight: &[f32]| {
            let mut y = vec![0.0; x.len()];
            rms_norm(x, weight, c.rms_norm_eps, &mut y);
            y
        };
        let product = |x: &[f32], weight: &Stored, inner: usize| {
            let weight = weight.widened();
            let mut y = vec![0.0; x.len() / inner * (weight.len() / inner)];
            linear(x, &weight, inner, &mut y);
            y
        };
        let turned = |x: &[f32]| {
            let mut y = vec![0.0; x.len()];
            rotary(x, &positions, &frequencies, &mut y);
            y
        };
        let mut h = buffer(c.hidden_size);
        gather(&w.embed.widened(), &ids, c.hidden_size, &mut h);
        for (layer, (keys, values)) in w.layers.iter().zip(&mut self.kv) {
            let x = normed(&h, &layer.input_norm);
            let q = turned(&product(&x, &layer.q, c.hidden_size));
            store(&turned(&product(&x, &layer.k, c.hidden_size)), &slot_mapping, c.kv_dim(), keys);
            store(&product(&x, &layer.v, c.hidden_size), &slot_mapping, c.kv_dim(), values);
            let mut attention = buffer(c.q_dim());
            attend_packed(&q, Cache { keys, values }, pages, queries, sizes, &mut attention);
            let mut mid = buffer(c.hidden_size);
            add(&h, &product(&attention, &layer.o, c.q_dim()), &mut mid);
            let x = normed(&mid, &layer.post_norm);
            let mut inner = buffer(c.intermediate_size);
            silu_mul(
                &product(&x, &layer.gate, c.hidden_size),
                &product(&x, &layer.up, c.hidden_size),
                &mut inner,
            );
            add(&mid, &product(&inner, &layer.down, c.intermediate_size), &mut h);
        }
        let last = &h[h.len() - c.hidden_size..];
        product(&normed(last, &w.norm), w.head.as_ref().unwrap_or(&w.embed), c.hidden_size)
    }
}

#[test]
fn every_prompt_gives_its_bytes() {
    let mut plain = Plain::new();
    let tokenizer = Tokenizer::for_model(&shakespeare(), plain.config.vocab_size).expect("bytes");
    for reference in references() {
        let mut tokens = tokenizer.encode(&reference.prompt).expect("Latin-1");
        let mut logits = plain.forward(&tokens, 0);
        assert_close(&logits, &reference.first_logits, 2e-3);
        for _ in 0..reference.new_tokens {
            tokens.push(argmax(&logits));
            logits = plain.forward(&tokens[tokens.len() - 1..], tokens.len() - 1);
        }
        assert_eq!(tokenizer.decode(&tokens).expect("bytes"), reference.greedy);
    }
}

#[test]
fn a_prompt_in_chunks_gives_the_same_bits_as_at_once() {
    let mut plain = Plain::new();
    let tokens = Tokenizer::bytes().encode("To be, or not to be, that is the question:").expect("Latin-1");
    let at_once = plain.forward(&tokens, 0);
    plain.kv.iter_mut().for_each(|(keys, values)| (keys.fill(f32::NAN), values.fill(f32::NAN)).0);
    let mut in_chunks = Vec::new();
    for (i, chunk) in tokens.chunks(5).enumerate() {
        in_chunks = plain.forward(chunk, i * 5);
    }
    assert_eq!(at_once, in_chunks);
}
