//! Selects the objects that this process reconciles, if several share a cluster.
//!
//! Three selections can be combined: by namespace, by labels (Flux's `--watch-label-selector`), and by
//! hash, which needs no labels. Every process still sees all objects, because dependencies, sources and
//! moved objects may be in other shards.
//!
//! Objects of others are never written: no status, finalizer or event. Shards that miss objects leave
//! them alone, and overlapping shards fight. One process can see neither, so neither is refused.

mod selector;

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{Selector, SelectorExt as _};
use sha2::{Digest as _, Sha256};

pub use selector::SelectorError;

/// More shards are a mistake.
const SHARDS_MAX: u32 = 1024;

/// The objects that this process reconciles; all by default.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Shards {
    none: bool,
    namespace: Option<String>,
    labels: Selector,
    slice: Slice,
}

impl Shards {
    /// No object: other processes reconcile all.
    pub fn none() -> Self {
        Self {
            none: true,
            ..Self::default()
        }
    }

    /// Keeps those in one namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Keeps those whose labels match a selector in the syntax of `kubectl -l`; an empty one matches
    /// all.
    ///
    /// # Errors
    ///
    /// If the selector is invalid.
    pub fn labels(mut self, selector: &str) -> Result<Self, SelectorError> {
        self.labels = selector::parse(selector)?;
        Ok(self)
    }

    /// Keeps those whose names hash into a slice.
    #[must_use]
    pub fn slice(mut self, slice: Slice) -> Self {
        self.slice = slice;
        self
    }

    /// Whether this process reconciles all objects.
    pub fn are_all(&self) -> bool {
        !self.none && self.namespace.is_none() && self.labels.selects_all() && self.slice == Slice::default()
    }

    /// Whether this process reconciles an object.
    pub fn own(&self, object: &ObjectMeta) -> bool {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        let name = object.name.as_deref().unwrap_or_default();
        if self.none || self.namespace.as_deref().is_some_and(|ours| ours != namespace) {
            return false;
        }
        let none = BTreeMap::new();
        self.labels.matches(object.labels.as_ref().unwrap_or(&none)) && self.slice.has(namespace, name)
    }
}

/// One of `n` equal parts of all objects, by hash of namespace and name; written `i/n`, counted from 0.
///
/// The hash must never change, because processes of different versions share a cluster during an
/// upgrade: the first eight bytes of SHA-256 of `namespace/name`, as a big-endian number, mapped to `n`
/// parts by jump consistent hashing (Lamping and Veach, 2014). With one more part, it gets its share
/// from all others, and nothing else moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    index: u32,
    of: u32,
}

impl Default for Slice {
    fn default() -> Self {
        Self { index: 0, of: 1 }
    }
}

/// Why a text is no slice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// The syntax is wrong.
    #[error("{0:?} is not a shard: expected INDEX/COUNT, such as 0/3, the first of three")]
    Form(String),
    /// The index is too large.
    #[error("shard {index}/{of} does not exist: the last one is {}/{of}", of - 1)]
    Beyond {
        /// The index, from 0.
        index: u32,
        /// The number of shards.
        of: u32,
    },
    /// There are too many.
    #[error("{0} shards are too many: the limit is {SHARDS_MAX}")]
    TooMany(u32),
}

impl Slice {
    /// Slice `index`, from 0, of this many.
    ///
    /// # Errors
    ///
    /// If the index is too large, or there are too many.
    pub fn new(index: u32, of: u32) -> Result<Self, SliceError> {
        if of > SHARDS_MAX {
            return Err(SliceError::TooMany(of));
        }
        if of == 0 {
            return Err(SliceError::Form(format!("{index}/{of}")));
        }
        if index >= of {
            return Err(SliceError::Beyond { index, of });
        }
        Ok(Self { index, of })
    }

    /// Whether an object of this name is in it.
    pub fn has(self, namespace: &str, name: &str) -> bool {
        if self.of == 1 {
            return true;
        }
        let mut hash = Sha256::new();
        hash.update(namespace);
        hash.update("/");
        hash.update(name);
        let mut first = [0; 8];
        first.copy_from_slice(&hash.finalize()[..8]);
        jump(u64::from_be_bytes(first), self.of) == self.index
    }
}

impl FromStr for Slice {
    type Err = SliceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = text.split_once('/').and_then(|(index, of)| {
            let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            (digits(index) && digits(of)).then_some((index.parse().ok()?, of.parse().ok()?))
        });
        let (index, of) = numbers.ok_or_else(|| SliceError::Form(text.to_owned()))?;
        Self::new(index, of)
    }
}

impl fmt::Display for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// Jump consistent hashing as in its paper: the constants must never change.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "31 bits fit a float exactly, and what is kept is below the number of buckets"
)]
fn jump(mut key: u64, buckets: u32) -> u32 {
    let (mut found, mut next) = (0_u32, 0_f64);
    while next < f64::from(buckets) {
        found = next as u32;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let draw = ((key >> 33) + 1) as f64;
        next = (f64::from(found) + 1.0) * ((1_u64 << 31) as f64 / draw);
    }
    found
}

#[cfg(test)]
mod tests;
