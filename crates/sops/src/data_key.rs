//! The data key of a document, from whichever recipient it can be had.
//!
//! Every recipient of a group has the same thing sealed for it: the data key, or, with several
//! groups, the group's share. Local keys are tried before anything that needs a network.

use secrecy::SecretSlice;
use zeroize::Zeroizing;

use crate::age;
use crate::keys::Keys;
use crate::metadata::{Metadata, Recipient};
use crate::openpgp;
use crate::shamir::{self, ShamirError};
use crate::transit::{Transit, TransitError, TransitKey};

/// How many failures a message shows.
const SHOWN_MAX: usize = 8;

/// How much of a key's name a message shows.
const NAME_CHARS_MAX: usize = 120;

/// Why there is no data key.
#[derive(Debug, thiserror::Error)]
pub enum DataKeyError {
    /// No recipient's private key is there.
    #[error("none of the given keys decrypts its data key: {}", Shown(.0))]
    NoKey(Vec<KeyFailure>),
    /// Too few groups.
    #[error("its data key needs {needed} of {groups} key groups, and only {opened} could be decrypted: {}", Shown(.failures))]
    Groups {
        /// How many are needed.
        needed: usize,
        /// How many there are.
        groups: usize,
        /// How many could be opened.
        opened: usize,
        /// What was tried in vain.
        failures: Vec<KeyFailure>,
    },
    /// The groups' shares give no key.
    #[error("cannot combine the shares of its key groups")]
    Shares(#[from] ShamirError),
}

/// One recipient that did not help.
#[derive(Debug, thiserror::Error)]
#[error("{service} {name}: {fault}")]
pub struct KeyFailure {
    /// The service.
    pub service: &'static str,
    /// Which of its keys.
    pub name: String,
    /// Why not.
    #[source]
    pub fault: KeyFault,
}

/// Why a recipient did not help.
#[derive(Debug, thiserror::Error)]
pub enum KeyFault {
    /// Its private key was not given.
    #[error("its private key is not among the {given} given; add {hint}")]
    NotGiven {
        /// How many keys of the service were given.
        given: usize,
        /// Under which name one would be given.
        hint: &'static str,
    },
    /// What is sealed for it is not what the service writes.
    #[error("its encrypted data key is damaged ({0})")]
    Damaged(&'static str),
    /// The private key is there but does not open it.
    #[error("its private key does not decrypt the data key")]
    DoesNotOpen,
    /// The service, or this kind of its keys, is not there yet.
    #[error("this kind of key is not supported yet; add an age, PGP or Vault recipient")]
    Unsupported,
    /// Nobody to ask a transit engine.
    #[error("no token is given for it (sops.vault-token)")]
    NoTransit,
    /// The transit engine said no.
    #[error(transparent)]
    Transit(#[from] TransitError),
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

/// The data key.
pub(crate) fn find(
    metadata: &Metadata,
    keys: &Keys,
    transit: Option<&dyn Transit>,
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
            match open(recipient, keys, transit) {
                Ok(share) => {
                    shares.push(share);
                    break;
                }
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
        _ => shamir::combine(&shares)?,
    };
    Ok(key.to_vec().into())
}

fn open(
    recipient: &Recipient,
    keys: &Keys,
    transit: Option<&dyn Transit>,
) -> Result<Zeroizing<Vec<u8>>, KeyFailure> {
    let (service, name, opened) = match recipient {
        Recipient::Age { recipient, sealed } => {
            ("age", recipient.clone(), age::open(recipient, sealed, &keys.age))
        }
        Recipient::Pgp { fingerprint, sealed } => {
            ("PGP", fingerprint.clone(), openpgp::open(sealed, &keys.pgp))
        }
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

/// A post-quantum recipient has two thousand letters.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
