//! The format of the vectors, and reading a folder of them.

use std::{collections::BTreeMap, fs, path::Path};

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// What is wrong with a vector or a folder, in words.
pub(crate) type Problem = String;

/// One file of vectors.
pub(crate) struct File {
    /// Its name.
    pub(crate) name: String,
    /// The inputs and outcomes of runners, by name; parsed where a vector asks for one.
    pub(crate) setups: BTreeMap<String, Value>,
    /// The vectors, or why one cannot be read.
    pub(crate) vectors: Vec<Result<Vector, Problem>>,
}

/// One question to the reference implementation and its answer.
#[derive(Debug)]
pub(crate) struct Vector {
    /// What was called.
    pub(crate) function: String,
    /// With which arguments.
    pub(crate) args: Value,
    /// What came of it.
    pub(crate) want: Want,
}

/// What the reference implementation did.
#[derive(Debug)]
pub(crate) enum Want {
    /// It returned this; `null` means that it runs eagerly, or that there is no value.
    Value(Value),
    /// It raised an exception of this class.
    Raises(String),
}

#[derive(Deserialize)]
struct RawFile {
    #[serde(default)]
    setups: BTreeMap<String, Value>,
    vectors: Vec<Value>,
}

/// A bucket's key as the vectors write it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Bucket {
    /// The walk that it is filed under.
    pub(crate) walk: String,
    /// Requests.
    pub(crate) bs: usize,
    /// Tokens.
    pub(crate) tokens: usize,
    /// Additional key info.
    #[serde(default)]
    pub(crate) key: Option<Key>,
}

/// Additional key info.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Key {
    /// A flag.
    Bool(bool),
    /// A number.
    Int(i64),
    /// A word.
    Str(String),
}

impl Vector {
    fn read(value: &Value) -> Result<Vector, Problem> {
        let field = |name: &str| value.get(name).ok_or_else(|| format!("a vector has no `{name}`: {value}"));
        let text = |name: &str, value: &Value| {
            value.as_str().map(str::to_string).ok_or_else(|| format!("`{name}` is not a string: {value}"))
        };
        let want = match value.get("error") {
            Some(class) => Want::Raises(text("error", class)?),
            None => Want::Value(field("want")?.clone()),
        };
        Ok(Vector { function: text("fn", field("fn")?)?, args: field("args")?.clone(), want })
    }

    /// The arguments as a type.
    pub(crate) fn args<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        T::deserialize(&self.args).map_err(|e| format!("cannot read the arguments: {e}"))
    }

    /// The value that the reference implementation returned.
    pub(crate) fn value(&self) -> Result<&Value, Problem> {
        match &self.want {
            Want::Value(value) => Ok(value),
            Want::Raises(class) => Err(format!("the vector wants {class}, where a value was expected")),
        }
    }
}

/// Reads every `.json` file of a folder, in the order of their names.
pub(crate) fn read_folder(folder: &Path) -> Result<Vec<Result<File, Problem>>, Problem> {
    let entries =
        fs::read_dir(folder).map_err(|e| format!("cannot read folder {}: {e}", folder.display()))?;
    let mut paths = entries
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| format!("cannot read folder {}: {e}", folder.display()))?;
    paths.retain(|path| path.extension().is_some_and(|e| e == "json"));
    paths.sort();
    Ok(paths.iter().map(|path| read_file(path)).collect())
}

fn read_file(path: &Path) -> Result<File, Problem> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let text = fs::read_to_string(path).map_err(|e| format!("{name}: {e}"))?;
    let raw: RawFile = serde_json::from_str(&text).map_err(|e| format!("{name}: {e}"))?;
    Ok(File { name, setups: raw.setups, vectors: raw.vectors.iter().map(Vector::read).collect() })
}
