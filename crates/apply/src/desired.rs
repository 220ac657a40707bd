//! A desired object, ready to be sent.

use crate::id::ObjectId;
use crate::normal;
use crate::owned::{self, Digest};
use crate::owner::Owner;
use crate::pointer::Pointer;
use crate::policy::Policy;
use crate::rules::OwnerRules;
use equate_manifest::object::Object;
use std::fmt;

/// An object to apply. `Debug` omits the object: it may be a Secret.
#[derive(Clone, PartialEq)]
pub struct Desired {
    /// Its id.
    pub id: ObjectId,
    /// The object to send: in normal form, with the owner's labels.
    pub object: Object,
    /// The digest of `object` without ignored fields, comparable with
    /// [`crate::observed::Observed::owned`].
    pub digest: Digest,
    /// Its file, for errors.
    pub origin: Option<String>,
    /// The fields whose drift its owner ignores.
    pub ignored: Vec<Pointer>,
    /// Its annotations for apply and prune.
    pub policy: Policy,
    /// Whether it belongs to the bootstrap that applies it (`flux-system` in `equate up`) and is not
    /// applied.
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
    /// Prepares an object for its owner: normal form, labels, digest, policy.
    ///
    /// The namespace is taken as written.
    pub fn new(object: Object, owner: &Owner, origin: Option<String>) -> Desired {
        Self::under(object, owner, origin, &())
    }

    /// Same as [`Desired::new`], under the owner's rules.
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

    /// Marks it as part of the bootstrap that applies it.
    #[must_use]
    pub fn of_own_loop(mut self) -> Desired {
        self.own_loop = true;
        self
    }
}
