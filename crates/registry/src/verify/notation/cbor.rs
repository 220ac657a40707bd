//! Reads the part of CBOR that COSE envelopes use (RFC 8949): definite lengths, no floating point.

const DEPTH_MAX: usize = 16;
const ITEMS_MAX: usize = 1_000;

/// A key of a map. Others are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key<'b> {
    Integer(i64),
    Text(&'b str),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value<'b> {
    Integer(i64),
    Bytes(&'b [u8]),
    Text(&'b str),
    Array(Vec<Value<'b>>),
    Map(Vec<(Key<'b>, Value<'b>)>),
    Tag(u64, Box<Value<'b>>),
    /// `false`, `true`, null or undefined.
    Simple(u8),
}

/// Bytes are not one value of the supported part, or exceed a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

pub(super) fn parse(bytes: &[u8]) -> Result<Value<'_>, Malformed> {
    let mut reader = Reader {
        rest: bytes,
        items: 0,
    };
    let value = reader.value(0)?;
    match reader.rest.is_empty() {
        true => Ok(value),
        false => Err(Malformed),
    }
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = bytes.len() as u64;
    match length {
        0..24 => out.push(0x40 | length as u8),
        24..0x100 => out.extend([0x58, length as u8]),
        0x100..0x1_0000 => {
            out.push(0x59);
            out.extend((length as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(0x5a);
            out.extend((length as u32).to_be_bytes());
        }
        _ => {
            out.push(0x5b);
            out.extend(length.to_be_bytes());
        }
    }
    out.extend_from_slice(bytes);
}

struct Reader<'b> {
    rest: &'b [u8],
    items: usize,
}

impl<'b> Reader<'b> {
    fn value(&mut self, depth: usize) -> Result<Value<'b>, Malformed> {
        self.items += 1;
        if depth == DEPTH_MAX || self.items > ITEMS_MAX {
            return Err(Malformed);
        }
        let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        let (major, info) = (first >> 5, first & 31);
        if major == 7 {
            return match info {
                20..24 => Ok(Value::Simple(info)),
                _ => Err(Malformed),
            };
        }
        let argument = self.argument(info)?;
        match major {
            0 => Ok(Value::Integer(i64::try_from(argument).map_err(|_| Malformed)?)),
            1 => Ok(Value::Integer(
                -1 - i64::try_from(argument).map_err(|_| Malformed)?,
            )),
            2 => Ok(Value::Bytes(self.take(argument)?)),
            3 => {
                let text = std::str::from_utf8(self.take(argument)?);
                text.map(Value::Text).map_err(|_| Malformed)
            }
            4 => {
                let mut items = Vec::new();
                for _ in 0..argument {
                    items.push(self.value(depth + 1)?);
                }
                Ok(Value::Array(items))
            }
            5 => {
                let mut entries: Vec<(Key<'b>, Value<'b>)> = Vec::new();
                for _ in 0..argument {
                    let key = match self.value(depth + 1)? {
                        Value::Integer(label) => Key::Integer(label),
                        Value::Text(name) => Key::Text(name),
                        _ => return Err(Malformed),
                    };
                    if entries.iter().any(|(other, _)| *other == key) {
                        return Err(Malformed);
                    }
                    entries.push((key, self.value(depth + 1)?));
                }
                Ok(Value::Map(entries))
            }
            _ => Ok(Value::Tag(argument, Box::new(self.value(depth + 1)?))),
        }
    }

    fn argument(&mut self, info: u8) -> Result<u64, Malformed> {
        let width = match info {
            0..24 => return Ok(u64::from(info)),
            24 => 1,
            25 => 2,
            26 => 4,
            27 => 8,
            _ => return Err(Malformed),
        };
        let digits = self.take(width)?;
        Ok(digits
            .iter()
            .fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }

    fn take(&mut self, length: u64) -> Result<&'b [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}
