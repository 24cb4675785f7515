//! Invariant 12: the order of registration never matters, and duplicates name both places.

use graph_core::{ErrorKind, Location, NodeEntry, RegionEntry, Registry, Schema};

fn region(node: &'static str, name: &'static str, line: u32) -> &'static RegionEntry {
    let schema: &'static Schema = Box::leak(Box::new(Schema::new(node, name, "", &[], &[])));
    let at = Location { krate: "plugin", file: "src/lib.rs", line };
    Box::leak(Box::new(RegionEntry { schema, at, on: &[] }))
}

fn node(name: &'static str) -> &'static NodeEntry {
    let at = Location { krate: "plugin", file: "src/node.rs", line: 7 };
    Box::leak(Box::new(NodeEntry { name, forwards: &[], at, on: &[] }))
}

#[test]
fn invariant_12_order_never_matters() {
    let mut entries =
        vec![region("b", "y", 1), region("a", "z", 2), region("b", "x", 3), region("a", "a", 4)];
    let names = |r: &Registry| r.regions().iter().map(|e| e.schema.full_name()).collect::<Vec<_>>();
    for _ in 0..entries.len() {
        entries.rotate_left(1);
        let registry = Registry::from_entries(entries.clone(), vec![node("b"), node("a")], vec![]).unwrap();
        assert_eq!(names(&registry), ["a.a", "a.z", "b.x", "b.y"]);
        assert_eq!(registry.nodes().iter().map(|n| n.name).collect::<Vec<_>>(), ["a", "b"]);
    }
}

#[test]
fn invariant_12_duplicates_name_both_places() {
    for entries in
        [[region("a", "x", 10), region("a", "x", 20)], [region("a", "x", 20), region("a", "x", 10)]]
    {
        let error = Registry::from_entries(entries.to_vec(), vec![], vec![]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Duplicate { what: "region", .. }));
        assert_eq!(
            error.to_string(),
            "two regions are named `a.x`: plugin src/lib.rs:10 and plugin src/lib.rs:20; rename one of them"
        );
    }
}

#[test]
fn invariant_12_a_missing_plugin_says_how_to_link_it() {
    let registry = Registry::from_entries(vec![], vec![node("digits")], vec![]).unwrap();
    assert_eq!(
        registry.node("llama").unwrap_err().to_string(),
        "node `llama` is not registered; link its plugin, for example `use llama_plugin as _;`. Registered: digits"
    );
}

#[test]
fn invariant_12_two_regions_of_one_full_name_are_duplicates() {
    let entries = vec![region("a", "b.c", 1), region("a.b", "c", 2)];
    let error = Registry::from_entries(entries, vec![], vec![]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Duplicate { name, .. } if name == "a.b.c"), "{error}");
}
