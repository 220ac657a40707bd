//! Decrypts short armored OpenPGP messages with armored private keys, through the `pgp` crate.
//!
//! Refused by name: private keys with a passphrase, which nobody could enter; messages without integrity
//! protection; public keys in place of private ones.

use std::fmt;
use std::io::Read as _;

use pgp::composed::{DecryptionOptions, Message, PublicOrSecret, SignedSecretKey, TheRing};
use pgp::types::{KeyDetails as _, Password};
use zeroize::Zeroizing;

use crate::data_key::KeyFault;

/// Also the limit of the decrypted content.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const DATA_KEY_BYTES_MAX: u64 = 4 << 10;

/// The reason why bytes are not private keys.
#[derive(Debug, thiserror::Error)]
pub enum SecretKeyError {
    /// They cannot be read.
    #[error("it is not an OpenPGP key")]
    Unreadable(#[source] Box<pgp::errors::Error>),
    /// A key has a passphrase.
    #[error("the PGP key {0} has a passphrase, which is not supported; export it without one")]
    Passphrase(String),
    /// There are only public keys.
    #[error("it contains no private PGP key; export one with gpg --export-secret-keys --armor")]
    NoSecret,
}

#[derive(Clone)]
pub(crate) struct SecretKey(Box<SignedSecretKey>);

impl SecretKey {
    fn fingerprint(&self) -> String {
        format!("{:X}", self.0.fingerprint())
    }

    pub(crate) fn read_all(bytes: &[u8]) -> Result<Vec<Self>, SecretKeyError> {
        let unreadable = |error| SecretKeyError::Unreadable(Box::new(error));
        let (read, _) = PublicOrSecret::from_reader_many(bytes).map_err(unreadable)?;
        let mut keys = Vec::new();
        for key in read {
            if let PublicOrSecret::Secret(key) = key.map_err(unreadable)? {
                let key = Self(Box::new(key));
                if key.is_locked() {
                    return Err(SecretKeyError::Passphrase(key.fingerprint()));
                }
                keys.push(key);
            }
        }
        if keys.is_empty() {
            return Err(SecretKeyError::NoSecret);
        }
        Ok(keys)
    }

    fn is_locked(&self) -> bool {
        let mut subkeys = self.0.secret_subkeys.iter();
        self.0.primary_key.secret_params().is_encrypted()
            || subkeys.any(|key| key.secret_params().is_encrypted())
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.fingerprint())
    }
}

/// The message names its recipients; the fingerprint in the document is only for people.
pub(crate) fn open(sealed: &str, keys: &[SecretKey]) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    if sealed.len() > MESSAGE_BYTES_MAX {
        return Err(KeyFault::Damaged("PGP message too long"));
    }
    let Ok((message, _)) = Message::from_string(sealed) else {
        return Err(KeyFault::Damaged("PGP message"));
    };
    if !message.is_encrypted() {
        return Err(KeyFault::Damaged("PGP message"));
    }
    let password = Password::empty();
    let ring = TheRing {
        secret_keys: keys.iter().map(|key| &*key.0).collect(),
        key_passwords: vec![&password],
        // newer GnuPG releases write it for keys that announce support
        decrypt_options: DecryptionOptions::new().enable_gnupg_aead(),
        ..TheRing::default()
    };
    let Ok((message, _)) = message.decrypt_the_ring(ring, true) else {
        return Err(KeyFault::NotGiven {
            given: keys.len(),
            hint: "a key in the Secret that ends in .asc",
        });
    };
    let message = if message.is_compressed() {
        message.decompress().map_err(|_| KeyFault::WrongKey)?
    } else {
        message
    };
    let mut opened = Zeroizing::new(Vec::new());
    match message.take(DATA_KEY_BYTES_MAX).read_to_end(&mut opened) {
        Ok(_) => Ok(opened),
        Err(_) => Err(KeyFault::WrongKey),
    }
}
