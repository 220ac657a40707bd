//! The URL of a bucket, and of the objects in it.
//!
//! The rules for S3 are those of minio-go, which Flux uses: the bucket is the first segment of the path, and at
//! Amazon, Google and Alibaba a part of the host, unless its name has a dot and the host TLS. The JSON API of
//! Google has the whole key as one segment. An endpoint of Azure is a URL, as in Flux.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

/// All but the unreserved characters of RFC 3986: the encoding that is signed.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');
const ENCODED_PATH: &AsciiSet = &ENCODED.remove(b'/');

const AMAZON: &str = "s3.amazonaws.com";
/// Bytes of a key; for Azure, characters.
pub(crate) const KEY_LENGTH_MAX: usize = 1024;

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// S3-compatible.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

impl Kind {
    /// The length of a key, in units of [`KEY_LENGTH_MAX`].
    pub(crate) fn key_length(self, key: &str) -> usize {
        match self {
            Self::S3 | Self::Google => key.len(),
            Self::Azure => key.chars().count(),
        }
    }
}

/// The addressed part of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target<'a> {
    Bucket,
    List,
    Object(&'a str),
}

/// A name is no part of a store's URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// The endpoint is not a host.
    #[error("endpoint {0:?} is not a host with an optional port")]
    Endpoint(String),
    /// The name of a bucket is malformed.
    #[error("bucket name {0:?} must be 3 to 63 lowercase letters, digits, dots and hyphens")]
    Bucket(String),
}

/// A bucket of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    kind: Kind,
    scheme: &'static str,
    authority: String,
    bucket: String,
    in_host: bool,
}

impl Place {
    pub(crate) fn new(
        kind: Kind,
        endpoint: &str,
        bucket: &str,
        region: Option<&str>,
        plain: bool,
    ) -> Result<Self, PlaceError> {
        let wrong = || PlaceError::Endpoint(endpoint.chars().take(200).collect());
        let (scheme, endpoint) = match (kind, endpoint.split_once("://")) {
            (Kind::Azure, Some(("https", rest))) => ("https", rest.strip_suffix('/').unwrap_or(rest)),
            (Kind::Azure, Some(("http", rest))) => ("http", rest.strip_suffix('/').unwrap_or(rest)),
            _ if plain => ("http", endpoint),
            _ => ("https", endpoint),
        };
        let url = Url::parse(&format!("{scheme}://{endpoint}/")).map_err(|_| wrong())?;
        let is_bare = url.username().is_empty()
            && url.password().is_none()
            && url.path() == "/"
            && url.query().is_none()
            && !endpoint.contains(['/', '@', '?', '#', '\\']);
        let host = url.host_str().unwrap_or_default().to_owned();
        if !is_bare || host.is_empty() {
            return Err(wrong());
        }
        // upstream admits uppercase letters and underscores of old buckets
        let is_taken = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let is_name = (3..=63).contains(&bucket.len())
            && bucket.bytes().all(is_taken)
            && bucket.starts_with(|first: char| first.is_ascii_alphanumeric())
            && !bucket.contains("..");
        if !is_name {
            return Err(PlaceError::Bucket(bucket.chars().take(200).collect()));
        }
        let host = match (host.as_str(), region) {
            (AMAZON, Some(region)) if region != "us-east-1" && is_region(region) => {
                format!("s3.{region}.amazonaws.com")
            }
            _ => host,
        };
        let is_amazon = host.ends_with(".amazonaws.com") || host.ends_with(".amazonaws.com.cn");
        let knows_hosts = is_amazon && host.starts_with("s3")
            || host == "storage.googleapis.com"
            || host.ends_with(".aliyuncs.com");
        let authority = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        };
        Ok(Self {
            kind,
            scheme,
            authority,
            bucket: bucket.to_owned(),
            in_host: kind == Kind::S3 && knows_hosts && (plain || !bucket.contains('.')),
        })
    }

    /// The name of the bucket for errors.
    pub(crate) fn name(&self) -> &str {
        &self.bucket
    }

    /// The URL of a part of the store. `None` for keys that no URL can carry: with the segments `.` and `..`,
    /// and too long ones.
    pub(crate) fn url(&self, target: Target<'_>, query: &[(&str, &str)]) -> Option<Url> {
        let key = match target {
            Target::Bucket | Target::List => "",
            Target::Object(key) => key,
        };
        let has_dots = key.split('/').any(|segment| matches!(segment, "." | ".."));
        if has_dots || self.kind.key_length(key) > KEY_LENGTH_MAX {
            return None;
        }
        let (authority, bucket) = (&self.authority, &self.bucket);
        let path = utf8_percent_encode(key, ENCODED_PATH);
        let place = match (self.kind, target) {
            (Kind::S3, _) if self.in_host => format!("{bucket}.{authority}/{path}"),
            (Kind::S3, _) | (Kind::Azure, Target::Object(_)) => format!("{authority}/{bucket}/{path}"),
            (Kind::Azure, Target::Bucket | Target::List) => format!("{authority}/{bucket}"),
            (Kind::Google, Target::Bucket) => format!("{authority}/storage/v1/b/{bucket}"),
            (Kind::Google, Target::List) => format!("{authority}/storage/v1/b/{bucket}/o"),
            (Kind::Google, Target::Object(key)) => {
                let segment = utf8_percent_encode(key, ENCODED);
                format!("{authority}/storage/v1/b/{bucket}/o/{segment}")
            }
        };
        let mut url = Url::parse(&format!("{}://{place}", self.scheme)).ok()?;
        if !query.is_empty() {
            url.set_query(Some(&encoded(query)));
        }
        Some(url)
    }
}

