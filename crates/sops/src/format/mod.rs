//! Reads and writes the formats of SOPS.
//!
//! An encrypted file is recognized by a few bytes that SOPS writes. Flux looks for the same bytes, so both
//! skip the same files.

mod dotenv;
mod json;
mod scalar;
mod yaml;
mod yaml_out;

use zeroize::Zeroizing;

use crate::budget::{Budget, Exhausted};
use crate::metadata::{self, Metadata, MetadataError};
use crate::tree::{Entry, Node, get};

/// A format that SOPS knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// YAML with one or several documents.
    Yaml,
    /// A JSON object.
    Json,
    /// Lines of `NAME=value`.
    Dotenv,
    /// Any content, encrypted as the only value of a JSON object.
    Binary,
    /// INI files, which are refused by name.
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

/// The reason why a text is not in its format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// It is not UTF-8.
    #[error("it is not text")]
    NotText,
    /// A syntax error.
    #[error("{line}:{column}: {fault}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The reason.
        fault: String,
    },
    /// A limit is exceeded.
    #[error("{line}:{column}")]
    Exhausted {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// The limit.
        #[source]
        source: Exhausted,
    },
    /// The document cannot be written in the format.
    #[error("{0} cannot be written as {1}")]
    NotWritable(&'static str, Format),
    /// The format is INI.
    #[error("INI files are not supported; use dotenv, YAML or binary")]
    Ini,
}

impl Format {
    /// The format by a file's name, as SOPS and Flux decide. A name without a known ending is binary.
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

    /// The format of a generator's `envs` entry, where a name without a known ending is dotenv.
    pub fn of_env_path(path: &str) -> Self {
        match Self::of_path(path) {
            Self::Binary => Self::Dotenv,
            format => format,
        }
    }

    /// A text that encrypted files of the format contain and others rarely do.
    fn marker(self) -> &'static [u8] {
        match self {
            Self::Yaml => b"mac: ENC[",
            Self::Json | Self::Binary => b"\"mac\": \"ENC[",
            Self::Dotenv => b"sops_mac=ENC[",
            Self::Ini => b"[sops]",
        }
    }

    /// Whether a text of this format is encrypted.
    pub fn is_encrypted(self, bytes: &[u8]) -> bool {
        let marker = self.marker();
        bytes.windows(marker.len()).any(|window| window == marker)
    }

    /// The format of an encrypted text by its content, `None` if it is not encrypted. Binary content is
    /// read as JSON.
    pub fn of_encrypted(bytes: &[u8]) -> Option<Self> {
        let mut all = [Self::Json, Self::Dotenv, Self::Ini, Self::Yaml].into_iter();
        all.find(|format| format.is_encrypted(bytes))
    }

    /// Returns the documents without metadata, and the metadata.
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
