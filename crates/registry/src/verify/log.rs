//! Entries of Rekor, the transparency log, versions 1 and 2: that a trusted log has recorded a signature, and
//! when.
//!
//! A log promises the entry with its signature over body and time (version 1), or proves it by a Merkle path
//! to a checkpoint that it signed (RFC 9162, section 2.1.3.2). The rules are those of sigstore-go 1.2, and
//! the body must name the signed content too.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use sha2::{Digest as _, Sha256};

use super::GoOn;
use super::certificate::Certificate;
use super::key::{Hash, KeyKind};
use super::trusted_root::{Log, TrustedRoot};
use super::wire;

/// The most entries of a bundle, as in sigstore-go.
pub const LOG_ENTRIES_MAX: usize = 32;
/// A tree with more levels has more leaves than an index can name.
const PROOF_HASHES_MAX: usize = 64;
const CHECKPOINT_BYTES_MAX: usize = 64 << 10;
const CHECKPOINT_SIGNATURES_MAX: usize = 100;

/// A log entry does not prove that the log recorded a signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// A field is missing or out of range.
    #[error("the log entry has an invalid {0}")]
    Invalid(&'static str),
    /// The body is of a kind that is not supported.
    #[error("unsupported entry type: {kind}/{version}")]
    Kind {
        /// Its kind.
        kind: String,
        /// Its version.
        version: String,
    },
    /// The body has another kind than the entry says.
    #[error("kind and version mismatch: {0} != {1}")]
    OtherKind(String, String),
    /// There are too many entries.
    #[error("too many tlog entries: {0} > {LOG_ENTRIES_MAX}")]
    TooMany(usize),
    /// An entry is there twice.
    #[error("duplicate tlog entries found")]
    Duplicate,
    /// The entry has neither a promise nor a proof.
    #[error("entry must contain an inclusion proof and/or promise")]
    Unproven,
    /// The checkpoint is not a signed note.
    #[error("invalid checkpoint: {0}")]
    Checkpoint(&'static str),
    /// The log did not sign the checkpoint.
    #[error("signature on checkpoint did not verify")]
    CheckpointSignature,
    /// The path does not lead to the root of the checkpoint.
    #[error("the inclusion proof does not lead to the root hash of the checkpoint")]
    Inclusion,
    /// The entry is for another signature.
    #[error("transparency log signature does not match")]
    OtherSignature,
    /// The entry is for another signer.
    #[error("transparency log certificate does not match")]
    OtherSigner,
    /// The entry is for other content.
    #[error("transparency log content does not match")]
    OtherContent,
    /// The certificate was not valid when the log recorded the signature.
    #[error("integrated time outside certificate validity")]
    Time,
    /// No trusted log recorded the signature.
    #[error("not enough verified log entries from transparency log: 0 < 1")]
    None,
}

/// The content that an entry names, by its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// The signed bytes.
    Message(ContentHash),
    /// The payload of an envelope.
    Payload(ContentHash),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct ContentHash {
    hash: Hash,
    value: Vec<u8>,
}

impl ContentHash {
    fn is_of(&self, bytes: &[u8]) -> bool {
        self.hash.of(bytes) == self.value
    }

    fn of_hex(given: &wire::HexHash) -> Result<Self, LogError> {
        Ok(Self {
            hash: match given.algorithm.as_str() {
                "sha256" => Hash::Sha256,
                "sha384" => Hash::Sha384,
                "sha512" => Hash::Sha512,
                _ => return Err(LogError::Invalid("hash algorithm")),
            },
            value: from_hex(&given.value).ok_or(LogError::Invalid("hash"))?,
        })
    }

    fn of_digest(given: &wire::DigestV2) -> Result<Self, LogError> {
        Ok(Self {
            hash: match given.algorithm.as_str() {
                "SHA2_256" => Hash::Sha256,
                "SHA2_384" => Hash::Sha384,
                "SHA2_512" => Hash::Sha512,
                _ => return Err(LogError::Invalid("hash algorithm")),
            },
            value: given.digest.0.clone(),
        })
    }
}

pub(super) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    digits
        .chunks_exact(2)
        .map(|pair| u8::try_from(digit(pair[0])? << 4 | digit(pair[1])?).ok())
        .collect()
}

