//! The weights of a model: one safetensors file, or several with an index.

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{Dim, ModelError, Stored, read_json, safetensors_file::SafetensorsFile};

/// `model.safetensors`, or the files that `model.safetensors.index.json` names.
pub struct TensorFiles {
    /// What a message about a tensor that no file has should name.
    whole: PathBuf,
    files: Vec<SafetensorsFile>,
    /// Which file each tensor is in.
    place: HashMap<String, usize>,
}

#[derive(Deserialize)]
struct Index {
    weight_map: BTreeMap<String, String>,
}

impl TensorFiles {
    /// Opens the weights of a folder.
    pub fn open(dir: &Path) -> Result<Self, ModelError> {
        let (single, index) = (dir.join("model.safetensors"), dir.join("model.safetensors.index.json"));
        if single.exists() || !index.exists() {
            return Self::single(single);
        }
        Self::sharded(dir, index)
    }

    fn single(path: PathBuf) -> Result<Self, ModelError> {
        let file = SafetensorsFile::open(path.clone())?;
        let place = file.names().into_iter().map(|name| (name, 0)).collect();
        Ok(TensorFiles { whole: path, files: vec![file], place })
    }

    fn sharded(dir: &Path, index: PathBuf) -> Result<Self, ModelError> {
        let Index { weight_map } = read_json(&index)?;
        let mut files: Vec<SafetensorsFile> = Vec::new();
        let mut place = HashMap::new();
        for (tensor, shard) in weight_map {
            if Path::new(&shard).file_name().is_none_or(|name| name != shard.as_str()) {
                return Err(ModelError::WrongShard { file: index, tensor, got: shard });
            }
            let path = dir.join(shard);
            let at = match files.iter().position(|file| file.path == path) {
                Some(at) => at,
                None => {
                    files.push(SafetensorsFile::open(path)?);
                    files.len() - 1
                }
            };
            place.insert(tensor, at);
        }
        Ok(TensorFiles { whole: index, files, place })
    }

    /// A tensor of exactly this shape, widened to `f32`.
    pub fn read(&self, tensor: &str, must: &[Dim]) -> Result<Vec<f32>, ModelError> {
        self.read_stored(tensor, must).map(Stored::into_f32)
    }

    /// A tensor of exactly this shape, in bf16 where the file has it so.
    pub fn read_stored(&self, tensor: &str, must: &[Dim]) -> Result<Stored, ModelError> {
        match self.place.get(tensor) {
            Some(at) => self.files[*at].read(tensor, must),
            None => Err(ModelError::MissingTensor {
                file: self.whole.clone(),
                tensor: tensor.into(),
                must: must.into(),
            }),
        }
    }

    /// Whether there is such a tensor.
    pub fn has(&self, tensor: &str) -> bool {
        self.place.get(tensor).is_some_and(|at| self.files[*at].has(tensor))
    }

    /// The names of all tensors, sorted.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.place.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// The file that messages about all weights name.
    pub fn path(&self) -> &Path {
        &self.whole
    }
}
