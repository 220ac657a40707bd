//! Values as Go prints them in error texts.

use serde_json::{Number, Value};

/// `%v` of a number: the shortest form, with an exponent below 1e-4 and from 1e21.
pub(super) fn number(n: &Number) -> String {
    match (n.as_i64(), n.as_u64()) {
        (None, None) => float(n.as_f64().unwrap_or(f64::NAN)),
        _ => n.to_string(),
    }
}

/// `%v` of a float.
pub(super) fn float(f: f64) -> String {
    if f.is_nan() {
        return "NaN".to_owned();
    }
    if f.is_infinite() {
        return if f > 0.0 {
            "+Inf".to_owned()
        } else {
            "-Inf".to_owned()
        };
    }
    if f == 0.0 {
        return if f.is_sign_negative() {
            "-0".to_owned()
        } else {
            "0".to_owned()
        };
    }
    let text = format!("{f:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return format!("{f}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// `%v` of any value: `map[a:1 b:x]`, `[1 2]`.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => number(n),
        Value::String(s) => s.clone(),
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(plain).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(map) => {
            let items: Vec<String> = map.iter().map(|(k, v)| format!("{k}:{}", plain(v))).collect();
            format!("map[{}]", items.join(" "))
        }
    }
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Number(n) => number(n),
        Value::String(s) => crate::field::go_quote(s),
        other => escaped(&other.to_string()),
    }
}

/// JSON as Go's encoder writes it: `<`, `>` and `&` are escaped.
pub(super) fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out
}
