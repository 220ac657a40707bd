//! The objects of an artifact, by key and version. Its digest is the revision, as in Flux's `internal/index`
//! (v1.9).

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// The etags of objects by key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Index(pub(crate) BTreeMap<String, String>);

impl Index {
    /// `sha256:` over the sorted keys and etags.
    pub(crate) fn revision(&self) -> String {
        let mut hash = Sha256::new();
        for (key, etag) in &self.0 {
            hash.update(format!("{key} {etag}\n"));
        }
        format!("sha256:{:x}", hash.finalize())
    }
}

/// The path of an object's file: the key without empty segments.
pub(crate) fn path(key: &str) -> String {
    let names = key.split('/').filter(|name| !name.is_empty());
    names.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_revision_is_that_of_flux() {
        let index = |entries: &[(&str, &str)]| {
            let entries = entries
                .iter()
                .map(|(key, etag)| ((*key).to_owned(), (*etag).to_owned()));
            Index(entries.collect()).revision()
        };
        // upstream's `internal/index/digest_test.go`
        assert_eq!(
            index(&[]),
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        let one = index(&[("bar", "2"), ("foo", "1")]);
        assert_eq!(one, format!("sha256:{:x}", Sha256::digest("bar 2\nfoo 1\n")));
        assert_eq!(path("/a//b/c.yaml"), "a/b/c.yaml");
    }
}
