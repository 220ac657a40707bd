//! Random functions on the caller's source.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::value::Value;
use base64::Engine as _;

pub(super) const FUNCTIONS: &[Function] = table! {
    "randAlphaNum" (Int) "random" => |call| text(call, b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    "randAlpha" (Int) "random" => |call| text(call, b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
    "randNumeric" (Int) "random" => |call| text(call, b"0123456789");
    "randAscii" (Int) "random" => |call| {
        let all: Vec<u8> = (b' '..=b'~').collect();
        text(call, &all)
    };
    "randBytes" (Int) "random" => |call| {
        let Ok(count) = usize::try_from(call.int(0)) else {
            return call.fail("runtime error: makeslice: len out of range");
        };
        call.made(count.saturating_mul(3))?;
        let mut bytes = vec![0; count];
        call.exec.session().world.random(&mut bytes);
        call.done(base64::engine::general_purpose::STANDARD.encode(bytes))
    };
    "randInt" (Int, Int) "random" => |call| {
        let (low, high) = (call.int(0), call.int(1));
        match u64::try_from(i128::from(high) - i128::from(low)) {
            Ok(span) if span > 0 => Ok(Value::int(low.wrapping_add(below(call, span) as i64))),
            _ => call.fail("invalid argument to Intn"),
        }
    };
    "shuffle" (Str) "random" => |call| {
        call.read()?;
        let mut characters: Vec<char> = call.text(0).chars().collect();
        call.made(characters.len().saturating_mul(4))?;
        for index in (1..characters.len()).rev() {
            let other = below(call, index as u64 + 1) as usize;
            characters.swap(index, other);
        }
        call.done(characters.into_iter().collect::<String>())
    };
    "uuidv4" () "random" => |call| {
        let mut bytes = [0; 16];
        call.exec.session().world.random(&mut bytes);
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex = super::encode::hex(&bytes);
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        Ok(parts.join("-").into())
    };
};

/// A uniform number below `end`.
fn below(call: &mut Call<'_, '_>, end: u64) -> u64 {
    // the remainder above the last whole round would favour small numbers
    let rounds = u64::MAX - u64::MAX % end;
    loop {
        let mut bytes = [0; 8];
        call.exec.session().world.random(&mut bytes);
        let number = u64::from_be_bytes(bytes);
        if number < rounds {
            return number % end;
        }
    }
}

fn text(call: &mut Call<'_, '_>, alphabet: &[u8]) -> Outcome {
    // a negative count means none
    let count = usize::try_from(call.int(0)).unwrap_or(0);
    // each character costs a draw
    call.made(count.saturating_mul(64))?;
    let mut text = String::with_capacity(count);
    for _ in 0..count {
        let index = below(call, alphabet.len() as u64) as usize;
        text.push(char::from(alphabet[index]));
    }
    Ok(text.into())
}
