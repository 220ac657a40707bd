//! Errors with a place and a hint.

/// A fault of a file that people write, with its place and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}:{line}:{column}: {problem}; {hint}")]
pub struct ConfigError {
    /// The file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The fault.
    pub problem: String,
    /// The way to correct it.
    pub hint: String,
}

/// The most similar name, if one is similar.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let ranked = names.map(|other| (strsim::damerau_levenshtein(name, other), other));
    let (distance, found) = ranked.min()?;
    (distance <= 1.max(name.len() / 3)).then_some(found)
}
