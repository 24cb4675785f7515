//! Inputs of a call: real data whose rows all differ, and dirt to find out what a call leaves alone.

use graph_core::{HostValue, Result, Source};
use graph_host::Host;

use crate::vectors::Problem;

/// What every byte of a static buffer is before the step.
pub(crate) const DIRT: u8 = 0xEE;

/// An input by name. `x` is made of bytes, every other input of words.
pub(crate) struct Data {
    /// Its name.
    pub(crate) name: String,
    /// What is in it.
    pub(crate) value: HostValue,
}

impl Data {
    /// Data of which no two rows are the same.
    pub(crate) fn real(name: &str, dims: &[usize]) -> Result<Data> {
        let len: usize = dims.iter().product();
        let value = match name {
            "x" => {
                let bytes: Vec<u8> = (0..len).map(|i| (i / 8 + 1).to_le_bytes()[i % 8]).collect();
                HostValue::new(&bytes, dims)?
            }
            _ => HostValue::new(&(1..).take(len).collect::<Vec<u32>>(), dims)?,
        };
        Ok(Data { name: name.into(), value })
    }

    /// Data that a later step can be told from.
    pub(crate) fn dirt(name: &str, dims: &[usize]) -> Result<Data> {
        let len = dims.iter().product();
        let value = match name {
            "x" => HostValue::new(&vec![DIRT; len], dims)?,
            _ => HostValue::new(&vec![u32::from_ne_bytes([DIRT; 4]); len], dims)?,
        };
        Ok(Data { name: name.into(), value })
    }

    /// To pass to a call.
    pub(crate) fn source(&self) -> std::result::Result<Source<'_, Host>, Problem> {
        Source::of_value(&self.value)
            .ok_or_else(|| format!("input `{}` has {} axes", self.name, self.value.dims().len()))
    }
}
