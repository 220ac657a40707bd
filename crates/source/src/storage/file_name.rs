//! File names of artifacts, and their media types.
//!
//! The ending of a name determines the media type, because a restart finds only files and names; a second
//! file for the type could be lost or outdated. So a name without a known ending is refused when it is
//! published.

use std::fmt;

use thiserror::Error;

const NAME_BYTES_MAX: usize = 255;
const SHOWN_CHARS_MAX: usize = NAME_BYTES_MAX;

/// The media type of an artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MediaType {
    /// Archives of trees, Helm charts and OCI layers: `.tar.gz` and `.tgz`.
    Gzip,
    /// Indexes of Helm repositories: `.yaml`.
    Yaml,
}

/// An error for an invalid file name.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("cannot store a file named {file:?}: {why}")]
pub struct FileNameError {
    file: String,
    why: &'static str,
}

impl MediaType {
    const ALL: [MediaType; 2] = [MediaType::Gzip, MediaType::Yaml];

    /// The `Content-Type`.
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

    /// The name that serves the newest artifact of this type: Flux's symbolic links (source-controller
    /// v1.9: `latest.tar.gz` for archives and charts, `index.yaml` for indexes).
    fn newest(self) -> &'static str {
        match self {
            MediaType::Gzip => "latest.tar.gz",
            MediaType::Yaml => "index.yaml",
        }
    }

    pub(super) fn of_newest(file: &str) -> Option<MediaType> {
        MediaType::ALL.into_iter().find(|kind| kind.newest() == file)
    }

    pub(super) fn of_file(file: &str) -> Result<MediaType, FileNameError> {
        let refused = |why| FileNameError {
            file: file.chars().take(SHOWN_CHARS_MAX).collect(),
            why,
        };
        let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+:".contains(&byte);
        if file.is_empty() {
            return Err(refused("the name is empty"));
        }
        if file.len() > NAME_BYTES_MAX {
            return Err(refused("the name is longer than 255 bytes"));
        }
        if !file.bytes().all(is_taken) {
            return Err(refused(
                "it may contain letters, digits, `-`, `_`, `.`, `+` and `:`",
            ));
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
