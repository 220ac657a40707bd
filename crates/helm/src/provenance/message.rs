//! A cleartext signed message (RFC 9580, section 7).
//!
//! The signed bytes and the displayed text come from the same lines, so that nobody can show one text and
//! have another verified.

const BEGIN: &[u8] = b"-----BEGIN PGP SIGNED MESSAGE-----";
const SIGNATURE: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
const END: &str = "\n-----END PGP SIGNATURE-----";
const ESCAPE: &[u8] = b"- ";
/// Hashes that a header may name. It is informative: the signature names its own hash.
const HASHES: [&str; 9] = [
    "MD5",
    "SHA1",
    "RIPEMD160",
    "SHA224",
    "SHA256",
    "SHA384",
    "SHA512",
    "SHA3-256",
    "SHA3-512",
];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message<'m> {
    /// The lines without escapes.
    pub(super) text: String,
    /// The lines as signed.
    pub(super) signed: Vec<u8>,
    pub(super) signature: &'m str,
}

impl<'m> Message<'m> {
    /// The first complete message of a file. Text around it is ignored.
    pub(super) fn first(file: &'m [u8]) -> Option<Self> {
        let mut rest = after_begin(file)?;
        loop {
            let header = line(&mut rest)?;
            if header.trim_ascii().is_empty() {
                break;
            }
            is_header(header).then_some(())?;
        }
        let mut lines: Vec<&[u8]> = Vec::new();
        let armor = loop {
            let here = rest;
            match line(&mut rest)? {
                SIGNATURE => break here,
                line => lines.push(without_escape(line)),
            }
        };
        let valid = armor.utf8_chunks().next()?.valid();
        let end = valid.find(END)? + END.len();
        Some(Self {
            text: String::from_utf8(lines.join(&b'\n')).ok()?,
            signed: lines.join(b"\r\n".as_slice()),
            signature: valid.get(..end)?,
        })
    }
}

fn after_begin(file: &[u8]) -> Option<&[u8]> {
    let mut rest = file;
    while !rest.is_empty() {
        if line(&mut rest)? == BEGIN {
            return Some(rest);
        }
    }
    None
}

fn line<'l>(rest: &mut &'l [u8]) -> Option<&'l [u8]> {
    if rest.is_empty() {
        return None;
    }
    let at = rest.iter().position(|byte| *byte == b'\n');
    let (line, after) = match at {
        Some(at) => (&rest[..at], &rest[at + 1..]),
        None => (*rest, &rest[rest.len()..]),
    };
    *rest = after;
    Some(match at {
        Some(_) => line.strip_suffix(b"\r").unwrap_or(line),
        None => line,
    })
}

fn is_header(line: &[u8]) -> bool {
    let Ok(line) = std::str::from_utf8(line) else {
        return false;
    };
    let is_plain = line.chars().all(|character| matches!(character, ' '..='~'));
    line.split_once(':').is_some_and(|(key, values)| {
        let is_hash = |value: &str| HASHES.contains(&value.trim().to_uppercase().as_str());
        is_plain && key.trim() == "Hash" && values.split(',').all(is_hash)
    })
}

fn without_escape(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(ESCAPE).unwrap_or(line);
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let end = line
        .iter()
        .rposition(|byte| !is_blank(byte))
        .map_or(0, |at| at + 1);
    &line[..end]
}
