//! Release records in the cluster: a Secret or ConfigMap for each revision.
//!
//! The record is JSON, gzipped, in base64, under one key. Labels hold the fields of lists, so that
//! listing decodes nothing. Records are as untrusted as the writers of Secrets: sizes are limited before
//! and after decompression, and errors do not show content.

use super::record::{Release, Status};
use crate::json_weight;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::json::to_go_string;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

/// The most bytes of data that the API takes in one Secret or ConfigMap.
pub const ENCODED_BYTES_MAX: usize = 1 << 20;
/// The most bytes of an uncompressed record. Charts have at most a few megabytes, stored as base64, but
/// zeros compress a thousandfold.
pub const JSON_BYTES_MAX: usize = 32 << 20;
/// The most memory of a decoded record: a small text may hold a million maps.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

const TYPE: &str = "helm.sh/release.v1";
const PREFIX: &str = "sh.helm.release.v1";
const OWNER: &str = "helm";
const DATA: &str = "release";
/// Labels reserved by Helm.
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// The kind of object that stores records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// Secrets: Helm's default.
    Secret,
    /// ConfigMaps.
    ConfigMap,
}

/// The label with the time of a write, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// First write.
    Created(i64),
    /// Later write.
    Modified(i64),
}

/// A record cannot be encoded.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// Compression failed.
    #[error("the record of release {0} cannot be encoded")]
    Encoding(String, #[source] std::io::Error),
    /// Serialization to JSON failed.
    #[error("the record of release {0} cannot be encoded")]
    Json(String, #[source] serde_json::Error),
    /// The record exceeds the API's size limit.
    #[error(
        "the record of release {name} has {bytes} bytes, and an object holds at most {ENCODED_BYTES_MAX}: \
         exclude files that the templates do not need with .helmignore"
    )]
    TooLarge {
        /// The release.
        name: String,
        /// The record's size.
        bytes: usize,
    },
    /// A label of the release has a reserved name.
    #[error("user supplied labels contains system reserved label name. System labels: [{}]", SYSTEM_LABELS.join(" "))]
    SystemLabel,
}

/// An object does not hold a valid record.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The data key is missing.
    #[error("there is no {DATA} in the object's data")]
    Missing,
    /// It is not base64.
    #[error("it is not base64")]
    Base64,
    /// Decompression failed.
    #[error("it cannot be decompressed")]
    Gzip(#[source] std::io::Error),
    /// It is larger than any record of Helm.
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    /// It takes more memory than any record of Helm.
    #[error("it takes more than {0} bytes of memory")]
    Memory(usize),
    /// It is not a record in JSON. The error does not show content: it may be secret.
    #[error("it is not a release: {what} at byte {column} of line {line}")]
    Json {
        /// The cause.
        what: &'static str,
        /// The line.
        line: usize,
        /// The column.
        column: usize,
    },
}

/// The fields of a record's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The release.
    pub name: String,
    /// The revision.
    pub version: u64,
    /// The status.
    pub status: Status,
}

/// The name of the object that holds a revision.
pub fn key(name: &str, version: u64) -> String {
    format!("{PREFIX}.{name}.v{version}")
}

/// Encodes a record as the data of an object.
pub fn encode(release: &Release) -> Result<String, EncodeError> {
    let name = || release.name.clone();
    let value = serde_json::to_value(release).map_err(|error| EncodeError::Json(name(), error))?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let compressed = encoder
        .write_all(to_go_string(&value).as_bytes())
        .and_then(|()| encoder.finish())
        .map_err(|error| EncodeError::Encoding(name(), error))?;
    let text = STANDARD.encode(compressed);
    match text.len() > ENCODED_BYTES_MAX {
        true => Err(EncodeError::TooLarge {
            name: name(),
            bytes: text.len(),
        }),
        false => Ok(text),
    }
}

