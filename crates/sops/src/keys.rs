//! The private keys of a Kustomization: the entries of the Secret in `decryption.secretRef`, told apart by
//! name as in Flux.

use secrecy::SecretString;

use crate::age::{Identity, IdentityError};
use crate::openpgp::{SecretKey, SecretKeyError};

const ENTRY_BYTES_MAX: usize = 1 << 20;
const KEYS_MAX: usize = 1_000;

const TOKEN: &str = "sops.vault-token";
/// The reason why an entry is refused.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// An age identity file is invalid.
    #[error("{entry}")]
    Age {
        /// The entry's name.
        entry: String,
        /// The reason.
        #[source]
        source: IdentityError,
    },
    /// A PGP key is invalid.
    #[error("{entry}")]
    Pgp {
        /// The entry's name.
        entry: String,
        /// The reason.
        #[source]
        source: SecretKeyError,
    },
    /// The token is not text.
    #[error("{TOKEN}: it is not text")]
    Token,
    /// An entry is too long.
    #[error("{0}: it is longer than {ENTRY_BYTES_MAX} bytes")]
    TooLong(String),
    /// There are too many keys.
    #[error("there are more than {KEYS_MAX} keys")]
    TooMany,
}

/// Private keys and a token. `Debug` shows the public halves.
#[derive(Clone, Default)]
pub struct Keys {
    pub(crate) age: Vec<Identity>,
    pub(crate) pgp: Vec<SecretKey>,
    token: Option<SecretString>,
}

impl std::fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Keys")
            .field("age", &self.age)
            .field("pgp", &self.pgp)
            .field("token", &self.token.is_some())
            .finish()
    }
}

impl Keys {
    /// Reads the decoded entries of a Secret: `*.agekey`, `*.asc` and `sops.vault-token`. As in Flux, other
    /// names are ignored, credentials of unsupported services included. A document that needs one reports
    /// it, unless another recipient works.
    pub fn from_secret<'e>(
        entries: impl IntoIterator<Item = (&'e str, &'e [u8])>,
    ) -> Result<Self, KeysError> {
        let mut keys = Self::default();
        for (name, value) in entries {
            keys.add(name, value)?;
        }
        Ok(keys)
    }

    /// Adds one entry, like [`from_secret`](Self::from_secret).
    pub fn add(&mut self, name: &str, value: &[u8]) -> Result<(), KeysError> {
        let wanted = name.ends_with(".agekey") || name.ends_with(".asc") || name == TOKEN;
        if wanted && value.len() > ENTRY_BYTES_MAX {
            return Err(KeysError::TooLong(name.to_owned()));
        }
        // one more than may be
        let left = KEYS_MAX + 1 - self.age.len() - self.pgp.len();
        if name.ends_with(".agekey") {
            let read = Identity::read_all(value, left).map_err(|source| KeysError::Age {
                entry: name.to_owned(),
                source,
            })?;
            self.age.extend(read);
        } else if name.ends_with(".asc") {
            let read = SecretKey::read_all(value, left).map_err(|source| KeysError::Pgp {
                entry: name.to_owned(),
                source,
            })?;
            self.pgp.extend(read);
        } else if name == TOKEN {
            let token = std::str::from_utf8(value).map_err(|_| KeysError::Token)?;
            self.token = Some(token.trim().into());
        }
        if self.age.len() + self.pgp.len() > KEYS_MAX {
            return Err(KeysError::TooMany);
        }
        Ok(())
    }

    /// The token for Vault or OpenBao, for implementations of [`Transit`](crate::Transit).
    pub fn token(&self) -> Option<&SecretString> {
        self.token.as_ref()
    }
}
