//! Reads the announcements of owners in other shards. This process does not build them, so only their
//! status is known.
//!
//! The inventory is written before an apply, so it has all objects that the owner holds. It has all that
//! the owner wants once the current revision of its source is applied. The owner keeps unwanted objects
//! until they are deleted or claimed, so from here wanting and holding look the same.

use super::declaration::Declaration;

/// The part of a status that other owners read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusSeen {
    /// `status.observedGeneration`.
    pub observed_generation: Option<i64>,
    /// `status.lastAttemptedRevision`.
    pub attempted: Option<String>,
    /// `status.lastAppliedRevision`, or the digest of an OCI artifact.
    pub applied: Option<String>,
    /// The condition `Ready`.
    pub ready: Option<ReadySeen>,
    /// Whether deletions are blocked (`PruneBlocked`).
    pub prune_blocked: bool,
}

/// A condition `Ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadySeen {
    /// Whether it is true.
    pub is_true: bool,
    /// Whether it is false.
    pub is_false: bool,
    /// Whether all is applied, but not healthy.
    pub is_unhealthy: bool,
    /// Its reason.
    pub reason: String,
    /// Its `observedGeneration`.
    pub observed_generation: Option<i64>,
}

/// Whether a status is at a revision. That of a release of an OCI artifact has its digest alone.
pub(crate) fn is_at(known: Option<&str>, revision: &str) -> bool {
    known.is_some_and(|known| {
        let tag = revision.strip_suffix(known);
        tag.is_some_and(|tag| tag.is_empty() || tag.ends_with('@'))
    })
}

/// Whether its inventory has all that it wants of this revision. An owner that is being deleted or
/// suspended will want nothing else.
pub(crate) fn is_settled(declaration: &Declaration, revision: &str) -> bool {
    if declaration.deleting || declaration.suspended {
        return true;
    }
    let status = &declaration.status;
    let generation = Some(declaration.generation);
    let is = |known: &Option<String>| is_at(known.as_deref(), revision);
    if is(&status.applied) && status.observed_generation == generation {
        return true;
    }
    let ready = status.ready.as_ref();
    is(&status.attempted)
        && ready.is_some_and(|ready| ready.is_unhealthy && ready.observed_generation == generation)
}

/// Whether its inventory may have objects that it does not want and does not delete yet. It releases
/// those that another claims.
pub(crate) fn keeps(declaration: &Declaration) -> bool {
    !declaration.deleting && !declaration.suspended && declaration.status.prune_blocked
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::graph::tests::declaration;

    fn ready(is_unhealthy: bool, generation: i64) -> Option<ReadySeen> {
        Some(ReadySeen {
            is_true: false,
            is_false: true,
            is_unhealthy,
            reason: String::new(),
            observed_generation: Some(generation),
        })
    }

    #[test]
    fn an_inventory_is_settled_when_all_is_applied() {
        let check = |change: &dyn Fn(&mut Declaration), expected: bool| {
            let mut object = Declaration {
                generation: 2,
                ..declaration()
            };
            change(&mut object);
            assert_eq!(is_settled(&object, "main@sha1:2"), expected, "{object:?}");
        };
        check(&|_| {}, false);
        check(&|object| object.suspended = true, true);
        check(&|object| object.deleting = true, true);
        for (revision, generation, expected) in [
            ("main@sha1:2", 2, true),
            ("main@sha1:1", 2, false),
            ("main@sha1:2", 1, false),
        ] {
            let applied = StatusSeen {
                observed_generation: Some(generation),
                applied: Some(revision.to_owned()),
                ..StatusSeen::default()
            };
            check(&|object| object.status = applied.clone(), expected);
        }
        for (revision, is_unhealthy, generation, expected) in [
            ("main@sha1:2", true, 2, true),
            ("main@sha1:2", true, 1, false),
            ("main@sha1:1", true, 2, false),
            ("main@sha1:2", false, 2, false),
        ] {
            let attempted = StatusSeen {
                observed_generation: Some(1),
                attempted: Some(revision.to_owned()),
                ready: ready(is_unhealthy, generation),
                ..StatusSeen::default()
            };
            check(&|object| object.status = attempted.clone(), expected);
        }
    }

    #[test]
    fn an_inventory_may_have_unwanted_objects() {
        let check = |prune_blocked: bool, change: &dyn Fn(&mut Declaration), expected: bool| {
            let mut object = declaration();
            object.status.prune_blocked = prune_blocked;
            change(&mut object);
            assert_eq!(keeps(&object), expected, "{object:?}");
        };
        check(false, &|_| {}, false);
        check(true, &|_| {}, true);
        check(true, &|object| object.suspended = true, false);
        check(true, &|object| object.deleting = true, false);
    }
}
