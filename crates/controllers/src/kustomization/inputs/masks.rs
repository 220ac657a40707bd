//! Masks texts that must not be shown: values of Secrets, and decrypted texts.
//!
//! Each status, event, log and preview passes its quotes through them.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// The replacement for a value of a Secret.
const MASK: &str = "*****";

/// Texts that must not be shown. `Debug` shows their number.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Masks(BTreeSet<Longest>);

/// Longest first: one text may be part of another.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Longest(Reverse<usize>, String);

impl Longest {
    fn of(text: String) -> Self {
        Self(Reverse(text.len()), text)
    }
}

impl fmt::Debug for Masks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts", self.0.len())
    }
}

impl Masks {
    pub(in crate::kustomization) fn add(&mut self, text: String) {
        if !text.is_empty() {
            self.0.insert(Longest::of(text));
        }
    }

    /// Whether a value contains one of them.
    pub(in crate::kustomization) fn hides(&self, value: &Value) -> bool {
        match value {
            Value::String(text) => self
                .0
                .iter()
                .any(|Longest(_, secret)| text.contains(secret.as_str())),
            Value::Number(number) => self.0.contains(&Longest::of(number.to_string())),
            Value::Array(items) => items.iter().any(|item| self.hides(item)),
            Value::Object(map) => map.values().any(|value| self.hides(value)),
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Replaces them in a text, also in their quoted forms.
    pub fn mask(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for Longest(_, secret) in &self.0 {
            if text.contains(secret.as_str()) {
                text = text.replace(secret.as_str(), MASK);
            }
            if secret.contains(|c: char| c == '"' || c == '\\' || c.is_control()) {
                let quoted = format!("{secret:?}");
                text = text.replace(&quoted[1..quoted.len() - 1], MASK);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masks(secrets: &[&str]) -> Masks {
        let mut masks = Masks::default();
        secrets.iter().for_each(|&secret| masks.add(secret.to_owned()));
        masks
    }

    #[test]
    fn secrets_are_masked_also_when_quoted() {
        let check = |secrets: &[&str], text: &str, expected: &str| {
            assert_eq!(masks(secrets).mask(text), expected);
        };
        check(&[], "all of it", "all of it");
        check(
            &["hunter2"],
            r#"Invalid value: "hunter2": no"#,
            r#"Invalid value: "*****": no"#,
        );
        check(&["hunter22", "hunter2"], "hunter22 hunter2", "***** *****");
        check(&["a\"b"], r#"value "a\"b""#, r#"value "*****""#);
    }

    #[test]
    fn a_value_that_holds_a_secret_is_hidden() {
        let check = |value: Value, hidden: bool| {
            let masks = masks(&["hunter2", "54321"]);
            assert_eq!(masks.hides(&value), hidden, "{value}");
        };
        check(serde_json::json!("postgres://hunter2@db"), true);
        check(serde_json::json!({ "a": [1, "hunter2"] }), true);
        check(serde_json::json!(54321), true);
        check(serde_json::json!(543_210), false);
        check(serde_json::json!({ "hunter2": null }), false);
    }
}
