//! Names as path segments of a URL.
//!
//! Names come from manifests and become parts of request paths. A name with a `/`, or of dots alone,
//! would address another object: in another namespace, or a subresource. It is refused before the
//! request, with the text of Kubernetes' own clients. Other special characters, such as `?` or a space,
//! are escaped. The API server validates the name itself.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A name that cannot be a path segment.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} {name:?}: [{why}]")]
pub struct SegmentError {
    what: &'static str,
    name: String,
    why: &'static str,
}

/// A name as a path segment; `what` describes it in the error.
///
/// # Errors
/// It is empty, `.` or `..`, or has a `/` or a `%`.
pub fn segment<'n>(what: &'static str, name: &'n str) -> Result<Cow<'n, str>, SegmentError> {
    let why = match name {
        "" => Some("may not be empty"),
        "." => Some("may not be '.'"),
        ".." => Some("may not be '..'"),
        _ if name.contains('/') => Some("may not contain '/'"),
        _ if name.contains('%') => Some("may not contain '%'"),
        _ => None,
    };
    if let Some(why) = why {
        let name = name.to_owned();
        return Err(SegmentError { what, name, why });
    }
    if name.bytes().all(stands) {
        return Ok(Cow::Borrowed(name));
    }
    let mut escaped = String::with_capacity(name.len() * 3);
    for byte in name.bytes() {
        if stands(byte) {
            escaped.push(char::from(byte));
        } else {
            // writing to a String cannot fail
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    Ok(Cow::Owned(escaped))
}

/// Whether a byte needs no escape (RFC 3986, `pchar`).
fn stands(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_segment_or_none() {
        let check = |name: &str, expected: Result<&str, &str>| {
            let found = segment("resource name", name);
            let found = found.as_deref().map_err(ToString::to_string);
            assert_eq!(found, expected.map_err(str::to_owned), "{name:?}");
        };
        check("web", Ok("web"));
        check("system:node-proxier", Ok("system:node-proxier"));
        check("..a", Ok("..a"));
        // a query, a fragment: all of it is the name
        check("a?dryRun=All#b", Ok("a%3FdryRun=All%23b"));
        check("a b\r\nc", Ok("a%20b%0D%0Ac"));
        check("\\ä", Ok("%5C%C3%A4"));
        check("", Err("invalid resource name \"\": [may not be empty]"));
        check(".", Err("invalid resource name \".\": [may not be '.']"));
        check("..", Err("invalid resource name \"..\": [may not be '..']"));
        check(
            "../../b/secrets/a",
            Err("invalid resource name \"../../b/secrets/a\": [may not contain '/']"),
        );
        check(
            "a%2fb",
            Err("invalid resource name \"a%2fb\": [may not contain '%']"),
        );
    }
}
