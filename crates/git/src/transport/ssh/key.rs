//! Reads the private key: OpenSSH's format, and PEM as OpenSSL writes it.
//!
//! Not supported: DSA, security keys, certificates, PuTTY's format, and legacy encryption (`DEK-Info`)
//! except for RSA with AES-128-CBC. The author of a key chooses the cost of its passphrase, so that cost
//! has limits. The library uses the last line that begins a key; it gets a text rebuilt from the checked
//! label and bytes, so that it reads only checked data. Copies made here are wiped; the library's are not.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use pkcs8::{
    EncryptedPrivateKeyInfoRef,
    pkcs5::{EncryptionScheme, pbes2::Kdf},
};
use russh::keys::{Algorithm, PrivateKey, ssh_key};
use zeroize::Zeroizing;

use super::known_hosts::preferred;
use crate::secret::Secret;

/// Four times a key of [`RSA_BITS_MAX`].
const BYTES_MAX: usize = 32 << 10;
const CERTIFICATE: &[u8] = b"-cert-v01@";
/// `ssh-keygen` writes 16 or 24, and its manual mentions 100. These take a second or two of a core.
const ROUNDS_MAX: u32 = 256;
/// OpenSSL writes 2048, and some recommend a million.
const ITERATIONS_MAX: u32 = 1_000_000;
/// OpenSSL's default takes 16 MiB.
const SCRYPT_BYTES_MAX: u64 = 64 << 20;
const CIPHER: &str = "DEK-Info";
/// Larger keys take seconds for a signature.
const RSA_BITS_MAX: u32 = 8192;

#[derive(Debug, thiserror::Error)]
pub(super) enum KeyError {
    #[error("it has {0} bytes, more than the limit of {BYTES_MAX}")]
    Size(usize),
    #[error("it is a public key: give the private key")]
    Public,
    #[error("it does not begin like a private key, with -----BEGIN OPENSSH PRIVATE KEY-----")]
    Unknown,
    #[error("a \"{0}\" is not supported: convert it with ssh-keygen -p")]
    Format(String),
    #[error("its type {0} is not supported: use ed25519, ecdsa or rsa")]
    Type(String),
    #[error("its modulus has {0} bits, more than the limit of {RSA_BITS_MAX}")]
    Modulus(u32),
    #[error("it is encrypted and no passphrase is given")]
    Locked,
    #[error("the passphrase does not decrypt it")]
    Passphrase,
    #[error("its encryption {0} is not supported: convert it with ssh-keygen -p")]
    Cipher(String),
    #[error("its passphrase takes too much work: {0}")]
    Cost(String),
    #[error("it contains a line of dashes: put one key and nothing else between BEGIN and END")]
    Nested,
    #[error("it is malformed")]
    Malformed(#[source] Box<dyn std::error::Error + Send + Sync>),
}

fn malformed(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> KeyError {
    KeyError::Malformed(error.into())
}

/// As with ssh, the passphrase of a plain key is ignored.
pub(super) fn read(identity: &Secret, passphrase: Option<&Secret>) -> Result<PrivateKey, KeyError> {
    let bytes = identity.expose();
    if bytes.len() > BYTES_MAX {
        return Err(KeyError::Size(bytes.len()));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| KeyError::Unknown)?;
    let passphrase = passphrase
        .map(|secret| std::str::from_utf8(secret.expose()))
        .transpose()
        .map_err(|_| KeyError::Passphrase)?;
    let block = Block::find(text)?;
    let key = match block.label {
        "OPENSSH PRIVATE KEY" => openssh(&block, passphrase)?,
        "RSA PRIVATE KEY" | "EC PRIVATE KEY" => match block.header(CIPHER) {
            Some(cipher) => legacy(&block, cipher, passphrase)?,
            None => plain(&block, None, None)?,
        },
        "PRIVATE KEY" => plain(&block, None, None)?,
        "ENCRYPTED PRIVATE KEY" => {
            let passphrase = passphrase.ok_or(KeyError::Locked)?;
            check_cost(&block)?;
            plain(&block, None, Some(passphrase)).map_err(|_| KeyError::Passphrase)?
        }
        "DSA PRIVATE KEY" => return Err(KeyError::Type("dsa".to_owned())),
        other if other.contains("PRIVATE KEY") => return Err(KeyError::Format(other.to_owned())),
        other if other.contains("PUBLIC KEY") => return Err(KeyError::Public),
        _ => return Err(KeyError::Unknown),
    };
    match (key.algorithm(), key.public_key().key_data().rsa()) {
        (Algorithm::Rsa { .. }, Some(rsa)) if rsa.key_size() > RSA_BITS_MAX => {
            Err(KeyError::Modulus(rsa.key_size()))
        }
        (algorithm, _) if preferred(&algorithm).is_empty() => Err(KeyError::Type(algorithm.to_string())),
        _ => Ok(key),
    }
}

struct Block<'a> {
    label: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> Block<'a> {
    fn find(text: &'a str) -> Result<Self, KeyError> {
        let mut lines = text.lines().map(str::trim);
        let label = |line: &'a str| line.strip_prefix("-----BEGIN ")?.strip_suffix("-----");
        // `openssl ecparam` writes the curve first.
        let label = lines
            .by_ref()
            .filter_map(label)
            .find(|label| *label != "EC PARAMETERS");
        let Some(label) = label else {
            let word = text.split_ascii_whitespace().next().unwrap_or_default();
            let public = Algorithm::new(word).is_ok_and(|known| !matches!(known, Algorithm::Other(_)));
            return Err(if public {
                KeyError::Public
            } else {
                KeyError::Unknown
            });
        };
        let lines: Vec<&str> = lines.take_while(|line| !line.starts_with("-----END ")).collect();
        match lines.iter().any(|line| line.starts_with("-----")) {
            true => Err(KeyError::Nested),
            false => Ok(Self { label, lines }),
        }
    }

    fn header(&self, name: &str) -> Option<&'a str> {
        let headers = self.lines.iter().filter_map(|line| line.split_once(':'));
        headers
            .filter(|(header, _)| *header == name)
            .map(|(_, value)| value.trim())
            .next()
    }

