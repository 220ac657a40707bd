//! Addresses of schemas, relative to one another.

/// Where a chart's schema is thought to be.
pub(super) const ROOT: &str = "file:///values.schema.json";

/// An address without its fragment, and the fragment.
pub(super) fn split(address: &str) -> (&str, &str) {
    address.split_once('#').unwrap_or((address, ""))
}

/// What a reference in a schema means.
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

/// The scheme of an absolute address.
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

/// The keys of a JSON pointer that is a fragment.
pub(super) fn pointer(fragment: &str) -> Vec<String> {
    let key = |key: &str| unescaped(key).replace("~1", "/").replace("~0", "~");
    fragment.split('/').skip(1).map(key).collect()
}

/// Without `%..`.
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
