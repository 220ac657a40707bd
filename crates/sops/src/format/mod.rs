//! The formats: a text to a tree and back, as SOPS reads and writes them.
//!
//! An encrypted file is told from a plain one by a few bytes that SOPS writes and Flux looks for;
//! so a file is left alone exactly when Flux leaves it alone.

mod dotenv;
mod json;
mod scalar;
mod yaml;
mod yaml_out;

use zeroize::Zeroizing;

use crate::budget::{Budget, Exhausted};
use crate::metadata::{self, Metadata, MetadataError};
use crate::tree::{Entry, Node, get};

/// A format SOPS knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML, of one or several documents.
    Yaml,
    /// A JSON object.
    Json,
    /// Lines of `NAME=value`.
    Dotenv,
    /// Anything: sealed as the only value of a JSON object.
    Binary,
    /// INI files. Known, so that they can be refused by name.
    Ini,
}

impl std::fmt::Display for Format {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Yaml => "YAML",
            Self::Json => "JSON",
            Self::Dotenv => "dotenv",
            Self::Binary => "binary",
            Self::Ini => "INI",
        })
    }
}

/// Why a text is not in its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It is not UTF-8.
    #[error("it is not text")]
    NotText,
    /// It does not parse.
    #[error("{line}:{column}: {fault}")]
    Syntax {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong.
        fault: String,
    },
    /// There is too much of it.
    #[error("{line}:{column}")]
    Exhausted {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// Of what.
        #[source]
        source: Exhausted,
    },
    /// What is written does not go into the format.
    #[error("{0} cannot be written as {1}")]
    NotWritable(&'static str, Format),
    /// INI.
    #[error("INI files are not supported; use dotenv, YAML or binary")]
    Ini,
}

impl Format {
    /// The format that a file's name says, as SOPS and Flux read it: what has no ending they know
    /// is binary.
    pub fn of_path(path: &str) -> Self {
        let ends = |endings: &[&str]| endings.iter().any(|ending| path.ends_with(ending));
        if ends(&[".yaml", ".yml"]) {
            Self::Yaml
        } else if ends(&[".json", ".dockerconfigjson"]) {
            Self::Json
        } else if ends(&[".env"]) {
            Self::Dotenv
        } else if ends(&[".ini"]) {
            Self::Ini
        } else {
            Self::Binary
        }
    }

    /// The same for an `envs` entry of a generator, where a name that says nothing means dotenv.
    pub fn of_env_path(path: &str) -> Self {
        match Self::of_path(path) {
            Self::Binary => Self::Dotenv,
            format => format,
        }
    }

    /// What an encrypted text of the format has in it and others hardly have.
    fn marker(self) -> &'static [u8] {
        match self {
            Self::Yaml => b"mac: ENC[",
            Self::Json | Self::Binary => b"\"mac\": \"ENC[",
            Self::Dotenv => b"sops_mac=ENC[",
            Self::Ini => b"[sops]",
        }
    }

    /// Whether a text of this format is encrypted. What is not is left as it is.
    pub fn is_encrypted(self, bytes: &[u8]) -> bool {
        let marker = self.marker();
        bytes.windows(marker.len()).any(|window| window == marker)
    }

    /// The format of an encrypted text whose name says nothing, by what is in it; none if it is
    /// not encrypted. What is binary reads as JSON.
    pub fn of_encrypted(bytes: &[u8]) -> Option<Self> {
        let mut all = [Self::Json, Self::Dotenv, Self::Ini, Self::Yaml].into_iter();
        all.find(|format| format.is_encrypted(bytes))
    }

    /// Reads an encrypted text: its documents without their metadata, and the metadata.
    pub(crate) fn read(
        self,
        bytes: &[u8],
        budget: &Budget<'_>,
    ) -> Result<(Vec<Vec<Entry>>, Metadata), ReadError> {
        let text = || std::str::from_utf8(bytes).map_err(|_| FormatError::NotText);
        let mut documents = match self {
            Self::Yaml => yaml::read(text()?, budget)?,
            Self::Json | Self::Binary => vec![json::read(bytes, budget)?],
            Self::Dotenv => return dotenv::read_encrypted(bytes, budget),
            Self::Ini => return Err(FormatError::Ini.into()),
        };
        let metadata = metadata::take(&mut documents)?;
        Ok((documents, metadata))
    }

    /// Writes a decrypted text.
    pub(crate) fn write(self, documents: &[Vec<Entry>]) -> Result<Zeroizing<Vec<u8>>, FormatError> {
        let first = documents.first().map(Vec::as_slice).unwrap_or_default();
        match self {
            Self::Yaml => Ok(yaml_out::write(documents)),
            Self::Json => Ok(json::write(first)),
            Self::Dotenv => dotenv::write(first),
            Self::Binary => match (documents, get(first, "data")) {
                ([_], Some(Node::Text(text))) => Ok(Zeroizing::new(text.as_bytes().to_vec())),
                _ => Err(FormatError::NotWritable(
                    "a document that is not one text under `data`",
                    self,
                )),
            },
            Self::Ini => Err(FormatError::Ini),
        }
    }
}

/// Why an encrypted text cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error(transparent)]
    Metadata(#[from] MetadataError),
}

#[cfg(test)]
mod plain {
    use super::{Budget, Entry, Format, FormatError, Node, dotenv, json, yaml, yaml_out};
    use crate::Limits;
    use crate::metadata::KEY;

    impl Format {
        /// Reads a text that is not encrypted.
        pub(crate) fn read_plain(self, bytes: &[u8]) -> Result<Vec<Vec<Entry>>, FormatError> {
            let text = || std::str::from_utf8(bytes).map_err(|_| FormatError::NotText);
            let budget = Budget::new(Limits::default(), None);
            match self {
                Self::Yaml => yaml::read(text()?, &budget),
                Self::Json => Ok(vec![json::read(bytes, &budget)?]),
                Self::Dotenv => Ok(vec![dotenv::read(bytes, &budget)?]),
                Self::Binary => Ok(vec![vec![Entry::Pair {
                    key: "data".to_owned(),
                    value: Node::Text(bytes.into()),
                }]]),
                Self::Ini => Err(FormatError::Ini),
            }
        }

        /// Writes documents with their metadata.
        pub(crate) fn write_encrypted(self, mut documents: Vec<Vec<Entry>>, metadata: &[Entry]) -> Vec<u8> {
            for document in &mut documents {
                match self {
                    Self::Dotenv => dotenv::flatten(&format!("{KEY}_"), metadata, document),
                    _ => document.push(Entry::Pair {
                        key: KEY.to_owned(),
                        value: Node::Map(metadata.to_vec()),
                    }),
                }
            }
            match self {
                Self::Yaml => yaml_out::write(&documents).to_vec(),
                Self::Dotenv => dotenv::write(&documents[0]).unwrap().to_vec(),
                _ => json::write(&documents[0]).to_vec(),
            }
        }
    }
}
