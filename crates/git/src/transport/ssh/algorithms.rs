//! The algorithms that are offered, in order: OpenSSH's defaults, as far as the library supports them.
//!
//! Always refused: SHA-1 (`ssh-rsa`) and DSA for host keys and signatures, ciphers in CBC mode, and no
//! encryption. `hmac-sha1` is the last choice, as in OpenSSH.

use std::borrow::Cow;

use russh::{
    Preferred, cipher, compression, kex,
    keys::{Algorithm, EcdsaCurve, HashAlg},
    mac,
};

use super::known_hosts::Known;

/// Preferred first.
const KEX: [kex::Name; 11] = [
    kex::MLKEM768X25519_SHA256,
    kex::CURVE25519,
    kex::CURVE25519_PRE_RFC_8731,
    kex::ECDH_SHA2_NISTP256,
    kex::ECDH_SHA2_NISTP384,
    kex::ECDH_SHA2_NISTP521,
    kex::DH_GEX_SHA256,
    kex::DH_G16_SHA512,
    kex::DH_G18_SHA512,
    kex::DH_G14_SHA256,
    kex::DH_G15_SHA512,
];

const KEX_WHERE_NAMED: [kex::Name; 3] = [kex::DH_G17_SHA512, kex::DH_G14_SHA1, kex::DH_GEX_SHA1];

/// Not algorithms: extensions and strict key exchange.
const KEX_MARKS: [kex::Name; 2] = [
    kex::EXTENSION_SUPPORT_AS_CLIENT,
    kex::EXTENSION_OPENSSH_STRICT_KEX_AS_CLIENT,
];

/// Accepted SSH host key algorithms, preferred first.
const HOST_KEYS: [Algorithm; 6] = [
    Algorithm::Ed25519,
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP256,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP384,
    },
    Algorithm::Ecdsa {
        curve: EcdsaCurve::NistP521,
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha512),
    },
    Algorithm::Rsa {
        hash: Some(HashAlg::Sha256),
    },
];

const CIPHERS: &[cipher::Name] = &[
    cipher::CHACHA20_POLY1305,
    cipher::AES_128_GCM,
    cipher::AES_256_GCM,
    cipher::AES_128_CTR,
    cipher::AES_192_CTR,
    cipher::AES_256_CTR,
];

const MACS: &[mac::Name] = &[
    mac::HMAC_SHA256_ETM,
    mac::HMAC_SHA512_ETM,
    mac::HMAC_SHA256,
    mac::HMAC_SHA512,
    mac::HMAC_SHA1_ETM,
    mac::HMAC_SHA1,
];

/// The key exchange and host key algorithms that are offered to ssh hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshAlgorithms {
    kex: Vec<kex::Name>,
    host_keys: Vec<Algorithm>,
    certificates: Vec<Algorithm>,
}

/// An error for an unsupported algorithm name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name:?} is not a supported {what} algorithm: use one of {}", known.join(", "))]
pub struct SshAlgorithmError {
    name: String,
    what: &'static str,
    known: Vec<String>,
}

impl Default for SshAlgorithms {
    fn default() -> Self {
        Self {
            kex: KEX.to_vec(),
            host_keys: HOST_KEYS.to_vec(),
            certificates: HOST_KEYS.to_vec(),
        }
    }
}

impl SshAlgorithms {
    /// Offers exactly these SSH algorithm names, in this order. An empty list means the default, and so
    /// does a single empty name, which a flag without a value gives.
    ///
    /// # Errors
    /// A name is not a supported algorithm.
    pub fn new<S: AsRef<str>>(kex: &[S], host_keys: &[S]) -> Result<Self, SshAlgorithmError> {
        let mut chosen = Self::default();
        let given = |names: &[S]| {
            names
                .iter()
                .any(|name| names.len() > 1 || !name.as_ref().is_empty())
        };
        if given(kex) {
            chosen.kex = kex
                .iter()
                .map(|name| kex_of(name.as_ref()))
                .collect::<Result<_, _>>()?;
        }
        if given(host_keys) {
            chosen.host_keys.clear();
            chosen.certificates.clear();
            for name in host_keys {
                match host_key_of(name.as_ref())? {
                    (algorithm, true) => chosen.certificates.push(algorithm),
                    (algorithm, false) => chosen.host_keys.push(algorithm),
                }
            }
        }
        Ok(chosen)
    }

