//! Who owns an object that several declare: values in, one of them out.
//!
//! The answer must not depend on timing. So it is made of things that all of them see alike, whichever
//! runs first:
//!
//! 1. The one that holds the object keeps it.
//! 2. Where nobody holds it, the first of those that want it has it. First is a place in the tree of
//!    owners, not in time: a parent before its children, and among equals by `namespace/name`.
//!    Creation times have steps of a second, and children are created at once.
//! 3. One that waits for another of them comes after it, by `dependsOn`: else each would wait for the
//!    other, the one to become ready, the other to have the object.
//! 4. To want is to have it in the build. Dependencies and health delay an apply, not a want, so the
//!    second is told at once, also while the first waits.
//!
//! It is compared within one source alone: of two sources no revision is common, so who holds an
//! object first keeps it. Who has to be built before this can be asked is in [`super::pending`].

use crate::{Key, ObjectRef};

/// The place of an owner in the order in which objects are given out.
///
/// The depth comes first: a child exists only because its parent was applied. Were it to come before
/// its parent's siblings, these would have to wait for what does not exist yet, and might be what it
/// waits for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// How many owners are above it.
    depth: usize,
    key: Key,
    kind: &'static str,
}

impl Rank {
    /// The place of an owner that has so many above it.
    pub(crate) fn new(depth: usize, owner: &ObjectRef) -> Self {
        let (key, kind) = (owner.key(), owner.kind);
        Self { depth, key, kind }
    }

    /// How many are above it.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Whose place it is.
    pub(crate) fn owner(&self) -> ObjectRef {
        ObjectRef::of(self.kind, &self.key)
    }
}

/// One that declares an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Contender {
    /// Its place.
    pub(crate) rank: Rank,
    /// Whether it has the object, or is about to write it.
    pub(crate) holds: bool,
    /// Whether it waits for another of them to be ready.
    pub(crate) waits: bool,
    /// Whether the labels of the object name it.
    pub(crate) named: bool,
}

/// The owner, of those that declare an object.
///
/// More than one may hold it: inventories of an engine that asked nobody, or of a shard that claims it.
/// Then the labels decide, and the rank where they name none of them.
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

    /// `2 a/x holds waits named`: depth, namespace and name, and what is said of it.
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
    fn of_several_holders_the_labels_choose() {
        check(&["0 n/a holds", "0 n/b holds named"], "n/b");
        check(&["0 n/a holds", "0 n/b holds"], "n/a");
        // labels alone may be left over
        check(&["0 n/a", "0 n/b named"], "n/a");
        check(&["0 n/b holds", "0 n/a named"], "n/b");
    }

    #[test]
    fn what_nobody_holds_is_the_first_ones() {
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
        // in a circle
        check(&["1 n/a waits", "1 n/b waits"], "n/a");
    }
}
