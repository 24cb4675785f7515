//! Both models with activations in bf16, and the llama model with weights of either element.

use std::{fs, path::Path};

use digits_plugin::{Activations, DigitsOptions};
use graph_core::{Backend, BucketLists, Engine, LoadCx, Options, Submodule, bf16};
use graph_cuda::Cuda;
use llama_plugin::{LlamaConfig, LlamaModel, LlamaOptions, Prefill};
use plugins_on_cuda::{
    models::{
        digits::{IMAGE, check_within, classify, tokens},
        llama::{check_first, forced, references, serve},
    },
    near, open, registry, same, session,
};
use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use tempfile::TempDir;

fn llama(prefill: Prefill, activations: Activations, dir: &Path) -> Engine<Cuda> {
    let base = LlamaOptions { max_requests: 6, max_context: 256, dir: dir.into(), ..LlamaOptions::default() };
    let options = Options::default().with(LlamaOptions { prefill, activations, ..base });
    Engine::builder(open(None)).options(options).build(&registry("llama")).expect("an engine")
}

/// A copy of a model with its weights rounded to bf16, in a file of that element or of f32: the same numbers.
fn rounded(bundled: &Path, element: Dtype) -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    fs::copy(bundled.join("config.json"), dir.path().join("config.json")).expect("copied");
    let bytes = fs::read(bundled.join("model.safetensors")).expect("read");
    let of = |(name, view): (String, TensorView<'_>)| {
        let numbers: Vec<bf16> = match view.dtype() {
            Dtype::BF16 => view.data().as_chunks::<2>().0.iter().map(|b| bf16::from_le_bytes(*b)).collect(),
            _ => {
                let wide = view.data().as_chunks::<4>().0.iter();
                wide.map(|b| bf16::from_f32(f32::from_le_bytes(*b))).collect()
            }
        };
        let data: Vec<u8> = match element {
            Dtype::BF16 => numbers.iter().flat_map(|n| n.to_le_bytes()).collect(),
            _ => numbers.iter().flat_map(|n| n.to_f32().to_le_bytes()).collect(),
        };
        (name, view.shape().to_vec(), data)
    };
    let tensors: Vec<_> =
        SafeTensors::deserialize(&bytes).expect("safetensors").tensors().into_iter().map(of).collect();
    let views = tensors.iter().map(|(name, shape, data)| {
        (name, TensorView::new(element, shape.clone(), data).expect("as many numbers"))
    });
    let file = safetensors::serialize(views, None).expect("serializes");
    fs::write(dir.path().join("model.safetensors"), file).expect("written");
    dir
}