/// The recorded signature.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    signature: Vec<u8>,
    /// The encoded certificate or key of the signer.
    signer: Vec<u8>,
    content: Content,
    is_version_1: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Proof {
    index: u64,
    size: u64,
    root: Vec<u8>,
    hashes: Vec<Vec<u8>>,
    checkpoint: String,
}

/// An entry of a log, not yet verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogEntry {
    index: i64,
    log_id: Vec<u8>,
    integrated: Option<Timestamp>,
    promise: Option<Vec<u8>>,
    proof: Option<Proof>,
    body: Vec<u8>,
    record: Record,
}

/// The signature that an entry must be about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) signature: &'a [u8],
    pub(super) certificate: &'a Certificate,
    pub(super) message: &'a [u8],
    /// The payload, if the message is the encoding of an envelope.
    pub(super) payload: Option<&'a [u8]>,
}

impl LogEntry {
    pub(super) fn parse(entry: wire::LogEntry) -> Result<Self, LogError> {
        let wire::KindVersion { kind, version } = entry.kind_version;
        let body = entry.canonicalized_body.0;
        let record = record(&body, Some((&kind, &version)))?;
        let proof = entry.inclusion_proof.map(proof).transpose()?;
        Self {
            index: entry.log_index.0,
            log_id: entry.log_id.key_id.0,
            integrated: None,
            promise: entry
                .inclusion_promise
                .map(|promise| promise.signed_entry_timestamp.0),
            proof,
            body,
            record,
        }
        .at(entry.integrated_time.0)
    }

    /// The entry of cosign's older format.
    pub(super) fn of_rekor_bundle(bundle: wire::RekorBundle) -> Result<Self, LogError> {
        let payload = bundle.payload;
        Self {
            index: payload.log_index,
            log_id: from_hex(&payload.log_id).ok_or(LogError::Invalid("log ID"))?,
            integrated: None,
            promise: Some(bundle.signed_entry_timestamp.0),
            proof: None,
            record: record(&payload.body.0, None)?,
            body: payload.body.0,
        }
        .at(payload.integrated_time)
    }

    fn at(mut self, seconds: i64) -> Result<Self, LogError> {
        if self.index < 0 {
            return Err(LogError::Invalid("index"));
        }
        if seconds != 0 {
            let time = Timestamp::from_second(seconds).map_err(|_| LogError::Invalid("integrated time"))?;
            self.integrated = Some(time);
        }
        Ok(self)
    }

    pub(super) fn has_promise(&self) -> bool {
        self.promise.is_some()
    }

    pub(super) fn has_proof(&self) -> bool {
        self.proof.is_some()
    }

    /// Entries of version 2 have no time.
    pub(super) fn has_time(&self) -> bool {
        self.integrated.is_some()
    }

    fn promised_at(&self, log: &Log) -> Option<Timestamp> {
        let promise = self.promise.as_deref()?;
        let time = self.integrated?;
        let is_ecdsa = matches!(log.key.kind(), KeyKind::P256 | KeyKind::P384);
        if !is_ecdsa || !self.record.is_version_1 || !log.valid_for.contains(time) {
            return None;
        }
        let payload = wire::SignedPayload {
            body: STANDARD.encode(&self.body),
            integrated_time: time.as_second(),
            log_id: to_hex(&self.log_id),
            log_index: self.index,
        };
        let text = serde_json::to_vec(&payload).ok()?;
        log.key.check(Hash::Sha256, &text, promise).ok()?;
        Some(time)
    }

