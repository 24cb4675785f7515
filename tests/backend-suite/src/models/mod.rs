//! The models' references through an engine, on any backend.

pub mod digits;
pub mod llama;

use graph_core::Registry;

/// One linked node with its regions.
///
/// # Panics
/// Two linked entries of one name.
pub fn registry(node: &str) -> Registry {
    let linked = Registry::collect().expect("no duplicates");
    let regions = linked.regions().iter().copied().filter(|entry| entry.schema.node == node);
    let nodes = linked.nodes().iter().copied().filter(|entry| entry.name == node);
    Registry::from_entries(regions.collect(), nodes.collect(), Vec::new()).expect("no duplicates")
}
