//! Sigstore's `trusted_root.json`: the certificate authorities, transparency logs and timestamp authorities
//! that a user trusts.

use jiff::Timestamp;

use super::certificate::{Certificate, CertificateError};
use super::key::{KeyError, PublicKey};
use super::wire;

/// The most bytes of a trusted root.
pub const TRUSTED_ROOT_BYTES_MAX: usize = 1 << 20;
/// The most authorities or logs of one kind, and certificates of one authority.
pub const TRUSTED_ENTRIES_MAX: usize = 100;

/// `targets/trusted_root.json` of sigstore/root-signing, commit 60cf2ce8 of 2026-08-21.
const PUBLIC_GOOD: &[u8] = include_bytes!("public_good.json");

/// A trusted root cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TrustedRootError {
    /// It is too large.
    #[error("the trusted root has {bytes} bytes, more than {TRUSTED_ROOT_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not the expected JSON.
    #[error("failed to proto-json unmarshal trusted root")]
    Json(#[source] serde_json::Error),
    /// Its media type is another one.
    #[error("unsupported TrustedRoot media type: {0}")]
    MediaType(String),
    /// It has too many entries.
    #[error("the trusted root has more than {TRUSTED_ENTRIES_MAX} {0}")]
    TooMany(&'static str),
    /// An entry lacks a field.
    #[error("{of} missing {field}")]
    Missing {
        /// The entry.
        of: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A log has another hash algorithm than SHA-256.
    #[error("unsupported tlog hash algorithm: {0}")]
    HashAlgorithm(String),
    /// A key cannot be used.
    #[error("failed to parse public key for tlog: {url}")]
    Key {
        /// The log.
        url: String,
        /// The cause.
        source: KeyError,
    },
    /// A certificate cannot be used.
    #[error("failed to parse certificate for {url}")]
    Certificate {
        /// The authority.
        url: String,
        /// The cause.
        source: CertificateError,
    },
}

/// A period. Its ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Period {
    pub(super) start: Option<Timestamp>,
    pub(super) end: Option<Timestamp>,
}

impl Period {
    pub(super) fn contains(&self, time: Timestamp) -> bool {
        self.start.is_none_or(|start| start <= time) && self.end.is_none_or(|end| time <= end)
    }
}

/// A certificate authority, or a timestamp authority.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Authority {
    pub(super) url: String,
    /// The certificate that signs timestamps. Certificate authorities have none.
    pub(super) leaf: Option<Certificate>,
    pub(super) intermediates: Vec<Certificate>,
    pub(super) root: Certificate,
    pub(super) valid_for: Period,
}

/// A transparency log, or a log of certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Log {
    pub(super) id: Vec<u8>,
    pub(super) url: String,
    pub(super) key: PublicKey,
    pub(super) valid_for: Period,
}

/// The parties that a user trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedRoot {
    pub(super) authorities: Vec<Authority>,
    pub(super) logs: Vec<Log>,
    pub(super) certificate_logs: Vec<Log>,
    pub(super) timestamp_authorities: Vec<Authority>,
}

impl TrustedRoot {
    /// The root of the public Sigstore, as it was when this program was built. Releases renew it; nobody is
    /// asked for a newer one.
    ///
    /// # Errors
    /// Never, because a test reads it.
    pub fn public_good() -> Result<Self, TrustedRootError> {
        Self::parse(PUBLIC_GOOD)
    }

    /// Parses `trusted_root.json`.
    ///
    /// # Errors
    /// It is too large, malformed, or has keys or certificates that are not usable.
    pub fn parse(json: &[u8]) -> Result<Self, TrustedRootError> {
        if json.len() > TRUSTED_ROOT_BYTES_MAX {
            return Err(TrustedRootError::TooLarge { bytes: json.len() });
        }
        let root: wire::TrustedRoot = serde_json::from_slice(json).map_err(TrustedRootError::Json)?;
        let is_known = root
            .media_type
            .starts_with("application/vnd.dev.sigstore.trustedroot");
        if !is_known {
            return Err(TrustedRootError::MediaType(root.media_type));
        }
        let counts = [
            (root.tlogs.len(), "transparency logs"),
            (root.ctlogs.len(), "certificate transparency logs"),
            (root.certificate_authorities.len(), "certificate authorities"),
            (root.timestamp_authorities.len(), "timestamp authorities"),
        ];
        if let Some((_, of)) = counts.iter().find(|(count, _)| *count > TRUSTED_ENTRIES_MAX) {
            return Err(TrustedRootError::TooMany(of));
        }
        Ok(Self {
            authorities: collect(root.certificate_authorities, authority)?,
            logs: collect(root.tlogs, log)?,
            certificate_logs: collect(root.ctlogs, log)?,
            timestamp_authorities: collect(root.timestamp_authorities, timestamp_authority)?,
        })
    }

    pub(super) fn log(&self, id: &[u8]) -> Option<&Log> {
        self.logs.iter().find(|log| log.id == id)
    }
}

