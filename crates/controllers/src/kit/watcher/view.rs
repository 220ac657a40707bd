//! The part of the watcher's knowledge that owners of a kind, or one of them, may see.
//!
//! The watcher lists all kinds in all namespaces with the rights of its cluster's opener. A tenant's
//! ServiceAccount may list none of that, and a thousand tenants must not be a thousand watches. So an
//! impersonating owner sees an object only if the object's labels name it, because then it applied the
//! object itself. It learns of an object's absence only if it saw the object before. Everything else is
//! [`Presence::Unknown`]: then the owner asks the API server with its own rights and stores the answer
//! by [`ScopedView::set_answers`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::plan::Presence;
use equate_apply::rules::OwnerRules;
use equate_manifest::object::Object;

use super::{Interest, Kind, ObjectWatcher, WatchState};
use crate::Key;

/// The watched objects as the owners of one kind see them, or one of them; clones share the view. Its
/// keys are of that kind.
#[derive(Debug, Clone)]
pub struct ScopedView {
    watcher: ObjectWatcher,
    by: &'static OwnerKind,
    own: Option<Arc<Own>>,
}

struct Own {
    owner: Owner,
    // held for a map operation; never across an await
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Objects that existed with its labels.
    seen: HashSet<ObjectId>,
    /// The answers to its own requests, for objects that are not its own.
    answers: HashMap<ObjectId, ScopedAnswer>,
}

/// The answer to an owner's own request.
#[derive(Debug, Clone)]
pub enum ScopedAnswer {
    /// The object exists, or does not.
    Is(Presence),
    /// Access is denied, with the reason.
    Refused(String),
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own")
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}

impl Own {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScopedView {
    /// The full view for owners of a kind, for an owner with the watcher's rights.
    pub fn full(watcher: ObjectWatcher, by: &'static OwnerKind) -> Self {
        Self {
            watcher,
            by,
            own: None,
        }
    }

    /// The kind of owner.
    pub fn owner_kind(&self) -> &'static OwnerKind {
        self.by
    }

    fn owner(&self, key: &Key) -> Owner {
        Owner::new(self.by, &*key.namespace, &*key.name)
    }

    /// The view of an impersonating owner.
    #[must_use]
    pub fn narrowed(&self, owner: Owner) -> Self {
        let known = Mutex::default();
        Self {
            watcher: self.watcher.clone(),
            by: owner.kind,
            own: Some(Arc::new(Own { owner, known })),
        }
    }

    /// Whether it is the view of an impersonating owner.
    pub fn is_narrow(&self) -> bool {
        self.own.is_some()
    }

    /// An object, if the owner may see it.
    pub fn get(&self, id: &ObjectId) -> Presence {
        let presence = self.watcher.get(self.by, id);
        let Some(own) = &self.own else {
            return presence;
        };
        let mut known = own.known();
        match &presence {
            Presence::Present(observed) if observed.owner.as_ref() == Some(&own.owner) => {
                if !known.seen.contains(id) {
                    known.seen.insert(id.clone());
                }
                presence
            }
            Presence::Absent if known.seen.contains(id) => presence,
            Presence::Present(_) | Presence::Absent | Presence::Unknown => match known.answers.get(id) {
                Some(ScopedAnswer::Is(presence)) => presence.clone(),
                Some(ScopedAnswer::Refused(_)) | None => Presence::Unknown,
            },
        }
    }

    /// The same for one owner, with its own rules.
    pub fn get_for(&self, key: &Key, id: &ObjectId) -> Presence {
        match &self.own {
            None => self.watcher.get_for(&self.owner(key), id),
            // another owner's object was read with the rights of this one
            Some(_) => self.get(id),
        }
    }

    /// Takes an object that was read with the owner's rights: see [`ObjectWatcher::note_read`].
    pub fn note_read(&self, key: &Key, id: &ObjectId, object: &Object, rules: &dyn OwnerRules) {
        self.watcher.note_read(&self.owner(key), id, object, rules);
    }

    /// Whether an object had the owner's labels before and has another's now. The owner has to read
    /// which.
    pub fn lost(&self, id: &ObjectId) -> bool {
        let Some(own) = &self.own else { return false };
        own.known().seen.contains(id)
            && matches!(self.watcher.get(self.by, id), Presence::Present(observed)
                if observed.owner.as_ref() != Some(&own.owner))
    }

    /// Takes the answer to a write.
    pub fn note(&self, id: &ObjectId, observed: Observed) -> bool {
        if let Some(own) = &self.own
            && observed.owner.as_ref() == Some(&own.owner)
        {
            own.known().seen.insert(id.clone());
        }
        self.watcher.note(id, observed)
    }

    /// Replaces the answers to the owner's own requests; other answers are forgotten.
    pub fn set_answers(&self, answers: HashMap<ObjectId, ScopedAnswer>) {
        if let Some(own) = &self.own {
            own.known().answers = answers;
        }
    }

    /// Why access to an object is denied.
    pub fn why(&self, id: &ObjectId) -> Option<String> {
        let known = self.own.as_ref()?.known();
        match known.answers.get(id)? {
            ScopedAnswer::Is(_) => None,
            ScopedAnswer::Refused(why) => Some(why.clone()),
        }
    }

    /// Forgets objects that do not pass.
    pub fn retain(&self, mut passes: impl FnMut(&ObjectId) -> bool) {
        if let Some(own) = &self.own {
            own.known().seen.retain(|id| passes(id));
        }
    }

    /// Replaces everything that a key follows, as [`ObjectWatcher::follow`]. Objects of others are not
    /// watched for an impersonating owner.
    pub fn follow(&self, key: &Key, interest: &Interest) -> Vec<(Kind, WatchState)> {
        if self.own.is_none() || interest.objects.is_empty() {
            return self.watcher.follow(&self.owner(key), interest);
        }
        let kinds = interest.kinds.clone();
        let objects = Vec::new();
        self.watcher
            .follow(&self.owner(key), &Interest { kinds, objects })
    }

    /// The key follows nothing.
    pub fn forget(&self, key: &Key) {
        self.watcher.forget(&self.owner(key));
    }
}