/// A query in the order and encoding that is signed.
pub(crate) fn encoded(query: &[(&str, &str)]) -> String {
    let encode = |text: &str| utf8_percent_encode(text, ENCODED).to_string();
    let pairs = query.iter().map(|(name, value)| (encode(name), encode(value)));
    let mut pairs: Vec<(String, String)> = pairs.collect();
    pairs.sort();
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    pairs.join("&")
}

/// Whether a text of the store can be a region: it becomes a part of a host.
pub(crate) fn is_region(text: &str) -> bool {
    (1..=40).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_minio_go() {
        let check = |endpoint: &str, bucket: &str, region, key: &str, expected: &str| {
            let place = Place::new(Kind::S3, endpoint, bucket, region, false).unwrap();
            let (target, query): (_, &[(&str, &str)]) = match key {
                "" => (Target::List, &[("prefix", "a b/+"), ("list-type", "2")]),
                key => (Target::Object(key), &[]),
            };
            assert_eq!(place.url(target, query).unwrap().as_str(), expected);
        };
        check(
            "minio:9000",
            "my.apps",
            None,
            "a/b c+(ü).yaml",
            "https://minio:9000/my.apps/a/b%20c%2B%28%C3%BC%29.yaml",
        );
        check(
            "minio",
            "apps",
            None,
            "",
            "https://minio/apps/?list-type=2&prefix=a%20b%2F%2B",
        );
        check(
            "s3.amazonaws.com",
            "apps",
            None,
            "a",
            "https://apps.s3.amazonaws.com/a",
        );
        check(
            "s3.amazonaws.com",
            "apps",
            Some("eu-west-1"),
            "a",
            "https://apps.s3.eu-west-1.amazonaws.com/a",
        );
        check(
            "s3.amazonaws.com",
            "apps",
            Some("x/../"),
            "a",
            "https://apps.s3.amazonaws.com/a",
        );
        check(
            "s3.eu-west-1.amazonaws.com",
            "my.apps",
            None,
            "a",
            "https://s3.eu-west-1.amazonaws.com/my.apps/a",
        );
        check(
            "storage.googleapis.com",
            "apps",
            None,
            "a",
            "https://apps.storage.googleapis.com/a",
        );
    }

    #[test]
    fn names_that_are_no_part_of_a_url_are_refused() {
        for endpoint in [
            "",
            "https://minio",
            "minio/x",
            "user@minio",
            "minio?x",
            "minio\\x",
            "a b",
        ] {
            let refused = Place::new(Kind::S3, endpoint, "apps", None, true);
            assert_eq!(refused, Err(PlaceError::Endpoint(endpoint.to_owned())));
        }
        for bucket in ["ab", "a/b", "a..b", "-ab", "a b"] {
            let refused = Place::new(Kind::S3, "minio", bucket, None, true);
            assert_eq!(refused, Err(PlaceError::Bucket(bucket.to_owned())));
        }
        let place = Place::new(Kind::S3, "minio", "apps", None, true).unwrap();
        for key in ["../x", "a/./b", "a/..", &"x".repeat(1025)] {
            assert_eq!(place.url(Target::Object(key), &[]), None, "{key}");
        }
        let url = place.url(Target::Object("a//b"), &[]).unwrap();
        assert_eq!(url.as_str(), "http://minio/apps/a//b");
    }

    #[test]
    fn urls_of_google_and_azure_are_those_of_their_documents() {
        let check = |kind, endpoint: &str, target, expected: &str| {
            let place = Place::new(kind, endpoint, "my.apps", None, false).unwrap();
            assert_eq!(place.url(target, &[]).unwrap().as_str(), expected);
        };
        let google = "https://storage.googleapis.com/storage/v1/b/my.apps";
        let host = "storage.googleapis.com";
        check(Kind::Google, host, Target::Bucket, google);
        check(Kind::Google, host, Target::List, &format!("{google}/o"));
        let object = format!("{google}/o/a%2Fb%20c%2B.yaml");
        check(Kind::Google, host, Target::Object("a/b c+.yaml"), &object);
        let azure = "https://a.blob.core.windows.net/my.apps";
        for endpoint in [
            "https://a.blob.core.windows.net/",
            "https://a.blob.core.windows.net",
            "a.blob.core.windows.net",
        ] {
            check(Kind::Azure, endpoint, Target::List, azure);
            let object = format!("{azure}/a/b%20c%2B.yaml");
            check(Kind::Azure, endpoint, Target::Object("a/b c+.yaml"), &object);
        }
        check(
            Kind::Azure,
            "http://127.0.0.1:10000",
            Target::List,
            "http://127.0.0.1:10000/my.apps",
        );
        for endpoint in ["https://a.example/x", "ftp://a.example", "https://a.example/?x"] {
            let refused = Place::new(Kind::Azure, endpoint, "apps", None, false);
            assert!(refused.is_err(), "{endpoint}");
        }
    }
}
