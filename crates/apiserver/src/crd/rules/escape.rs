//! Field names as rules write them: `a-b` is `a__dash__b`, `namespace` is `__namespace__`.

use equate_cel::RESERVED;
use std::borrow::Cow;

/// Words of the language that are no names of fields, beside the reserved ones.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

fn is_reserved(name: &str) -> bool {
    WORDS.contains(&name) || RESERVED.contains(&name)
}

pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
    {
        return None;
    }
    if !name.contains("__") && !name.contains(['-', '.', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let escaped = name
        .replace("__", "\u{0}")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__")
        .replace('\u{0}', "__underscores__");
    Some(Cow::Owned(escaped))
}

pub(super) fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    while let Some(start) = rest.find("__") {
        let after = &rest[start + 2..];
        let Some(end) = after
            .find("__")
            .filter(|end| *end > 0 && !after[..*end].contains('_'))
        else {
            // No closing pair: the underscores are literal.
            out.push_str(&rest[..start + 1]);
            rest = &rest[start + 1..];
            if !rest.contains("__") {
                break;
            }
            continue;
        };
        out.push_str(&rest[..start]);
        match &after[..end] {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if is_reserved(word) && identifier.len() == word.len() + 4 => out.push_str(word),
            _ => return None,
        }
        rest = &after[end + 2..];
    }
    out.push_str(rest);
    Some(Cow::Owned(out))
}
