//! The keys that a host may present: lines of a `known_hosts` file, as described in `sshd(8)`.
//!
//! Supported are lists, `[host]:port`, `*` and `?`, `!`, hashed names, `@revoked` and `@cert-authority`. An
//! unreadable line for this host trusts no key, and is reported only if no other line applies. Lines for
//! other hosts are skipped. Files beyond [`BYTES_MAX`] and keys of unsupported types (DSA, security keys)
//! are refused.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use russh::keys::{Algorithm, Certificate, EcdsaCurve, HashAlg, PublicKey, ssh_key::certificate::CertType};

/// More than the largest Secret.
const BYTES_MAX: usize = 4 << 20;

const PORT: u16 = 22;

#[derive(Debug, Default)]
pub(super) struct Known {
    name: String,
    host: String,
    keys: Vec<(usize, PublicKey)>,
    authorities: Vec<PublicKey>,
    revoked: Vec<(usize, PublicKey)>,
    unread: Vec<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("known_hosts has {bytes} bytes, more than the limit of {BYTES_MAX}")]
    Size { bytes: usize },
    #[error("no line is for {name}; the host presented {shown}")]
    Unknown { name: String, shown: String },
    #[error("line {line} for {name} has an unreadable key; the host presented {shown}")]
    Unread {
        name: String,
        line: usize,
        shown: String,
    },
    #[error("line {line} has another {algorithm} key for {name}; the host presented {shown}")]
    Changed {
        name: String,
        line: usize,
        algorithm: String,
        shown: String,
    },
    #[error("line {line} has a key of another type for {name}; the host presented {shown}")]
    OtherType {
        name: String,
        line: usize,
        shown: String,
    },
    #[error("line {line} revokes {shown}")]
    Revoked { line: usize, shown: String },
    #[error("its certificate {shown} {problem}")]
    Certificate { shown: String, problem: &'static str },
}

enum Marker {
    None,
    Revoked,
    Authority,
}

impl Known {
    pub(super) fn read(text: &[u8], host: &str, port: u16) -> Result<Self, Refusal> {
        if text.len() > BYTES_MAX {
            return Err(Refusal::Size { bytes: text.len() });
        }
        let host = host.to_ascii_lowercase();
        let with_port = format!("[{host}]:{port}");
        let names: &[&str] = match port {
            PORT => &[&host, &with_port],
            _ => &[&with_port],
        };
        let known = Self::of(text, &host, names);
        if port == PORT || !known.has_no_keys() {
            return Ok(known);
        }
        // As in ssh, a host without a line for its port uses those without a port. Keys revoked for the
        // port stay revoked.
        let mut plain = Self::of(text, &host, &[&host]);
        if plain.has_no_keys() {
            return Ok(known);
        }
        plain.revoked.extend(known.revoked);
        Ok(plain)
    }

    /// Revocations do not count.
    fn has_no_keys(&self) -> bool {
        self.keys.is_empty() && self.authorities.is_empty() && self.unread.is_empty()
    }

