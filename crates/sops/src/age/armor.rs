//! age's armor: base64 in lines of 64 between two markers.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const BEGIN: &str = "-----BEGIN AGE ENCRYPTED FILE-----";
const END: &str = "-----END AGE ENCRYPTED FILE-----";

/// An encrypted data key has a few hundred bytes.
const BYTES_MAX: usize = 64 << 10;

pub(super) fn remove(text: &str) -> Option<Vec<u8>> {
    if text.len() > BYTES_MAX {
        return None;
    }
    let inner = text.trim().strip_prefix(BEGIN)?.strip_suffix(END)?;
    let packed: String = inner.split_ascii_whitespace().collect();
    STANDARD.decode(packed).ok()
}

#[cfg(test)]
pub(super) fn add(bytes: &[u8]) -> String {
    let packed = STANDARD.encode(bytes);
    let mut text = format!("{BEGIN}\n");
    let mut rest = packed.as_str();
    while !rest.is_empty() {
        let (line, next) = rest.split_at(rest.len().min(64));
        text.push_str(line);
        text.push('\n');
        rest = next;
    }
    text + END + "\n"
}
