//! The exported functions of the CUDA driver API, by group.
mod context;
mod copy;
mod device;
mod error;
mod event;
mod graph;
mod memory;
mod module;
mod node;
mod proc_address;
mod stream;

use super::probe::Function;

/// Every driver function, in the order of the groups.
pub(crate) fn functions() -> impl Iterator<Item = &'static Function> {
    let groups = [
        device::FUNCTIONS,
        context::FUNCTIONS,
        memory::FUNCTIONS,
        copy::FUNCTIONS,
        stream::FUNCTIONS,
        event::FUNCTIONS,
        graph::FUNCTIONS,
        node::FUNCTIONS,
        module::FUNCTIONS,
        error::FUNCTIONS,
        proc_address::FUNCTIONS,
    ];
    groups.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    /// The manual's table and the exported functions are the same list.
    #[test]
    fn the_manual_lists_every_function() {
        let manual = include_str!("../../../FUNCTIONS.md");
        let cells = manual.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
        let mut listed: Vec<&str> =
            cells.flat_map(|cell| cell.split('`').filter(|word| word.starts_with("cu"))).collect();
        let mut exported: Vec<&str> = super::functions().map(|function| function.probe.name).collect();
        listed.sort_unstable();
        exported.sort_unstable();
        assert_eq!(listed, exported);
    }
}
