//! Observations of the cluster, and the memory of our own applies.

use crate::id::ObjectId;
use crate::observed::Observed;
use crate::owned::Digest;
use std::collections::HashMap;
use std::sync::Arc;

/// The observation of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Presence {
    /// Not observed: its kind is not watched yet.
    #[default]
    Unknown,
    /// Not there, or without an owner's label.
    Absent,
    /// Observed.
    Present(Arc<Observed>),
}

/// The observed cluster. Every other object is [`Presence::Unknown`].
#[derive(Debug, Clone, Default)]
pub struct Live {
    objects: HashMap<ObjectId, Presence>,
}

impl Live {
    /// Adds an observation.
    pub fn insert(&mut self, id: ObjectId, presence: Presence) {
        self.objects.insert(id, presence);
    }

    /// The observation of an object.
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

/// The digests of one apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remembered {
    /// The digest of the sent object.
    pub desired: Digest,
    /// The digest of our fields in the answer.
    pub owned: Digest,
}

/// Our own applies since the process started, one per object.
///
/// It separates drift from a change in git, and recognises values that the API server stores in another
/// form. Losing it costs one apply of such objects.
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

    /// Keeps the objects that pass.
    pub fn retain(&mut self, mut passes: impl FnMut(&ObjectId) -> bool) {
        self.applies.retain(|id, _| passes(id));
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.applies.len()
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.applies.is_empty()
    }
}
