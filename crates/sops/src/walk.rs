//! Opening all values of a document, and the MAC over them.
//!
//! The MAC is a SHA-512 over all values as texts, in order, or only over those that were sealed.
//! Keys, nulls and comments do not count.

use sha2::{Digest as _, Sha256, Sha512};

use crate::budget::{Budget, Exhausted};
use crate::envelope::{EnvelopeError, Opener, is_sealed};
use crate::rules::{Place, Rule};
use crate::tree::{Comment, Entry, Node, fixed};

/// Why a document's values do not open.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the value at {}", Shown(.path))]
pub struct WalkError {
    /// The keys that lead to the value.
    pub path: Vec<String>,
    /// What is wrong with it.
    #[source]
    pub fault: WalkFault,
}

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WalkFault {
    /// It does not open.
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    /// The document's rule says it is sealed, and it stands there readable.
    #[error(
        "the document's rule says it is sealed, and it is {0}; seal the document again, and only \
         what no one else writes to: with --encrypted-regex '^(data|stringData)$' for a Secret"
    )]
    Readable(&'static str),
    /// A sealed comment where only a value can be.
    #[error("it contains a comment")]
    Comment,
    /// There is too much up to it.
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

/// Who is told of values that were opened.
pub(crate) type Told<'t> = &'t dyn Fn(&[u8]);

/// How to walk.
#[derive(Clone, Copy)]
pub(crate) struct Manner<'r> {
    pub(crate) rule: &'r Rule,
    /// Whether only sealed values count for the MAC.
    pub(crate) mac_only_encrypted: bool,
    /// Whether the document lost its comments: what looks sealed is, whatever a rule over comments
    /// would say.
    pub(crate) without_comments: bool,
    /// Is told of every value that was opened.
    pub(crate) told: Option<Told<'r>>,
}

/// Opens all values in place: the MAC over what they are.
pub(crate) fn open(
    documents: &mut [Vec<Entry>],
    opener: &Opener,
    manner: Manner<'_>,
    budget: &Budget<'_>,
) -> Result<Mac, WalkError> {
    let mut walk = Walk {
        opener,
        manner,
        budget,
        place: Place::new(manner.rule),
        hash: Sha512::new(),
    };
    if manner.mac_only_encrypted {
        // so that it never equals a MAC over everything
        walk.hash.update(Sha256::digest("sops"));
    }
    for document in documents {
        walk.entries(document)?;
    }
    Ok(Mac(hex(&walk.hash.finalize())))
}

/// A MAC, in the spelling it is sealed in.
pub(crate) struct Mac(pub(crate) String);

/// Upper case, as SOPS has it.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

struct Walk<'w> {
    opener: &'w Opener,
    manner: Manner<'w>,
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
        let sealed = if self.manner.without_comments && self.manner.rule.needs_comments() {
            value.as_str().is_some_and(is_sealed)
        } else {
            self.place.seals()
        };
        if sealed {
            *value = self.opened(value)?;
            self.tell(value);
        }
        if sealed || !self.manner.mac_only_encrypted {
            self.count(value);
        }
        Ok(())
    }

    /// Each value and each comment costs what its path is long: that is its additional data.
    fn ask(&self) -> Result<(), WalkError> {
        let asked = self.budget.entry(self.place.additional().len());
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
        let Some(told) = self.manner.told else { return };
        match value {
            Node::Int(number) => told(number.to_string().as_bytes()),
            Node::Float(number) => told(fixed(*number).as_bytes()),
            Node::Time(text) => told(text.as_bytes()),
            Node::Text(text) => told(text.as_bytes()),
            // there are only two of them
            Node::Bool(_) | Node::Null => {}
            Node::List(_) | Node::Map(_) | Node::Comment(_) => {}
        }
    }

    /// A comment that does not open was never sealed: older releases left them alone.
    fn comment(&mut self, comment: &mut Comment) -> Result<(), WalkError> {
        self.ask()?;
        if !self.place.comment(&comment.text) {
            return Ok(());
        }
        let opened = comment
            .text
            .as_str()
            .and_then(|text| self.opener.open(text, self.place.additional()).ok());
        match opened {
            // it stands above the value from now on, as in the real tool
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