fn collect<W, T>(
    from: Vec<W>,
    parse: fn(W) -> Result<T, TrustedRootError>,
) -> Result<Vec<T>, TrustedRootError> {
    from.into_iter().map(parse).collect()
}

fn period(valid_for: &wire::Period) -> Period {
    Period {
        start: valid_for.start.as_ref().map(|time| time.0),
        end: valid_for.end.as_ref().map(|time| time.0),
    }
}

fn log(log: wire::Log) -> Result<Log, TrustedRootError> {
    let missing = |field| TrustedRootError::Missing { of: "tlog", field };
    if log.hash_algorithm != "SHA2_256" {
        return Err(TrustedRootError::HashAlgorithm(log.hash_algorithm));
    }
    let id = log.log_id.ok_or(missing("log ID"))?.key_id.0;
    let key = log.public_key.ok_or(missing("public key"))?;
    let bytes = key.raw_bytes.ok_or(missing("public key raw bytes"))?.0;
    let valid_for = key.valid_for.ok_or(missing("public key validity period"))?;
    if valid_for.start.is_none() {
        return Err(missing("public key validity period start time"));
    }
    let parsed = match key.key_details.as_str() {
        "PKCS1_RSA_PKCS1V5" => PublicKey::from_pkcs1(&bytes),
        _ => PublicKey::from_info(&bytes),
    };
    Ok(Log {
        id,
        key: parsed.map_err(|source| TrustedRootError::Key {
            url: log.base_url.clone(),
            source,
        })?,
        url: log.base_url,
        valid_for: period(&valid_for),
    })
}

fn authority(authority: wire::Authority) -> Result<Authority, TrustedRootError> {
    let url = authority.uri;
    let chain = authority.cert_chain.unwrap_or_default().certificates;
    if chain.len() > TRUSTED_ENTRIES_MAX {
        return Err(TrustedRootError::TooMany("certificates in a chain"));
    }
    let mut certificates = Vec::with_capacity(chain.len());
    for certificate in chain {
        let parsed = Certificate::parse(&certificate.raw_bytes.0);
        certificates.push(parsed.map_err(|source| TrustedRootError::Certificate {
            url: url.clone(),
            source,
        })?);
    }
    let root = certificates.pop().ok_or(TrustedRootError::Missing {
        of: "CertificateAuthority",
        field: "cert chain",
    })?;
    Ok(Authority {
        url,
        leaf: None,
        intermediates: certificates,
        root,
        valid_for: period(&authority.valid_for.unwrap_or_default()),
    })
}

fn timestamp_authority(given: wire::Authority) -> Result<Authority, TrustedRootError> {
    let mut parsed = authority(given)?;
    let is_leaf = |first: &Certificate| {
        first
            .basic_constraints()
            .is_ok_and(|constraints| constraints.is_none_or(|constraints| !constraints.is_authority))
    };
    if parsed.intermediates.first().is_some_and(is_leaf) {
        parsed.leaf = Some(parsed.intermediates.remove(0));
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_of_the_public_sigstore_is_read() {
        let root = TrustedRoot::public_good().unwrap();
        let urls: Vec<&str> = root.logs.iter().map(|log| log.url.as_str()).collect();
        assert_eq!(
            urls,
            [
                "https://rekor.sigstore.dev",
                "https://log2025-1.rekor.sigstore.dev"
            ]
        );
        let counts = [
            root.authorities.len(),
            root.certificate_logs.len(),
            root.timestamp_authorities.len(),
        ];
        assert_eq!(counts, [2, 2, 1]);
        assert!(root.timestamp_authorities[0].leaf.is_some());
    }

    #[test]
    fn broken_roots_are_refused() {
        let check = |change: &str, to: &str, expected: &str| {
            let text = std::str::from_utf8(PUBLIC_GOOD).unwrap();
            assert!(text.contains(change), "{change}");
            let error = TrustedRoot::parse(text.replacen(change, to, 1).as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{change}: {error}");
        };
        check("{", "[", "failed to proto-json unmarshal trusted root");
        check(
            "vnd.dev.sigstore.trustedroot",
            "json",
            "unsupported TrustedRoot media type: application/json",
        );
        check(
            "SHA2_256",
            "SHA2_512",
            "unsupported tlog hash algorithm: SHA2_512",
        );
        check("\"logId\"", "\"log\"", "tlog missing log ID");
        check(
            "\"rawBytes\": \"MF",
            "\"rawBytes\": \"MG",
            "failed to parse public key for tlog: https://",
        );
        check(
            "\"rawBytes\": \"MII",
            "\"rawBytes\": \"MIJ",
            "failed to parse certificate for https://",
        );
        check(
            "\"certChain\"",
            "\"chain\"",
            "CertificateAuthority missing cert chain",
        );
        check(
            "2021-01-12T11",
            "yesterday",
            "failed to proto-json unmarshal trusted root",
        );
        check(
            "\"start\"",
            "\"begin\"",
            "tlog missing public key validity period start time",
        );
    }
}
