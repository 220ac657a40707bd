//! Verifies signatures of commits and annotated tags in this process, with the given keys only. It uses no
//! keyring of the machine, no `gpg` and no network.
//!
//! A signature is valid if a key that may sign, is not revoked and has not expired verifies the object's
//! bytes. As in Flux, MD5, SHA-1 and RIPEMD-160, DSA, RSA below 2048 bits, and SSH signatures for a
//! namespace other than `git` are refused. In addition, objects over a MiB are refused, and so is a tag
//! object that names another tag than its ref: an old release's signature must not verify a new one. X.509
//! is not supported.

mod openpgp;
mod ssh;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::SystemTime;

use gix::ObjectId;

use crate::{store::Store, tree::Tree};

/// Commits and tags are texts written by people.
const OBJECT_BYTES_MAX: usize = 1 << 20;
const CHAIN_MAX: usize = 8;

/// The public keys of trusted signers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signers {
    rings: Vec<KeyFile>,
    authorized: Vec<KeyFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyFile {
    name: String,
    text: String,
}

impl Signers {
    /// Reads the keys of these files: `authorized_keys` lines if the name ends in `.sshpub`, otherwise
    /// armored OpenPGP keys.
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

/// The reason why a signature is not valid. Texts contain names and ids of keys, which are public.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// The object has no signature.
    #[error("unsupported signature type: empty: it is not signed")]
    Unsigned,
    /// The signature is neither OpenPGP nor SSH.
    #[error("unsupported signature type: {kind}")]
    Kind {
        /// `x509` or `unknown`.
        kind: &'static str,
    },
    /// A PGP signature without a PGP key to verify it.
    #[error("PGP signature detected but no PGP public keys found in secret (keys with .asc suffix)")]
    NoPgpKeys,
    /// An SSH signature without an SSH key to verify it.
    #[error("SSH signature detected but no SSH public keys found in secret (keys with .sshpub suffix)")]
    NoSshKeys,
    /// The signature cannot be parsed.
    #[error("the {kind} signature is malformed: {problem}")]
    Malformed {
        /// `PGP` or `SSH`.
        kind: &'static str,
        /// The reason.
        problem: String,
    },
    /// The signature is invalid with any key.
    #[error("the {kind} signature is refused: {problem}")]
    Refused {
        /// `PGP` or `SSH`.
        kind: &'static str,
        /// The reason.
        problem: String,
    },
    /// None of the keys made it, or the key that did may not sign.
    #[error(
        "unable to verify payload with any of the given {place}: no matching key{}",
        joined(notes)
    )]
    NoMatchingKey {
        /// `key rings` or `authorized keys`.
        place: &'static str,
        /// The problems found with single keys.
        notes: Vec<String>,
    },
    /// The tag object names another tag.
    #[error("the tag object names {own:?}, not {reference:?}")]
    OtherTag {
        /// The name in the object.
        own: String,
        /// The name of the ref.
        reference: String,
    },
    /// The tag object points to another object.
    #[error("the tag object points to {target}, not to commit {commit}")]
    OtherTarget {
        /// The object's target.
        target: String,
        /// The expected commit.
        commit: String,
    },
    /// The object is too large.
    #[error("the object has {bytes} bytes, more than the limit of {OBJECT_BYTES_MAX} for verification")]
    Size {
        /// Its size.
        bytes: usize,
    },
    /// The object cannot be read.
    #[error("cannot read git object {id}")]
    Object {
        /// The object.
        id: String,
        /// The error from gix.
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
    pub(crate) fn new(name: String, id: Option<ObjectId>, commit: ObjectId, tree: Tree) -> Self {
        Self {
            name,
            id,
            commit,
            tree,
        }
    }

    /// Whether the tag has an object with a signature.
    ///
    /// # Errors
    /// The object cannot be read.
    pub fn is_signed(&self) -> Result<bool, SignatureError> {
        match self.id {
            None => Ok(false),
            Some(id) => Ok(Signed::tag(self.tree.store(), id)?.0.signature.is_some()),
        }
    }

    /// Returns the signer: the id of an OpenPGP key, or the fingerprint of an SSH key.
    ///
    /// # Errors
    /// None of the signers made a valid signature, or the object belongs to another tag.
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

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{}@{id}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

struct TagHead {
    name: String,
    target: ObjectId,
    is_tag: bool,
}

struct Signed {
    payload: Vec<u8>,
    signature: Option<String>,
}

impl Signed {
    fn commit(store: &Store, id: ObjectId) -> Result<Self, SignatureError> {
        let failed = |source| failed(id, source);
        store.with(|repository| {
            check_size(repository.find_header(id).map_err(failed)?.size())?;
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
            check_size(repository.find_header(id).map_err(failed)?.size())?;
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

/// Runs before the object is inflated.
fn check_size(bytes: u64) -> Result<(), SignatureError> {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    match bytes > OBJECT_BYTES_MAX {
        true => Err(SignatureError::Size { bytes }),
        false => Ok(()),
    }
}
