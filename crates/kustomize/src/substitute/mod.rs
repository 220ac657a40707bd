//! Post-build substitution: `${var}` in the text of a finished object.
//!
//! The syntax is that of Flux's `envsubst`, a subset of bash: defaults, length, case, substring, trim,
//! replace. `$var` is kept and `$${var}` becomes `${var}`. `${var:+x}` and `${var:?x}` are read as defaults,
//! as in Flux but not in bash; `${var+x}` is malformed. The object is written as YAML, substituted and parsed
//! again, so a value may change a field's type.

mod evaluate;
mod parse;
mod pattern;

pub(crate) use evaluate::Substituter;

#[cfg(test)]
mod tests;

use crate::budget::{Budget, measure_map};
use crate::error::{Exhausted, Fault};
use crate::resource::Resource;
use crate::spec::Substitution;
use equate_manifest::yaml::{self, Duplicates, Options};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The label or annotation that disables substitution in an object.
const OPT_OUT: &str = "kustomize.toolkit.fluxcd.io/substitute";
const DISABLED: &str = "disabled";

/// Why substitution fails.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubstituteError {
    /// In strict mode, a variable has neither value nor default.
    #[error("variable not set (strict mode): {0:?}")]
    NotSet(String),
    /// `${` without a name after it.
    #[error("unable to parse variable name")]
    Name,
    /// `${` without `}`.
    #[error("missing closing brace")]
    Brace,
    /// An unknown form.
    #[error("bad substitution")]
    Form,
    /// An argument that cannot be parsed.
    #[error("unable to parse substitution within function")]
    Argument,
    /// A default that cannot be parsed.
    #[error("unable to parse default function")]
    Default,
    /// Substitutions nested too deep.
    #[error("substitutions nested deeper than {0} levels")]
    Depth(usize),
    /// The build's limit on output is exceeded.
    #[error("{0}")]
    Exhausted(Exhausted),
}

/// The variables with checked names and newlines removed from values.
pub(crate) fn variables(substitution: &Substitution) -> Result<BTreeMap<&str, String>, Fault> {
    substitution
        .variables
        .iter()
        .map(|(name, value)| {
            if is_name(name) {
                Ok((name.as_str(), value.replace('\n', "")))
            } else {
                Err(Fault::VariableName { name: name.clone() })
            }
        })
        .collect()
}

fn is_name(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
}

pub(crate) fn apply(resource: &mut Resource, substituter: &Substituter<'_>) -> Result<(), Fault> {
    let opts_out = ["labels", "annotations"].iter().any(|field| {
        let texts = resource.texts(field);
        texts
            .and_then(|texts| texts.get(OPT_OUT))
            .is_some_and(|value| value == DISABLED)
    });
    let budget = substituter.budget;
    // scanned first, then written, substituted and read
    let bytes = measure_map(&resource.object.0).0;
    budget.spend(bytes / 8)?;
    if opts_out || !mentions_any_in(&resource.object.0) {
        return Ok(());
    }
    budget.spend(bytes)?;
    let id = || resource.id().to_string();
    let text = yaml::to_string(&Value::Object(resource.object.0.clone()));
    let substituted =
        text_within(&text, substituter).map_err(|problem| Fault::Substitution { id: id(), problem })?;
    if substituted == text {
        return Ok(());
    }
    let options = Options {
        duplicates: Duplicates::Collect,
        ..Options::default()
    };
    let documents = budget
        .load(&substituted, &options)
        .map_err(|error| Fault::Substituted {
            id: id(),
            line: error.line,
            fault: named(error.fault),
        })?;
    match documents.into_iter().next().map(|document| document.value) {
        Some(Value::Object(map)) => {
            resource.object.0 = map;
            Ok(())
        }
        _ => Err(Fault::SubstitutedKind { id: id() }),
    }
}

/// Removes quoted text from a fault: it may be a secret after substitution.
fn named(fault: yaml::Fault) -> yaml::Fault {
    match fault {
        yaml::Fault::DuplicateKey(_) => yaml::Fault::DuplicateKey("(hidden)".to_owned()),
        yaml::Fault::NotFinite(_) => yaml::Fault::NotFinite("(hidden)".to_owned()),
        yaml::Fault::Tag { found, text: _, tag } => yaml::Fault::Tag {
            found,
            text: "(hidden)".to_owned(),
            tag,
        },
        other => other,
    }
}

/// Whether a value contains `$`; otherwise nothing can change.
fn mentions_any(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('$'),
        Value::Array(items) => items.iter().any(mentions_any),
        Value::Object(map) => mentions_any_in(map),
        _ => false,
    }
}

fn mentions_any_in(map: &Map<String, Value>) -> bool {
    map.iter()
        .any(|(key, value)| key.contains('$') || mentions_any(value))
}

/// Substitutes in a text.
pub fn text_in(
    text: &str,
    variables: &BTreeMap<&str, String>,
    strict: bool,
) -> Result<String, SubstituteError> {
    let substituter = Substituter {
        variables,
        strict,
        budget: &Budget::default(),
        derived: None,
    };
    text_within(text, &substituter)
}

fn text_within(text: &str, substituter: &Substituter<'_>) -> Result<String, SubstituteError> {
    substituter.all(&parse::parse(text)?)
}
