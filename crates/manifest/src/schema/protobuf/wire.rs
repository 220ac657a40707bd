//! Tags, lengths and variable integers.

use super::ProtobufError;

pub(super) enum Wire<'b> {
    Varint(u64),
    Fixed(u64),
    Bytes(&'b [u8]),
}

pub(super) fn fields(bytes: &[u8]) -> impl Iterator<Item = Result<(u32, Wire<'_>), ProtobufError>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let field = field(&mut rest);
        if field.is_err() {
            rest = &[];
        }
        Some(field)
    })
}

fn field<'b>(rest: &mut &'b [u8]) -> Result<(u32, Wire<'b>), ProtobufError> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).map_err(|_| ProtobufError::Truncated)?;
    let wire = match tag & 7 {
        0 => Wire::Varint(varint(rest)?),
        1 => {
            let (bytes, after) = rest.split_first_chunk().ok_or(ProtobufError::Truncated)?;
            *rest = after;
            Wire::Fixed(u64::from_le_bytes(*bytes))
        }
        2 => {
            let length = usize::try_from(varint(rest)?).map_err(|_| ProtobufError::Truncated)?;
            let (bytes, after) = rest.split_at_checked(length).ok_or(ProtobufError::Truncated)?;
            *rest = after;
            Wire::Bytes(bytes)
        }
        // groups and 32-bit values: no built-in kind has them
        _ => return Err(ProtobufError::Form(number)),
    };
    Ok((number, wire))
}

pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, ProtobufError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first().ok_or(ProtobufError::Truncated)?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(ProtobufError::Truncated)
}

pub(super) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Writes a field of a variable integer: a number or a boolean.
pub fn put_number(out: &mut Vec<u8>, number: u32, value: u64) {
    put_varint(out, u64::from(number) << 3);
    put_varint(out, value);
}

/// Writes a field of bytes, a text or a message.
pub fn put_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    put_varint(out, u64::from(number) << 3 | 2);
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Writes a field of a floating-point number.
pub fn put_double(out: &mut Vec<u8>, number: u32, value: f64) {
    put_varint(out, u64::from(number) << 3 | 1);
    out.extend_from_slice(&value.to_bits().to_le_bytes());
}
