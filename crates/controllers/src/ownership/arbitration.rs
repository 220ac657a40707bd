//! Decides which owner gets an object that several declare. Pure.
//!
//! The decision must not depend on timing, so it uses only facts that all owners see alike:
//!
//! 1. An owner that holds the object keeps it.
//! 2. If none holds it, the first that wants it gets it: parents before children, then by
//!    `namespace/name`. Creation times have a resolution of a second, and children are created at once.
//! 3. An owner that depends on another contender (`dependsOn`) comes after it. Otherwise one waits for
//!    the other to become ready, and the other waits for the object.
//! 4. An owner wants every object of its build. Dependencies and health delay an apply, not a want.
//!
//! Only owners of one source are compared. Two sources have no common revision, so the first holder
//! keeps the object. [`super::pending`] knows the owners that have to be built first.

use crate::{Key, ObjectRef};

/// The position of an owner in the order in which objects are assigned.
///
/// The depth comes first: if a child came before its parent's siblings, these would wait for an object
/// that does not exist yet, and perhaps in a circle.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    depth: usize,
    key: Key,
    kind: &'static str,
}

impl Rank {
    pub(crate) fn new(depth: usize, owner: &ObjectRef) -> Self {
        let (key, kind) = (owner.key(), owner.kind);
        Self { depth, key, kind }
    }

    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    pub(crate) fn owner(&self) -> ObjectRef {
        ObjectRef::of(self.kind, &self.key)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    pub(crate) rank: Rank,
    /// Whether it has the object or is about to write it.
    pub(crate) holds: bool,
    pub(crate) waits: bool,
    pub(crate) named: bool,
}

/// The owner, of those that declare an object.
///
/// Several may hold it: inventories of an engine without this check, or of a shard that claims it. Then
/// the labels decide, or the rank if they name none of the holders.
pub(crate) fn owner(contenders: &[Contender]) -> Option<&Rank> {
    let order = |contender: &&Contender| {
        let place = match (contender.holds, contender.named, contender.waits) {
            (true, true, _) => 0,
            (true, false, _) => 1,
            (false, _, false) => 2,
            (false, _, true) => 3,
        };
        (place, contender.rank.clone())
    };
    let first = contenders.iter().min_by_key(order)?;
    Some(&first.rank)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses `2 a/x holds waits named`: depth, namespace and name, and the flags.
    fn contender(text: &str) -> Contender {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (namespace, name) = words[1].split_once('/').unwrap();
        let kind = match words.contains(&"release") {
            true => "HelmRelease",
            false => "Kustomization",
        };
        Contender {
            rank: Rank::new(words[0].parse().unwrap(), &ObjectRef::new(kind, namespace, name)),
            holds: words.contains(&"holds"),
            waits: words.contains(&"waits"),
            named: words.contains(&"named"),
        }
    }

    #[track_caller]
    fn check(contenders: &[&str], expected: &str) {
        let mut contenders: Vec<Contender> = contenders.iter().map(|text| contender(text)).collect();
        for _ in 0..contenders.len() {
            contenders.rotate_left(1);
            let owner = owner(&contenders).map(|rank| rank.key.to_string());
            assert_eq!(owner.as_deref(), Some(expected), "{contenders:?}");
        }
    }

    #[test]
    fn the_holder_keeps_it() {
        check(&["0 n/a", "0 n/b holds"], "n/b");
        check(&["0 n/a", "1 n/b holds named"], "n/b");
        check(&["0 n/a", "1 n/b holds", "0 n/c"], "n/b");
    }

    #[test]
    fn labels_decide_between_several_holders() {
        check(&["0 n/a holds", "0 n/b holds named"], "n/b");
        check(&["0 n/a holds", "0 n/b holds"], "n/a");
        // labels alone may be stale
        check(&["0 n/a", "0 n/b named"], "n/a");
        check(&["0 n/b holds", "0 n/a named"], "n/b");
    }

    #[test]
    fn an_object_without_holder_goes_to_the_first() {
        check(&["1 n/a", "1 n/b"], "n/a");
        check(&["1 n/z", "1 m/z"], "m/z");
        check(&["1 n/a", "0 n/b"], "n/b");
        check(&["1 n/a", "1 n/b release"], "n/a");
        assert_eq!(owner(&[]), None);
    }

    #[test]
    fn one_that_waits_for_another_comes_after_it() {
        check(&["1 n/a waits", "1 n/b"], "n/b");
        check(&["0 n/a waits", "1 n/b", "1 n/c"], "n/b");
        check(&["0 n/a waits holds", "1 n/b"], "n/a");
        // in a cycle
        check(&["1 n/a waits", "1 n/b waits"], "n/a");
    }
}