    fn check_proof(&self, proof: &Proof, log: &Log) -> Result<(), LogError> {
        let checkpoint = Checkpoint::parse(&proof.checkpoint)?;
        let index = match checkpoint.is_version_1() {
            true => {
                checkpoint.check_signature(None, log)?;
                if checkpoint.root != proof.root || checkpoint.size != proof.size {
                    return Err(LogError::Inclusion);
                }
                proof.index
            }
            false => {
                let host = reqwest::Url::parse(&log.url).ok();
                let host = host.as_ref().and_then(|url| url.host_str());
                let host = host.ok_or(LogError::Checkpoint("the trusted log has no base URL"))?;
                checkpoint.check_signature(Some(host), log)?;
                // an index is not negative
                self.index.unsigned_abs()
            }
        };
        let leaf = Sha256::new()
            .chain_update([0])
            .chain_update(&self.body)
            .finalize();
        match path_root(index, checkpoint.size, leaf.into(), &proof.hashes) {
            Some(root) if root.as_slice() == checkpoint.root => Ok(()),
            _ => Err(LogError::Inclusion),
        }
    }
}

/// Checks that a trusted log recorded the signature, and returns the times that logs promised.
pub(super) fn check_entries(
    entries: &[LogEntry],
    root: &TrustedRoot,
    signed: Signed<'_>,
    go_on: GoOn<'_>,
) -> Result<Vec<Timestamp>, LogError> {
    for (at, entry) in entries.iter().enumerate() {
        let is_same = |other: &LogEntry| other.log_id == entry.log_id && other.index == entry.index;
        if entries[at + 1..].iter().any(is_same) {
            return Err(LogError::Duplicate);
        }
    }
    let mut times = Vec::new();
    let mut verified = 0;
    for entry in entries {
        if !go_on() {
            return Err(LogError::None);
        }
        let Some(log) = root.log(&entry.log_id) else {
            continue;
        };
        if !entry.has_promise() && !entry.has_proof() {
            return Err(LogError::Unproven);
        }
        if entry.has_promise() {
            match entry.promised_at(log) {
                Some(time) => times.push(time),
                None => continue,
            }
        }
        if let Some(proof) = &entry.proof {
            entry.check_proof(proof, log)?;
        }
        check_record(&entry.record, signed)?;
        if let Some(time) = entry.integrated
            && !signed.certificate.is_valid_at(time)
        {
            return Err(LogError::Time);
        }
        verified += 1;
    }
    match verified {
        0 => Err(LogError::None),
        _ => Ok(times),
    }
}

fn check_record(record: &Record, signed: Signed<'_>) -> Result<(), LogError> {
    if record.signature != signed.signature {
        return Err(LogError::OtherSignature);
    }
    if record.signer != signed.certificate.der() {
        return Err(LogError::OtherSigner);
    }
    let is_content = match &record.content {
        Content::Message(hash) => hash.is_of(signed.message),
        Content::Payload(hash) => signed.payload.is_some_and(|payload| hash.is_of(payload)),
    };
    match is_content {
        true => Ok(()),
        false => Err(LogError::OtherContent),
    }
}

fn proof(proof: wire::Proof) -> Result<Proof, LogError> {
    let unsigned = |number: wire::Integer| u64::try_from(number.0).ok();
    if proof.hashes.len() > PROOF_HASHES_MAX {
        return Err(LogError::Invalid("number of hashes in the inclusion proof"));
    }
    Ok(Proof {
        index: unsigned(proof.log_index).ok_or(LogError::Invalid("index"))?,
        size: unsigned(proof.tree_size).ok_or(LogError::Invalid("tree size"))?,
        root: proof.root_hash.0,
        hashes: proof.hashes.into_iter().map(|hash| hash.0).collect(),
        checkpoint: proof.checkpoint.envelope,
    })
}

