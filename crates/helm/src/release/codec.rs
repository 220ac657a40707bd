//! A record in the cluster: a Secret, or a ConfigMap, for each revision.
//!
//! The record is JSON, compressed, in base64, and stands in one key; what lists need stands in labels, so
//! that listing decodes nothing. Whoever may write Secrets may write these: sizes are limited before and
//! after decompression, and errors do not show what was read.

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
/// The most bytes of a record that is not compressed. Charts are at most a few megabytes, and their files
/// stand here in base64, but zeros compress a thousandfold.
pub const JSON_BYTES_MAX: usize = 32 << 20;
/// The most memory that a record may take once it is read: a small text may be a million maps.
pub const MEMORY_BYTES_MAX: usize = 64 << 20;

const TYPE: &str = "helm.sh/release.v1";
const PREFIX: &str = "sh.helm.release.v1";
const OWNER: &str = "helm";
/// The key of the data.
const DATA: &str = "release";
/// Labels that are not a release's own.
const SYSTEM_LABELS: [&str; 6] = ["name", "owner", "status", "version", "createdAt", "modifiedAt"];
const GZIP: [u8; 3] = [0x1f, 0x8b, 0x08];

/// Where records stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// In Secrets: Helm's default.
    Secret,
    /// In ConfigMaps.
    ConfigMap,
}

/// When a record was written, in seconds since 1970: a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamp {
    /// For the first time.
    Created(i64),
    /// Once more.
    Modified(i64),
}

/// Why a record cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum EncodeError {
    /// It could not be compressed.
    #[error("the record of release {0} cannot be encoded")]
    Encoding(String, #[source] std::io::Error),
    /// It cannot be said in JSON.
    #[error("the record of release {0} cannot be encoded")]
    Json(String, #[source] serde_json::Error),
    /// The API would not take it.
    #[error(
        "the record of release {name} has {bytes} bytes, and an object holds at most {ENCODED_BYTES_MAX}: \
         leave out of the chart what is no template (.helmignore)"
    )]
    TooLarge {
        /// The release.
        name: String,
        /// How large it is.
        bytes: usize,
    },
    /// A label of the release has a name that Helm uses itself.
    #[error("user supplied labels contains system reserved label name. System labels: [{}]", SYSTEM_LABELS.join(" "))]
    SystemLabel,
}

/// Why something is no record of a release.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The object has no data of that name.
    #[error("there is no {DATA} in the object's data")]
    Missing,
    /// It is not base64.
    #[error("it is not base64")]
    Base64,
    /// It cannot be decompressed.
    #[error("it cannot be decompressed")]
    Gzip(#[source] std::io::Error),
    /// It is larger than anything Helm writes.
    #[error("it has more than {0} bytes")]
    TooLarge(usize),
    /// It takes more memory than anything Helm writes.
    #[error("it takes more than {0} bytes of memory")]
    Memory(usize),
    /// It is not what a record looks like. What is there instead is not said: it may be secret.
    #[error("it is not a release: {what} at byte {column} of line {line}")]
    Json {
        /// What is wrong.
        what: &'static str,
        /// Where.
        line: usize,
        /// Where in that line.
        column: usize,
    },
}

/// What the labels of a record say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The release.
    pub name: String,
    /// The revision.
    pub version: u64,
    /// Where it stands.
    pub status: Status,
}

/// The name of the object that holds a revision.
pub fn key(name: &str, version: u64) -> String {
    format!("{PREFIX}.{name}.v{version}")
}

/// The text that stands in an object for a record.
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

/// The record that a text of an object stands for. Its labels are not in it.
pub fn decode(text: &[u8]) -> Result<Release, DecodeError> {
    // an object cannot hold more, but the text may come from elsewhere
    if text.len() > JSON_BYTES_MAX {
        return Err(DecodeError::TooLarge(JSON_BYTES_MAX));
    }
    // Go's decoder passes over line breaks
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

/// The object that holds a record, as JSON for the API.
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

/// The record that an object of the API holds, with its own labels.
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
    /// What the labels of an object say, if it is a record's.
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
