//! The chain of certificates in an envelope: from the signer to a self-signed root, each issued by the next.
//! The rules are those of notation-core-go 1.3.

use der::asn1::ObjectIdentifier;

use super::super::certificate::{Certificate, KeyUsage, name_parts};
use super::super::der::DerError;
use super::super::key::KeyKind;
use super::distinguished_name::attribute_name;

/// Usages that a certificate for code must not have: of servers, clients, email, timestamps and OCSP.
const EXCLUDED: [(ObjectIdentifier, &str); 5] = [
    (ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"), "ServerAuth"),
    (ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"), "ClientAuth"),
    (
        ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.4"),
        "EmailProtection",
    ),
    (ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.8"), "Timestamping"),
    (ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.9"), "OCSPSigning"),
];

/// A chain breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChainProblem {
    /// It is empty.
    #[error("certificate chain must contain at least one certificate")]
    Empty,
    /// An extension is malformed.
    #[error("an extension of a certificate is malformed")]
    Malformed(#[from] DerError),
    /// The only certificate did not sign itself.
    #[error("invalid self-signed certificate. subject: \"{0}\"")]
    NotSelfSigned(String),
    /// The last certificate did not sign itself.
    #[error(
        "root certificate with subject \"{0}\" is invalid or not self-signed. Certificate chain must end with a \
         valid self-signed root certificate"
    )]
    Root(String),
    /// A certificate before the last one signed itself.
    #[error("certificate with subject \"{0}\" is self-signed, but is not the last of the chain")]
    SelfSigned(String),
    /// A certificate is not issued by the next one.
    #[error("certificate with subject \"{0}\" is not issued by \"{1}\"")]
    NotIssued(String, String),
    /// A certificate breaks a rule.
    #[error("certificate with subject \"{subject}\": {rule}")]
    Rule {
        /// The certificate.
        subject: String,
        /// The rule.
        rule: String,
    },
}

pub(super) fn check(chain: &[Certificate]) -> Result<(), ChainProblem> {
    let (leaf, others) = chain.split_first().ok_or(ChainProblem::Empty)?;
    if others.is_empty() {
        if !is_issued_by(leaf, leaf) {
            return Err(ChainProblem::NotSelfSigned(subject_of(leaf)));
        }
        return check_leaf(leaf);
    }
    for (at, certificate) in chain.iter().enumerate() {
        let is_self_signed = is_issued_by(certificate, certificate);
        match chain.get(at + 1) {
            None if !is_self_signed => return Err(ChainProblem::Root(subject_of(certificate))),
            None => {}
            Some(_) if is_self_signed => return Err(ChainProblem::SelfSigned(subject_of(certificate))),
            Some(issuer) if !is_issued_by(certificate, issuer) => {
                return Err(ChainProblem::NotIssued(
                    subject_of(certificate),
                    subject_of(issuer),
                ));
            }
            Some(_) => {}
        }
        match at.checked_sub(1) {
            None => check_leaf(certificate)?,
            Some(below) => check_authority(certificate, below)?,
        }
    }
    Ok(())
}

fn is_issued_by(certificate: &Certificate, issuer: &Certificate) -> bool {
    certificate.issuer() == issuer.subject() && certificate.check_signed_by(issuer.key()).is_ok()
}

fn check_leaf(leaf: &Certificate) -> Result<(), ChainProblem> {
    let rule = |text: &str| broken(leaf, text);
    if leaf
        .basic_constraints()?
        .is_some_and(|constraints| constraints.is_authority)
    {
        return rule("if the basic constraints extension is present, the ca field must be set to false");
    }
    let usage = key_usage(leaf)?;
    let others = usage.bits() & !(KeyUsage::DIGITAL_SIGNATURE | KeyUsage::CONTENT_COMMITMENT);
    if !usage.has(KeyUsage::DIGITAL_SIGNATURE) || others != 0 {
        return rule("the key usage must be \"Digital Signature\" only");
    }
    if let Some((usages, _)) = leaf.extended_key_usage()? {
        let excluded = EXCLUDED.iter().find(|(usage, _)| usages.contains(usage));
        if let Some((_, name)) = excluded {
            return rule(&format!("extended key usage must not contain {name} eku"));
        }
    }
    match leaf.key().kind() {
        KeyKind::P256 | KeyKind::P384 | KeyKind::Rsa(2048 | 3072 | 4096) => Ok(()),
        KeyKind::Rsa(bits) => rule(&format!("rsa key size {bits} bits is not supported")),
        KeyKind::Ed25519 => rule("ed25519 keys are not supported"),
    }
}

/// `below` is the number of authorities between this one and the leaf.
fn check_authority(certificate: &Certificate, below: usize) -> Result<(), ChainProblem> {
    let rule = |text: &str| broken(certificate, text);
    let constraints = certificate.basic_constraints()?;
    let Some(constraints) = constraints.filter(|constraints| constraints.is_authority) else {
        return rule("ca field in basic constraints must be present, critical, and set to true");
    };
    let below = u64::try_from(below).unwrap_or(u64::MAX);
    if let Some(length) = constraints.path_length
        && length < below
    {
        return rule(&format!(
            "expected path length of {below} but certificate has path length {length} instead"
        ));
    }
    match key_usage(certificate)?.has(KeyUsage::CERT_SIGN) {
        true => Ok(()),
        false => rule("key usage must have the bit positions for key cert sign set"),
    }
}

fn key_usage(certificate: &Certificate) -> Result<KeyUsage, ChainProblem> {
    match certificate.key_usage()? {
        Some((usage, true)) => Ok(usage),
        Some((_, false)) => broken(certificate, "key usage extension must be marked critical"),
        None => broken(certificate, "key usage extension must be present"),
    }
}

fn broken<T>(certificate: &Certificate, rule: &str) -> Result<T, ChainProblem> {
    Err(ChainProblem::Rule {
        subject: subject_of(certificate),
        rule: rule.to_owned(),
    })
}

/// The subject, last attribute first, as Go prints it.
pub(super) fn subject_of(certificate: &Certificate) -> String {
    let Ok(parts) = name_parts(certificate.subject()) else {
        return "(malformed)".to_owned();
    };
    let texts: Vec<String> = parts
        .iter()
        .rev()
        .map(|part| {
            let attributes: Vec<String> = part
                .iter()
                .map(|(oid, value)| match attribute_name(*oid) {
                    Some(name) => format!("{name}={value}"),
                    None => format!("{oid}={value}"),
                })
                .collect();
            attributes.join("+")
        })
        .collect();
    texts.join(",")
}
