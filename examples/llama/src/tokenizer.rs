//! Text to tokens and back: bytes, or the folder's `tokenizer.json`.

use std::path::{Path, PathBuf};

/// The tokenizer of a model's folder.
///
/// Without a `tokenizer.json`, tokens are bytes: one character each, in Latin-1.
///
/// ```
/// # use llama_plugin::Tokenizer;
/// let bytes = Tokenizer::bytes();
/// assert_eq!(bytes.encode("né").unwrap(), [110, 233]);
/// assert_eq!(bytes.decode(&[110, 233]).unwrap(), "né");
/// assert!(bytes.encode("€").is_err());
/// ```
pub struct Tokenizer(Kind);

enum Kind {
    Bytes,
    #[cfg(feature = "tokenizers")]
    Json(Box<tokenizers::Tokenizer>),
}

/// Text or tokens that a tokenizer does not know, or a tokenizer that cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// A character that is no byte.
    #[error("character `{character}` at {at} is not in Latin-1; this model's tokens are bytes")]
    NotAByte {
        /// The character.
        character: char,
        /// Characters before it.
        at: usize,
    },
    /// A token that is no byte, or that the vocabulary lacks.
    #[error("token {token} is not in the vocabulary")]
    UnknownToken {
        /// The token.
        token: u32,
    },
    /// A model without a `tokenizer.json` whose tokens cannot be bytes.
    #[error("{file}: cannot read it, and without it vocab_size must be 256 (bytes), not {vocab}", file = file.display())]
    NoTokenizer {
        /// The file that is not there.
        file: PathBuf,
        /// The vocabulary of the configuration.
        vocab: usize,
    },
    /// A `tokenizer.json` in a build that cannot read it.
    #[error("{file}: reading it takes the feature `tokenizers` of llama-plugin", file = file.display())]
    NotBuilt {
        /// The file.
        file: PathBuf,
    },
    /// What the tokenizers crate says.
    #[error("{file}: {cause}", file = file.display())]
    Json {
        /// The file.
        file: PathBuf,
        /// Its message.
        cause: String,
    },
}

impl Tokenizer {
    /// Tokens are bytes.
    pub fn bytes() -> Self {
        Tokenizer(Kind::Bytes)
    }

    /// The `tokenizer.json` of a folder; bytes where there is none.
    pub fn for_model(dir: &Path, vocab_size: usize) -> Result<Self, TokenizerError> {
        let file = dir.join("tokenizer.json");
        match (file.exists(), vocab_size) {
            (true, _) => Self::json(file),
            (false, 256) => Ok(Self::bytes()),
            (false, vocab) => Err(TokenizerError::NoTokenizer { file, vocab }),
        }
    }

    #[cfg(feature = "tokenizers")]
    fn json(file: PathBuf) -> Result<Self, TokenizerError> {
        match tokenizers::Tokenizer::from_file(&file) {
            Ok(tokenizer) => Ok(Tokenizer(Kind::Json(Box::new(tokenizer)))),
            Err(cause) => Err(TokenizerError::Json { file, cause: cause.to_string() }),
        }
    }

    #[cfg(not(feature = "tokenizers"))]
    fn json(file: PathBuf) -> Result<Self, TokenizerError> {
        Err(TokenizerError::NotBuilt { file })
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match &self.0 {
            Kind::Bytes => text.chars().enumerate().map(byte).collect(),
            #[cfg(feature = "tokenizers")]
            Kind::Json(tokenizer) => Ok(tokenizer.encode(text, true).map_err(json_error)?.get_ids().to_vec()),
        }
    }

    /// The text of tokens.
    pub fn decode(&self, tokens: &[u32]) -> Result<String, TokenizerError> {
        match &self.0 {
            Kind::Bytes => tokens
                .iter()
                .map(|token| u8::try_from(*token).map(char::from))
                .zip(tokens)
                .map(|(character, token)| {
                    character.map_err(|_| TokenizerError::UnknownToken { token: *token })
                })
                .collect(),
            #[cfg(feature = "tokenizers")]
            Kind::Json(tokenizer) => tokenizer.decode(tokens, true).map_err(json_error),
        }
    }
}

fn byte((at, character): (usize, char)) -> Result<u32, TokenizerError> {
    u8::try_from(character).map(u32::from).map_err(|_| TokenizerError::NotAByte { character, at })
}

#[cfg(feature = "tokenizers")]
fn json_error(cause: tokenizers::Error) -> TokenizerError {
    TokenizerError::Json { file: "tokenizer.json".into(), cause: cause.to_string() }
}
