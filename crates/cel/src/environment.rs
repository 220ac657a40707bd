//! The names that an expression may use.

use crate::parse::Limits;

/// The names and the limits of an expression.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The variables.
    pub variables: Variables,
    /// The functions and macros.
    pub library: Library,
    /// The limits of the text.
    pub limits: Limits,
}

/// The variables of an expression.
#[derive(Debug, Clone)]
pub enum Variables {
    /// These, by position.
    Declared(&'static [&'static str]),
    /// Each field of an object.
    Fields,
}

/// A set of functions and macros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Library {
    /// Those of Flux 2.9: texts, sets and base64.
    Flux,
    /// Those of Kubernetes 1.36, with its named formats.
    Kubernetes(&'static [NamedFormat]),
    /// Those, and the messages of mutating admission policies: `Object`, its fields, and `JSONPatch`.
    Mutation(&'static [NamedFormat]),
}

/// A format of the library `format`.
#[derive(Debug, Clone, Copy)]
pub struct NamedFormat {
    /// Its name.
    pub name: &'static str,
    /// The problems of a text.
    pub problems: fn(&str) -> Vec<String>,
}

impl PartialEq for NamedFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for NamedFormat {}

impl Library {
    pub(crate) fn formats(self) -> &'static [NamedFormat] {
        match self {
            Self::Flux => &[],
            Self::Kubernetes(formats) | Self::Mutation(formats) => formats,
        }
    }

    /// Whether macros may have two variables.
    pub(crate) fn has_pairs(self) -> bool {
        matches!(self, Self::Kubernetes(_) | Self::Mutation(_))
    }

    /// Whether it has functions that sort lists.
    pub(crate) fn has_lists(self) -> bool {
        matches!(self, Self::Kubernetes(_) | Self::Mutation(_))
    }

    /// Whether a message of this name may be made. It is a map of its fields.
    pub(crate) fn has_message(self, name: &str) -> bool {
        matches!(self, Self::Mutation(_))
            && (name == "Object" || name == "JSONPatch" || name.starts_with("Object."))
    }
}
