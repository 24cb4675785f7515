//! One safetensors file, read tensor by tensor.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
};

use half::{bf16, f16};
use safetensors::{
    Dtype, SafeTensorError, SafeTensors,
    tensor::{Metadata, TensorInfo},
};

use crate::{ModelError, Stored};

/// One axis of a tensor: the field of the configuration that gives it, and its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim(pub &'static str, pub usize);

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.0, self.1)
    }
}

/// The length of a header's length.
const PREFIX: usize = size_of::<u64>();

pub(crate) struct SafetensorsFile {
    pub(crate) path: PathBuf,
    bytes: Vec<u8>,
    data_at: usize,
    metadata: Metadata,
}

impl SafetensorsFile {
    pub(crate) fn open(path: PathBuf) -> Result<Self, ModelError> {
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(cause) => return Err(ModelError::Read { file: path, cause }),
        };
        match SafeTensors::read_metadata(&bytes) {
            Ok((header, metadata)) => Ok(SafetensorsFile { data_at: PREFIX + header, path, bytes, metadata }),
            Err(cause) => Err(damage(&path, &bytes, cause)),
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        self.metadata.offset_keys()
    }

    pub(crate) fn has(&self, tensor: &str) -> bool {
        self.metadata.info(tensor).is_some()
    }

    /// A tensor of exactly this shape.
    pub(crate) fn read(&self, tensor: &str, must: &[Dim]) -> Result<Stored, ModelError> {
        let (file, tensor_name) = (self.path.clone(), tensor.to_string());
        let Some(info) = self.metadata.info(tensor) else {
            return Err(ModelError::MissingTensor { file, tensor: tensor_name, must: must.into() });
        };
        if !info.shape.iter().eq(must.iter().map(|dim| &dim.1)) {
            let got = info.shape.clone();
            return Err(ModelError::WrongShape { file, tensor: tensor_name, got, must: must.into() });
        }
        numbers(info, self.data(info)).ok_or(ModelError::WrongDtype {
            file,
            tensor: tensor_name,
            got: info.dtype,
        })
    }

    /// The bytes of a tensor; the header was checked against the length of the file when it was opened.
    fn data(&self, info: &TensorInfo) -> &[u8] {
        &self.bytes[self.data_at + info.data_offsets.0..self.data_at + info.data_offsets.1]
    }
}

fn numbers(info: &TensorInfo, data: &[u8]) -> Option<Stored> {
    fn each<const N: usize, T>(data: &[u8], number: impl Fn([u8; N]) -> T) -> Vec<T> {
        data.as_chunks::<N>().0.iter().map(|bytes| number(*bytes)).collect()
    }
    match info.dtype {
        Dtype::F32 => Some(Stored::F32(each(data, f32::from_le_bytes))),
        Dtype::F16 => Some(Stored::F32(each(data, |bytes| f16::from_le_bytes(bytes).to_f32()))),
        Dtype::BF16 => Some(Stored::Bf16(each(data, bf16::from_le_bytes))),
        _ => None,
    }
}

/// Tells a file that ends too early from one that is something else.
fn damage(path: &Path, bytes: &[u8], cause: SafeTensorError) -> ModelError {
    let file = path.to_path_buf();
    let got = bytes.len() as u64;
    match announced(bytes) {
        Some(must) if got < must => ModelError::Truncated { file, got, must },
        _ => ModelError::NotSafetensors { file, cause },
    }
}

/// The length of the file by its own header, as far as it can be read.
fn announced(bytes: &[u8]) -> Option<u64> {
    let Some(prefix) = bytes.first_chunk::<PREFIX>() else { return Some(PREFIX as u64) };
    let header = u64::from_le_bytes(*prefix);
    let data_at = header.checked_add(PREFIX as u64)?;
    let Some(header) = bytes.get(PREFIX..usize::try_from(data_at).ok()?) else {
        // Most files of another kind begin with bytes that make a length beyond all reason.
        return (header < 1 << 32).then_some(data_at);
    };
    let header: serde_json::Value = serde_json::from_slice(header).ok()?;
    let ends = header.as_object()?.values().filter_map(|t| t.get("data_offsets")?.get(1)?.as_u64());
    data_at.checked_add(ends.max()?)
}
