//! Signatures of requests without a body: AWS Signature Version 4, for the service `s3`.
//!
//! The canonical request has the URL as it is sent, so path and query must already be in the encoding that
//! S3 signs.

use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use ring::hmac;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use crate::access::Credentials;

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// The SHA-256 of an empty body.
const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const SIGNED: &str = "host;x-amz-content-sha256;x-amz-date";
const SESSION: &str = "x-amz-security-token";

/// The headers that sign a request, with the token of temporary credentials. `None` if the credentials are no
/// text of a header.
pub(crate) fn headers(
    credentials: &Credentials,
    session: Option<&SecretString>,
    region: &str,
    method: &str,
    url: &Url,
    now: Timestamp,
) -> Option<HeaderMap> {
    let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
    let (day, _) = time.split_at_checked(8)?;
    let host = match (url.host_str()?, url.port()) {
        (host, Some(port)) => format!("{host}:{port}"),
        (host, None) => host.to_owned(),
    };
    let (path, query) = (url.path(), url.query().unwrap_or_default());
    let session = session.map(secrecy::ExposeSecret::expose_secret);
    let (signed, last) = match session {
        Some(token) => (format!("{SIGNED};{SESSION}"), format!("{SESSION}:{token}\n")),
        None => (SIGNED.to_owned(), String::new()),
    };
    let canonical = format!(
        "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{EMPTY}\nx-amz-date:{time}\n{last}\n{signed}\n\
         {EMPTY}"
    );
    let scope = format!("{day}/{region}/s3/aws4_request");
    let hash = hex(&Sha256::digest(canonical.as_bytes()));
    let text = format!("{ALGORITHM}\n{time}\n{scope}\n{hash}");
    let first = format!("AWS4{}", credentials.secret_key.expose_secret());
    let mut key = hmac::Key::new(hmac::HMAC_SHA256, first.as_bytes());
    for part in [day, region, "s3", "aws4_request"] {
        let tag = hmac::sign(&key, part.as_bytes());
        key = hmac::Key::new(hmac::HMAC_SHA256, tag.as_ref());
    }
    let signature = hex(hmac::sign(&key, text.as_bytes()).as_ref());
    let name = &credentials.access_key;
    let authorization =
        format!("{ALGORITHM} Credential={name}/{scope}, SignedHeaders={signed}, Signature={signature}");
    let mut authorization = HeaderValue::from_str(&authorization).ok()?;
    authorization.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, authorization);
    headers.insert(
        HeaderName::from_static("x-amz-content-sha256"),
        HeaderValue::from_static(EMPTY),
    );
    headers.insert(
        HeaderName::from_static("x-amz-date"),
        HeaderValue::from_str(&time).ok()?,
    );
    if let Some(token) = session {
        let mut token = HeaderValue::from_str(token).ok()?;
        token.set_sensitive(true);
        headers.insert(HeaderName::from_static(SESSION), token);
    }
    Some(headers)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // writing to a String does not fail
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the S3 documentation for a list of a bucket ("GET Bucket (List Objects)").
    #[test]
    fn the_signature_is_that_of_the_documentation() {
        let credentials = Credentials {
            access_key: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret_key: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".into(),
        };
        let url = Url::parse("https://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J").unwrap();
        let now = "2013-05-24T00:00:00Z".parse().unwrap();
        let headers = headers(&credentials, None, "us-east-1", "GET", &url, now).unwrap();
        assert_eq!(
            headers[AUTHORIZATION],
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
             Signature=34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"
        );
        assert!(!format!("{headers:?}").contains("Signature"));
    }
}
