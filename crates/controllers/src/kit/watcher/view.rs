//! What owners of a kind see of what is watched, and what one of them may be told of it.
//!
//! The hub watches with the rights of whoever opens the place, all kinds in all namespaces, once for
//! everybody: a tenant's ServiceAccount may list none of that, and a thousand tenants must not be a
//! thousand watches. So what it sees is not for everybody. To one that acts as another it speaks of
//! an object only if the object's labels name it as the owner: then it has applied the object
//! itself. Also that an object is not there is told only of one that was seen so before. Everything
//! else is [`Presence::Unknown`], and whoever has to know asks the API server with its own rights;
//! what it was answered goes in by [`ScopedView::told`].

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use equate_apply::id::ObjectId;
use equate_apply::observed::Observed;
use equate_apply::owner::{Owner, OwnerKind};
use equate_apply::plan::Presence;
use equate_manifest::object::Object;

use super::{Interest, Kind, ObjectWatcher, WatchState};
use crate::Key;

/// What is watched, as the owners of one kind see it, or one of them; clones are the same view. Its keys
/// are those of that kind.
#[derive(Debug, Clone)]
pub struct ScopedView {
    hub: ObjectWatcher,
    by: &'static OwnerKind,
    own: Option<Arc<Own>>,
}

/// What one that acts as another knows.
struct Own {
    owner: Owner,
    // a map operation for each look; never held across an await
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// What was there with its labels.
    seen: HashSet<ObjectId>,
    /// What it was answered when it asked, of objects that are not its own.
    told: HashMap<ObjectId, ScopedAnswer>,
}

/// What one was answered that asked with its own rights.
#[derive(Debug, Clone)]
pub enum ScopedAnswer {
    /// The object is there, or is not.
    Is(Presence),
    /// It is not told, and why.
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
    /// All that is watched for owners of a kind: for one that acts with the same rights.
    pub fn full(hub: ObjectWatcher, by: &'static OwnerKind) -> Self {
        Self { hub, by, own: None }
    }

    /// The kind of owner whose view it is.
    pub fn owner_kind(&self) -> &'static OwnerKind {
        self.by
    }

    fn owner(&self, key: &Key) -> Owner {
        Owner::new(self.by, &*key.namespace, &*key.name)
    }

    /// What of it is for one that acts as another.
    #[must_use]
    pub fn narrowed(&self, owner: Owner) -> Self {
        let known = Mutex::default();
        Self {
            hub: self.hub.clone(),
            by: owner.kind,
            own: Some(Arc::new(Own { owner, known })),
        }
    }

    /// Whether it is not all that the hub sees.
    pub fn is_narrow(&self) -> bool {
        self.own.is_some()
    }

    /// What may be told of an object.
    pub fn get(&self, id: &ObjectId) -> Presence {
        let presence = self.hub.get(self.by, id);
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
            Presence::Present(_) | Presence::Absent | Presence::Unknown => match known.told.get(id) {
                Some(ScopedAnswer::Is(presence)) => presence.clone(),
                Some(ScopedAnswer::Refused(_)) | None => Presence::Unknown,
            },
        }
    }

    /// The same, for one that may have words of its own for it.
    pub fn get_for(&self, key: &Key, id: &ObjectId) -> Presence {
        match &self.own {
            None => self.hub.get_for(&self.owner(key), id),
            // what is another's was asked for on its behalf
            Some(_) => self.get(id),
        }
    }

    /// Takes in an object as it was read with its own rights: see [`ObjectWatcher::look`].
    pub fn look(&self, key: &Key, id: &ObjectId, object: &Object) {
        self.hub.look(&self.owner(key), id, object);
    }

    /// Whether an object was seen with the owner's labels and has another's by now: who that is, it
    /// has to find out itself.
    pub fn lost(&self, id: &ObjectId) -> bool {
        let Some(own) = &self.own else { return false };
        own.known().seen.contains(id)
            && matches!(self.hub.get(self.by, id), Presence::Present(observed)
                if observed.owner.as_ref() != Some(&own.owner))
    }

    /// Takes in what a write was answered.
    pub fn note(&self, id: &ObjectId, observed: Observed) -> bool {
        if let Some(own) = &self.own
            && observed.owner.as_ref() == Some(&own.owner)
        {
            own.known().seen.insert(id.clone());
        }
        self.hub.note(id, observed)
    }

    /// Takes in what was answered to one that asked with its own rights, of all that it asks for; what
    /// it does not ask for any more is forgotten.
    pub fn told(&self, answers: HashMap<ObjectId, ScopedAnswer>) {
        if let Some(own) = &self.own {
            own.known().told = answers;
        }
    }

    /// Why nothing is known of an object, if it was asked for.
    pub fn why(&self, id: &ObjectId) -> Option<String> {
        let known = self.own.as_ref()?.known();
        match known.told.get(id)? {
            ScopedAnswer::Is(_) => None,
            ScopedAnswer::Refused(why) => Some(why.clone()),
        }
    }

    /// Forgets what does not pass.
    pub fn retain(&self, mut passes: impl FnMut(&ObjectId) -> bool) {
        if let Some(own) = &self.own {
            own.known().seen.retain(|id| passes(id));
        }
    }

    /// Says what a key follows from now on, as [`ObjectWatcher::follow`]. Objects of others are not watched for
    /// one that may not be told of them.
    pub fn follow(&self, key: &Key, interest: &Interest) -> Vec<(Kind, WatchState)> {
        if self.own.is_none() || interest.objects.is_empty() {
            return self.hub.follow(&self.owner(key), interest);
        }
        let kinds = interest.kinds.clone();
        let objects = Vec::new();
        self.hub.follow(&self.owner(key), &Interest { kinds, objects })
    }

    /// The key follows nothing.
    pub fn forget(&self, key: &Key) {
        self.hub.forget(&self.owner(key));
    }
}