    pub(super) fn preferred(&self, known: &Known) -> Preferred {
        let certificates = match known.has_authorities() {
            true => self.certificates.clone(),
            false => Vec::new(),
        };
        Preferred {
            kex: self.kex.iter().copied().chain(KEX_MARKS).collect(),
            key: known.algorithms(&self.host_keys).into(),
            host_key_certificates: certificates.into(),
            cipher: Cow::Borrowed(CIPHERS),
            mac: Cow::Borrowed(MACS),
            compression: Cow::Borrowed(&[compression::NONE]),
        }
    }
}

fn kex_of(name: &str) -> Result<kex::Name, SshAlgorithmError> {
    let spoken = || KEX.into_iter().chain(KEX_WHERE_NAMED);
    let found = spoken().find(|known| known.as_ref() == name);
    found.ok_or_else(|| SshAlgorithmError {
        name: name.to_owned(),
        what: "key exchange",
        known: spoken().map(|known| known.as_ref().to_owned()).collect(),
    })
}

fn host_key_of(name: &str) -> Result<(Algorithm, bool), SshAlgorithmError> {
    let plain = |known: &Algorithm| known.to_string() == name;
    let certificate = |known: &Algorithm| known.to_certificate_type() == name;
    let mut both = HOST_KEYS.iter();
    let found = both.find(|known| plain(known) || certificate(known));
    let found = found.map(|known| (known.clone(), certificate(known)));
    found.ok_or_else(|| SshAlgorithmError {
        name: name.to_owned(),
        what: "host key",
        known: HOST_KEYS.iter().map(ToString::to_string).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::SshAlgorithms;

    #[test]
    fn algorithm_names_are_validated() {
        #[track_caller]
        fn check(kex: &[&str], host_keys: &[&str], want: &str) {
            let got = match SshAlgorithms::new(kex, host_keys) {
                Ok(SshAlgorithms {
                    kex,
                    host_keys,
                    certificates,
                }) => {
                    let kex: Vec<&str> = kex.iter().map(AsRef::as_ref).collect();
                    let keys: Vec<String> = host_keys.iter().map(ToString::to_string).collect();
                    format!("{} | {} | {}", kex.join(" "), keys.join(" "), certificates.len())
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(got, want);
        }
        assert_eq!(SshAlgorithms::new(&[""], &[""]), Ok(SshAlgorithms::default()));
        check(
            &[],
            &[],
            "mlkem768x25519-sha256 curve25519-sha256 curve25519-sha256@libssh.org ecdh-sha2-nistp256 \
             ecdh-sha2-nistp384 ecdh-sha2-nistp521 diffie-hellman-group-exchange-sha256 \
             diffie-hellman-group16-sha512 diffie-hellman-group18-sha512 diffie-hellman-group14-sha256 \
             diffie-hellman-group15-sha512 | ssh-ed25519 ecdsa-sha2-nistp256 ecdsa-sha2-nistp384 \
             ecdsa-sha2-nistp521 rsa-sha2-512 rsa-sha2-256 | 6",
        );
        check(
            &["ecdh-sha2-nistp384", "diffie-hellman-group14-sha1"],
            &["rsa-sha2-256", "ssh-ed25519-cert-v01@openssh.com"],
            "ecdh-sha2-nistp384 diffie-hellman-group14-sha1 | rsa-sha2-256 | 1",
        );
        check(
            &["none"],
            &[],
            "\"none\" is not a supported key exchange algorithm: use one of mlkem768x25519-sha256, \
             curve25519-sha256, curve25519-sha256@libssh.org, ecdh-sha2-nistp256, ecdh-sha2-nistp384, \
             ecdh-sha2-nistp521, diffie-hellman-group-exchange-sha256, diffie-hellman-group16-sha512, \
             diffie-hellman-group18-sha512, diffie-hellman-group14-sha256, diffie-hellman-group15-sha512, \
             diffie-hellman-group17-sha512, diffie-hellman-group14-sha1, \
             diffie-hellman-group-exchange-sha1",
        );
        check(
            &[],
            &["ssh-rsa"],
            "\"ssh-rsa\" is not a supported host key algorithm: use one of ssh-ed25519, ecdsa-sha2-nistp256, \
             ecdsa-sha2-nistp384, ecdsa-sha2-nistp521, rsa-sha2-512, rsa-sha2-256",
        );
    }
}
