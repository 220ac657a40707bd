//! The URL of a bucket, and of the objects in it.
//!
//! The rules are those of minio-go, which Flux uses: the bucket is the first segment of the path, and at
//! Amazon, Google and Alibaba a part of the host, unless its name has a dot and the host TLS.

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
const KEY_BYTES_MAX: usize = 1024;

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
    scheme: &'static str,
    authority: String,
    bucket: String,
    in_host: bool,
}

impl Place {
    pub(crate) fn new(
        endpoint: &str,
        bucket: &str,
        region: Option<&str>,
        plain: bool,
    ) -> Result<Self, PlaceError> {
        let wrong = || PlaceError::Endpoint(endpoint.chars().take(200).collect());
        let scheme = if plain { "http" } else { "https" };
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
            scheme,
            authority,
            bucket: bucket.to_owned(),
            in_host: knows_hosts && (plain || !bucket.contains('.')),
        })
    }

    /// The name of the bucket for errors.
    pub(crate) fn name(&self) -> &str {
        &self.bucket
    }

    /// The URL of an object; of the bucket if the key is empty. `None` for keys that no URL can carry:
    /// with the segments `.` and `..`, and too long ones.
    pub(crate) fn url(&self, key: &str, query: &[(&str, &str)]) -> Option<Url> {
        let has_dots = key.split('/').any(|segment| matches!(segment, "." | ".."));
        if has_dots || key.len() > KEY_BYTES_MAX {
            return None;
        }
        let (host, bucket) = match self.in_host {
            true => (format!("{}.{}", self.bucket, self.authority), String::new()),
            false => (self.authority.clone(), format!("{}/", self.bucket)),
        };
        let path = utf8_percent_encode(key, ENCODED_PATH);
        let mut url = Url::parse(&format!("{}://{host}/{bucket}{path}", self.scheme)).ok()?;
        if !query.is_empty() {
            url.set_query(Some(&encoded(query)));
        }
        Some(url)
    }
}

/// A query in the order and encoding that is signed.
fn encoded(query: &[(&str, &str)]) -> String {
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
            let place = Place::new(endpoint, bucket, region, false).unwrap();
            let query: &[(&str, &str)] = if key.is_empty() {
                &[("prefix", "a b/+"), ("list-type", "2")]
            } else {
                &[]
            };
            assert_eq!(place.url(key, query).unwrap().as_str(), expected);
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
            let refused = Place::new(endpoint, "apps", None, true);
            assert_eq!(refused, Err(PlaceError::Endpoint(endpoint.to_owned())));
        }
        for bucket in ["ab", "a/b", "a..b", "-ab", "a b"] {
            let refused = Place::new("minio", bucket, None, true);
            assert_eq!(refused, Err(PlaceError::Bucket(bucket.to_owned())));
        }
        let place = Place::new("minio", "apps", None, true).unwrap();
        for key in ["../x", "a/./b", "a/..", &"x".repeat(1025)] {
            assert_eq!(place.url(key, &[]), None, "{key}");
        }
        assert_eq!(place.url("a//b", &[]).unwrap().as_str(), "http://minio/apps/a//b");
    }
}
