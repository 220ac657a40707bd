//! The query of a repository URL, parsed like Go's `url.ParseQuery` and kustomize.

use std::time::Duration;

use equate_manifest::go::duration;

/// kustomize's default for cloning.
const TIMEOUT: Duration = Duration::from_secs(27);
const KNOWN: [&str; 4] = ["ref", "version", "timeout", "submodules"];

pub(super) struct Query {
    pub(super) reference: String,
    pub(super) timeout: Duration,
    pub(super) submodules: bool,
    pub(super) known: bool,
}

/// A query with any malformed part counts as empty.
pub(super) fn parse(text: &str) -> Query {
    let pairs = pairs(text).unwrap_or_default();
    let first = |name: &str| {
        let found = pairs.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    };
    Query {
        reference: first("ref").or(first("version")).unwrap_or_default().to_owned(),
        timeout: first("timeout").and_then(timeout).unwrap_or(TIMEOUT),
        submodules: first("submodules").and_then(boolean).unwrap_or(true),
        known: KNOWN.into_iter().any(|name| first(name).is_some()),
    }
}

/// Whether a query has known keys only, so that it can be shown.
pub(super) fn is_harmless(text: &str) -> bool {
    let harmless = |pairs: Vec<(String, String)>| {
        !pairs.is_empty() && pairs.iter().all(|(key, _)| KNOWN.contains(&key.as_str()))
    };
    pairs(text).is_some_and(harmless)
}

/// `None` for a malformed query.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (!pair.contains(';')).then_some(())?;
            Some((decoded(key)?, decoded(value)?))
        })
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit()?, digit()?);
                u8::try_from(high * 16 + low).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Whole seconds or a Go duration; `None` unless positive.
fn timeout(text: &str) -> Option<Duration> {
    let timeout = match text.parse::<i64>() {
        Ok(seconds) => Duration::from_secs(u64::try_from(seconds).ok()?),
        Err(_) => Duration::from_nanos(u64::try_from(duration::parse(text).ok()?).ok()?),
    };
    (!timeout.is_zero()).then_some(timeout)
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
