//! The place of a source's artifacts: `<kind>/<namespace>/<name>`, as in Flux; and the source itself.

use std::fmt;

use thiserror::Error;

use super::file_name::MediaType;

/// A source's kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    kind: String,
    namespace: String,
    name: String,
}

/// An error for an invalid directory name.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{what} {text:?} cannot be a directory of the store")]
pub struct PlaceError {
    what: &'static str,
    text: String,
}

impl Place {
    /// The place of `namespace/name`. `kind` may have any case; directories are lower case.
    ///
    /// # Errors
    /// A part is not a Kubernetes name.
    pub fn new(kind: &str, namespace: &str, name: &str) -> Result<Place, PlaceError> {
        let part = |what, text: String| match is_name(&text) {
            true => Ok(text),
            false => Err(PlaceError { what, text }),
        };
        Ok(Place {
            kind: part("kind", kind.to_lowercase())?,
            namespace: part("namespace", namespace.to_owned())?,
            name: part("name", name.to_owned())?,
        })
    }

    /// The kind, in lower case.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// The namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// `<kind>/<namespace>/<name>`
    pub fn path(&self) -> String {
        format!("{}/{}/{}", self.kind, self.namespace, self.name)
    }
}

/// A source that publishes artifacts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Publisher {
    place: Place,
    uid: String,
}

impl Publisher {
    /// The source with this uid at this place.
    pub fn new(place: Place, uid: impl Into<String>) -> Publisher {
        Publisher {
            place,
            uid: uid.into(),
        }
    }

    /// The place of its artifacts.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Its uid.
    pub fn uid(&self) -> &str {
        &self.uid
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())
    }
}

/// The archive's name: the part of the revision after its algorithm.
pub(super) fn file_name(revision: &str) -> Option<String> {
    let (_, checksum) = revision.rsplit_once(':')?;
    let whole = !checksum.is_empty()
        && checksum.len() <= 128
        && checksum.bytes().all(|byte| byte.is_ascii_alphanumeric());
    let file = whole.then(|| format!("{checksum}.tar.gz"))?;
    MediaType::of_file(&file).is_ok().then_some(file)
}

/// Kubernetes' object names, which are safe directory names and never `.` or `..`.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    let edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    text.len() <= 253
        && text.bytes().all(inner)
        && edge(text.as_bytes().first())
        && edge(text.as_bytes().last())
}
