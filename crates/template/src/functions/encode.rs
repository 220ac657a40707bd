//! Encodings and digests.

use super::{Function, table};
use crate::call::Call;
use crate::value::Value;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::Digest as _;
use smallvec::SmallVec;
use std::fmt::Write as _;

pub(super) const FUNCTIONS: &[Function] = table! {
    "b64enc" (Str) => |call| {
        call.read()?;
        let text = STANDARD.encode(call.bytes(0));
        call.done(text)
    };
    "b64dec" (Str) => |call| {
        call.made(call.bytes(0).len())?;
        match from_base64(call.bytes(0)) {
            Ok(bytes) => Ok(Value::string(bytes)),
            Err(at) => call.done(format!("illegal base64 data at input byte {at}")),
        }
    };
    "b32enc" (Str) => |call| {
        call.read()?;
        let text = to_base32(call.bytes(0));
        call.done(text)
    };
    "b32dec" (Str) => |call| {
        call.made(call.bytes(0).len())?;
        match from_base32(call.bytes(0)) {
            Ok(bytes) => Ok(Value::string(bytes)),
            Err(at) => call.done(format!("illegal base32 data at input byte {at}")),
        }
    };
    "sha1sum" (Str) => |call| digest(call, |bytes| hex(&sha1::Sha1::digest(bytes)));
    "sha256sum" (Str) => |call| digest(call, |bytes| hex(&sha2::Sha256::digest(bytes)));
    "sha512sum" (Str) => |call| digest(call, |bytes| hex(&sha2::Sha512::digest(bytes)));
    "adler32sum" (Str) => |call| digest(call, adler32);
};

fn digest(call: &mut Call<'_, '_>, make: fn(&[u8]) -> String) -> crate::call::Outcome {
    call.exec
        .meter()
        .work(call.args.iter().map(length).sum::<usize>().saturating_mul(4))?;
    Ok(make(call.bytes(0)).into())
}

fn length(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        _ => 0,
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn adler32(bytes: &[u8]) -> String {
    const BASE: u32 = 65_521;
    let (mut low, mut high) = (1u32, 0u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % BASE;
        high = (high + low) % BASE;
    }
    (high << 16 | low).to_string()
}

/// Splits an encoded text into groups and checks alphabet and padding as Go does: line breaks are skipped,
/// and errors have an offset.
fn groups(
    text: &[u8],
    size: usize,
    bits: u32,
    value: fn(u8) -> Option<u8>,
    allowed: &[usize],
) -> Result<Vec<u8>, usize> {
    let mut kept = text
        .iter()
        .copied()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\n' | b'\r'));
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    loop {
        let group: SmallVec<[(usize, u8); 8]> = kept.by_ref().take(size).collect();
        let Some((start, _)) = group.first().copied() else {
            return Ok(out);
        };
        let mut number = 0u64;
        let mut digits = 0;
        for (at, byte) in &group {
            if *byte == b'=' {
                break;
            }
            let digit = value(*byte).ok_or(*at)?;
            number = number << bits | u64::from(digit);
            digits += 1;
        }
        if group.len() < size {
            return Err(text.len() - group.len().min(text.len()));
        }
        if digits < size {
            if !allowed.contains(&digits) {
                return Err(group.get(digits).map_or(start, |(at, _)| *at));
            }
            if let Some((at, _)) = group.iter().skip(digits).find(|(_, byte)| *byte != b'=') {
                return Err(at.saturating_sub(1));
            }
            if let Some((at, _)) = kept.next() {
                return Err(at);
            }
        }
        let spare = bits as usize * (size - digits);
        number <<= spare;
        let bytes = number.to_be_bytes();
        let group_bytes = size * bits as usize / 8;
        let whole = digits * bits as usize / 8;
        out.extend_from_slice(&bytes[8 - group_bytes..8 - group_bytes + whole]);
    }
}

pub(super) fn from_base64(text: &[u8]) -> Result<Vec<u8>, usize> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    groups(text, 4, 6, value, &[2, 3])
}

fn from_base32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let value = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'2'..=b'7' => Some(byte - b'2' + 26),
        _ => None,
    };
    groups(text, 8, 5, value, &[2, 4, 5, 7])
}

fn to_base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut out = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut padded = [0u8; 8];
        padded[3..3 + chunk.len()].copy_from_slice(chunk);
        let number = u64::from_be_bytes(padded);
        let digits = (chunk.len() * 8).div_ceil(5);
        for index in 0..8 {
            let digit = (number >> (35 - 5 * index)) & 31;
            out.push(if index < digits {
                char::from(ALPHABET[digit as usize])
            } else {
                '='
            });
        }
    }
    out
}
