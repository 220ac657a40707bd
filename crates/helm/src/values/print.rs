//! Values in messages, in Go's format.

use equate_manifest::json::go_float;
use serde_json::Value;
use std::fmt::Write as _;

/// `%v`.
pub(crate) fn plain(value: &Value) -> String {
    let mut out = String::new();
    write(&mut out, value, false);
    out
}

/// `%t`, which reports anything but a boolean.
pub(super) fn boolean(value: &Value) -> String {
    // Go prints a nil inside of a list or map differently
    if value.is_null() {
        return "%!t(<nil>)".to_owned();
    }
    let mut out = String::new();
    write(&mut out, value, true);
    out
}

fn write(out: &mut String, value: &Value, complain: bool) {
    let (kind, text) = match value {
        Value::Null => return out.push_str("<nil>"),
        Value::Bool(flag) => return out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => match (number.is_f64(), number.as_f64()) {
            (true, Some(float)) => ("float64", go_float(float)),
            _ => ("int64", number.to_string()),
        },
        Value::String(text) => ("string", text.clone()),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(' ');
                }
                write(out, item, complain);
            }
            return out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (index, (key, item)) in map.iter().enumerate() {
                let space = if index > 0 { " " } else { "" };
                let _ = match complain {
                    true => write!(out, "{space}%!t(string={key}):"),
                    false => write!(out, "{space}{key}:"),
                };
                write(out, item, complain);
            }
            return out.push(']');
        }
    };
    match complain {
        true => {
            let _ = write!(out, "%!t({kind}={text})");
        }
        false => out.push_str(&text),
    }
}
