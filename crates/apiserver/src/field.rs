//! Validation errors of fields. The texts are those of apimachinery's `field.Error` (1.36): `kubectl` shows
//! them, and tools match on them.

pub(crate) use equate_manifest::json::go_quote;
use serde_json::Value;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FieldErrorKind {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl FieldErrorKind {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
        }
    }
}

/// An error of one field. `Display` gives `spec.a: Required value: why`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FieldError {
    pub kind: FieldErrorKind,
    /// The path, `spec.containers[0].image`; `<nil>` if the error belongs to no field.
    pub field: String,
    /// The invalid value as Go prints it; absent if the kind shows none.
    pub value: Option<String>,
    /// May be empty.
    pub detail: String,
}

impl FieldError {
    /// A value that is not allowed here. Strings are quoted, everything else is printed as JSON.
    pub(crate) fn invalid(field: impl Into<String>, value: &Value, detail: impl Into<String>) -> Self {
        Self::with_value(FieldErrorKind::Invalid, field, Some(go_value(value)), detail)
    }

    pub(crate) fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::with_value(FieldErrorKind::Required, field, None, detail)
    }

    pub(crate) fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::with_value(FieldErrorKind::Forbidden, field, None, detail)
    }

    pub(crate) fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::with_value(FieldErrorKind::Duplicate, field, Some(go_value(value)), "")
    }

    pub(crate) fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::with_value(FieldErrorKind::NotFound, field, Some(go_value(value)), "")
    }

    /// A value outside an enumeration; the supported ones are printed quoted, in the order given.
    pub(crate) fn not_supported<S: AsRef<str>>(
        field: impl Into<String>,
        value: &Value,
        supported: &[S],
    ) -> Self {
        let quoted: Vec<String> = supported.iter().map(|s| go_quote(s.as_ref())).collect();
        let detail = if quoted.is_empty() {
            String::new()
        } else {
            format!("supported values: {}", quoted.join(", "))
        };
        Self::with_value(FieldErrorKind::NotSupported, field, Some(go_value(value)), detail)
    }

    pub(crate) fn too_long(field: impl Into<String>, max: usize) -> Self {
        let unit = if max == 1 { "byte" } else { "bytes" };
        Self::with_value(
            FieldErrorKind::TooLong,
            field,
            None,
            format!("may not be more than {max} {unit}"),
        )
    }

    pub(crate) fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self::with_value(
            FieldErrorKind::TooMany,
            field,
            Some(actual.to_string()),
            format!("must have at most {max} {unit}"),
        )
    }

    /// The general form; `value` is printed unchanged.
    pub(crate) fn with_value(
        kind: FieldErrorKind,
        field: impl Into<String>,
        value: Option<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            field: field.into(),
            value,
            detail: detail.into(),
        }
    }

    pub(crate) fn body(&self) -> String {
        let mut out = self.kind.text().to_owned();
        if let Some(value) = &self.value {
            out.push_str(": ");
            out.push_str(value);
        }
        if !self.detail.is_empty() {
            out.push_str(": ");
            out.push_str(&self.detail);
        }
        out
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

/// A value as Go's `field.Error` prints it: strings quoted, the rest as JSON.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::String(s) => go_quote(s),
        other => other.to_string(),
    }
}

/// A value of an internal Go type, as JSON: fields in declared order under their Go names, absent ones
/// `null`.
///
/// `fields` pairs the Go name with the field of the wire form.
pub(crate) fn go_struct(value: &Value, fields: &[(&str, &str)]) -> String {
    let shown: Vec<String> = fields
        .iter()
        .map(|(name, wire)| format!("\"{name}\":{}", value.get(wire).unwrap_or(&Value::Null)))
        .collect();
    format!("{{{}}}", shown.join(","))
}
