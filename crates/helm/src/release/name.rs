//! Validation of release names.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// An invalid release name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The name is empty.
    #[error("no name provided")]
    Missing,
    /// It cannot be part of object names.
    #[error(
        "invalid release name, must match regex \
         ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53"
    )]
    Invalid,
}

/// Longer names leave too little space for the suffixes of charts.
const BYTES_MAX: usize = 53;

/// Validates a name as Helm does.
pub fn check_name(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Missing);
    }
    let is_label = |label: &str| {
        let ends = [label.as_bytes().first(), label.as_bytes().last()];
        ends.iter().all(|end| end.is_some_and(|end| *end != b'-'))
            && label
                .bytes()
                .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    match name.len() <= BYTES_MAX && name.split('.').all(is_label) {
        true => Ok(()),
        false => Err(NameError::Invalid),
    }
}

/// The hexadecimal digits of a hash in a shortened name.
const HASH_DIGITS: usize = 12;

/// The name for a longer one, as fluxcd/helm-controller's `release.ShortenName`: its beginning and a hash.
pub fn shortened(name: &str) -> String {
    if name.len() <= BYTES_MAX {
        return name.to_owned();
    }
    let mut end = BYTES_MAX - HASH_DIGITS - 1;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = format!("{}-", &name[..end]);
    for byte in Sha256::digest(name.as_bytes()).iter().take(HASH_DIGITS / 2) {
        // writing to a String does not fail
        let _ = write!(short, "{byte:02x}");
    }
    short
}
