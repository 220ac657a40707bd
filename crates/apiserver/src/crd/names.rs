//! DNS rules for names inside a CustomResourceDefinition, with apimachinery's messages (1.36).

pub(super) fn dns1035_label(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 63 {
        out.push("must be no more than 63 bytes".to_owned());
    }
    if !label(text, |c| c.is_ascii_lowercase()) {
        out.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex \
             used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
                .to_owned(),
        );
    }
    out
}

pub(super) fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    if text.len() > 253 {
        out.push("must be no more than 253 bytes".to_owned());
    }
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    if text.is_empty() || !text.split('.').all(|part| label(part, alphanumeric)) {
        out.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    out
}

fn label(text: &str, first: impl Fn(char) -> bool) -> bool {
    let alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.chars().next().is_some_and(first)
        && text.chars().next_back().is_some_and(alphanumeric)
        && text.chars().all(|c| alphanumeric(c) || c == '-')
}
