//! Names of artifacts' files, and the media type that a name stands for.
//!
//! The ending of a name gives the media type. A restart finds files and their names, nothing else: a type
//! kept in a second file could be lost, or belong to an earlier file of that name. So a name without a known
//! ending is refused when it is published, not forgotten when the process starts again.

use std::fmt;

use thiserror::Error;

/// The longest name a file system takes (`NAME_MAX`).
const NAME_BYTES_MAX: usize = 255;
/// How much of a refused name an error repeats.
const SHOWN_CHARS_MAX: usize = NAME_BYTES_MAX;

/// How an artifact's bytes are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// Archives of trees, Helm charts and OCI layers: `.tar.gz` and `.tgz`.
    Gzip,
    /// Indexes of Helm repositories: `.yaml`.
    Yaml,
}

/// A file name that the store does not take.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("cannot store a file named {file:?}: {why}")]
pub struct FileNameError {
    file: String,
    why: &'static str,
}

impl MediaType {
    const ALL: [MediaType; 2] = [MediaType::Gzip, MediaType::Yaml];

    /// As a `Content-Type` names it.
    pub fn as_str(self) -> &'static str {
        match self {
            MediaType::Gzip => "application/gzip",
            MediaType::Yaml => "application/yaml",
        }
    }

    fn endings(self) -> &'static [&'static str] {
        match self {
            MediaType::Gzip => &[".tar.gz", ".tgz"],
            MediaType::Yaml => &[".yaml"],
        }
    }

    /// The name under which the newest artifact of this type is served: Flux's symbolic links
    /// (source-controller v1.9: `latest.tar.gz` of archives and charts, `index.yaml` of indexes).
    fn newest(self) -> &'static str {
        match self {
            MediaType::Gzip => "latest.tar.gz",
            MediaType::Yaml => "index.yaml",
        }
    }

    /// The type whose newest artifact is served under `file`.
    pub(super) fn of_newest(file: &str) -> Option<MediaType> {
        MediaType::ALL.into_iter().find(|kind| kind.newest() == file)
    }

    /// The type of a file that is, or is to be, in the store.
    pub(super) fn of_file(file: &str) -> Result<MediaType, FileNameError> {
        let refused = |why| FileNameError {
            file: file.chars().take(SHOWN_CHARS_MAX).collect(),
            why,
        };
        let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+".contains(&byte);
        if file.is_empty() {
            return Err(refused("the name is empty"));
        }
        if file.len() > NAME_BYTES_MAX {
            return Err(refused("the name is longer than 255 bytes"));
        }
        if !file.bytes().all(is_taken) {
            return Err(refused("it may contain letters, digits, `-`, `_`, `.` and `+`"));
        }
        if file.starts_with('.') {
            return Err(refused("it begins with a dot, as the store's own files do"));
        }
        if MediaType::of_newest(file).is_some() {
            return Err(refused("the name is reserved for the newest artifact"));
        }
        let ends = |kind: &MediaType| kind.endings().iter().any(|ending| file.ends_with(ending));
        MediaType::ALL
            .into_iter()
            .find(ends)
            .ok_or_else(|| refused("it must end in `.tar.gz`, `.tgz` or `.yaml`"))
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
