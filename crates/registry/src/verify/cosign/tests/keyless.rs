//! Keyless signatures of the older format, of a small Sigstore that each test makes: an authority, a
//! log of certificates and a log of signatures.

use super::{GO_ON, text};
use crate::verify::certificate::Certificate;
use crate::verify::cosign::{Identity, Signatures, Signer, SimpleSignature, Trust, Unverified, verify};
use crate::verify::trusted_root::TrustedRoot;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use oci_spec::image::Digest;
use rcgen::{
    BasicConstraints, CertificateParams, CustomExtension, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, SanType, SerialNumber, SigningKey as _, date_time_ymd,
};
use sha2::{Digest as _, Sha256};
use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::str::FromStr as _;

const ISSUER: &str = "https://token.actions.githubusercontent.com";
const SUBJECT: &str = "https://github.com/org/app/.github/workflows/release.yml@refs/tags/v1";
/// In the middle of the year in which the certificates are valid.
const SIGNED: i64 = 1_750_000_000;
const NOW: Timestamp = Timestamp::constant(1_795_000_000, 0);

/// One signature, with the parts that tests change.
struct Signing {
    issuer: &'static str,
    artifact: String,
    integrated: i64,
    purpose: ExtendedKeyUsagePurpose,
    /// The log of certificates signs.
    has_timestamp: bool,
    /// Another authority, or other logs, sign.
    other_authority: bool,
    other_certificate_log: bool,
    other_log: bool,
    /// The log recorded another signature, signer or payload.
    other_record: Option<&'static str>,
    has_entry: bool,
}

fn artifact() -> String {
    crate::sha256(b"artifact")
}

impl Default for Signing {
    fn default() -> Self {
        Self {
            issuer: ISSUER,
            artifact: artifact(),
            integrated: SIGNED,
            purpose: ExtendedKeyUsagePurpose::CodeSigning,
            has_timestamp: true,
            other_authority: false,
            other_certificate_log: false,
            other_log: false,
            other_record: None,
            has_entry: true,
        }
    }
}

fn key() -> KeyPair {
    KeyPair::generate().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn id(key: &KeyPair) -> Vec<u8> {
    Sha256::digest(key.subject_public_key_info()).to_vec()
}

fn authority() -> (CertificateParams, KeyPair, Vec<u8>) {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2040, 1, 1);
    let key = key();
    let der = params.self_signed(&key).unwrap().der().to_vec();
    (params, key, der)
}

/// A timestamp of a log, as RFC 6962 encodes it in a certificate.
fn certificate_timestamp(log: &KeyPair, authority: &KeyPair, before: &Certificate) -> Vec<u8> {
    let milliseconds = (SIGNED as u64 * 1000).to_be_bytes();
    let mut message = vec![0, 0];
    message.extend(milliseconds);
    message.extend([0, 1]);
    message.extend(id(authority));
    message.extend(&(before.body().len() as u32).to_be_bytes()[1..]);
    message.extend(before.body());
    message.extend([0, 0]);
    let signature = log.sign(&message).unwrap();
    let mut timestamp = vec![0];
    timestamp.extend(id(log));
    timestamp.extend(milliseconds);
    timestamp.extend([0, 0, 4, 3, 0, signature.len() as u8]);
    timestamp.extend(signature);
    let length = timestamp.len() as u8;
    // an octet string, a list, an element
    let mut value = vec![4, 0x81, length + 4, 0, length + 2, 0, length];
    if length + 4 < 0x80 {
        value = vec![4, length + 4, 0, length + 2, 0, length];
    }
    value.extend(timestamp);
    value
}

