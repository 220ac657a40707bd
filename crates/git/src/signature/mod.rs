//! Who signed a commit or an annotated tag: verified in this process, by the keys that are given and
//! no others. No keyring of the machine, no `gpg`, no network.
//!
//! A signature counts when the object's own bytes verify under a key that may sign, was not revoked and
//! has not expired. What Flux refuses is refused: MD5, SHA-1 and RIPEMD-160 over the object, DSA and
//! RSA below 2048 bits, an SSH signature made for another purpose than `git`. Refused besides: a tag
//! object that names another tag than the ref it was found at, so that the signature of an old release
//! is no signature of a new one, and an object larger than a MiB. X.509 is not verified.

mod openpgp;
mod ssh;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::SystemTime;

use gix::ObjectId;

use crate::{store::Store, tree::Tree};

/// An object larger than this is not verified: commits and tags are texts that people write.
const OBJECT_BYTES_MAX: usize = 1 << 20;
/// Tags that lead to tags.
const CHAIN_MAX: usize = 8;

/// Public keys of those whose signatures count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signers {
    rings: Vec<KeyFile>,
    authorized: Vec<KeyFile>,
}

/// A file of public keys, by the name people know it by.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyFile {
    name: String,
    text: String,
}

impl Signers {
    /// The keys of these files: lines of `authorized_keys` where the name ends in `.sshpub`, armored
    /// OpenPGP keys otherwise.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Self {
        let mut signers = Self::default();
        for (name, content) in files {
            let file = KeyFile {
                name: name.to_owned(),
                text: String::from_utf8_lossy(content).into_owned(),
            };
            match name.ends_with(".sshpub") {
                true => signers.authorized.push(file),
                false => signers.rings.push(file),
            }
        }
        signers
    }
}

/// Why a signature does not count. The texts hold names and ids of keys, which are public.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The object carries none.
    #[error("unsupported signature type: empty: it is not signed")]
    Unsigned,
    /// A signature that is neither OpenPGP nor SSH.
    #[error("unsupported signature type: {kind}")]
    Kind {
        /// `x509` or `unknown`.
        kind: &'static str,
    },
    /// Signed with PGP, and no key of that kind is given.
    #[error("PGP signature detected but no PGP public keys found in secret (keys with .asc suffix)")]
    NoPgpKeys,
    /// Signed with SSH, and no key of that kind is given.
    #[error("SSH signature detected but no SSH public keys found in secret (keys with .sshpub suffix)")]
    NoSshKeys,
    /// The signature itself cannot be read.
    #[error("the {kind} signature is malformed: {problem}")]
    Malformed {
        /// `PGP` or `SSH`.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A signature that proves nothing, whoever made it.
    #[error("the {kind} signature is refused: {problem}")]
    Refused {
        /// `PGP` or `SSH`.
        kind: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// None of the keys made it, or the one that did may not.
    #[error(
        "unable to verify payload with any of the given {place}: no matching key{}",
        joined(notes)
    )]
    NoMatchingKey {
        /// `key rings` or `authorized keys`.
        place: &'static str,
        /// What was found on the way.
        notes: Vec<String>,
    },
    /// The tag object says it is another tag.
    #[error("the tag object names {own:?}, not {reference:?}")]
    OtherTag {
        /// The name in the object.
        own: String,
        /// The name of the ref.
        reference: String,
    },
    /// The tag object leads elsewhere.
    #[error("the tag object points to {target}, not to commit {commit}")]
    OtherTarget {
        /// Where it leads.
        target: String,
        /// What was expected.
        commit: String,
    },
    /// Larger than any that people write.
    #[error("the object has {bytes} bytes, more than the limit of {OBJECT_BYTES_MAX} for verification")]
    Size {
        /// Its size.
        bytes: usize,
    },
    /// It cannot be read.
    #[error("cannot read git object {id}")]
    Object {
        /// The object.
        id: String,
        /// What gix said.
        source: gix::Error,
    },
}

fn joined(notes: &[String]) -> String {
    notes.iter().map(|note| format!("; {note}")).collect()
}

/// An annotated tag, or the name of a lightweight one.
#[derive(Debug, Clone)]
pub struct Tag {
    name: String,
    id: Option<ObjectId>,
    commit: ObjectId,
    tree: Tree,
}

impl Tag {
    /// A tag whose object, if it has one, is in the tree's store.
    pub(crate) fn new(name: String, id: Option<ObjectId>, commit: ObjectId, tree: Tree) -> Self {
        Self {
            name,
            id,
            commit,
            tree,
        }
    }

