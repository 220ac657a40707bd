//! Decrypts all values of a document, and computes the MAC over them.
//!
//! The MAC is a SHA-512 over all values as texts, in order, or only over the encrypted ones. Keys, nulls
//! and comments do not count.

use sha2::{Digest as _, Sha256, Sha512};

use crate::budget::{Budget, Exhausted};
use crate::envelope::{EnvelopeError, Opener, is_sealed};
use crate::rules::{Place, Rule};
use crate::tree::{Comment, Entry, Node, fixed};

/// The reason why a document's values cannot be decrypted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value at {}", Shown(.path))]
pub struct WalkError {
    /// The keys that lead to the value.
    pub path: Vec<String>,
    /// The reason.
    #[source]
    pub fault: WalkFault,
}

/// The reason why a value cannot be decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WalkFault {
    /// The envelope cannot be decrypted.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The value is plain, but the document's rule says it is encrypted.
    #[error(
        "the document's rule requires encryption, but it is {0} in plain text; encrypt the document again, \
         and only fields that no one else writes: with --encrypted-regex '^(data|stringData)$' for a Secret"
    )]
    Readable(&'static str),
    /// An encrypted comment in the place of a value.
    #[error("it contains a comment")]
    Comment,
    /// A limit is exceeded.
    #[error(transparent)]
    Exhausted(#[from] Exhausted),
}

struct Shown<'p>(&'p [String]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return formatter.write_str("the top");
        }
        formatter.write_str(&self.0.join("."))
    }
}

pub(crate) type ValueCallback<'t> = &'t dyn Fn(&[u8]);

#[derive(Clone, Copy)]
pub(crate) struct WalkOptions<'r> {
    pub(crate) rule: &'r Rule,
    pub(crate) mac_only_encrypted: bool,
    /// Whether the document lost its comments. A value that looks encrypted then is, whatever a rule over
    /// comments says.
    pub(crate) without_comments: bool,
    pub(crate) on_value: Option<ValueCallback<'r>>,
}

pub(crate) fn open(
    documents: &mut [Vec<Entry>],
    opener: &Opener,
    options: WalkOptions<'_>,
    budget: &Budget<'_>,
) -> Result<Mac, WalkError> {
    let mut walk = Walk {
        opener,
        options,
        budget,
        place: Place::new(options.rule),
        hash: Sha512::new(),
    };
    if options.mac_only_encrypted {
        // so that it never equals a MAC over everything
        walk.hash.update(Sha256::digest("sops"));
    }
    let asked = budget.steps(options.rule.compiled_steps());
    asked.map_err(|exhausted| walk.fails(exhausted.into()))?;
    for document in documents {
        walk.entries(document)?;
    }
    Ok(Mac(hex(&walk.hash.finalize())))
}

pub(crate) struct Mac(pub(crate) String);

/// Upper case, as in SOPS.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

struct Walk<'w> {
    opener: &'w Opener,
    options: WalkOptions<'w>,
    budget: &'w Budget<'w>,
    place: Place<'w>,
    hash: Sha512,
}

impl Walk<'_> {
    fn entries(&mut self, entries: &mut [Entry]) -> Result<(), WalkError> {
        self.place.enter_collection();
        for entry in entries {
            match entry {
                Entry::Comment(comment) => self.comment(comment)?,
                Entry::Pair { key, value } => {
                    self.matches(key.len())?;
                    self.place.enter_key(key);
                    self.value(value)?;
                    if matches!(value, Node::Comment(_)) {
                        return Err(self.fails(WalkFault::Comment));
                    }
                    self.place.leave_key();
                    self.place.clear_comments();
                }
            }
        }
        self.place.leave_collection();
        Ok(())
    }

    fn items(&mut self, items: &mut [Node]) -> Result<(), WalkError> {
        self.place.enter_collection();
        for item in items {
            match item {
                Node::Comment(comment) => self.comment(comment)?,
                item => {
                    self.value(item)?;
                    self.place.clear_comments();
                }
            }
        }
        self.place.leave_collection();
        Ok(())
    }

    fn value(&mut self, value: &mut Node) -> Result<(), WalkError> {
        self.ask()?;
        match value {
            Node::Null => return Ok(()),
            Node::List(items) => return self.items(items),
            Node::Map(entries) => return self.entries(entries),
            _ => {}
        }
        let sealed = if self.options.without_comments && self.options.rule.needs_comments() {
            value.as_str().is_some_and(is_sealed)
        } else {
            self.place.seals()
        };
        if sealed {
            *value = self.opened(value)?;
            self.tell(value);
        }
        if sealed || !self.options.mac_only_encrypted {
            self.count(value);
        }
        Ok(())
    }

    /// A value or comment costs the length of its path, its additional data.
    fn ask(&self) -> Result<(), WalkError> {
        let asked = self.budget.entry(self.place.additional().len());
        asked.map_err(|exhausted| self.fails(exhausted.into()))
    }

    /// A key or comment of this length is matched with the rule.
    fn matches(&self, bytes: usize) -> Result<(), WalkError> {
        let asked = self.budget.steps(self.options.rule.steps(bytes));
        asked.map_err(|exhausted| self.fails(exhausted.into()))
    }

    fn opened(&self, value: &Node) -> Result<Node, WalkError> {
        let Node::Text(text) = value else {
            return Err(self.fails(WalkFault::Readable(value.kind())));
        };
        let text = text.as_str().unwrap_or("\u{fffd}");
        self.opener
            .open(text, self.place.additional())
            .map_err(|error| match error {
                EnvelopeError::NotSealed => self.fails(WalkFault::Readable("a string")),
                error => self.fails(error.into()),
            })
    }

    fn tell(&self, value: &Node) {
        let Some(on_value) = self.options.on_value else {
            return;
        };
        match value {
            Node::Int(number) => on_value(number.to_string().as_bytes()),
            Node::Float(number) => on_value(fixed(*number).as_bytes()),
            Node::Time(text) => on_value(text.as_bytes()),
            Node::Text(text) => on_value(text.as_bytes()),
            // there are only two of them
            Node::Bool(_) | Node::Null => {}
            Node::List(_) | Node::Map(_) | Node::Comment(_) => {}
        }
    }

    /// A comment that cannot be decrypted was never encrypted: older releases left comments alone.
    fn comment(&mut self, comment: &mut Comment) -> Result<(), WalkError> {
        self.ask()?;
        self.matches(comment.text.as_bytes().len())?;
        if !self.place.comment(&comment.text) {
            return Ok(());
        }
        let opened = comment
            .text
            .as_str()
            .and_then(|text| self.opener.open(text, self.place.additional()).ok());
        match opened {
            // as in the real tool, it now precedes the value
            Some(Node::Comment(opened)) => *comment = opened,
            Some(Node::Text(opened)) => comment.text = opened,
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, value: &Node) {
        match value {
            Node::Bool(flag) => self.hash.update(if *flag { "True" } else { "False" }),
            Node::Int(number) => self.hash.update(number.to_string()),
            Node::Float(number) => self.hash.update(fixed(*number)),
            Node::Time(text) => self.hash.update(text),
            Node::Text(text) => self.hash.update(text.as_bytes()),
            Node::Null | Node::List(_) | Node::Map(_) | Node::Comment(_) => {}
        }
    }

    fn fails(&self, fault: WalkFault) -> WalkError {
        WalkError {
            path: self.place.path(),
            fault,
        }
    }
}
