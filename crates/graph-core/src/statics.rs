//! The static-input factory: the sizes of a region's static buffers at a shape.

use crate::{
    ErrorKind, IoSchema, Result, Wire,
    tensor::{MAX_RANK, all_axes},
};

/// What `make_static_inputs` fills in: one entry per declared input and output, in declared order.
///
/// ```
/// use graph_core::{Shape, Statics};
/// let mut statics = Statics::default();
/// let shape = Shape::batched(4, 16);
/// statics.input("patches", [shape.total_tokens, 4]);
/// statics.output("logits", [shape.bs, 10]);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statics {
    pub(crate) inputs: Vec<StaticBuffer>,
    pub(crate) outputs: Vec<StaticBuffer>,
}

/// One static buffer at one shape.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StaticBuffer {
    pub(crate) name: &'static str,
    pub(crate) dims: [usize; MAX_RANK],
    pub(crate) rank: usize,
    pub(crate) wire: Option<Wire>,
}

impl Statics {
    /// An input's size.
    ///
    /// More than four axes do not compile:
    /// ```compile_fail
    /// graph_core::Statics::default().input("x", [1, 2, 3, 4, 5]);
    /// ```
    pub fn input<const R: usize>(&mut self, name: &'static str, dims: [usize; R]) -> &mut Self {
        self.inputs.push(StaticBuffer::new(name, dims, None));
        self
    }

    /// An input's size, and the wire that its buffer is.
    pub fn wired_input<const R: usize>(
        &mut self,
        name: &'static str,
        dims: [usize; R],
        wire: Wire,
    ) -> &mut Self {
        self.inputs.push(StaticBuffer::new(name, dims, Some(wire)));
        self
    }

    /// An output's size.
    pub fn output<const R: usize>(&mut self, name: &'static str, dims: [usize; R]) -> &mut Self {
        self.outputs.push(StaticBuffer::new(name, dims, None));
        self
    }

    /// An output's size, and the wire that its buffer is.
    pub fn wired_output<const R: usize>(
        &mut self,
        name: &'static str,
        dims: [usize; R],
        wire: Wire,
    ) -> &mut Self {
        self.outputs.push(StaticBuffer::new(name, dims, Some(wire)));
        self
    }

    /// Forgets all entries and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.inputs.clear();
        self.outputs.clear();
    }

    /// Every declared input and output, once, in order, at its declared rank.
    pub(crate) fn check(&self, owner: &str, inputs: &[IoSchema], outputs: &[IoSchema]) -> Result<()> {
        let sides = [("input", &self.inputs, inputs), ("output", &self.outputs, outputs)];
        for (what, got, declared) in sides {
            let names = || declared.iter().map(|d| d.name).collect::<Vec<_>>().join(", ");
            if let Some((g, d)) = got.iter().zip(declared).find(|(g, d)| g.name == d.name && g.rank != d.rank)
            {
                return Err(ErrorKind::WrongType {
                    owner: owner.into(),
                    input: g.name.into(),
                    want_elem: d.elem.name(),
                    want_rank: d.rank,
                    got_elem: d.elem.name(),
                    got_rank: g.rank,
                }
                .into());
            }
            let differs = got.iter().zip(declared).find(|(g, d)| g.name != d.name).map(|(g, _)| g.name);
            if differs.is_some() || got.len() != declared.len() {
                let beyond = got.get(declared.len()).map_or("(end of list)", |g| g.name);
                return Err(ErrorKind::UnknownName {
                    owner: format!("{owner} (make_static_inputs)"),
                    what,
                    got: differs.unwrap_or(beyond).into(),
                    known: format!("{}, each once and in this order", names()),
                }
                .into());
            }
        }
        Ok(())
    }
}

impl StaticBuffer {
    fn new<const R: usize>(name: &'static str, d: [usize; R], wire: Option<Wire>) -> Self {
        StaticBuffer { name, dims: all_axes(d), rank: R, wire }
    }
}
