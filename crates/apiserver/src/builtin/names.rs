//! Validation of names, label keys and ports.
//!
//! The grammars are RFC 1123, RFC 1035 and apimachinery's own. The messages are those of
//! `apimachinery/pkg/api/validate/content` and `util/validation` (1.36), and end in the regular expression.
//! Each check returns every message that applies.

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FMT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const KEY_FMT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// `must be no more than 63 bytes`: the text of apimachinery's newer checks.
pub(crate) fn max_length(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// `must be no more than 63 characters`: the text of the older ones, which count bytes too.
pub(crate) fn max_characters(max: usize) -> String {
    format!("must be no more than {max} characters")
}

pub(crate) fn range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn pattern(message: &str, format: &str, examples: &[&str]) -> String {
    let mut out = format!("{message} (");
    if !examples.is_empty() {
        out.push_str("e.g. ");
        for (i, example) in examples.iter().enumerate() {
            if i > 0 {
                out.push_str(" or ");
            }
            out.push_str(&format!("'{example}', "));
        }
    }
    out.push_str(&format!("regex used for validation is '{format}')"));
    out
}

fn lower_alnum(c: u8) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

fn framed(text: &str, edge: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(&first), Some(&last)) => edge(first) && edge(last) && bytes.iter().all(|&c| inner(c)),
        _ => false,
    }
}

fn is_label(text: &str) -> bool {
    framed(text, lower_alnum, |c| lower_alnum(c) || c == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

/// RFC 1123 label, at most 63 bytes.
pub(crate) fn dns_label(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 63 {
        out.push(max_characters(63));
    }
    if !is_label(value) {
        out.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FMT,
                &["my-name", "123-abc"],
            )
        });
    }
    out
}

/// RFC 1123 subdomain, at most 253 bytes.
pub(crate) fn dns_subdomain(value: &str) -> Vec<String> {
    subdomain(value, max_characters(253))
}

fn subdomain(value: &str, too_long: String) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(too_long);
    }
    if !is_subdomain(value) {
        out.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN_FMT,
            &["example.com"],
        ));
    }
    out
}

pub(crate) fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(max_characters(253));
    }
    if !value.strip_prefix("*.").is_some_and(is_subdomain) {
        out.push(pattern(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            r"\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*",
            &["*.example.com"],
        ));
    }
    out
}

pub(crate) fn path_segment(value: &str, prefix: bool) -> Vec<String> {
    if !prefix && (value == "." || value == "..") {
        return vec![format!("may not be '{value}'")];
    }
    ['/', '%']
        .iter()
        .filter(|&&c| value.contains(c))
        .map(|c| format!("may not contain '{c}'"))
        .collect()
}

fn is_key_char(c: u8) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.')
}

/// A label or annotation key, a finalizer: `[prefix/]name`.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    const EXAMPLES: &[&str] = &["MyName", "my.name", "123-abc"];
    const MESSAGE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let mut out = Vec::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(
                    subdomain(prefix, max_length(253))
                        .iter()
                        .map(|m| format!("prefix part {m}")),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                pattern(MESSAGE, KEY_FMT, EXAMPLES)
            )];
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push(format!("name part {}", max_length(63)));
    }
    if !framed(name, |c| c.is_ascii_alphanumeric(), is_key_char) {
        out.push(format!("name part {}", pattern(MESSAGE, KEY_FMT, EXAMPLES)));
    }
    out
}

pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 63 {
        out.push(max_length(63));
    }
    if !value.is_empty() && !framed(value, |c| c.is_ascii_alphanumeric(), is_key_char) {
        out.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    out
}

pub(crate) fn config_key(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 253 {
        out.push(max_characters(253));
    }
    if value.is_empty() || !value.bytes().all(is_key_char) {
        out.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    if value == "." || value == ".." {
        out.push(format!("must not be '{value}'"));
    } else if value.starts_with("..") {
        out.push("must not start with '..'".to_owned());
    }
    out
}

/// RFC 6335's service name.
pub(crate) fn port_name(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.len() > 15 {
        out.push(max_characters(15));
    }
    if !value.bytes().all(|c| lower_alnum(c) || c == b'-') {
        out.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|c| c.is_ascii_lowercase()) {
        out.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        out.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        out.push("must not begin or end with a hyphen".to_owned());
    }
    out
}

pub(crate) fn port_number(value: i64) -> Option<String> {
    (!(1..=65535).contains(&value)).then(|| range(1, 65535))
}

/// Printable ASCII without `=`.
pub(crate) fn env_name(value: &str) -> Vec<String> {
    let mut out = Vec::new();
    if value.is_empty() {
        out.push("environment variable name must be non-empty".to_owned());
    }
    if value.bytes().any(|c| c == b'=' || !(0x20..=0x7e).contains(&c)) {
        out.push("a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned());
    }
    out
}

pub(crate) fn header_name(value: &str) -> Option<String> {
    let valid = !value.is_empty() && value.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-');
    (!valid).then(|| {
        pattern(
            "a valid HTTP header must consist of alphanumeric characters or '-'",
            "[-A-Za-z0-9]+",
            &["X-Header-Name"],
        )
    })
}
