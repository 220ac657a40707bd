//! Decrypts short armored OpenPGP messages with armored private keys, through the `pgp` crate.
//!
//! Refused by name: private keys with a passphrase, which nobody could enter; messages without integrity
//! protection; public keys in place of private ones.

use std::fmt;
use std::io::Read as _;

use pgp::composed::{DecryptionOptions, Esk, Message, PublicOrSecret, SignedSecretKey, TheRing};
use pgp::ser::Serialize as _;
use pgp::types::{KeyDetails, Password, PublicParams};
use zeroize::Zeroizing;

use crate::budget::Budget;
use crate::data_key::KeyFault;

/// Also the limit of the decrypted content.
const MESSAGE_BYTES_MAX: usize = 64 << 10;
const DATA_KEY_BYTES_MAX: u64 = 4 << 10;
/// The work to read a message, to look at a key, and to use one: an RSA key of 1,024 bits or a curve. In steps
/// of ten nanoseconds.
const READ_STEPS: u64 = 5_000;
const MATCH_STEPS: u64 = 10;
const RSA_STEPS: u64 = 40_000;
const CURVE_STEPS: u64 = 400_000;

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

    /// The first `max` private keys.
    pub(crate) fn read_all(bytes: &[u8], max: usize) -> Result<Vec<Self>, SecretKeyError> {
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
            if keys.len() == max {
                break;
            }
        }
        if keys.is_empty() {
            return Err(SecretKeyError::NoSecret);
        }
        Ok(keys)
    }

    /// The work to try it on all session keys, in steps of ten nanoseconds. An anonymous one fits any key.
    fn steps(&self, session_keys: &[Esk]) -> u64 {
        let subkeys = &self.0.secret_subkeys;
        let tried = |session_key: &Esk| {
            let Esk::PublicKeyEncryptedSessionKey(session_key) = session_key else {
                return 0;
            };
            let primary = self.0.primary_key.public_key();
            let primary = session_key.match_identity(primary).then(|| steps(primary));
            let fits = subkeys.iter().map(|key| key.public_key());
            let fits = fits.filter(|key| session_key.match_identity(*key));
            MATCH_STEPS * (1 + subkeys.len() as u64)
                + primary.unwrap_or_default()
                + fits.map(steps).sum::<u64>()
        };
        session_keys.iter().map(tried).sum()
    }

    fn is_locked(&self) -> bool {
        let mut subkeys = self.0.secret_subkeys.iter();
        self.0.primary_key.secret_params().is_encrypted()
            || subkeys.any(|key| key.secret_params().is_encrypted())
    }
}

/// The work of a private key. RSA's grows with the cube of its length.
fn steps(key: &impl KeyDetails) -> u64 {
    match key.public_params() {
        PublicParams::RSA(rsa) => {
            let kibibits = (rsa.write_len() as u64 / 128).max(1);
            RSA_STEPS.saturating_mul(kibibits.pow(3))
        }
        _ => CURVE_STEPS,
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.fingerprint())
    }
}

/// The message names its recipients; the fingerprint in the document is only for people.
pub(crate) fn open(
    sealed: &str,
    keys: &[SecretKey],
    budget: &Budget<'_>,
) -> Result<Zeroizing<Vec<u8>>, KeyFault> {
    if sealed.len() > MESSAGE_BYTES_MAX {
        return Err(KeyFault::Damaged("PGP message too long"));
    }
    budget.steps(READ_STEPS + 4 * sealed.len() as u64)?;
    let Ok((message, _)) = Message::from_string(sealed) else {
        return Err(KeyFault::Damaged("PGP message"));
    };
    let Message::Encrypted { esk, .. } = &message else {
        return Err(KeyFault::Damaged("PGP message"));
    };
    for key in keys {
        budget.steps(key.steps(esk))?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_keys_are_read() {
        let armored = include_bytes!("../testdata/keys/rsa.asc");
        let one = SecretKey::read_all(armored, 1).unwrap();
        let bytes = one[0].0.to_bytes().unwrap();
        // the end of a key is seen in the next packet
        let many = [&*bytes, &*bytes, &*bytes, b"\xffx"].concat();
        let read = |max| SecretKey::read_all(&many, max).map(|keys| keys.len());
        assert_eq!(read(1).unwrap(), 1);
        assert_eq!(read(2).unwrap(), 2);
        assert!(matches!(read(3), Err(SecretKeyError::Unreadable(_))));
    }
}
