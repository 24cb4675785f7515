//! Sizes that the engine's author replaces before capture.

use digits_plugin::{Classify, TOKENS};
use graph_core::{
    BucketLists, CaptureOptions, Dims, Engine, EngineBuilder, ErrorKind, Miss, PiecewiseBatchedConfig,
    Registry, Result, Runner,
};
use graph_host::Host;

fn regions_only() -> Registry {
    Registry::from_entries(Registry::collect().unwrap().regions().to_vec(), vec![], vec![]).unwrap()
}

fn runner(builder: EngineBuilder<'_, Host>) -> Result<Runner<Classify<Host>>> {
    builder.build(&regions_only())?.runners().take_one()
}

fn images(bs: usize) -> Dims {
    Dims { bs, tokens: bs * TOKENS }
}

#[test]
fn by_builder() {
    let config = PiecewiseBatchedConfig::new(TOKENS).capture_batch_sizes([3, 7]);
    let runner = runner(Engine::builder(Host::new()).region_config("digits.classify", config)).unwrap();
    assert_eq!(runner.bucket_for(images(4)), Ok(images(7)));
    assert_eq!(runner.bucket_for(images(8)), Err(Miss::TooManyRequests { bs: 8, largest: 7 }));
}

#[test]
fn by_list() {
    let lists = BucketLists::from_json(r#"{"digits.classify": {"batch_sizes": [9, 5, 5]}}"#).unwrap();
    let runner = runner(Engine::builder(Host::new()).bucket_lists(lists)).unwrap();
    let captured: Vec<Dims> = runner.stats().buckets.iter().map(|b| b.dims).collect();
    assert_eq!(captured, [images(9), images(5)], "largest first, without duplicates");
}

#[test]
fn a_name_that_nothing_has() {
    let config = PiecewiseBatchedConfig::new(TOKENS);
    let error = runner(Engine::builder(Host::new()).region_config("digits.clasify", config)).err().unwrap();
    assert!(matches!(error.kind(), ErrorKind::UnknownName { .. }));
    assert!(error.to_string().ends_with("known: digits.classify"), "{error}");
}

/// Without sizes of its own a configuration takes the engine's default sizes.
#[test]
fn default_sizes_are_the_engines() {
    let config = PiecewiseBatchedConfig::new(TOKENS);
    let options = CaptureOptions { default_batch_sizes: vec![2, 6], ..CaptureOptions::default() };
    let builder =
        Engine::builder(Host::new()).region_config("digits.classify", config).capture_options(options);
    assert_eq!(runner(builder).unwrap().bucket_for(images(3)), Ok(images(6)));
}