#[test]
fn digits_in_bf16_captured_and_eager_give_every_digit_to_the_same_bit() {
    let Some(session) = session("digits_in_bf16_captured_and_eager_give_every_digit_to_the_same_bit") else {
        return;
    };
    let options = DigitsOptions { activations: Activations::Bf16, ..DigitsOptions::default() };
    let dir = options.dir.clone();
    let builder = Engine::builder(open(None)).options(Options::default().with(options));
    let mut engine = builder.build(&registry("digits")).expect("an engine");
    let tokens = tokens(&dir);
    let captured = classify(&mut engine, &tokens, 32).expect("every image");
    assert_eq!(check_within(&dir, &captured, 5e-2), Ok(()));
    assert!(check_within(&dir, &captured, 1e-4).is_err(), "nothing was rounded");
    let alone = classify(&mut engine, &tokens[..5 * IMAGE], 1).expect("some images");
    assert_eq!(same("alone", &alone, &captured[..50]), Ok(()));
    let stats = engine.stats();
    let region = stats.iter().find(|s| s.name == "classify").expect("registered");
    assert!(region.failures.is_empty() && region.eager.is_empty(), "{:?}", region.eager);
    engine.node("digits").expect("there").set_eager(true);
    let eager = classify(&mut engine, &tokens[..40 * IMAGE], 7).expect("some images");
    assert_eq!(same("eager", &eager, &captured[..400]), Ok(()));
    drop(engine);
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn llama_in_bf16_captured_and_eager_give_the_same_bits_near_the_reference() {
    let Some(session) = session("llama_in_bf16_captured_and_eager_give_the_same_bits_near_the_reference")
    else {
        return;
    };
    let dir = LlamaOptions::default().dir;
    let prompts = references(&dir);
    let mut engine = llama(Prefill::Piecewise, Activations::Bf16, &dir);
    let captured = serve(&mut engine, Prefill::Piecewise, &prompts, 12).expect("every prompt");
    assert_eq!(check_first(&dir, &captured), Ok(()));
    for stats in engine.stats() {
        assert!(stats.failures.is_empty(), "{}: {:?}", stats.name, stats.failures);
        assert!(stats.eager.is_empty(), "{}: {:?}", stats.name, stats.eager);
    }
    let alone = serve(&mut engine, Prefill::Piecewise, &prompts[..1], 8).expect("a prompt");
    assert_eq!(alone[0].1[..], captured[0].1[..8]);
    let got = forced(&mut engine, Prefill::Piecewise, &prompts, 20).expect("every step");
    engine.node("llama").expect("linked").set_eager(true);
    let eager = serve(&mut engine, Prefill::Piecewise, &prompts, 8).expect("every prompt");
    assert!(eager.iter().zip(&captured).all(|(eager, captured)| eager.1[..] == captured.1[..8]));
    drop(engine);

    let mut in_f32 = llama(Prefill::Piecewise, Activations::F32, &dir);
    let want = forced(&mut in_f32, Prefill::Piecewise, &prompts, 20).expect("every step");
    assert_eq!(near("over the reference's text", &got, &want, 2e-1, 5e-2), Ok(()));
    assert!(near("over the reference's text", &got, &want, 2e-1, 1e-2).is_err(), "nothing was rounded");
    drop(in_f32);

    let mut block_loop = llama(Prefill::BlockLoop, Activations::Bf16, &dir);
    let served = serve(&mut block_loop, Prefill::BlockLoop, &prompts, 4).expect("every prompt");
    assert!(served.iter().zip(&captured).all(|(served, captured)| served.1[..] == captured.1[..4]));
    drop(block_loop);
    assert!(session.live().is_zero(), "{:?}", session.live());
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn weights_in_f32_give_the_same_bits_as_the_same_weights_in_bf16() {
    let Some(session) = session("weights_in_f32_give_the_same_bits_as_the_same_weights_in_bf16") else {
        return;
    };
    let bundled = LlamaOptions::default().dir;
    let wide = rounded(&bundled, Dtype::F32);
    let prompts = references(&bundled);
    for activations in [Activations::F32, Activations::Bf16] {
        let of = |dir| {
            let mut engine = llama(Prefill::Piecewise, activations, dir);
            serve(&mut engine, Prefill::Piecewise, &prompts[..2], 4).expect("two prompts")
        };
        assert_eq!(of(&bundled), of(wide.path()), "{activations:?}");
    }

    let bundled = DigitsOptions::default().dir;
    let (wide, half) = (rounded(&bundled, Dtype::F32), rounded(&bundled, Dtype::BF16));
    let tokens = tokens(&bundled);
    for activations in [Activations::F32, Activations::Bf16] {
        let of = |dir: &Path| {
            let lists =
                BucketLists::from_json(r#"{"digits.classify": {"batch_sizes": [2]}}"#).expect("sizes");
            let options = Options::default().with(DigitsOptions { dir: dir.into(), activations });
            let builder = Engine::builder(open(None)).options(options).bucket_lists(lists);
            let mut engine = builder.build(&registry("digits")).expect("an engine");
            classify(&mut engine, &tokens[..4 * IMAGE], 2).expect("some images")
        };
        assert_eq!(same("digits", &of(half.path()), &of(wide.path())), Ok(()), "{activations:?}");
    }
    assert!(session.faults().is_empty(), "{:?}", session.faults());
}

#[test]
fn weights_in_bf16_take_half_the_memory() {
    let Some(session) = session("weights_in_bf16_take_half_the_memory") else { return };
    let bundled = LlamaOptions::default().dir;
    let wide = rounded(&bundled, Dtype::F32);
    let bytes = |dir: &Path| {
        let (device, options) = (open(None), LlamaOptions { dir: dir.into(), ..LlamaOptions::default() });
        let (stream, options) = (device.stream().expect("a stream"), Options::default().with(options));
        let cx = LoadCx { device: &device, stream: &stream, options: &options, node: "llama" };
        let model = LlamaModel::<Cuda>::load(&cx).expect("a model");
        let live = session.live().device_bytes;
        drop(model);
        live
    };
    let c = LlamaConfig::from_dir(&bundled).expect("a configuration");
    let layer = 2 * c.hidden_size * (c.q_dim() + c.kv_dim()) + 3 * c.hidden_size * c.intermediate_size;
    let matrices = c.vocab_size * c.hidden_size + c.num_hidden_layers * layer;
    assert_eq!(bytes(wide.path()) - bytes(&bundled), 2 * matrices as u64);
}
