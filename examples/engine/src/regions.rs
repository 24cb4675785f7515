//! `engine regions`: what the plugins registered.

use std::io::Write;

use anyhow::Result;
use graph_core::{IoSchema, Location, On, Registry, Schema};
use serde_json::{Value, json};

use crate::{cli::RegionsArgs, report};

pub(crate) fn run(args: &RegionsArgs, out: &mut impl Write) -> Result<()> {
    let registry = Registry::collect()?;
    if args.json {
        writeln!(out, "{}", json!({ "regions": rows(&registry).map(|r| r.json()).collect::<Vec<_>>() }))?;
    } else {
        writeln!(out, "{}", list(&registry))?;
    }
    Ok(())
}

/// The table of all regions and whole forwards.
pub(crate) fn list(registry: &Registry) -> String {
    let mut table =
        report::table(&["name", "node", "kind", "buckets", "inputs", "outputs", "backends", "written at"]);
    for r in rows(registry) {
        let io = |all: &[IoSchema], padded: bool| {
            let line = |io: &IoSchema| match padded {
                true => {
                    format!("{}: {} {}, {}, pad {}", io.name, io.elem.name(), io.dims, io.side.name(), io.pad)
                }
                false => format!("{}: {} {}", io.name, io.elem.name(), io.dims),
            };
            all.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        table.add_row([
            r.schema.name.to_string(),
            r.schema.node.into(),
            r.kind.into(),
            r.buckets(),
            io(r.schema.inputs, true),
            io(r.schema.outputs, false),
            r.backends().join(", "),
            r.at.to_string(),
        ]);
    }
    table.to_string()
}

/// A region or a whole forward.
struct Row {
    schema: &'static Schema,
    kind: &'static str,
    walks: &'static [&'static str],
    at: &'static Location,
    on: &'static [On],
}

fn rows(registry: &Registry) -> impl Iterator<Item = Row> + '_ {
    let regions = registry.regions().iter().map(|e| Row {
        schema: e.schema,
        kind: if e.schema.buckets.starts_with("batched") { "batched region" } else { "packed region" },
        walks: &[],
        at: &e.at,
        on: e.on,
    });
    let forwards = registry.nodes().iter().flat_map(|e| {
        e.forwards.iter().map(|f| Row {
            schema: &f.schema,
            kind: kind(&f.schema),
            walks: f.walks,
            at: &e.at,
            on: e.on,
        })
    });
    regions.chain(forwards)
}

/// A forward whose sizes are declared is captured as a whole.
fn kind(schema: &Schema) -> &'static str {
    match schema.buckets.starts_with("batched") || schema.buckets.starts_with("packed") {
        true => "whole forward",
        false => "eager forward",
    }
}

impl Row {
    fn buckets(&self) -> String {
        match self.walks {
            [] => self.schema.buckets.into(),
            walks if self.schema.buckets.is_empty() => format!("walk {}", walks.join(", ")),
            walks => format!("walk {}: {}", walks.join(", "), self.schema.buckets),
        }
    }

    fn backends(&self) -> Vec<&'static str> {
        self.on.iter().map(On::backend).collect()
    }

    fn json(&self) -> Value {
        let io = |all: &[IoSchema]| -> Vec<Value> {
            all.iter()
                .map(|io| {
                    json!({
                        "name": io.name, "element": io.elem.name(), "shape": io.dims,
                        "side": io.side.name(), "padding": io.pad.to_string(),
                    })
                })
                .collect()
        };
        json!({
            "name": self.schema.name, "node": self.schema.node, "kind": self.kind, "walks": self.walks,
            "buckets": self.schema.buckets, "inputs": io(self.schema.inputs),
            "outputs": io(self.schema.outputs), "backends": self.backends(),
            "crate": self.at.krate, "file": self.at.file, "line": self.at.line,
        })
    }
}
