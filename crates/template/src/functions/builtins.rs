//! The builtin functions of the language.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::format;
use crate::value::{Entries, List, Value};
use std::cmp::Ordering;
use std::fmt::Write as _;
use std::rc::Rc;

pub(super) const FUNCTIONS: &[Function] = table! {
    "eq" (Reflect; Reflect) => |call| eq(call).map(Value::Bool);
    "ne" (Reflect, Reflect) => |call| eq(call).map(|equal| Value::Bool(!equal));
    "lt" (Reflect, Reflect) => |call| less(call).map(Value::Bool);
    "le" (Reflect, Reflect) => |call| Ok(Value::Bool(less(call)? || eq(call)?));
    "gt" (Reflect, Reflect) => |call| Ok(Value::Bool(!(less(call)? || eq(call)?)));
    "ge" (Reflect, Reflect) => |call| less(call).map(|less| Value::Bool(!less));
    "not" (Reflect) => |call| Ok(Value::Bool(!call.arg(0).is_true()));
    "len" (Reflect) => len;
    "index" (Reflect; Reflect) => index;
    "slice" (Reflect; Reflect) => slice;
    "print" (;Any) => |call| printed(call, format::print);
    "println" (;Any) => |call| printed(call, format::println);
    "printf" (Str; Any) => printf;
    "html" (;Any) => |call| escaped(call, html);
    "js" (;Any) => |call| escaped(call, js);
    "urlquery" (;Any) => |call| escaped(call, |text| url_query(text.as_bytes()));
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Basic {
    Bool,
    Int,
    Uint,
    Float,
    String,
    None,
}

fn basic(value: &Value) -> Basic {
    match value {
        Value::Bool(_) => Basic::Bool,
        Value::Int(..) => Basic::Int,
        Value::Uint(..) => Basic::Uint,
        Value::Float(_) => Basic::Float,
        Value::String(_) => Basic::String,
        _ => Basic::None,
    }
}

fn incompatible(left: &Value, right: &Value) -> Fault {
    Fault::message(format!(
        "incompatible types for comparison: {} and {}",
        left.type_name(),
        right.type_name()
    ))
}

fn eq(call: &mut Call<'_, '_>) -> Result<bool, Fault> {
    call.read()?;
    let Some((first, others)) = call.args.split_first() else {
        return Ok(false);
    };
    if others.is_empty() {
        return Err(Fault::message("missing argument for comparison"));
    }
    for other in others {
        if equal(call, first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(call: &Call<'_, '_>, left: &Value, right: &Value) -> Result<bool, Fault> {
    let none = |value: &Value| matches!(value, Value::Absent | Value::Nil);
    if let Some(order) = integers(left, right) {
        return Ok(order == Ordering::Equal);
    }
    Ok(match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        _ if basic(left) != basic(right) => {
            if !none(left) && !none(right) {
                return Err(incompatible(left, right));
            }
            false
        }
        _ if left.kind() != right.kind() && !none(left) && !none(right) => {
            return Err(Fault::message(format!(
                "non-comparable types {}: {}, {}: {}",
                shown(call, left)?,
                left.type_name(),
                right.type_name(),
                format::plain_text(right, call.exec.limits())?
            )));
        }
        _ if left.is_nil() || right.is_nil() => left.is_nil() == right.is_nil(),
        (Value::Host(left), Value::Host(right)) => {
            left.type_name() == right.type_name()
                && (Rc::ptr_eq(left, right)
                    || left.kind() == crate::value::Kind::Struct && left.text() == right.text())
        }
        _ => {
            let (shown, name) = (shown(call, right)?, right.type_name());
            return Err(Fault::message(format!("non-comparable type {shown}: {name}")));
        }
    })
}

fn shown(call: &Call<'_, '_>, value: &Value) -> Result<String, Fault> {
    let bytes = format::printf(b"%s", std::slice::from_ref(value), call.exec.limits())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Compares integers of different signedness.
fn integers(left: &Value, right: &Value) -> Option<Ordering> {
    let whole = |value: &Value| match value {
        Value::Int(value, _) => Some(i128::from(*value)),
        Value::Uint(value, _) => Some(i128::from(*value)),
        _ => None,
    };
    Some(whole(left)?.cmp(&whole(right)?))
}

fn less(call: &mut Call<'_, '_>) -> Result<bool, Fault> {
    call.read()?;
    let (left, right) = (call.arg(0), call.arg(1));
    let bad = || Fault::message("invalid type for comparison");
    if basic(left) == Basic::None || basic(right) == Basic::None {
        return Err(bad());
    }
    if let Some(order) = integers(left, right) {
        return Ok(order == Ordering::Less);
    }
    match (left, right) {
        (Value::Float(left), Value::Float(right)) => Ok(left < right),
        (Value::String(left), Value::String(right)) => Ok(left < right),
        (Value::Bool(_), Value::Bool(_)) => Err(bad()),
        _ => Err(incompatible(left, right)),
    }
}

fn len(call: &mut Call<'_, '_>) -> Outcome {
    let length = match call.arg(0) {
        Value::Absent => return call.fail("reflect: call of reflect.Value.Type on zero Value"),
        Value::Nil => return call.fail("len of nil pointer"),
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len(),
        Value::Map(map) => map.len(),
        Value::Host(host) => match (host.kind(), host.count()) {
            (crate::value::Kind::Map | crate::value::Kind::Slice, Some(count)) => count,
            _ => return call.fail(format!("len of type {}", host.type_name())),
        },
        other => return call.fail(format!("len of type {}", other.type_name())),
    };
    Ok(Value::int(length as i64))
}

fn position(of: &str, index: &Value, count: usize, inclusive: bool) -> Result<usize, Fault> {
    let number = match index {
        Value::Int(number, _) => i128::from(*number),
        Value::Uint(number, _) => i128::from(*number),
        Value::Absent | Value::Nil => return Err(Fault::message("cannot index slice/array with nil")),
        other => {
            let name = other.type_name();
            return Err(Fault::message(format!(
                "cannot index slice/array with type {name}"
            )));
        }
    };
    match usize::try_from(number) {
        Ok(at) if at < count || inclusive && at == count => Ok(at),
        // Go checks an index like the end of a slice and then panics
        Ok(at) if at == count => Err(Fault::message(format!("reflect: {of} index out of range"))),
        _ => Err(Fault::message(format!("index out of range: {number}"))),
    }
}

fn index(call: &mut Call<'_, '_>) -> Outcome {
    let mut item = call.arg(0).clone();
    if matches!(item, Value::Absent | Value::Nil) {
        return call.fail("index of untyped nil");
    }
    for index in call.rest(1) {
        item = match &item {
            Value::Nil | Value::Absent => return call.fail("index of nil pointer"),
            Value::List(list) => {
                let at = position("slice", index, list.len(), false)?;
                list.items().get(at).cloned().unwrap_or_default()
            }
            Value::String(text) | Value::Bytes(text) => {
                let of = match &item {
                    Value::String(_) => "string",
                    _ => "slice",
                };
                let at = position(of, index, text.len(), false)?;
                let byte = text.as_bytes().get(at).copied().unwrap_or_default();
                Value::Uint(byte.into(), crate::value::Uint::Uint8)
            }
            Value::Map(map) => match index {
                Value::String(key) => match map.get(key.as_bytes()) {
                    Some(value) => value,
                    None if map.entries_type() == Entries::String => "".into(),
                    None => Value::Nil,
                },
                Value::Absent | Value::Nil => return call.fail("value is nil; should be of type string"),
                other => {
                    let name = other.type_name();
                    return call.fail(format!("value has type {name}; should be string"));
                }
            },
            Value::Host(host) => match (host.kind(), index) {
                (crate::value::Kind::Map, Value::String(key)) => {
                    host.field(&key.lossy()).unwrap_or(Value::Nil)
                }
                _ => return call.fail(format!("can't index item of type {}", host.type_name())),
            },
            other => return call.fail(format!("can't index item of type {}", other.type_name())),
        };
    }
    Ok(item)
}

fn slice(call: &mut Call<'_, '_>) -> Outcome {
    let item = call.arg(0).clone();
    let indexes = call.rest(1);
    let count = match &item {
        Value::Nil | Value::Absent => return call.fail("slice of untyped nil"),
        _ if indexes.len() > 3 => {
            return call.fail(format!("too many slice indexes: {}", indexes.len()));
        }
        Value::String(_) if indexes.len() == 3 => return call.fail("cannot 3-index slice a string"),
        Value::String(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.len(),
        other => return call.fail(format!("can't slice item of type {}", other.type_name())),
    };
    let mut bounds = [0, count, count];
    for (bound, index) in bounds.iter_mut().zip(indexes) {
        *bound = position("slice", index, count, true)?;
    }
    let [start, end, cap] = bounds;
    if start > end {
        return call.fail(format!("invalid slice index: {start} > {end}"));
    }
    if end > cap {
        return call.fail(format!("invalid slice index: {end} > {cap}"));
    }
    match item {
        Value::String(text) => call.done(&text.as_bytes()[start..end]),
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.as_bytes()[start..end].into())),
        Value::List(list) => {
            call.charge_items(end - start)?;
            Ok(List::of(list.elements(), list.items()[start..end].to_vec()).into())
        }
        _ => Ok(Value::Absent),
    }
}

type Print = fn(&[Value], &crate::Limits) -> Result<Vec<u8>, crate::Limit>;

fn printed(call: &mut Call<'_, '_>, print: Print) -> Outcome {
    let text = print(&call.args, call.exec.limits())?;
    call.done(text)
}

fn printf(call: &mut Call<'_, '_>) -> Outcome {
    let text = format::printf(call.bytes(0), call.rest(1), call.exec.limits())?;
    call.done(text)
}

fn escaped(call: &mut Call<'_, '_>, escape: fn(&str) -> String) -> Outcome {
    let text = match call.args.as_slice() {
        [Value::String(text)] => text.clone(),
        _ => {
            for arg in &mut call.args {
                if matches!(arg, Value::Absent | Value::Nil) {
                    *arg = "<no value>".into();
                }
            }
            format::print(&call.args, call.exec.limits())?.into()
        }
    };
    call.made(text.len().saturating_mul(6))?;
    Ok(escape(&text.lossy()).into())
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\'' => out.push_str("&#39;"),
            '"' => out.push_str("&#34;"),
            '\0' => out.push(char::REPLACEMENT_CHARACTER),
            _ => out.push(character),
        }
    }
    out
}

fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\\' | '\'' | '"' => {
                out.push('\\');
                out.push(character);
            }
            '<' | '>' | '&' | '=' | '\0'..='\x1f' => {
                let _ = write!(out, "\\u{:04X}", u32::from(character));
            }
            _ if equate_manifest::go::is_printable(character) => out.push(character),
            _ => {
                let _ = write!(out, "\\u{:04X}", u32::from(character));
            }
        }
    }
    out
}

/// Go's `url.QueryEscape`.
pub(super) fn url_query(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(*byte));
            }
            b' ' => out.push('+'),
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}
