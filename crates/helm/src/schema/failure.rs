//! Validation errors, in the words of Helm's validator.

use equate_manifest::go::quote as go_quote;
use equate_manifest::json::go_float;
use serde_json::Value;
use std::cell::Cell;

#[derive(Debug, Default)]
pub(super) struct Failure {
    pub(super) at: String,
    pub(super) what: FailureKind,
    pub(super) causes: Vec<Failure>,
}

#[derive(Debug, Default)]
pub(super) enum FailureKind {
    /// Several errors.
    #[default]
    Group,
    /// A reference; not printed if it has one cause.
    Reference,
    /// An error with a text.
    Message(String),
}

/// The remaining bytes for errors. An error contains the path of its value, and a long key repeats in all
/// paths below it, so errors may be larger than the values.
pub(super) struct ErrorBudget {
    left: Cell<Option<usize>>,
    quiet: Cell<bool>,
}

impl ErrorBudget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            left: Cell::new(Some(bytes_max)),
            quiet: Cell::new(false),
        }
    }

    /// Whether errors were dropped for space. Validation stops then.
    pub(super) fn is_full(&self) -> bool {
        self.left.get().is_none()
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.quiet.get()
    }

    pub(super) fn set_quiet(&self, quiet: bool) -> bool {
        self.quiet.replace(quiet)
    }

    /// An error; an empty one while quiet or full.
    pub(super) fn failure(
        &self,
        at: impl FnOnce() -> String,
        what: impl FnOnce() -> FailureKind,
        causes: Vec<Failure>,
    ) -> Failure {
        if self.is_quiet() || self.is_full() {
            return Failure::default();
        }
        let (at, what) = (at(), what());
        let said = match &what {
            FailureKind::Message(said) => said.len(),
            FailureKind::Group | FailureKind::Reference => 0,
        };
        let bytes = size_of::<Failure>() + at.len() + said;
        self.left
            .set(self.left.get().and_then(|left| left.checked_sub(bytes)));
        Failure { at, what, causes }
    }
}

impl Failure {
    pub(super) fn of_all(said: String) -> Self {
        Self {
            what: FailureKind::Message(said),
            ..Self::default()
        }
    }

    /// All errors, in lines, without a line break at the end.
    pub(super) fn listed(self) -> String {
        let causes = match self.what {
            FailureKind::Group => self.causes,
            _ => vec![self],
        };
        let mut out = String::new();
        for cause in causes {
            cause.list(&mut out, 0);
        }
        out.strip_prefix('\n').unwrap_or(&out).to_owned()
    }

    fn list(&self, out: &mut String, indent: usize) {
        let skipped = matches!(self.what, FailureKind::Reference) && self.causes.len() == 1;
        let said = match &self.what {
            FailureKind::Message(said) => said,
            FailureKind::Group | FailureKind::Reference => "validation failed",
        };
        if !skipped {
            out.push('\n');
            out.push_str(&"  ".repeat(indent));
            out.push_str(&format!("- at {}: {said}", quote(&self.at)));
        }
        for cause in &self.causes {
            cause.list(out, indent + usize::from(!skipped));
        }
    }
}

pub(super) fn quote(text: &str) -> String {
    let quoted = go_quote(text).replace("\\\"", "\"").replace('\'', "\\'");
    format!("'{}'", &quoted[1..quoted.len() - 1])
}

pub(super) fn all_quoted<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    texts.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => quote(text),
        Value::Array(_) | Value::Object(_) => "value".into(),
        Value::Number(number) if number.is_f64() => go_float(number.as_f64().unwrap_or_default()),
        other => other.to_string(),
    }
}
