//! Lists and errors of an S3-compatible store, as XML, and what is common to all stores.

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::error::{Problem, Reason};
use crate::place::{KEY_LENGTH_MAX, Kind};
use crate::tokens::joined;

/// Characters of a store's own text that are shown.
const SHOWN_CHARS_MAX: usize = 300;
/// Characters of a key that is too long.
const KEY_CHARS_SHOWN: usize = 40;
/// The longest etag.
pub(crate) const ETAG_BYTES_MAX: usize = 256;
/// The token of the next page. Those of stores have at most a key, in some encoding.
const NEXT_BYTES_MAX: usize = 8 << 10;

/// An object of a bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its key.
    pub key: String,
    /// Its version, without quotes.
    pub etag: String,
    /// Its size in bytes.
    pub size: u64,
}

impl Object {
    /// The bytes of its texts.
    pub(crate) fn text_bytes(&self) -> usize {
        self.key.len() + self.etag.len()
    }

    /// A store that sends longer texts is none.
    fn check(&self, kind: Kind) -> Result<(), Problem> {
        let unit = match kind {
            Kind::S3 | Kind::Google => "bytes",
            Kind::Azure => "characters",
        };
        let (text, max, unit) = match () {
            () if kind.key_length(&self.key) > KEY_LENGTH_MAX => ("the key", KEY_LENGTH_MAX, unit),
            () if self.etag.len() > ETAG_BYTES_MAX => ("the etag of the key", ETAG_BYTES_MAX, "bytes"),
            () => return Ok(()),
        };
        let key: String = self.key.chars().take(KEY_CHARS_SHOWN).collect();
        let text = format!("{text} that begins with {key:?} has more than {max} {unit}");
        Err(Problem::new(Reason::Malformed, text))
    }
}

/// A page of a list.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    pub(crate) objects: Vec<Object>,
    /// The token of the next page.
    pub(crate) next: Option<String>,
}

