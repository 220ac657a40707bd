//! Decrypts short armored age files with X25519 identities.
//!
//! The format is age-encryption.org/v1. The age crate would add a hundred dependencies for these few
//! functions over `ring` and `x25519-dalek` (decision 0009).
//!
//! Not supported: post-quantum and plugin identities and recipients, and ssh keys. A SOPS recipient is
//! never a passphrase.

mod armor;
mod bech32;
mod file;

#[cfg(test)]
pub(crate) use file::seal;

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

use crate::budget::Budget;
use crate::data_key::KeyFault;

const SECRET_PREFIX: &str = "age-secret-key-";
const RECIPIENT_PREFIX: &str = "age";

/// The work to read a file, in steps of ten nanoseconds.
const READ_STEPS: u64 = 100;

/// Prefixes of unsupported recipients.
const REFUSED_RECIPIENTS: [&str; 2] = ["age1pq1", "ssh-"];

/// The reason why a text is not a list of identities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// It is not UTF-8.
    #[error("it is not text")]
    NotText,
    /// A line is not an identity.
    #[error("line {0} is not an age identity: it must begin with AGE-SECRET-KEY-1")]
    Unknown(usize),
    /// An identity is damaged.
    #[error("the age identity in line {0} is damaged: its checksum or length is wrong")]
    Damaged(usize),
    /// A post-quantum identity.
    #[error(
        "the age identity in line {0} is a post-quantum one (AGE-SECRET-KEY-PQ-1), which is not supported yet"
    )]
    PostQuantum(usize),
    /// An identity of a plugin.
    #[error("the age identity in line {0} needs a plugin, and plugins are not supported")]
    Plugin(usize),
    /// There is no identity.
    #[error("it contains no age identity")]
    Empty,
}

#[derive(Clone)]
pub(crate) struct Identity {
    secret: StaticSecret,
    public: PublicKey,
    recipient: String,
}

impl fmt::Debug for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.recipient)
    }
}

impl Identity {
    fn new(secret: [u8; 32]) -> Self {
        let secret = StaticSecret::from(secret);
        let public = PublicKey::from(&secret);
        Self {
            recipient: bech32::encode(RECIPIENT_PREFIX, public.as_bytes()),
            secret,
            public,
        }
    }

    #[cfg(test)]
    pub(crate) fn recipient(&self) -> &str {
        &self.recipient
    }

    /// One identity per line, with empty lines and comments; the first `max` of them.
    pub(crate) fn read_all(bytes: &[u8], max: usize) -> Result<Vec<Self>, IdentityError> {
        let text = std::str::from_utf8(bytes).map_err(|_| IdentityError::NotText)?;
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let identities = lines.take(max).map(|(at, line)| Self::read(line, at + 1));
        let identities: Vec<Self> = identities.collect::<Result<_, _>>()?;
        match identities.is_empty() {
            true => Err(IdentityError::Empty),
            false => Ok(identities),
        }
    }

    fn read(line: &str, number: usize) -> Result<Self, IdentityError> {
        if line.starts_with("AGE-SECRET-KEY-PQ-1") {
            return Err(IdentityError::PostQuantum(number));
        }
        if line.starts_with("AGE-PLUGIN-") {
            return Err(IdentityError::Plugin(number));
        }
        if !line.starts_with("AGE-SECRET-KEY-1") {
            return Err(IdentityError::Unknown(number));
        }
        let lower: SecretString = line.to_ascii_lowercase().into();
        let key = bech32::decode(SECRET_PREFIX, lower.expose_secret());
        let key = key.and_then(|key| <[u8; 32]>::try_from(key.as_slice()).ok().map(Zeroizing::new));
        match key {
            Some(key) => Ok(Self::new(*key)),
            None => Err(IdentityError::Damaged(number)),
        }
    }
}

/// Tries all identities: the recipient's name in a document is only for people, the file itself decides.
pub(crate) fn open(
    recipient: &str,
    sealed: &str,
    identities: &[Identity],
    budget: &Budget<'_>,
) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    budget.steps(READ_STEPS + sealed.len() as u64)?;
    if REFUSED_RECIPIENTS.iter().any(|kind| recipient.starts_with(kind)) {
        return Err(KeyFault::Unsupported);
    }
    let bytes = armor::remove(sealed).ok_or(KeyFault::Damaged("age armor"))?;
    let file = file::File::read(&bytes).ok_or(KeyFault::Damaged("age file"))?;
    let mine = identities.iter().any(|identity| identity.recipient == recipient);
    for identity in identities {
        budget.steps(file.steps())?;
        if let Some(opened) = file.open(identity) {
            return Ok(opened);
        }
    }
    Err(if mine {
        KeyFault::WrongKey
    } else {
        KeyFault::NotGiven {
            given: identities.len(),
            hint: "a key in the Secret that ends in .agekey",
        }
    })
}
