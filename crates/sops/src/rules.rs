//! Which values of a document are sealed.
//!
//! One rule holds for a document. A rule over keys looks at all keys that lead to a value, one over
//! comments at the comments that stand above it and above what it is in. Each key and each comment
//! is looked at once, when it is come by: what is kept is whether it was one the rule speaks of.

use regex::{Regex, RegexBuilder};

use crate::tree::Text;

/// The most memory a compiled expression may take: it bounds the time of a match, too.
const REGEX_BYTES_MAX: usize = 256 << 10;

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
    /// Whether the rule can be told without the document's comments.
    pub(crate) fn needs_comments(&self) -> bool {
        matches!(self, Self::UnencryptedComment(_) | Self::EncryptedComment(_))
    }

    fn speaks_of_key(&self, key: &str) -> bool {
        match self {
            Self::UnencryptedSuffix(suffix) | Self::EncryptedSuffix(suffix) => key.ends_with(suffix),
            Self::UnencryptedRegex(regex) | Self::EncryptedRegex(regex) => regex.is_match(key),
            Self::UnencryptedComment(_) | Self::EncryptedComment(_) => false,
        }
    }

    fn speaks_of_comment(&self, comment: &Text) -> bool {
        match self {
            Self::UnencryptedComment(regex) | Self::EncryptedComment(regex) => {
                comment.as_str().is_some_and(|text| regex.is_match(text))
            }
            Self::UnencryptedSuffix(_)
            | Self::EncryptedSuffix(_)
            | Self::UnencryptedRegex(_)
            | Self::EncryptedRegex(_) => false,
        }
    }
}

/// Where a walk through a document is, and what the rule says of it.
pub(crate) struct Place<'r> {
    rule: &'r Rule,
    keys: Vec<Key>,
    /// The keys that lead here, each with a colon behind it: a value's additional data.
    joined: String,
    /// For each collection that is open, whether a comment holds in it of which the rule speaks.
    comments: Vec<bool>,
    /// How many of `keys` and of `comments` the rule speaks of.
    spoken_of: usize,
}

struct Key {
    /// How long `joined` was before it.
    begins: usize,
    spoken_of: bool,
}

impl<'r> Place<'r> {
    pub(crate) fn new(rule: &'r Rule) -> Self {
        Self {
            rule,
            keys: Vec::new(),
            joined: String::new(),
            comments: Vec::new(),
            spoken_of: 0,
        }
    }

    pub(crate) fn enter_key(&mut self, key: &str) {
        let spoken_of = self.rule.speaks_of_key(key);
        self.spoken_of += usize::from(spoken_of);
        self.keys.push(Key {
            begins: self.joined.len(),
            spoken_of,
        });
        self.joined.push_str(key);
        self.joined.push(':');
    }

    pub(crate) fn leave_key(&mut self) {
        if let Some(key) = self.keys.pop() {
            self.spoken_of -= usize::from(key.spoken_of);
            self.joined.truncate(key.begins);
        }
    }

    pub(crate) fn enter_collection(&mut self) {
        self.comments.push(false);
    }

    pub(crate) fn leave_collection(&mut self) {
        self.clear_comments();
        self.comments.pop();
    }

    /// The comments above a value hold for it and what is in it, not for the next.
    pub(crate) fn clear_comments(&mut self) {
        if let Some(last) = self.comments.last_mut() {
            self.spoken_of -= usize::from(std::mem::take(last));
        }
    }

    /// Comes by a comment: whether it is sealed itself. One that asks for sealing stays readable.
    pub(crate) fn comment(&mut self, comment: &Text) -> bool {
        let before = self.seals();
        if let Some(last) = self.comments.last_mut()
            && !*last
            && self.rule.speaks_of_comment(comment)
        {
            *last = true;
            self.spoken_of += 1;
        }
        match self.rule {
            Rule::EncryptedComment(_) => before,
            _ => self.seals(),
        }
    }

    /// Whether a value here is sealed.
    pub(crate) fn seals(&self) -> bool {
        let spoken_of = self.spoken_of > 0;
        match self.rule {
            Rule::EncryptedSuffix(_) | Rule::EncryptedRegex(_) | Rule::EncryptedComment(_) => spoken_of,
            Rule::UnencryptedSuffix(_) | Rule::UnencryptedRegex(_) | Rule::UnencryptedComment(_) => {
                !spoken_of
            }
        }
    }

    /// The keys that lead here, as a value's additional data. At the top it is not nothing.
    pub(crate) fn additional(&self) -> &str {
        if self.keys.is_empty() { ":" } else { &self.joined }
    }

    /// The keys that lead here.
    pub(crate) fn path(&self) -> Vec<String> {
        let ends = self.keys.iter().skip(1).map(|key| key.begins);
        let ends = ends.chain([self.joined.len()]);
        let keys = self.keys.iter().zip(ends);
        keys.map(|(key, end)| self.joined[key.begins..end - 1].to_owned())
            .collect()
    }
}

/// An expression from a document, within bounds.
pub(crate) fn regex(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build()
}
