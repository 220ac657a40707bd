//! Which values of a document are sealed.
//!
//! One rule holds for a document. A rule over keys looks at all keys that lead to a value, one over
//! comments at the comments that stand above it and above what it is in.

use regex::{Regex, RegexBuilder};

use crate::tree::Text;

/// The most memory a compiled expression may take.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// What holds if a document names no rule.
const DEFAULT_UNENCRYPTED_SUFFIX: &str = "_unencrypted";

/// The rule of a document.
#[derive(Debug, Clone)]
pub(crate) enum Rule {
    UnencryptedSuffix(String),
    EncryptedSuffix(String),
    UnencryptedRegex(Regex),
    EncryptedRegex(Regex),
    UnencryptedComment(Regex),
    EncryptedComment(Regex),
}

impl Default for Rule {
    fn default() -> Self {
        Self::UnencryptedSuffix(DEFAULT_UNENCRYPTED_SUFFIX.to_owned())
    }
}

impl Rule {
    /// Whether a value is sealed. `comments` are those that hold here, outermost first: a list for
    /// every collection around the value. `is_comment`: it is itself the last of them.
    pub(crate) fn seals(&self, path: &[String], comments: &[Vec<Text>], is_comment: bool) -> bool {
        match self {
            Self::UnencryptedSuffix(suffix) => !path.iter().any(|key| key.ends_with(suffix)),
            Self::EncryptedSuffix(suffix) => path.iter().any(|key| key.ends_with(suffix)),
            Self::UnencryptedRegex(regex) => !path.iter().any(|key| regex.is_match(key)),
            Self::EncryptedRegex(regex) => path.iter().any(|key| regex.is_match(key)),
            Self::UnencryptedComment(regex) => {
                let mut all = comments.iter().flatten();
                !all.any(|comment| matches(regex, comment))
            }
            Self::EncryptedComment(regex) => {
                // the comment that asks for it stays readable itself
                let mut above: Vec<&Text> = comments.iter().flatten().collect();
                if is_comment {
                    above.pop();
                }
                above.into_iter().any(|comment| matches(regex, comment))
            }
        }
    }

    /// Whether the rule can be told without the document's comments.
    pub(crate) fn needs_comments(&self) -> bool {
        matches!(self, Self::UnencryptedComment(_) | Self::EncryptedComment(_))
    }
}

fn matches(regex: &Regex, comment: &Text) -> bool {
    comment.as_str().is_some_and(|text| regex.is_match(text))
}

/// An expression from a document, within bounds.
pub(crate) fn regex(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build()
}