    /// Whether it is an object that carries a signature.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn is_signed(&self) -> Result<bool, SignatureError> {
        match self.id {
            None => Ok(false),
            Some(id) => Ok(Signed::tag(self.tree.store(), id)?.0.signature.is_some()),
        }
    }

    /// Which of the signers signed it: the id of an OpenPGP key, or the fingerprint of an SSH key.
    ///
    /// # Errors
    /// None of them did, or the object is not the tag it is presented as.
    pub fn verify(&self, signers: &Signers, now: SystemTime) -> Result<String, SignatureError> {
        let id = self.id.ok_or(SignatureError::Unsigned)?;
        let store = self.tree.store();
        let (signed, head) = Signed::tag(store, id)?;
        let key = signed.verify(signers, now)?;
        if head.name != self.name {
            return Err(SignatureError::OtherTag {
                own: head.name,
                reference: self.name.clone(),
            });
        }
        self.leads_to_commit(store, head)?;
        Ok(key)
    }

    fn leads_to_commit(&self, store: &Store, mut head: TagHead) -> Result<(), SignatureError> {
        for _ in 0..CHAIN_MAX {
            if !head.is_tag {
                break;
            }
            head = Signed::tag(store, head.target)?.1;
        }
        match head.target == self.commit {
            true => Ok(()),
            false => Err(SignatureError::OtherTarget {
                target: head.target.to_string(),
                commit: self.commit.to_string(),
            }),
        }
    }
}

/// `name@id`; the name alone where it has no object.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{}@{id}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What of a tag object says what it is about.
struct TagHead {
    name: String,
    target: ObjectId,
    is_tag: bool,
}

/// An object's signature, and the bytes it covers.
struct Signed {
    payload: Vec<u8>,
    signature: Option<String>,
}

impl Signed {
    /// Reads a commit.
    fn commit(store: &Store, id: ObjectId) -> Result<Self, SignatureError> {
        let failed = |source| failed(id, source);
        store.with(|repository| {
            sized(repository.find_header(id).map_err(failed)?.size())?;
            let object = repository.find_object(id).map_err(failed)?;
            let found = gix::objs::CommitRefIter::signature(&object.data, object.id.kind());
            Ok(match found.map_err(failed)? {
                None => Self {
                    payload: object.data.clone(),
                    signature: None,
                },
                Some((signature, payload)) => Self {
                    payload: payload.to_bstring().into(),
                    signature: Some(signature.to_string()),
                },
            })
        })
    }

    fn tag(store: &Store, id: ObjectId) -> Result<(Self, TagHead), SignatureError> {
        let failed = |source| failed(id, source);
        store.with(|repository| {
            sized(repository.find_header(id).map_err(failed)?.size())?;
            let object = repository.find_object(id).map_err(failed)?;
            let tag = gix::objs::TagRef::from_bytes(&object.data, object.id.kind()).map_err(failed)?;
            let head = TagHead {
                name: tag.name.to_string(),
                target: tag.target(),
                is_tag: tag.target_kind == gix::objs::Kind::Tag,
            };
            let signed = match gix::objs::TagRefIter::signature(&object.data) {
                None => Self {
                    payload: object.data.clone(),
                    signature: None,
                },
                Some((signature, payload)) => Self {
                    payload: payload.to_bstring().into(),
                    signature: Some(signature.data.to_string()),
                },
            };
            Ok((signed, head))
        })
    }

    fn verify(&self, signers: &Signers, now: SystemTime) -> Result<String, SignatureError> {
        let signature = self
            .signature
            .as_deref()
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .ok_or(SignatureError::Unsigned)?;
        if signature.starts_with("-----BEGIN PGP SIGNATURE-----") {
            if signers.rings.is_empty() {
                return Err(SignatureError::NoPgpKeys);
            }
            return openpgp::verify(&self.payload, signature, &signers.rings, now);
        }
        if signature.starts_with("-----BEGIN SSH SIGNATURE-----") {
            if signers.authorized.is_empty() {
                return Err(SignatureError::NoSshKeys);
            }
            return ssh::verify(&self.payload, signature, &signers.authorized);
        }
        let kind = match signature.starts_with("-----BEGIN SIGNED MESSAGE-----") {
            true => "x509",
            false => "unknown",
        };
        Err(SignatureError::Kind { kind })
    }
}

/// Which of the signers signed a commit.
pub(crate) fn verify_commit(
    store: &Store,
    id: ObjectId,
    signers: &Signers,
    now: SystemTime,
) -> Result<String, SignatureError> {
    Signed::commit(store, id)?.verify(signers, now)
}

fn failed(id: ObjectId, source: gix::Error) -> SignatureError {
    SignatureError::Object {
        id: id.to_string(),
        source,
    }
}

/// Asked before anything is inflated.
fn sized(bytes: u64) -> Result<(), SignatureError> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    match bytes > OBJECT_BYTES_MAX {
        true => Err(SignatureError::Size { bytes }),
        false => Ok(()),
    }
}