/// Reads the body of an entry, which must have the kind that the entry says.
fn record(body: &[u8], named: Option<(&str, &str)>) -> Result<Record, LogError> {
    let body: wire::Body = serde_json::from_slice(body).map_err(|_| LogError::Invalid("body"))?;
    let (kind, version) = (body.kind.as_str(), body.api_version.as_str());
    if let Some(named) = named
        && named != (kind, version)
    {
        return Err(LogError::OtherKind(
            format!("{kind}/{version}"),
            format!("{}/{}", named.0, named.1),
        ));
    }
    match (kind, version) {
        ("hashedrekord", "0.0.1") => {
            let spec: wire::HashedRekord = spec(body.spec)?;
            Ok(Record {
                signature: spec.signature.content.0,
                signer: of_pem(&spec.signature.public_key.content.0)?,
                content: Content::Message(ContentHash::of_hex(&spec.data.hash)?),
                is_version_1: true,
            })
        }
        ("dsse", "0.0.1") => {
            let spec: wire::Dsse = spec(body.spec)?;
            let signature = first(spec.signatures)?;
            Ok(Record {
                signature: signature.signature.0,
                signer: of_pem(&signature.verifier.0)?,
                content: Content::Payload(ContentHash::of_hex(&spec.payload_hash)?),
                is_version_1: true,
            })
        }
        ("intoto", "0.0.2") => {
            let spec: wire::Intoto = spec(body.spec)?;
            let signature = first(spec.content.envelope.signatures)?;
            Ok(Record {
                // in base64 twice
                signature: STANDARD
                    .decode(&signature.sig.0)
                    .map_err(|_| LogError::Invalid("signature"))?,
                signer: of_pem(&signature.public_key.0)?,
                content: Content::Payload(ContentHash::of_hex(&spec.content.payload_hash)?),
                is_version_1: true,
            })
        }
        ("hashedrekord", "0.0.2") => {
            let spec: wire::SpecV2 = spec(body.spec)?;
            let record = spec.hashed_rekord_v002.ok_or(LogError::Invalid("body"))?;
            Ok(Record {
                content: Content::Message(ContentHash::of_digest(&record.data)?),
                signer: of_verifier(record.signature.verifier)?,
                signature: record.signature.content.0,
                is_version_1: false,
            })
        }
        ("dsse", "0.0.2") => {
            let spec: wire::SpecV2 = spec(body.spec)?;
            let record = spec.dsse_v002.ok_or(LogError::Invalid("body"))?;
            let signature = first(record.signatures)?;
            Ok(Record {
                content: Content::Payload(ContentHash::of_digest(&record.payload_hash)?),
                signer: of_verifier(signature.verifier)?,
                signature: signature.content.0,
                is_version_1: false,
            })
        }
        _ => Err(LogError::Kind {
            kind: body.kind,
            version: body.api_version,
        }),
    }
}

fn spec<T: serde::de::DeserializeOwned>(spec: serde_json::Value) -> Result<T, LogError> {
    serde_json::from_value(spec).map_err(|_| LogError::Invalid("body"))
}

fn first<T>(signatures: Vec<T>) -> Result<T, LogError> {
    let mut signatures = signatures.into_iter();
    match (signatures.next(), signatures.next()) {
        (Some(only), None) => Ok(only),
        _ => Err(LogError::Invalid("number of signatures")),
    }
}

fn of_pem(text: &[u8]) -> Result<Vec<u8>, LogError> {
    let block = pem::parse(text).map_err(|_| LogError::Invalid("public key"))?;
    Ok(block.into_contents())
}

fn of_verifier(verifier: wire::VerifierV2) -> Result<Vec<u8>, LogError> {
    let bytes = verifier.x509_certificate.or(verifier.public_key);
    bytes
        .map(|bytes| bytes.raw_bytes.0)
        .ok_or(LogError::Invalid("verifier"))
}

fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}

/// The root hash at the end of a path; `None` if the path has another length than the tree needs.
fn path_root(index: u64, size: u64, leaf: [u8; 32], hashes: &[Vec<u8>]) -> Option<[u8; 32]> {
    if index >= size {
        return None;
    }
    let (mut node, mut last, mut root) = (index, size - 1, leaf);
    for hash in hashes {
        if last == 0 || hash.len() != 32 {
            return None;
        }
        let parent = Sha256::new().chain_update([1]);
        if node & 1 == 1 || node == last {
            root = parent.chain_update(hash).chain_update(root).finalize().into();
            while node & 1 == 0 && node != 0 {
                node >>= 1;
                last >>= 1;
            }
        } else {
            root = parent.chain_update(root).chain_update(hash).finalize().into();
        }
        node >>= 1;
        last >>= 1;
    }
    (last == 0).then_some(root)
}

