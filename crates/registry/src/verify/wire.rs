//! Sigstore's JSON: trusted roots, bundles, and the bodies of log entries, as protobuf and Rekor write them.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;
use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};

const LENIENT: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Bytes in base64 as protobuf reads it: with either alphabet, with or without padding and line ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut text = String::deserialize(deserializer)?;
        text.retain(|c| !matches!(c, '\r' | '\n'));
        let bytes = match text.contains(['-', '_']) {
            true => URL_SAFE.decode(&text),
            false => STANDARD.decode(&text),
        };
        bytes.map(Self).map_err(|_| D::Error::custom("invalid base64"))
    }
}

/// A 64-bit integer. JSON of protobuf has it as a string, other JSON as a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Integer(pub(super) i64);

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(i64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Self(number)),
            Either::Text(text) => text.parse().map(Self).map_err(D::Error::custom),
        }
    }
}

/// A time in RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Time(pub(super) Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct TrustedRoot {
    pub(super) media_type: String,
    pub(super) tlogs: Vec<Log>,
    pub(super) ctlogs: Vec<Log>,
    pub(super) certificate_authorities: Vec<Authority>,
    pub(super) timestamp_authorities: Vec<Authority>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Log {
    #[serde(default)]
    pub(super) base_url: String,
    #[serde(default)]
    pub(super) hash_algorithm: String,
    pub(super) public_key: Option<Key>,
    pub(super) log_id: Option<LogId>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Key {
    pub(super) raw_bytes: Option<Bytes>,
    #[serde(default)]
    pub(super) key_details: String,
    pub(super) valid_for: Option<Period>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogId {
    pub(super) key_id: Bytes,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Period {
    pub(super) start: Option<Time>,
    pub(super) end: Option<Time>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Authority {
    #[serde(default)]
    pub(super) uri: String,
    pub(super) cert_chain: Option<Chain>,
    pub(super) valid_for: Option<Period>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Chain {
    #[serde(default)]
    pub(super) certificates: Vec<RawBytes>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawBytes {
    pub(super) raw_bytes: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Bundle {
    pub(super) media_type: String,
    pub(super) verification_material: Option<Material>,
    pub(super) dsse_envelope: Option<Envelope>,
    pub(super) message_signature: Option<MessageSignature>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Material {
    pub(super) x509_certificate_chain: Option<Chain>,
    pub(super) certificate: Option<RawBytes>,
    pub(super) public_key: Option<Hint>,
    #[serde(default)]
    pub(super) tlog_entries: Vec<LogEntry>,
    pub(super) timestamp_verification_data: Option<Timestamps>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Hint {}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Timestamps {
    #[serde(default)]
    pub(super) rfc3161_timestamps: Vec<SignedTimestamp>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignedTimestamp {
    pub(super) signed_timestamp: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct LogEntry {
    #[serde(default)]
    pub(super) log_index: Integer,
    pub(super) log_id: LogId,
    pub(super) kind_version: KindVersion,
    #[serde(default)]
    pub(super) integrated_time: Integer,
    pub(super) inclusion_promise: Option<Promise>,
    pub(super) inclusion_proof: Option<Proof>,
    pub(super) canonicalized_body: Bytes,
}

#[derive(Debug, Deserialize)]
pub(super) struct KindVersion {
    pub(super) kind: String,
    pub(super) version: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Promise {
    pub(super) signed_entry_timestamp: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Proof {
    #[serde(default)]
    pub(super) log_index: Integer,
    #[serde(default)]
    pub(super) root_hash: Bytes,
    #[serde(default)]
    pub(super) tree_size: Integer,
    #[serde(default)]
    pub(super) hashes: Vec<Bytes>,
    pub(super) checkpoint: Checkpoint,
}

#[derive(Debug, Deserialize)]
pub(super) struct Checkpoint {
    pub(super) envelope: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope {
    pub(super) payload: Bytes,
    pub(super) payload_type: String,
    #[serde(default)]
    pub(super) signatures: Vec<EnvelopeSignature>,
}

#[derive(Debug, Deserialize)]
pub(super) struct EnvelopeSignature {
    pub(super) sig: Bytes,
}

#[derive(Debug, Deserialize)]
pub(super) struct MessageSignature {
    pub(super) signature: Bytes,
}

/// An in-toto statement.
#[derive(Debug, Deserialize)]
pub(super) struct Statement {
    #[serde(default)]
    pub(super) subject: Vec<Subject>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Subject {
    #[serde(default)]
    pub(super) digest: std::collections::BTreeMap<String, String>,
}

/// The body of a log entry.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body {
    pub(super) kind: String,
    pub(super) api_version: String,
    pub(super) spec: serde_json::Value,
}

#[derive(Debug, Deserialize)]
pub(super) struct HashedRekord {
    pub(super) data: HashedData,
    pub(super) signature: HashedSignature,
}

#[derive(Debug, Deserialize)]
pub(super) struct HashedData {
    pub(super) hash: HexHash,
}

#[derive(Debug, Deserialize)]
pub(super) struct HexHash {
    pub(super) algorithm: String,
    pub(super) value: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HashedSignature {
    pub(super) content: Bytes,
    pub(super) public_key: HashedKey,
}

#[derive(Debug, Deserialize)]
pub(super) struct HashedKey {
    pub(super) content: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Dsse {
    pub(super) payload_hash: HexHash,
    pub(super) signatures: Vec<DsseSignature>,
}

#[derive(Debug, Deserialize)]
pub(super) struct DsseSignature {
    pub(super) signature: Bytes,
    pub(super) verifier: Bytes,
}

#[derive(Debug, Deserialize)]
pub(super) struct Intoto {
    pub(super) content: IntotoContent,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IntotoContent {
    pub(super) envelope: IntotoEnvelope,
    pub(super) payload_hash: HexHash,
}

#[derive(Debug, Deserialize)]
pub(super) struct IntotoEnvelope {
    pub(super) signatures: Vec<IntotoSignature>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IntotoSignature {
    pub(super) public_key: Bytes,
    pub(super) sig: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SpecV2 {
    pub(super) hashed_rekord_v002: Option<HashedRekordV2>,
    pub(super) dsse_v002: Option<DsseV2>,
}

#[derive(Debug, Deserialize)]
pub(super) struct HashedRekordV2 {
    pub(super) data: DigestV2,
    pub(super) signature: SignatureV2,
}

#[derive(Debug, Deserialize)]
pub(super) struct DigestV2 {
    pub(super) algorithm: String,
    pub(super) digest: Bytes,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DsseV2 {
    pub(super) payload_hash: DigestV2,
    pub(super) signatures: Vec<SignatureV2>,
}

#[derive(Debug, Deserialize)]
pub(super) struct SignatureV2 {
    pub(super) content: Bytes,
    pub(super) verifier: VerifierV2,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct VerifierV2 {
    pub(super) public_key: Option<RawBytes>,
    pub(super) x509_certificate: Option<RawBytes>,
}

/// The bundle annotation of cosign's older format.
#[derive(Debug, Deserialize)]
pub(super) struct RekorBundle {
    #[serde(rename = "SignedEntryTimestamp")]
    pub(super) signed_entry_timestamp: Bytes,
    #[serde(rename = "Payload")]
    pub(super) payload: RekorPayload,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RekorPayload {
    pub(super) body: Bytes,
    pub(super) integrated_time: i64,
    pub(super) log_index: i64,
    #[serde(rename = "logID")]
    pub(super) log_id: String,
}

/// The text that a log signs as its promise: canonical JSON (RFC 8785), whose keys are in this order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SignedPayload {
    pub(super) body: String,
    pub(super) integrated_time: i64,
    #[serde(rename = "logID")]
    pub(super) log_id: String,
    pub(super) log_index: i64,
}

/// The payload of cosign's older format.
#[derive(Debug, Deserialize)]
pub(super) struct SimpleSigning {
    pub(super) critical: Critical,
}

#[derive(Debug, Deserialize)]
pub(super) struct Critical {
    pub(super) image: Image,
}

#[derive(Debug, Deserialize)]
pub(super) struct Image {
    #[serde(rename = "docker-manifest-digest")]
    pub(super) digest: String,
}