/// Decodes the data of an object. Labels are not part of it.
pub fn decode(text: &[u8]) -> Result<Release, DecodeError> {
    // objects are smaller, but the text may come from elsewhere
    if text.len() > JSON_BYTES_MAX {
        return Err(DecodeError::TooLarge(JSON_BYTES_MAX));
    }
    // Go's decoder ignores line breaks
    let text: Vec<u8> = text
        .iter()
        .copied()
        .filter(|byte| !b"\r\n".contains(byte))
        .collect();
    let mut bytes = STANDARD.decode(text).map_err(|_| DecodeError::Base64)?;
    if bytes.starts_with(&GZIP) {
        let mut json = Vec::new();
        let limit = JSON_BYTES_MAX as u64 + 1;
        let decoder = GzDecoder::new(bytes.as_slice());
        decoder
            .take(limit)
            .read_to_end(&mut json)
            .map_err(DecodeError::Gzip)?;
        bytes = json;
    }
    if bytes.len() > JSON_BYTES_MAX {
        return Err(DecodeError::TooLarge(JSON_BYTES_MAX));
    }
    if !json_weight::is_within(&bytes, MEMORY_BYTES_MAX) {
        return Err(DecodeError::Memory(MEMORY_BYTES_MAX));
    }
    serde_json::from_slice(&bytes).map_err(|error| DecodeError::Json {
        what: match error.classify() {
            serde_json::error::Category::Data => "a value of another kind than expected",
            serde_json::error::Category::Eof => "the end of the text",
            _ => "something that is not JSON",
        },
        line: error.line(),
        column: error.column(),
    })
}

/// The object for a record, as JSON for the API.
pub fn to_object(
    release: &Release,
    driver: Driver,
    namespace: &str,
    stamp: Stamp,
) -> Result<Value, EncodeError> {
    if release
        .labels
        .keys()
        .any(|label| SYSTEM_LABELS.contains(&label.as_str()))
    {
        return Err(EncodeError::SystemLabel);
    }
    let text = encode(release)?;
    let mut labels = release.labels.clone();
    let (label, seconds) = match stamp {
        Stamp::Created(seconds) => ("createdAt", seconds),
        Stamp::Modified(seconds) => ("modifiedAt", seconds),
    };
    for (label, value) in [
        (label, seconds.to_string()),
        ("name", release.name.clone()),
        ("owner", OWNER.to_owned()),
        ("status", release.info.status.to_string()),
        ("version", release.version.to_string()),
    ] {
        labels.insert(label.to_owned(), value);
    }
    let metadata = json!({
        "name": key(&release.name, release.version),
        "namespace": namespace,
        "labels": labels,
    });
    Ok(match driver {
        Driver::Secret => json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": metadata,
            "type": TYPE,
            "data": {DATA: STANDARD.encode(text)},
        }),
        Driver::ConfigMap => json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "data": {DATA: text},
        }),
    })
}

/// The record of an API object, with the release's own labels.
pub fn from_object(object: &Value) -> Result<Release, DecodeError> {
    let data = object.get("data").and_then(|data| data.get(DATA));
    let data = data.and_then(Value::as_str).ok_or(DecodeError::Missing)?;
    let mut release = if object.get("kind").and_then(Value::as_str) == Some("ConfigMap") {
        decode(data.as_bytes())?
    } else {
        decode(&STANDARD.decode(data).map_err(|_| DecodeError::Base64)?)?
    };
    release.labels = labels(object)
        .filter(|(label, _)| !SYSTEM_LABELS.contains(&label.as_str()))
        .filter_map(|(label, value)| Some((label.clone(), value.as_str()?.to_owned())))
        .collect::<BTreeMap<_, _>>();
    Ok(release)
}

impl Summary {
    /// The label fields of an object, if it is a record.
    pub fn of(object: &Value) -> Option<Self> {
        let label = |name: &str| {
            let mut labels = labels(object);
            labels
                .find(|(label, _)| *label == name)
                .and_then(|(_, value)| value.as_str())
        };
        (label("owner")? == OWNER).then_some(())?;
        Some(Self {
            name: label("name")?.to_owned(),
            // Go's int
            version: label("version")?.parse::<i64>().ok()?.try_into().ok()?,
            status: label("status")?.into(),
        })
    }
}

fn labels(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    let labels = object.get("metadata").and_then(|metadata| metadata.get("labels"));
    labels.and_then(Value::as_object).into_iter().flat_map(Map::iter)
}
