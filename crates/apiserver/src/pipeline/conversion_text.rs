//! Messages for a strategic merge patch whose result does not fit the kind's Go type.
//!
//! Upstream patches a map and converts it to the type. The converter's messages (apimachinery
//! `runtime.DefaultUnstructuredConverter`, 1.36) differ from the decoder's, which every other write uses.

use equate_manifest::schema::DecodeError;
use serde_json::Value;
use std::fmt::Write;

pub(super) fn of_conversion(error: &DecodeError) -> String {
    let Some((found, expected)) = error.mismatch() else {
        return error.to_string();
    };
    let (kind, number) = match found.split_once(' ') {
        Some((_, literal)) if literal.contains(['.', 'e', 'E']) => ("float64", true),
        Some(_) => ("int64", true),
        None => match found {
            "number" => ("int64", true),
            "array" => ("slice", false),
            "object" => ("map", false),
            other => (other, false),
        },
    };
    let numeric = ["int", "uint", "float"]
        .iter()
        .any(|prefix| expected.starts_with(prefix));
    if expected.starts_with("map[") {
        format!("cannot restore map from {kind}")
    } else if expected.starts_with("[]") {
        format!("cannot restore slice from {kind}")
    } else if number && (numeric || expected == "string") {
        format!("cannot convert {kind} to {expected}")
    } else if numeric || matches!(expected, "string" | "bool") {
        format!("unrecognized type: {expected}")
    } else {
        format!("cannot restore struct from: {kind}")
    }
}

/// As Go prints a map: `map[spec:map[replicas:x]]`.
pub(super) fn go_map(value: &Value) -> String {
    let mut out = String::new();
    write_go(&mut out, value);
    out
}

fn write_go(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::String(text) => out.push_str(text),
        Value::Bool(_) | Value::Number(_) => {
            // Writing to a String cannot fail.
            let _ = write!(out, "{value}");
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                write_go(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push_str("map[");
            for (at, (key, item)) in map.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                write_go(out, item);
            }
            out.push(']');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_manifest::schema;
    use serde_json::json;

    #[track_caller]
    fn check(patch: &Value, printed: &str, words: &str) {
        let error = schema::decode(
            schema::kubernetes(),
            "io.k8s.api.apps.v1.Deployment",
            patch.clone(),
        )
        .unwrap_err();
        assert_eq!(
            (go_map(patch).as_str(), of_conversion(&error).as_str()),
            (printed, words)
        );
    }

    // The texts are those of a real kube-apiserver 1.36.3.
    #[test]
    fn conversion_errors_have_upstreams_text() {
        check(
            &json!({"spec": {"replicas": "x"}}),
            "map[spec:map[replicas:x]]",
            "unrecognized type: int32",
        );
        check(
            &json!({"spec": {"template": "x"}}),
            "map[spec:map[template:x]]",
            "cannot restore struct from: string",
        );
        check(
            &json!({"metadata": {"labels": "x"}}),
            "map[metadata:map[labels:x]]",
            "cannot restore map from string",
        );
        check(
            &json!({"spec": {"paused": 1}}),
            "map[spec:map[paused:1]]",
            "unrecognized type: bool",
        );
        check(
            &json!({"metadata": {"labels": {"a": 1}}}),
            "map[metadata:map[labels:map[a:1]]]",
            "cannot convert int64 to string",
        );
        check(
            &json!({"spec": {"replicas": 1.5}}),
            "map[spec:map[replicas:1.5]]",
            "cannot convert float64 to int32",
        );
        check(
            &json!({"spec": {"selector": []}}),
            "map[spec:map[selector:[]]]",
            "cannot restore struct from: slice",
        );
        check(
            &json!({"spec": {"template": {"spec": {"containers": "x"}}}}),
            "map[spec:map[template:map[spec:map[containers:x]]]]",
            "cannot restore slice from string",
        );
    }
}
