//! Chains of certificates, from a leaf to a given root. webpki decides; this adds what Go's verifier checks
//! beyond it.

use jiff::Timestamp;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use super::certificate::Certificate;

/// The purpose that each certificate of a chain must allow, if it restricts its purposes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    CodeSigning,
    TimeStamping,
}

impl Purpose {
    /// The value of the purpose's object identifier.
    fn oid(self) -> &'static [u8] {
        match self {
            Self::CodeSigning => &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x03],
            Self::TimeStamping => &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x08],
        }
    }
}

/// A certificate is not of a given root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The path is invalid.
    #[error("no valid path from the certificate to the root")]
    Path(#[source] webpki::Error),
    /// The root is not valid at the time.
    #[error("the root certificate is not valid at {0}")]
    Root(Timestamp),
    /// The time is before 1970.
    #[error("the time {0} is out of range")]
    Time(Timestamp),
}

/// Checks that a leaf is of a root at a time, and returns the issuer of the leaf.
pub(super) fn check_chain<'c>(
    leaf: &Certificate,
    intermediates: &'c [Certificate],
    root: &'c Certificate,
    time: Timestamp,
    purpose: Purpose,
) -> Result<&'c Certificate, ChainError> {
    if !root.is_valid_at(time) {
        return Err(ChainError::Root(time));
    }
    let seconds = u64::try_from(time.as_second()).map_err(|_| ChainError::Time(time))?;
    let leaf_der = CertificateDer::from(leaf.der());
    let end = EndEntityCert::try_from(&leaf_der).map_err(ChainError::Path)?;
    let root_der = CertificateDer::from(root.der());
    let anchors = [anchor_from_trusted_cert(&root_der).map_err(ChainError::Path)?];
    let others: Vec<CertificateDer<'_>> = intermediates
        .iter()
        .map(|certificate| CertificateDer::from(certificate.der()))
        .collect();
    let path = end
        .verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            &others,
            UnixTime::since_unix_epoch(Duration::from_secs(seconds)),
            KeyUsage::required_if_present(purpose.oid()),
            None,
            None,
        )
        .map_err(ChainError::Path)?;
    let issuer = path.intermediate_certificates().next().map(webpki::Cert::der);
    Ok(issuer
        .and_then(|der| intermediates.iter().find(|other| other.der() == der.as_ref()))
        .unwrap_or(root))
}
