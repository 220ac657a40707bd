//! The digests by which a controller recognizes a release and its values.
//!
//! They hash texts of Go programs: the JSON of a release as fluxcd/helm-controller 1.6 observes it
//! (`internal/release/observation.go`), and the YAML of values with sorted keys (fluxcd/pkg
//! `chartutil/digest.go`). A release that one controller made is recognized by the other.

use super::record::{Info, Release};
use crate::chart::Values;
use crate::hooks::{Event, Hook};
use crate::metadata::Metadata;
use equate_manifest::json::to_go_string;
use equate_manifest::yaml;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// The digest of a release, without its tests, which users may run at any time. `oci_digest` is that of
/// the chart's artifact, or empty.
///
/// # Errors
/// The metadata of the recorded chart has another shape than a chart's.
pub fn digest(release: &Release, oci_digest: &str) -> Result<String, serde_json::Error> {
    Ok(sha256(observation(release, oci_digest)?.as_bytes()))
}

/// The digest of values.
pub fn config_digest(values: &Values) -> String {
    match values.is_empty() {
        true => sha256(b""),
        false => sha256(yaml::to_string_by_key(&Value::Object(values.clone())).as_bytes()),
    }
}

fn sha256(bytes: &[u8]) -> String {
    let mut text = String::from("sha256:");
    for byte in Sha256::digest(bytes) {
        // writing to a String does not fail
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// The JSON of a release, in the order of Go's fields, with the line break of Go's encoder.
fn observation(release: &Release, oci_digest: &str) -> Result<String, serde_json::Error> {
    let Release {
        name,
        info,
        chart,
        config,
        manifest,
        hooks,
        version,
        namespace,
        apply_method: _,
        labels: _,
    } = release;
    let metadata = chart.as_ref().map(|chart| chart.metadata.clone());
    let metadata: Metadata = match metadata {
        None | Some(Value::Null) => Metadata::default(),
        Some(mut metadata) => {
            if let Value::Object(fields) = &mut metadata {
                fields.retain(|_, value| !value.is_null());
            }
            serde_json::from_value(metadata)?
        }
    };
    let hooks: Vec<&Hook> = hooks.iter().filter(|hook| !hook.runs_on(&Event::Test)).collect();
    let config = match config.is_empty() {
        true => "null".to_owned(),
        false => to_go_string(&Value::Object(config.clone())),
    };
    let mut text = format!(
        "{{\"name\":{},\"version\":{version},\"info\":{},\"chartMetadata\":{},\"config\":{config},\"manifest\":{},\
         \"hooks\":{},\"namespace\":{}",
        go_text(name)?,
        go_text(&ObservedInfo::from(info))?,
        go_text(&metadata)?,
        go_text(&**manifest)?,
        match hooks.is_empty() {
            true => "null".to_owned(),
            false => go_text(&hooks)?,
        },
        go_text(namespace)?,
    );
    if !oci_digest.is_empty() {
        let _ = write!(text, ",\"ociDigest\":{}", go_text(oci_digest)?);
    }
    text.push_str("}\n");
    Ok(text)
}

/// The fields that the controller's Helm knows: a later one's `rollback_revision` is not among them.
#[derive(Serialize)]
struct ObservedInfo<'i> {
    #[serde(skip_serializing_if = "Option::is_none")]
    first_deployed: Option<&'i str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_deployed: Option<&'i str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deleted: Option<&'i str>,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'i str,
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'i str,
    #[serde(skip_serializing_if = "str::is_empty")]
    notes: &'i str,
}

impl<'i> From<&'i Info> for ObservedInfo<'i> {
    fn from(info: &'i Info) -> Self {
        Self {
            first_deployed: info.first_deployed.as_deref(),
            last_deployed: info.last_deployed.as_deref(),
            deleted: info.deleted.as_deref(),
            description: &info.description,
            status: info.status.as_str(),
            notes: &info.notes,
        }
    }
}

/// JSON with Go's escapes, which are only possible in texts.
fn go_text<T: Serialize + ?Sized>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string(value)?;
    if !text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return Ok(text);
    }
    let mut escaped = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        match character {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let _ = write!(escaped, "\\u{:04x}", u32::from(character));
            }
            other => escaped.push(other),
        }
    }
    Ok(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::release::from_object;
    use serde_json::json;

    /// Digests by fluxcd/helm-controller 1.6.3 of the recorded releases.
    #[test]
    fn releases_have_the_digests_of_the_controller() {
        let records = include_str!("../../tests/golden/records.jsonl").lines();
        let digests = include_str!("../../tests/golden/observations.jsonl").lines();
        let mut count = 0;
        for (record, expected) in records.zip(digests) {
            let record: Value = serde_json::from_str(record).unwrap();
            let expected: Value = serde_json::from_str(expected).unwrap();
            assert_eq!(record["metadata"]["name"], expected["name"]);
            let release = from_object(&record).unwrap();
            assert_eq!(
                observation(&release, "").unwrap(),
                expected["json"].as_str().unwrap()
            );
            assert_eq!(
                digest(&release, "").unwrap(),
                expected["digest"].as_str().unwrap()
            );
            let with_oci = digest(&release, "sha256:0123").unwrap();
            assert_eq!(with_oci, expected["ociDigest"].as_str().unwrap());
            assert_eq!(
                config_digest(&release.config),
                expected["configDigest"].as_str().unwrap()
            );
            count += 1;
        }
        assert!(count >= 8, "{count}");
    }

    /// Digests by fluxcd/pkg `chartutil`, of values as Go's JSON decoder reads them.
    #[test]
    fn values_have_the_digests_of_the_controller() {
        for line in include_str!("../../tests/golden/values-digests.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let values = case["values"].as_object().unwrap();
            assert_eq!(
                config_digest(values),
                case["digest"].as_str().unwrap(),
                "{}",
                yaml::to_string_by_key(&case["values"])
            );
        }
    }

    #[test]
    fn a_record_without_a_chart_has_a_digest() {
        let release: Release = serde_json::from_value(json!({ "name": "a<b" })).unwrap();
        assert_eq!(
            observation(&release, "").unwrap(),
            "{\"name\":\"a\\u003cb\",\"version\":0,\"info\":{},\"chartMetadata\":{},\"config\":null,\
             \"manifest\":\"\",\"hooks\":null,\"namespace\":\"\"}\n"
        );
    }
}