    fn of(text: &[u8], host: &str, names: &[&str]) -> Self {
        let mut known = Self {
            name: names.first().copied().unwrap_or_default().to_owned(),
            host: host.to_owned(),
            ..Self::default()
        };
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let Ok(line) = std::str::from_utf8(line) else {
                continue;
            };
            known.add(at + 1, line, names);
        }
        known
    }

    fn add(&mut self, number: usize, line: &str, names: &[&str]) {
        let mut words = line.split_ascii_whitespace().peekable();
        let marker = match words.peek() {
            Some(&"@revoked") => Marker::Revoked,
            Some(&"@cert-authority") => Marker::Authority,
            // a comment, an empty line, or an unknown marker
            Some(word) if word.starts_with(['#', '@']) => return,
            Some(_) => Marker::None,
            None => return,
        };
        if !matches!(marker, Marker::None) {
            words.next();
        }
        let Some(patterns) = words.next() else { return };
        if !names.iter().any(|name| matches(patterns, name)) {
            return;
        }
        let (Some(algorithm), Some(key)) = (words.next(), words.next()) else {
            return self.unread.push(number);
        };
        let key = russh::keys::parse_public_key_base64(key)
            .ok()
            .filter(|key| key.algorithm().as_str() == algorithm && !preferred(&key.algorithm()).is_empty());
        match (key, marker) {
            (Some(key), Marker::None) => self.keys.push((number, key)),
            (Some(key), Marker::Authority) => self.authorities.push(key),
            (Some(key), Marker::Revoked) => self.revoked.push((number, key)),
            (None, _) => self.unread.push(number),
        }
    }

    /// Those of known keys first: a host with several keys presents the first that is requested.
    pub(super) fn algorithms(&self, accepted: &[Algorithm]) -> Vec<Algorithm> {
        let known: Vec<Algorithm> = (self.keys.iter())
            .flat_map(|(_, key)| preferred(&key.algorithm()))
            .collect();
        let (mut first, then): (Vec<_>, Vec<_>) = accepted
            .iter()
            .cloned()
            .partition(|algorithm| known.contains(algorithm));
        first.extend(then);
        first
    }

    pub(super) fn has_authorities(&self) -> bool {
        !self.authorities.is_empty()
    }

    pub(super) fn check(&self, key: &PublicKey) -> Result<(), Refusal> {
        self.check_revoked(key)?;
        let same = |known: &&(usize, PublicKey)| known.1.key_data() == key.key_data();
        if self.keys.iter().any(|known| same(&known)) {
            return Ok(());
        }
        let (name, shown) = (self.name.clone(), shown(key));
        let of_its_type = |known: &&(usize, PublicKey)| known.1.algorithm() == key.algorithm();
        let other = self.keys.iter().find(of_its_type).or(self.keys.first());
        Err(match (other, self.unread.first()) {
            (Some((line, other)), _) if other.algorithm() == key.algorithm() => Refusal::Changed {
                name,
                line: *line,
                algorithm: other.algorithm().to_string(),
                shown,
            },
            (_, Some(line)) => Refusal::Unread {
                name,
                line: *line,
                shown,
            },
            (Some((line, _)), None) => Refusal::OtherType {
                name,
                line: *line,
                shown,
            },
            (None, None) => Refusal::Unknown { name, shown },
        })
    }

    pub(super) fn check_certificate(&self, certificate: &Certificate) -> Result<(), Refusal> {
        let key = PublicKey::new(certificate.public_key().clone(), "");
        let authority = PublicKey::new(certificate.signature_key().clone(), "");
        self.check_revoked(&key)?;
        self.check_revoked(&authority)?;
        let refuse = |problem| {
            Err(Refusal::Certificate {
                shown: shown(&key),
                problem,
            })
        };
        let trusted = |known: &&PublicKey| known.key_data() == authority.key_data();
        let Some(trusted) = self.authorities.iter().find(trusted) else {
            return refuse("is from an authority that has no @cert-authority line in known_hosts");
        };
        // The library verifies SHA-1 too.
        if !preferred(&authority.algorithm()).contains(&certificate.signature().algorithm()) {
            return refuse("is signed with an algorithm that is not accepted, such as ssh-rsa with SHA-1");
        }
        if certificate.cert_type() != CertType::Host {
            return refuse("is not a host certificate");
        }
        if certificate.critical_options().iter().next().is_some() {
            return refuse("has critical options, which are not supported for hosts");
        }
        let principals = certificate.valid_principals();
        if !principals
            .iter()
            .any(|principal| glob(&principal.to_ascii_lowercase(), &self.host))
        {
            return refuse("is for other hosts");
        }
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |now| now.as_secs());
        match certificate.validate_at(now, [&trusted.fingerprint(HashAlg::Sha256)]) {
            Ok(()) => Ok(()),
            Err(_) if !(certificate.valid_after()..certificate.valid_before()).contains(&now) => {
                refuse("is not valid at this time")
            }
            Err(_) => refuse("is not signed by the authority it names"),
        }
    }

    fn check_revoked(&self, key: &PublicKey) -> Result<(), Refusal> {
        let revoked = self
            .revoked
            .iter()
            .find(|(_, revoked)| revoked.key_data() == key.key_data());
        match revoked {
            Some((line, _)) => Err(Refusal::Revoked {
                line: *line,
                shown: shown(key),
            }),
            None => Ok(()),
        }
    }
}

fn shown(key: &PublicKey) -> String {
    format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256))
}

/// None for unsupported types. RSA never uses SHA-1.
pub(super) fn preferred(algorithm: &Algorithm) -> Vec<Algorithm> {
    match algorithm {
        Algorithm::Ed25519
        | Algorithm::Ecdsa {
            curve: EcdsaCurve::NistP256 | EcdsaCurve::NistP384 | EcdsaCurve::NistP521,
        } => vec![algorithm.clone()],
        Algorithm::Rsa { .. } => [HashAlg::Sha512, HashAlg::Sha256]
            .map(|hash| Algorithm::Rsa { hash: Some(hash) })
            .to_vec(),
        _ => Vec::new(),
    }
}

fn matches(patterns: &str, name: &str) -> bool {
    if let Some(hashed) = patterns.strip_prefix("|1|") {
        return is_hash_of(hashed, name).unwrap_or(false);
    }
    let mut found = false;
    for pattern in patterns.split(',') {
        let pattern = pattern.to_ascii_lowercase();
        match pattern.strip_prefix('!') {
            Some(not) if glob(not, name) => return false,
            Some(_) => {}
            None => found = found || glob(&pattern, name),
        }
    }
    found
}

/// `salt|hash`, both base64, of HMAC-SHA1.
fn is_hash_of(hashed: &str, name: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    let (salt, hash) = (STANDARD.decode(salt).ok()?, STANDARD.decode(hash).ok()?);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &salt);
    Some(ring::hmac::verify(&key, name.as_bytes(), &hash).is_ok())
}

/// Takes at most the product of both lengths.
fn glob(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut p, mut n) = (0, 0);
    // The position of the last star, and where its match ends.
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match &mut star {
                Some((at, taken)) => {
                    *taken += 1;
                    p = *at + 1;
                    n = *taken;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests;
