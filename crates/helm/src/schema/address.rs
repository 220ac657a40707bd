//! Addresses of schemas and their resolution.

/// The nominal address of a chart's schema.
pub(super) const ROOT: &str = "file:///values.schema.json";

pub(super) fn split(address: &str) -> (&str, &str) {
    address.split_once('#').unwrap_or((address, ""))
}

pub(super) fn resolved(base: &str, reference: &str) -> String {
    let (path, fragment) = split(reference);
    let whole = if path.is_empty() {
        base.to_owned()
    } else if scheme(path).is_some() {
        path.to_owned()
    } else {
        joined(base, path)
    };
    match fragment {
        "" => whole,
        fragment => format!("{whole}#{fragment}"),
    }
}

pub(super) fn scheme(address: &str) -> Option<&str> {
    let (scheme, _) = address.split_once(':')?;
    let mut bytes = scheme.bytes();
    let first = bytes.next()?;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    (first.is_ascii_alphabetic() && bytes.all(fits)).then_some(scheme)
}

fn joined(base: &str, path: &str) -> String {
    let Some((scheme, rest)) = base.split_once("://") else {
        return path.to_owned();
    };
    let (authority, old) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    let whole = match path.strip_prefix('/') {
        Some(_) => path.to_owned(),
        None => {
            let directory = old.rsplit_once('/').map_or("", |(directory, _)| directory);
            format!("{directory}/{path}")
        }
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/').skip(1) {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("{scheme}://{authority}/{}", parts.join("/"))
}

/// The keys of a JSON pointer in a fragment.
pub(super) fn pointer(fragment: &str) -> Vec<String> {
    let key = |key: &str| unescaped(key).replace("~1", "/").replace("~0", "~");
    fragment.split('/').skip(1).map(key).collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = (*first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match hex {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Parses an address as Go's `netip` does: the error is its text, and the place if it names one.
pub(super) fn ipv6(text: &str) -> Result<(), (&'static str, &str)> {
    let mut rest = text;
    let mut ellipsis = None;
    if let Some(after) = rest.strip_prefix("::") {
        ellipsis = Some(0);
        rest = after;
        if rest.is_empty() {
            return Ok(());
        }
    }
    let mut fields = 0;
    while fields < 8 {
        let end = rest
            .bytes()
            .position(|byte| !byte.is_ascii_hexdigit())
            .unwrap_or(rest.len());
        if end > 4 {
            return Err(("each group must have 4 or less digits", rest));
        }
        if end == 0 {
            return Err(("each colon-separated field must have at least one digit", rest));
        }
        let (_, after) = rest.split_at(end);
        if after.starts_with('.') {
            if ellipsis.is_none() && fields != 6 || fields > 6 {
                return Err((
                    "embedded IPv4 address must replace the final 2 fields of the address",
                    rest,
                ));
            }
            ipv4(rest).map_err(|why| (why, ""))?;
            fields += 2;
            rest = "";
            break;
        }
        fields += 1;
        rest = after;
        if rest.is_empty() {
            break;
        }
        let Some(after) = rest.strip_prefix(':') else {
            return Err(("unexpected character, want colon", rest));
        };
        if after.is_empty() {
            return Err(("colon must be followed by more characters", rest));
        }
        rest = after;
        if let Some(after) = rest.strip_prefix(':') {
            if ellipsis.is_some() {
                return Err(("multiple :: in address", rest));
            }
            ellipsis = Some(fields);
            rest = after;
            if rest.is_empty() {
                break;
            }
        }
    }
    match (rest, ellipsis) {
        ("", None) if fields < 8 => Err(("address string too short", "")),
        ("", Some(_)) if fields == 8 => Err(("the :: must expand to at least one field of zeros", "")),
        ("", _) => Ok(()),
        (rest, _) => Err(("trailing garbage after address", rest)),
    }
}

fn ipv4(text: &str) -> Result<(), &'static str> {
    let (mut fields, mut value, mut digits) = (0, 0_u32, 0);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                if digits == 1 && value == 0 {
                    return Err("IPv4 field has octet with leading zero");
                }
                value = value * 10 + u32::from(byte - b'0');
                digits += 1;
                if value > 255 {
                    return Err("IPv4 field has value >255");
                }
            }
            b'.' if digits == 0 => return Err("IPv4 field must have at least one digit"),
            b'.' if fields == 3 => return Err("IPv4 address too long"),
            b'.' => (fields, value, digits) = (fields + 1, 0, 0),
            _ => return Err("unexpected character"),
        }
    }
    match (fields, digits) {
        (3, 1..) => Ok(()),
        (_, 0) => Err("IPv4 field must have at least one digit"),
        _ => Err("IPv4 address too short"),
    }
}

#[cfg(test)]
mod tests {
    use super::{pointer, resolved};

    #[test]
    fn references_are_relative_to_where_they_stand() {
        for (base, reference, whole) in [
            (
                "file:///values.schema.json",
                "#/a",
                "file:///values.schema.json#/a",
            ),
            ("file:///values.schema.json", "other.json", "file:///other.json"),
            ("https://x.y/a/b.json", "../c.json#d", "https://x.y/c.json#d"),
            ("https://x.y/a/b.json", "/c", "https://x.y/c"),
            ("https://x.y", "c", "https://x.y/c"),
            ("https://x.y/a", "urn:a:b", "urn:a:b"),
        ] {
            assert_eq!(resolved(base, reference), whole);
        }
        assert_eq!(pointer("/a~1b/%25/c~0d"), ["a/b", "%", "c~d"]);
    }
}
