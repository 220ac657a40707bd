//! Finds the data key of a document through any of its recipients.
//!
//! The data key, or a group's share of it, is encrypted for every recipient of a group. Local keys are
//! tried before anything that needs a network.

use secrecy::SecretSlice;
use zeroize::Zeroizing;

use crate::age;
use crate::budget::{Budget, Exhausted};
use crate::keys::Keys;
use crate::metadata::{Metadata, Recipient};
use crate::openpgp;
use crate::shamir::{self, ShamirError};
use crate::transit::{Transit, TransitError, TransitKey};

const SHOWN_MAX: usize = 8;

const NAME_CHARS_MAX: usize = 120;

/// The reason why the data key cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum DataKeyError {
    /// No recipient's private key is given.
    #[error("none of the given keys decrypts its data key: {}", Shown(.0))]
    NoKey(Vec<KeyFailure>),
    /// Too few groups could be decrypted.
    #[error("its data key needs {needed} of {groups} key groups, and only {opened} could be decrypted: {}", Shown(.failures))]
    Groups {
        /// The number of groups needed.
        needed: usize,
        /// The number of groups.
        groups: usize,
        /// The number of decrypted groups.
        opened: usize,
        /// The failed attempts.
        failures: Vec<KeyFailure>,
    },
    /// A limit is exceeded.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
    /// The groups' shares do not combine to a key.
    #[error("cannot combine the shares of its key groups")]
    Shares(#[from] ShamirError),
}

/// The failure of one recipient.
#[derive(Debug, thiserror::Error)]
#[error("{service} {name}: {fault}")]
pub struct KeyFailure {
    /// The service.
    pub service: &'static str,
    /// The name of the key.
    pub name: String,
    /// The reason.
    #[source]
    pub fault: KeyFault,
}

/// The reason why a recipient could not be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// Its private key is not given.
    #[error("its private key is not among the {given} given; add {hint}")]
    NotGiven {
        /// The number of given keys of the service.
        given: usize,
        /// The entry to add.
        hint: &'static str,
    },
    /// Its encrypted data key is malformed.
    #[error("its encrypted data key is damaged ({0})")]
    Damaged(&'static str),
    /// The private key does not decrypt it.
    #[error("its private key does not decrypt the data key")]
    WrongKey,
    /// The service, or the kind of key, is not supported yet.
    #[error("this kind of key is not supported yet; add an age, PGP or Vault recipient")]
    Unsupported,
    /// The token for the transit engine is missing.
    #[error("no token is given for it (sops.vault-token)")]
    NoTransit,
    /// The transit engine refused.
    #[error(transparent)]
    Transit(#[from] TransitError),
    /// A limit is exceeded.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

struct Shown<'f>(&'f [KeyFailure]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, failure) in self.0.iter().take(SHOWN_MAX).enumerate() {
            if at > 0 {
                formatter.write_str("; ")?;
            }
            write!(formatter, "{failure}")?;
        }
        match self.0.len().saturating_sub(SHOWN_MAX) {
            0 => Ok(()),
            more => write!(formatter, "; and {more} more"),
        }
    }
}

pub(crate) fn find(
    metadata: &Metadata,
    keys: &Keys,
    transit: Option<&dyn Transit>,
    budget: &Budget<'_>,
) -> Result<SecretSlice<u8>, DataKeyError> {
    let groups = metadata.groups.len();
    let needed = if groups == 1 { 1 } else { metadata.threshold.max(2) };
    let mut shares: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    let mut failures = Vec::new();
    for group in &metadata.groups {
        if shares.len() == needed {
            break;
        }
        for recipient in group {
            match open(recipient, keys, transit, budget) {
                Ok(share) => {
                    shares.push(share);
                    break;
                }
                Err(KeyFailure {
                    fault: KeyFault::Exhausted(exhausted),
                    ..
                }) => return Err(exhausted.into()),
                Err(failure) => failures.push(failure),
            }
        }
    }
    if shares.len() < needed {
        return Err(if groups == 1 {
            DataKeyError::NoKey(failures)
        } else {
            DataKeyError::Groups {
                needed,
                groups,
                opened: shares.len(),
                failures,
            }
        });
    }
    let key = match groups {
        1 => shares.swap_remove(0),
        _ => {
            budget.steps(shamir::steps(&shares))?;
            shamir::combine(&shares)?
        }
    };
    Ok(key.to_vec().into())
}

fn open(
    recipient: &Recipient,
    keys: &Keys,
    transit: Option<&dyn Transit>,
    budget: &Budget<'_>,
) -> Result<Zeroizing<Vec<u8>>, KeyFailure> {
    let (service, name, opened) = match recipient {
        Recipient::Age { recipient, sealed } => (
            "age",
            recipient.clone(),
            age::open(recipient, sealed, &keys.age, budget),
        ),
        Recipient::Pgp { fingerprint, sealed } => (
            "PGP",
            fingerprint.clone(),
            openpgp::open(sealed, &keys.pgp, budget),
        ),
        Recipient::Transit {
            address,
            engine,
            key,
            sealed,
        } => {
            let asked = TransitKey {
                address,
                engine,
                key,
                sealed,
            };
            let opened = match transit {
                Some(transit) => transit.open(&asked).map_err(KeyFault::from),
                None => Err(KeyFault::NoTransit),
            };
            ("Vault", asked.to_string(), opened)
        }
        Recipient::Other { service, name } => (*service, name.clone(), Err(KeyFault::Unsupported)),
    };
    opened.map_err(|fault| KeyFailure {
        service,
        name: shortened(&name),
        fault,
    })
}

/// A post-quantum recipient has two thousand characters.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
