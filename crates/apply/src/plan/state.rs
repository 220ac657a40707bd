//! What is known of the cluster, and what is remembered of our own applies.

use crate::id::ObjectId;
use crate::observed::Observed;
use crate::owned::Digest;
use std::collections::HashMap;
use std::sync::Arc;

/// What is known of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Presence {
    /// Nothing: nobody watches its kind yet.
    #[default]
    Unknown,
    /// It is not there, or does not carry an owner's label.
    Absent,
    /// It is there.
    Present(Arc<Observed>),
}

/// What is known of the cluster. An object that nobody told of is [`Presence::Unknown`].
#[derive(Debug, Clone, Default)]
pub struct Live {
    objects: HashMap<ObjectId, Presence>,
}

impl Live {
    /// Tells of an object.
    pub fn insert(&mut self, id: ObjectId, presence: Presence) {
        self.objects.insert(id, presence);
    }

    /// What is known of an object.
    pub fn get(&self, id: &ObjectId) -> &Presence {
        self.objects.get(id).unwrap_or(&Presence::Unknown)
    }
}

impl FromIterator<(ObjectId, Presence)> for Live {
    fn from_iter<T: IntoIterator<Item = (ObjectId, Presence)>>(objects: T) -> Self {
        Self {
            objects: objects.into_iter().collect(),
        }
    }
}

/// An apply of ours: what was sent, and what we held afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remembered {
    /// The digest of what was sent.
    pub desired: Digest,
    /// The digest of what we held in the answer.
    pub owned: Digest,
}

/// Our own applies since the process started, one per object.
///
/// It tells drift from a change in git, and unchanged objects whose values the API server stores in
/// another form than they are sent in. Losing it costs one apply of such objects, no more.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    applies: HashMap<ObjectId, Remembered>,
}

impl Memory {
    /// Remembers an apply.
    pub fn note(&mut self, id: ObjectId, remembered: Remembered) {
        self.applies.insert(id, remembered);
    }

    /// The last apply of an object.
    pub fn get(&self, id: &ObjectId) -> Option<Remembered> {
        self.applies.get(id).copied()
    }

    /// Forgets the objects that do not pass.
    pub fn retain(&mut self, mut passes: impl FnMut(&ObjectId) -> bool) {
        self.applies.retain(|id, _| passes(id));
    }

    /// How many objects it remembers.
    pub fn len(&self) -> usize {
        self.applies.len()
    }

    /// Whether it remembers none.
    pub fn is_empty(&self) -> bool {
        self.applies.is_empty()
    }
}
