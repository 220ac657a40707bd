//! Why a build fails, and where.

use std::fmt;

/// A place in a file of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file or directory, relative to the tree's root.
    pub path: String,
    /// The line, from 1; 0 where none is known.
    pub line: usize,
    /// The column in characters, from 1; 0 where none is known.
    pub column: usize,
}

impl Place {
    /// A file as a whole.
    pub(crate) fn file(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: 0,
            column: 0,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.path.is_empty() { "." } else { &self.path })?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        Ok(())
    }
}

/// Why a build fails: `file:line:column: what is wrong`.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct BuildError {
    /// Where.
    pub place: Place,
    /// What is wrong.
    #[source]
    pub fault: Fault,
}

/// What can be wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A field the engine does not carry out yet.
    #[error("{field} is not supported yet")]
    Unsupported {
        /// The field, `kustomization.vars`.
        field: String,
    },
}