    fn body(&self) -> Result<Zeroizing<Vec<u8>>, KeyError> {
        let length = self.lines.iter().map(|line| line.len()).sum();
        // full capacity, because growing would leave copies behind
        let mut text = Zeroizing::new(String::with_capacity(length));
        for line in self.lines.iter().filter(|line| !line.contains(':')) {
            text.push_str(line);
        }
        STANDARD.decode(&*text).map(Zeroizing::new).map_err(malformed)
    }

    /// Only checked parts, and no line that the library could read differently.
    fn text(&self, cipher: Option<&str>) -> Result<Zeroizing<String>, KeyError> {
        let label = self.label;
        let header = cipher.map_or_else(String::new, |cipher| format!("{CIPHER}: {cipher}\n"));
        let body = Zeroizing::new(STANDARD.encode(&*self.body()?));
        Ok(Zeroizing::new(format!(
            "-----BEGIN {label}-----\n{header}{}\n-----END {label}-----\n",
            body.as_str()
        )))
    }
}

fn openssh(block: &Block<'_>, passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let body = block.body()?;
    // The library follows certificates of certificates without a limit.
    if body.windows(CERTIFICATE.len()).any(|bytes| bytes == CERTIFICATE) {
        return Err(KeyError::Type("certificate".to_owned()));
    }
    let key = PrivateKey::from_bytes(&body).map_err(malformed)?;
    if !key.is_encrypted() {
        return Ok(key);
    }
    match key.kdf() {
        ssh_key::Kdf::Bcrypt { rounds, .. } if *rounds > ROUNDS_MAX => Err(KeyError::Cost(format!(
            "{rounds} rounds of bcrypt, of {ROUNDS_MAX} at most"
        ))),
        _ => {
            let passphrase = passphrase.ok_or(KeyError::Locked)?;
            key.decrypt(passphrase).map_err(|error| match error {
                ssh_key::Error::Crypto => KeyError::Passphrase,
                error => malformed(error),
            })
        }
    }
}

fn plain(block: &Block<'_>, cipher: Option<&str>, passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    russh::keys::decode_secret_key(&block.text(cipher)?, passphrase).map_err(malformed)
}

/// `ssh-keygen -m PEM` writes it.
fn legacy(block: &Block<'_>, cipher: &str, passphrase: Option<&str>) -> Result<PrivateKey, KeyError> {
    let (name, start) = cipher.split_once(',').unwrap_or((cipher, ""));
    if name != "AES-128-CBC" || block.label != "RSA PRIVATE KEY" {
        return Err(KeyError::Cipher(format!("{name} of a \"{}\"", block.label)));
    }
    if start.len() != 32 || !start.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(malformed("its DEK-Info has no 32 hexadecimal digits"));
    }
    let passphrase = passphrase.ok_or(KeyError::Locked)?;
    // A wrong passphrase shows only in a malformed key.
    plain(block, Some(cipher), Some(passphrase)).map_err(|_| KeyError::Passphrase)
}

fn check_cost(block: &Block<'_>) -> Result<(), KeyError> {
    let body = block.body()?;
    let other = || KeyError::Cipher("other than PBES2".to_owned());
    let info = EncryptedPrivateKeyInfoRef::try_from(body.as_slice()).map_err(|_| other())?;
    match &info.encryption_algorithm {
        EncryptionScheme::Pbes2(parameters) => match &parameters.kdf {
            Kdf::Pbkdf2(costs) if costs.iteration_count > ITERATIONS_MAX => Err(KeyError::Cost(format!(
                "{} iterations, of {ITERATIONS_MAX} at most",
                costs.iteration_count
            ))),
            Kdf::Scrypt(costs) => {
                let block = u64::from(costs.block_size).saturating_mul(128);
                let bytes = costs.cost_parameter.saturating_mul(block);
                match bytes > SCRYPT_BYTES_MAX || costs.parallelization > 4 {
                    true => Err(KeyError::Cost(format!(
                        "scrypt with {bytes} bytes, {} times, of {SCRYPT_BYTES_MAX} and 4 at most",
                        costs.parallelization
                    ))),
                    false => Ok(()),
                }
            }
            _ => Ok(()),
        },
        _ => Err(other()),
    }
}

#[cfg(test)]
mod tests;
