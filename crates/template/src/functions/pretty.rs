//! `toYamlPretty`: YAML with indented lists, as go-yaml v3 writes it.

use equate_manifest::json::go_float;
use equate_manifest::yaml;
use serde_json::Value as Json;

pub(super) fn to_yaml(json: &Json) -> String {
    let mut out = String::new();
    node(&mut out, json, 0);
    let out = out.trim_start_matches('\n');
    out.strip_suffix('\n').unwrap_or(out).to_owned()
}

fn scalar(json: &Json, indent: usize) -> String {
    let text = match json {
        Json::Number(number) if number.is_f64() => go_float(number.as_f64().unwrap_or_default()),
        other => yaml::to_string(other),
    };
    let pad = " ".repeat(indent);
    // the last break ends the scalar, those before it are content
    let text = text.strip_suffix('\n').unwrap_or(&text);
    let lines: Vec<String> = text
        .split('\n')
        .enumerate()
        .map(|(index, line)| {
            if index == 0 || line.is_empty() {
                line.to_owned()
            } else {
                format!("{pad}{line}")
            }
        })
        .collect();
    lines.join("\n")
}

fn node(out: &mut String, json: &Json, indent: usize) {
    let pad = " ".repeat(indent);
    match json {
        Json::Object(map) if !map.is_empty() => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by(|(left, _), (right, _)| yaml::natural_order(left, right));
            for (index, (key, value)) in entries.into_iter().enumerate() {
                if index > 0 || indent == 0 {
                    out.push_str(&pad);
                }
                out.push_str(scalar(&Json::String(key.clone()), 0).trim_end());
                out.push(':');
                below(out, value, indent);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 || indent == 0 {
                    out.push_str(&pad);
                }
                out.push_str("- ");
                // a literal is indented from the list, not from the dash
                let is_scalar = !matches!(item, Json::Object(_) | Json::Array(_));
                node(out, item, if is_scalar { indent } else { indent + 2 });
            }
        }
        other => {
            out.push_str(&scalar(other, indent));
            out.push('\n');
        }
    }
}

fn below(out: &mut String, value: &Json, indent: usize) {
    let is_block = match value {
        Json::Object(map) => !map.is_empty(),
        Json::Array(items) => !items.is_empty(),
        _ => false,
    };
    if is_block {
        out.push('\n');
        out.push_str(&" ".repeat(indent + 2));
        node(out, value, indent + 2);
    } else {
        out.push(' ');
        out.push_str(&scalar(value, indent));
        out.push('\n');
    }
}