/// A signed note: the size and root of a tree.
#[derive(Debug)]
struct Checkpoint<'t> {
    /// The signed text.
    text: &'t str,
    origin: &'t str,
    size: u64,
    root: Vec<u8>,
    /// Names, hints and signatures.
    signatures: Vec<(&'t str, [u8; 4], Vec<u8>)>,
}

impl<'t> Checkpoint<'t> {
    fn parse(note: &'t str) -> Result<Self, LogError> {
        if note.len() > CHECKPOINT_BYTES_MAX {
            return Err(LogError::Checkpoint("it is too large"));
        }
        let end = note
            .rfind("\n\n")
            .ok_or(LogError::Checkpoint("it has no signatures"))?;
        let (text, signatures) = (&note[..=end], &note[end + 2..]);
        let mut lines = text.lines();
        let origin = lines.next().filter(|origin| !origin.is_empty());
        let size = lines.next().and_then(|size| size.parse().ok());
        let root = lines.next().and_then(|root| STANDARD.decode(root).ok());
        let mut parsed = Vec::new();
        for line in signatures.lines() {
            if parsed.len() == CHECKPOINT_SIGNATURES_MAX {
                return Err(LogError::Checkpoint("it has too many signatures"));
            }
            parsed.push(signature_line(line).ok_or(LogError::Checkpoint("a signature is malformed"))?);
        }
        Ok(Self {
            text,
            origin: origin.ok_or(LogError::Checkpoint("its origin is missing"))?,
            size: size.ok_or(LogError::Checkpoint("its size is invalid"))?,
            root: root
                .filter(|root| root.len() == 32)
                .ok_or(LogError::Checkpoint("its root hash is invalid"))?,
            signatures: parsed,
        })
    }

    /// Version 1 appends the id of the tree to its origin.
    fn is_version_1(&self) -> bool {
        let id = self.origin.rsplit_once(" - ").map(|(_, id)| id);
        id.is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()))
    }

    /// Checks that a log signed this. Version 2 also requires its host as origin and as name of the
    /// signature.
    fn check_signature(&self, host: Option<&str>, log: &Log) -> Result<(), LogError> {
        if host.is_some_and(|host| host != self.origin) {
            return Err(LogError::Checkpoint("its origin is another host"));
        }
        let hint = match log.key.kind() {
            KeyKind::Ed25519 => hint(self.origin, &[1], log.key.bytes()),
            KeyKind::Rsa(_) if host.is_some() => {
                hint(self.origin, b"\xffPKIX-RSA-PKCS#1v1.5", log.key.info())
            }
            KeyKind::P256 | KeyKind::P384 | KeyKind::Rsa(_) => {
                let [a, b, c, d, ..] = log.key.id();
                [a, b, c, d]
            }
        };
        // version 1 uses the hash of the whole key, whatever the algorithm
        let [a, b, c, d, ..] = log.key.id();
        let is_of_log = |found: [u8; 4]| found == hint || host.is_none() && found == [a, b, c, d];
        let is_signed = self
            .signatures
            .iter()
            .filter(|(name, found, _)| is_of_log(*found) && host.is_none_or(|host| host == *name))
            .any(|(_, _, signature)| {
                let hash = log.key.default_hash();
                log.key.check(hash, self.text.as_bytes(), signature).is_ok()
            });
        match is_signed {
            true => Ok(()),
            false => Err(LogError::CheckpointSignature),
        }
    }
}

fn hint(name: &str, kind: &[u8], key: &[u8]) -> [u8; 4] {
    let hash = Sha256::new()
        .chain_update(name)
        .chain_update(b"\n")
        .chain_update(kind)
        .chain_update(key)
        .finalize();
    let [a, b, c, d, ..]: [u8; 32] = hash.into();
    [a, b, c, d]
}

fn signature_line(line: &str) -> Option<(&str, [u8; 4], Vec<u8>)> {
    let (name, signature) = line.strip_prefix("\u{2014} ")?.split_once(' ')?;
    let bytes = STANDARD.decode(signature).ok()?;
    let (hint, signature) = bytes.split_first_chunk::<4>()?;
    (!signature.is_empty()).then(|| (name, *hint, signature.to_vec()))
}