impl Page {
    /// Checks the texts of a page.
    pub(crate) fn checked(self, kind: Kind) -> Result<Self, Problem> {
        self.objects.iter().try_for_each(|object| object.check(kind))?;
        match self.next.as_ref().is_some_and(|next| next.len() > NEXT_BYTES_MAX) {
            true => Err(Problem::new(
                Reason::Malformed,
                format!("the token of its next page is longer than {NEXT_BYTES_MAX} bytes"),
            )),
            false => Ok(self),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct List {
    is_truncated: bool,
    next_continuation_token: Option<String>,
    encoding_type: Option<String>,
    contents: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    key: String,
    #[serde(rename = "ETag", default)]
    etag: String,
    #[serde(default)]
    size: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", default)]
#[derive(Default)]
struct Refusal {
    code: String,
    message: String,
    region: Option<String>,
}

pub(crate) fn page(xml: &[u8]) -> Result<Page, Problem> {
    let malformed = || Problem::new(Reason::Malformed, "its list is malformed");
    let text = std::str::from_utf8(xml).map_err(|error| malformed().because(error))?;
    let list: List = quick_xml::de::from_str(text).map_err(|error| malformed().because(error))?;
    let is_encoded = list.encoding_type.as_deref() == Some("url");
    let decoded = |key: String| match is_encoded {
        true => decode(&key),
        false => Some(key),
    };
    let objects = list.contents.into_iter().map(|entry| {
        Some(Object {
            key: decoded(entry.key)?,
            etag: bare(&entry.etag).to_owned(),
            size: entry.size,
        })
    });
    let objects: Option<Vec<Object>> = objects.collect();
    let next = list.next_continuation_token.filter(|token| !token.is_empty());
    let objects =
        objects.ok_or_else(|| Problem::new(Reason::Malformed, "its list has a key that is not UTF-8"))?;
    match (list.is_truncated, next) {
        (true, None) => Err(Problem::new(
            Reason::Malformed,
            "its list goes on without a token",
        )),
        (true, next) => Ok(Page { objects, next }),
        (false, _) => Ok(Page { objects, next: None }),
    }
}

/// As Go's `url.QueryUnescape`.
fn decode(key: &str) -> Option<String> {
    let spaced = key.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8().ok()?;
    Some(decoded.into_owned())
}

/// An etag without its quotes.
pub(crate) fn bare(etag: &str) -> &str {
    let etag = etag.strip_prefix("W/").unwrap_or(etag);
    etag.trim_matches('"')
}

/// The words of a store that refuses, in XML, and the region that it names.
pub(crate) fn told(xml: &[u8]) -> (String, Option<String>) {
    // Azure begins with a byte order mark
    let text = std::str::from_utf8(xml).unwrap_or_default();
    let text = text.trim_start_matches('\u{feff}');
    // the status decides, whatever its body
    let Refusal {
        code,
        message,
        region,
    } = quick_xml::de::from_str(text).unwrap_or_default();
    (joined(code, message), region)
}

/// The problem of an answer that is no success.
pub(crate) fn refusal(status: u16, told: &str, has_credentials: bool) -> Problem {
    let (reason, did) = match status {
        401 | 403 if has_credentials => (Reason::Authentication, "the store refused the credentials"),
        401 | 403 => (Reason::Authentication, "the store requires credentials"),
        407 => (Reason::Authentication, "the proxy requires credentials"),
        404 | 410 => (Reason::NotFound, "not found"),
        300..=399 => (Reason::Refused, "the store redirects"),
        429 | 503 => (Reason::Failed, "the store limits requests"),
        500.. => (Reason::Failed, "the store failed"),
        _ => (Reason::Failed, "the store refused the request"),
    };
    Problem::new(reason, format!("{did} (HTTP {status}){}", shown(told)))
}

/// A text of a store behind a colon; empty if it says nothing.
pub(crate) fn shown(told: &str) -> String {
    let shown = told.chars().filter(|char| !char.is_control());
    let shown: String = shown.take(SHOWN_CHARS_MAX).collect();
    match shown.is_empty() {
        true => shown,
        false => format!(": {shown}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_keys_versions_and_the_next_page() {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
            <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix></Prefix>\
            <MaxKeys>2</MaxKeys><EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>\
            <Contents><Key>a%2Fb+c%26.yaml</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
            <ETag>&quot;abc-2&quot;</ETag><Size>12</Size><StorageClass>STANDARD</StorageClass></Contents>\
            <Contents><Key>d</Key><ETag>\"1\"</ETag><Size>0</Size></Contents>\
            <NextContinuationToken>x/y=</NextContinuationToken></ListBucketResult>";
        let object = |key: &str, etag: &str, size| Object {
            key: key.to_owned(),
            etag: etag.to_owned(),
            size,
        };
        let list = page(xml.as_bytes()).unwrap();
        let objects = vec![object("a/b c&.yaml", "abc-2", 12), object("d", "1", 0)];
        let next = Some("x/y=".to_owned());
        assert_eq!(list, Page { objects, next });
        let raw = "<ListBucketResult><IsTruncated>false</IsTruncated>\
            <Contents><Key>a+&amp;&#x26;%41</Key></Contents></ListBucketResult>";
        let list = page(raw.as_bytes()).unwrap();
        assert_eq!(list.objects, [object("a+&&%41", "", 0)]);
        let empty = page(b"<ListBucketResult/>").unwrap();
        assert_eq!((empty.objects.len(), empty.next), (0, None));
        for bad in [
            "<html>",
            "",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>%ff</Key></Contents></ListBucketResult>",
            "<!DOCTYPE x [<!ENTITY a \"b\">]><ListBucketResult><Contents><Key>&a;</Key></Contents></ListBucketResult>",
        ] {
            assert!(page(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_refusal_says_what_the_store_says() {
        let xml = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>the region \n is wrong</Message>\
            <Region>eu-west-1</Region></Error>";
        let (text, region) = told(xml.as_bytes());
        let problem = refusal(400, &text, true);
        assert_eq!(
            problem.text,
            "the store refused the request (HTTP 400): AuthorizationHeaderMalformed: the region  is wrong"
        );
        assert_eq!(region.as_deref(), Some("eu-west-1"));
        let problem = refusal(403, &told(b"").0, true);
        assert_eq!(problem.text, "the store refused the credentials (HTTP 403)");
        assert_eq!(problem.reason, Reason::Authentication);
    }
}
