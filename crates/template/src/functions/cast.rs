//! Casts to numbers: invalid values become zero.

use crate::literal;
use crate::value::Value;

pub(super) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(number, _) => *number,
        Value::Uint(number, _) => *number as i64,
        Value::Float(number) => truncated(*number),
        Value::Bool(flag) => i64::from(*flag),
        Value::String(text) => {
            let text = text.lossy();
            literal::integer(without_zeros(&text), true).unwrap_or(0)
        }
        _ => 0,
    }
}

/// Converts as amd64 does: overflow gives the least integer.
fn truncated(number: f64) -> i64 {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    if !(-BEYOND..BEYOND).contains(&number) {
        return i64::MIN;
    }
    number as i64
}

/// `1.00` as `1`.
fn without_zeros(text: &str) -> &str {
    match text.split_once('.') {
        Some((whole, zeros))
            if !whole.is_empty() && zeros.bytes().all(|byte| byte == b'0') && !zeros.is_empty() =>
        {
            whole
        }
        _ => text,
    }
}

pub(super) fn float(value: &Value) -> f64 {
    match value {
        Value::Int(number, _) => *number as f64,
        Value::Uint(number, _) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(flag) => f64::from(u8::from(*flag)),
        Value::String(text) => literal::float(&text.lossy()).unwrap_or(0.0),
        _ => 0.0,
    }
}
