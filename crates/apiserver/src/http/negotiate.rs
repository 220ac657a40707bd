//! Content negotiation.
//!
//! The first entry of `Accept` that this server can write wins. Only built-in kinds have a protobuf form.

use crate::status::ApiError;
use http::{HeaderMap, header};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Json,
    Yaml,
    Protobuf,
}

impl Format {
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => PROTOBUF,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Object,
    Table,
    PartialMetadata,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub format: Format,
    pub shape: Shape,
}

impl Accepted {
    pub(crate) const JSON: Self = Self {
        format: Format::Json,
        shape: Shape::Object,
    };
}

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The first acceptable entry; 406 if there is none. No header means JSON. `binary`: there is a protobuf
/// form.
pub(crate) fn accept(headers: &HeaderMap, transformable: bool, binary: bool) -> Result<Accepted, ApiError> {
    let mut any = false;
    for value in headers.get_all(header::ACCEPT) {
        let Ok(text) = value.to_str() else { continue };
        for entry in text.split(',') {
            let entry = entry.trim();
            if entry.is_empty() {
                continue;
            }
            any = true;
            if let Some(accepted) = entry_accepted(entry, transformable, binary) {
                return Ok(accepted);
            }
        }
    }
    if any {
        Err(not_acceptable(binary))
    } else {
        Ok(Accepted::JSON)
    }
}

pub(crate) fn aggregated_discovery(headers: &HeaderMap) -> Option<&'static str> {
    for value in headers.get_all(header::ACCEPT) {
        for entry in value.to_str().ok()?.split(',') {
            let parts = MediaType::parse(entry);
            if parts.parameter("as") == Some("APIGroupDiscoveryList")
                && parts.parameter("g") == Some("apidiscovery.k8s.io")
                && matches!(parts.media_type, "application/json")
            {
                match parts.parameter("v") {
                    Some("v2") => return Some("v2"),
                    Some("v2beta1") => return Some("v2beta1"),
                    _ => {}
                }
            } else if parts.parameters.is_empty() && parts.media_type == "application/json" {
                return None;
            }
        }
    }
    None
}

/// Whether protobuf comes before JSON in `Accept`, for `/openapi/v2`.
pub(crate) fn prefers_openapi_protobuf(headers: &HeaderMap) -> bool {
    let entries = headers.get_all(header::ACCEPT).iter();
    let entries = entries
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut types = entries.map(|entry| MediaType::parse(entry).media_type);
    types.find_map(|media_type| match media_type {
        "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
        | "application/com.github.proto-openapi.spec.v2.v1.0+protobuf" => Some(true),
        "application/json" | "*/*" | "application/*" => Some(false),
        _ => None,
    }) == Some(true)
}

fn entry_accepted(entry: &str, transformable: bool, binary: bool) -> Option<Accepted> {
    let parts = MediaType::parse(entry);
    let format = match parts.media_type {
        "application/json" | "*/*" | "application/*" => Format::Json,
        "application/yaml" => Format::Yaml,
        PROTOBUF => Format::Protobuf,
        _ => return None,
    };
    let shape = match parts.parameter("as") {
        None => Shape::Object,
        Some(_) if !transformable => return None,
        Some(kind) => {
            if parts.parameter("g") != Some("meta.k8s.io")
                || !matches!(parts.parameter("v"), Some("v1" | "v1beta1"))
            {
                return None;
            }
            match kind {
                "Table" => Shape::Table,
                "PartialObjectMetadata" | "PartialObjectMetadataList" => Shape::PartialMetadata,
                _ => return None,
            }
        }
    };
    let is_written = match (format, shape) {
        (Format::Protobuf, Shape::Object) => binary,
        (Format::Protobuf, Shape::Table) => false,
        _ => true,
    };
    is_written.then_some(Accepted { format, shape })
}

fn not_acceptable(binary: bool) -> ApiError {
    let also = if binary {
        ", application/vnd.kubernetes.protobuf"
    } else {
        ""
    };
    ApiError::new(
        406,
        "NotAcceptable",
        format!("406: Not Acceptable\n\nAvailable representations: application/json, application/yaml{also}"),
        Some(crate::status::Details::default()),
    )
}

struct MediaType<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaType<'a> {
    fn parse(entry: &'a str) -> Self {
        let mut parts = entry.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters = parts
            .filter_map(|p| p.split_once('='))
            .map(|(k, v)| (k.trim(), v.trim()))
            .collect();
        Self {
            media_type,
            parameters,
        }
    }

    fn parameter(&self, key: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }
}

pub(crate) fn content_type(headers: &HeaderMap) -> Option<&str> {
    let text = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(text.split(';').next().unwrap_or_default().trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, expected: Result<(Format, Shape), u16>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, value.parse().unwrap());
        let got = accept(&headers, true, true)
            .map(|a| (a.format, a.shape))
            .map_err(|e| e.code);
        assert_eq!(got, expected, "{value}");
    }

    #[test]
    fn custom_resources_have_no_protobuf_form() {
        let mut headers = HeaderMap::new();
        headers.insert(
            header::ACCEPT,
            "application/vnd.kubernetes.protobuf, */*".parse().unwrap(),
        );
        assert_eq!(accept(&headers, true, false).unwrap(), Accepted::JSON);
        headers.insert(header::ACCEPT, PROTOBUF.parse().unwrap());
        let refusal = accept(&headers, true, false).unwrap_err();
        assert!(
            refusal
                .message
                .ends_with("representations: application/json, application/yaml")
        );
    }

    #[test]
    fn accepted() {
        check("application/json", Ok((Format::Json, Shape::Object)));
        check("*/*", Ok((Format::Json, Shape::Object)));
        check(
            "application/vnd.kubernetes.protobuf, */*",
            Ok((Format::Protobuf, Shape::Object)),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            Ok((Format::Json, Shape::Object)),
        );
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
            Ok((Format::Protobuf, Shape::PartialMetadata)),
        );
        check("application/yaml", Ok((Format::Yaml, Shape::Object)));
        check("text/csv", Err(406));
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Ok((Format::Json, Shape::Table)),
        );
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
            Ok((Format::Json, Shape::PartialMetadata)),
        );
        check(
            "application/json;as=Other;g=meta.k8s.io;v=v1,application/json",
            Ok((Format::Json, Shape::Object)),
        );
    }
}