/// The signature of one artifact and the trusted root of its Sigstore.
fn sign(signing: &Signing) -> (SimpleSignature, TrustedRoot) {
    let (params, authority_key, authority_der) = authority();
    let (other_params, other_key, _) = authority();
    let (certificate_log, log, signer) = (key(), key(), key());

    let mut leaf = CertificateParams::default();
    leaf.not_before = date_time_ymd(2025, 1, 1);
    leaf.not_after = date_time_ymd(2026, 1, 1);
    leaf.serial_number = Some(SerialNumber::from(7_u64));
    leaf.distinguished_name = rcgen::DistinguishedName::new();
    leaf.subject_alt_names = vec![SanType::URI(SUBJECT.try_into().unwrap())];
    leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    leaf.extended_key_usages = vec![signing.purpose.clone()];
    let mut text = vec![0x0c, signing.issuer.len() as u8];
    text.extend(signing.issuer.as_bytes());
    let extension =
        |last: u64, value| CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 57264, 1, last], value);
    leaf.custom_extensions.push(extension(8, text));
    let issuer = match signing.other_authority {
        true => Issuer::new(other_params, other_key),
        false => Issuer::new(params, KeyPair::from_pem(&authority_key.serialize_pem()).unwrap()),
    };
    if signing.has_timestamp {
        let before = leaf.signed_by(&signer, &issuer).unwrap();
        let before = Certificate::parse(before.der()).unwrap();
        let log = match signing.other_certificate_log {
            true => &key(),
            false => &certificate_log,
        };
        let value = certificate_timestamp(log, &authority_key, &before);
        let list = CustomExtension::from_oid_content(&[1, 3, 6, 1, 4, 1, 11129, 2, 4, 2], value);
        leaf.custom_extensions.push(list);
    }
    let certificate = leaf.signed_by(&signer, &issuer).unwrap();
    let pem = certificate.pem();

    let payload = format!(
        r#"{{"critical":{{"identity":{{}},"image":{{"docker-manifest-digest":"{}"}},"type":"cosign container image signature"}},"optional":null}}"#,
        signing.artifact
    );
    let signature = STANDARD.encode(signer.sign(payload.as_bytes()).unwrap());
    let recorded = |part: &str, actual: String, other: String| match signing.other_record {
        Some(name) if name == part => other,
        _ => actual,
    };
    let body = format!(
        r#"{{"apiVersion":"0.0.1","kind":"hashedrekord","spec":{{"data":{{"hash":{{"algorithm":"sha256","value":"{}"}}}},"signature":{{"content":"{}","publicKey":{{"content":"{}"}}}}}}}}"#,
        recorded(
            "payload",
            hex(&Sha256::digest(&payload)),
            hex(&Sha256::digest("other"))
        ),
        recorded("signature", signature.clone(), STANDARD.encode("other")),
        STANDARD.encode(recorded("signer", pem.clone(), key().public_key_pem())),
    );
    let body = STANDARD.encode(body);
    let log_id = hex(&id(&log));
    let integrated = signing.integrated;
    let promised =
        format!(r#"{{"body":"{body}","integratedTime":{integrated},"logID":"{log_id}","logIndex":7}}"#);
    let log_key = match signing.other_log {
        true => &key(),
        false => &log,
    };
    let promise = STANDARD.encode(log_key.sign(promised.as_bytes()).unwrap());
    let bundle = format!(r#"{{"SignedEntryTimestamp":"{promise}","Payload":{promised}}}"#);

    let mut annotations = HashMap::from([
        ("dev.cosignproject.cosign/signature".to_owned(), signature),
        ("dev.sigstore.cosign/certificate".to_owned(), pem),
    ]);
    if signing.has_entry {
        annotations.insert("dev.sigstore.cosign/bundle".to_owned(), bundle);
    }
    let trusted_log = |key: &KeyPair| {
        serde_json::json!({
            "baseUrl": "https://log.example.com",
            "hashAlgorithm": "SHA2_256",
            "publicKey": {
                "rawBytes": STANDARD.encode(key.subject_public_key_info()),
                "keyDetails": "PKIX_ECDSA_P256_SHA_256",
                "validFor": {"start": "2024-01-01T00:00:00Z"},
            },
            "logId": {"keyId": STANDARD.encode(id(key))},
        })
    };
    let root = serde_json::json!({
        "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
        "tlogs": [trusted_log(&log)],
        "ctlogs": [trusted_log(&certificate_log)],
        "certificateAuthorities": [{
            "uri": "https://fulcio.example.com",
            "certChain": {"certificates": [{"rawBytes": STANDARD.encode(authority_der)}]},
            "validFor": {"start": "2020-01-01T00:00:00Z"},
        }],
    });
    (
        SimpleSignature::of_layer(Some(&annotations), payload.into_bytes()),
        TrustedRoot::parse(root.to_string().as_bytes()).unwrap(),
    )
}

fn result(signing: &Signing, identities: &[(&str, &str)]) -> Result<Signer, String> {
    let (signature, root) = sign(signing);
    let identities = identities
        .iter()
        .map(|(issuer, subject)| Identity::new(issuer, subject).unwrap())
        .collect();
    let trust = Trust::Keyless {
        root: Box::new(root),
        identities,
    };
    let signatures = Signatures {
        bundles: Vec::new(),
        simple: vec![signature],
    };
    let artifact = Digest::from_str(&artifact()).unwrap();
    verify(&artifact, &signatures, &trust, NOW, GO_ON).map_err(|error| text(&error))
}

#[test]
fn recorded_signature_of_a_trusted_certificate_is_valid() {
    let signer = Signer::Certificate {
        issuer: ISSUER.to_owned(),
        subjects: vec![SUBJECT.to_owned()],
    };
    for identities in [
        &[][..],
        &[("^https://token.actions", "^https://github.com/org/app/")],
        &[("^https://accounts", ""), ("", "release.yml")],
    ] {
        assert_eq!(
            result(&Signing::default(), identities),
            Ok(signer.clone()),
            "{identities:?}"
        );
    }
}

#[test]
fn keyless_signatures_without_full_evidence_are_refused() {
    let check = |signing: Signing, expected: &str| {
        let error = result(&signing, &[]).unwrap_err();
        assert_eq!(error, format!("no matching signatures: {expected}"));
    };
    let log = "failed to verify log inclusion";
    let recorded = |part| Signing {
        other_record: Some(part),
        ..Signing::default()
    };
    check(
        recorded("signature"),
        &format!("{log}: transparency log signature does not match"),
    );
    check(
        recorded("signer"),
        &format!("{log}: transparency log certificate does not match"),
    );
    check(
        recorded("payload"),
        &format!("{log}: transparency log content does not match"),
    );
    check(
        Signing {
            other_log: true,
            ..Signing::default()
        },
        &format!("{log}: not enough verified log entries from transparency log: 0 < 1"),
    );
    check(
        Signing {
            has_entry: false,
            ..Signing::default()
        },
        "the signature has no entry of a transparency log; sign with one, because equate does not ask Rekor",
    );
    check(
        Signing {
            integrated: SIGNED + 100_000_000,
            ..Signing::default()
        },
        &format!("{log}: integrated time outside certificate validity"),
    );
    check(
        Signing {
            other_authority: true,
            ..Signing::default()
        },
        "leaf certificate verification failed: it is of no trusted authority at 2025-01-01T00:00:00Z",
    );
    check(
        Signing {
            purpose: ExtendedKeyUsagePurpose::ServerAuth,
            ..Signing::default()
        },
        "leaf certificate verification failed: it is of no trusted authority at 2025-01-01T00:00:00Z",
    );
    let timestamps = "failed to verify signed certificate timestamp";
    check(
        Signing {
            has_timestamp: false,
            ..Signing::default()
        },
        &format!(
            "{timestamps}: certificate does not include required embedded SCT and no detached SCT was set"
        ),
    );
    check(
        Signing {
            other_certificate_log: true,
            ..Signing::default()
        },
        &format!("{timestamps}: only able to verify 0 SCT entries; unable to meet threshold of 1"),
    );
    check(
        Signing {
            artifact: crate::sha256(b"other"),
            ..Signing::default()
        },
        &format!("invalid or missing digest in claim: {}", crate::sha256(b"other")),
    );
}

#[test]
fn another_identity_is_refused() {
    let error = result(&Signing::default(), &[("^https://accounts.google.com$", "")]).unwrap_err();
    assert_eq!(
        error,
        format!(
            "no matching signatures: none of the expected identities matched what was in the certificate, got \
             subjects [{SUBJECT}] with issuer {ISSUER}"
        )
    );
}

/// The questions of a verification with 50 signatures, 50 authorities and 50 identities, which all are of others.
/// After `stops` of them it is told to stop.
fn questions(stops: usize) -> (usize, Unverified) {
    let (signature, mut root) = sign(&Signing::default());
    let (_, other) = sign(&Signing::default());
    let others = std::iter::repeat_n(&other.authorities[0], 49).cloned();
    root.authorities.splice(0..0, others);
    let identity = Identity::new("^https://accounts.google.com$", "").unwrap();
    let trust = Trust::Keyless {
        root: Box::new(root),
        identities: vec![identity; 50],
    };
    let signatures = Signatures {
        bundles: Vec::new(),
        simple: vec![signature; 50],
    };
    let asked = Cell::new(0);
    let go_on = || {
        asked.set(asked.get() + 1);
        asked.get() <= stops
    };
    let artifact = Digest::from_str(&artifact()).unwrap();
    let unverified = verify(&artifact, &signatures, &trust, NOW, &go_on).unwrap_err();
    (asked.get(), unverified)
}

#[test]
fn each_part_of_a_verification_asks_whether_it_goes_on() {
    let (asked, unverified) = questions(usize::MAX);
    assert!(matches!(unverified, Unverified::Simple(errors) if errors.len() == 50));
    // the certificate is checked at two times
    assert_eq!(asked, 51 + 50 * (2 * 50 + 1 + 50));
    for stops in [0, 1, 60, 101, 102, 150, 1000] {
        let (asked, unverified) = questions(stops);
        assert!(matches!(unverified, Unverified::Stopped), "{stops}: {unverified}");
        assert!(asked - stops <= 152, "{stops}: {asked}");
    }
}
