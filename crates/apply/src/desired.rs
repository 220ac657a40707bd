//! An object as git wants it, ready to be sent.

use crate::id::ObjectId;
use crate::normal;
use crate::owned::{self, Digest};
use crate::owner::Owner;
use crate::pointer::Pointer;
use crate::policy::Policy;
use crate::rules::OwnerRules;
use equate_manifest::object::Object;
use std::fmt;

/// An object to apply. `Debug` leaves out the object: it may be a Secret.
#[derive(Clone, PartialEq)]
pub struct Desired {
    /// What it is called.
    pub id: ObjectId,
    /// What is sent: in normal form, with the owner's labels.
    pub object: Object,
    /// The digest of `object` without what is ignored, to be held against [`crate::observed::Observed::owned`].
    pub digest: Digest,
    /// The file it comes from, for errors.
    pub origin: Option<String>,
    /// The fields that its owner does not mind others changing.
    pub ignored: Vec<Pointer>,
    /// Its own wishes.
    pub policy: Policy,
    /// Whether it is part of the loop that applies it (`flux-system` in `equate up`) and so is kept as it is.
    pub own_loop: bool,
}

impl fmt::Debug for Desired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            id,
            object: _,
            digest,
            origin,
            ignored,
            policy,
            own_loop,
        } = self;
        f.debug_struct("Desired")
            .field("id", id)
            .field("digest", digest)
            .field("origin", origin)
            .field("ignored", ignored)
            .field("policy", policy)
            .field("own_loop", own_loop)
            .finish_non_exhaustive()
    }
}

impl Desired {
    /// Makes an object ready for its owner: normal form, labels, digest, policy.
    ///
    /// The namespace is taken as it is written.
    pub fn new(object: Object, owner: &Owner, origin: Option<String>) -> Desired {
        Self::under(object, owner, origin, &())
    }

    /// The same under the owner's rules.
    pub fn under(
        mut object: Object,
        owner: &Owner,
        origin: Option<String>,
        rules: &dyn OwnerRules,
    ) -> Desired {
        normal::normalise(&mut object, normal::Unknown::Keep);
        owner.label(&mut object);
        let ignored = rules.ignored(owner, &object);
        Desired {
            id: ObjectId::of(&object),
            digest: owned::desired_but(&object, &ignored),
            ignored,
            policy: Policy::of(&object),
            object,
            origin,
            own_loop: false,
        }
    }

    /// Marks it as part of the loop that applies it.
    #[must_use]
    pub fn of_own_loop(mut self) -> Desired {
        self.own_loop = true;
        self
    }
}
