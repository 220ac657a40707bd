//! Conflicts between two owners.
//!
//! Two owners may declare tens of thousands of objects twice. The graph keeps the first few of each pair by name, and
//! counts the others: a status says no more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

use equate_apply::id::ObjectId;

use super::relations::Relation;
use super::survey::NAMED;
use crate::ObjectRef;
use crate::kit::shrink::shrink;

/// An object that two owners declare, of one kind or of two.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contest {
    /// The object.
    pub id: ObjectId,
    /// The other owner.
    pub other: ObjectRef,
}

impl fmt::Display for Contest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (also declared by {})", self.id, self.other)
    }
}

/// The first contests of an owner, and the number of all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contests {
    first: BTreeSet<Contest>,
    count: usize,
    /// Whether some that are not named may count twice.
    is_upper_bound: bool,
}

impl Contests {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn add(&mut self, id: &ObjectId, other: &ObjectRef) {
        self.count += 1;
        let last = self.first.last().filter(|_| self.first.len() >= NAMED);
        if last.is_none_or(|last| (id, other) < (&last.id, &last.other)) {
            self.first.insert(Contest {
                id: id.clone(),
                other: other.clone(),
            });
            self.cut();
        }
    }

    /// Adds others. Those that both name count once; others may count twice.
    pub fn merge(&mut self, more: &Self) {
        let known = more.first.intersection(&self.first).count();
        let all_named = self.are_all_named() && more.are_all_named();
        self.is_upper_bound |= !(all_named || self.is_empty() || more.is_empty());
        self.add_distinct(more);
        self.count -= known;
    }

    /// Adds those with another owner.
    fn add_distinct(&mut self, more: &Self) {
        self.count += more.count;
        self.is_upper_bound |= more.is_upper_bound;
        self.first.extend(more.first.iter().cloned());
        self.cut();
    }

    fn are_all_named(&self) -> bool {
        self.count == self.first.len()
    }

    fn cut(&mut self) {
        while self.first.len() > NAMED {
            self.first.pop_last();
        }
    }
}

impl<'a> FromIterator<&'a Contest> for Contests {
    fn from_iter<T: IntoIterator<Item = &'a Contest>>(all: T) -> Self {
        let mut contests = Self::default();
        for contest in all {
            contests.add(&contest.id, &contest.other);
        }
        contests
    }
}

impl fmt::Display for Contests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, contest) in self.first.iter().enumerate() {
            write!(f, "{}{contest}", if place > 0 { ", " } else { "" })?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more if self.is_upper_bound => write!(f, " and up to {more} more"),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The contests of an owner as the other owners report them.
pub(crate) fn as_others_see(owner: &ObjectRef, contests: &[Contest]) -> BTreeMap<ObjectRef, Contests> {
    let mut all: BTreeMap<ObjectRef, Contests> = BTreeMap::new();
    for Contest { id, other } in contests {
        match all.get_mut(other) {
            Some(known) => known.add(id, owner),
            None => all.entry(other.clone()).or_default().add(id, owner),
        }
    }
    all
}

/// The contests of all owners, by both of the owners.
#[derive(Debug, Default)]
pub(super) struct AllContests {
    /// By the owner that does not have the objects, then by the other one.
    by: HashMap<ObjectRef, BTreeMap<ObjectRef, Contests>>,
    /// The owners that declare objects of each one.
    against: Relation<ObjectRef>,
}

impl AllContests {
    /// Replaces those of an owner. Returns the other owners for which they changed.
    pub(super) fn replace(
        &mut self,
        owner: &ObjectRef,
        now: BTreeMap<ObjectRef, Contests>,
    ) -> BTreeSet<ObjectRef> {
        let before = self.by.remove(owner).unwrap_or_default();
        let others: BTreeSet<&ObjectRef> = before.keys().chain(now.keys()).collect();
        let changed = others
            .into_iter()
            .filter(|other| before.get(*other) != now.get(*other));
        let changed = changed.cloned().collect();
        self.against.unlink(before.keys(), owner);
        self.against.link(now.keys(), owner);
        match now.is_empty() {
            true => shrink(&mut self.by),
            false => drop(self.by.insert(owner.clone(), now)),
        }
        changed
    }

    /// The owners that declare objects of this one.
    pub(super) fn against(&self, owner: &ObjectRef) -> impl Iterator<Item = &ObjectRef> {
        self.against.of(owner)
    }

    /// The objects of an owner that others declare.
    pub(super) fn of(&self, owner: &ObjectRef) -> Contests {
        let mut all = Contests::default();
        let others = self.against(owner).filter_map(|other| self.by.get(other));
        for contests in others.filter_map(|others| others.get(owner)) {
            all.add_distinct(contests);
        }
        all
    }

    /// Whether an owner declares objects of others.
    pub(super) fn are_by(&self, owner: &ObjectRef) -> bool {
        self.by.contains_key(owner)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(at: usize) -> ObjectId {
        ObjectId::new("", "ConfigMap", "n", &format!("x{at:05}"))
    }

    fn apps(at: usize) -> ObjectRef {
        ObjectRef::new("Kustomization", "n", format!("k{at:02}"))
    }

    /// Objects that an owner has.
    fn of(owner: usize, ids: impl Iterator<Item = usize>) -> Vec<Contest> {
        let other = apps(owner);
        ids.map(|at| Contest {
            id: id(at),
            other: other.clone(),
        })
        .collect()
    }

    #[test]
    fn many_contests_are_counted_and_few_are_kept() {
        let (owners, objects) = (20, 1_000);
        let mut all = AllContests::default();
        for owner in 1..owners {
            let contests = of(0, (0..objects).rev());
            let changed = all.replace(&apps(owner), as_others_see(&apps(owner), &contests));
            assert_eq!(changed, [apps(0)].into());
        }
        let kept: usize = all
            .by
            .values()
            .flat_map(BTreeMap::values)
            .map(|each| each.first.len())
            .sum();
        assert_eq!(kept, (owners - 1) * NAMED);
        let found = all.of(&apps(0));
        assert_eq!((found.first.len(), found.count), (NAMED, (owners - 1) * objects));
        let text = found.to_string();
        let first =
            "ConfigMap/n/x00000 (also declared by Kustomization/n/k01), ConfigMap/n/x00000 (also declared by";
        assert!(text.starts_with(first), "{text}");
        assert!(text.ends_with(" and 18990 more"), "{text}");
        assert_eq!(all.against(&apps(0)).count(), owners - 1);
        assert_eq!(all.against(&apps(1)).count(), 0);
    }

    #[test]
    fn others_learn_of_changes_for_them() {
        let mut all = AllContests::default();
        let mut replace = |contests: &[Vec<Contest>]| {
            let changed = all.replace(&apps(9), as_others_see(&apps(9), &contests.concat()));
            changed.iter().map(|other| other.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(replace(&[of(1, 0..2), of(2, 0..1)]), ["k01", "k02"]);
        assert_eq!(replace(&[of(2, 0..1), of(1, 0..2)]), [""; 0]);
        assert_eq!(replace(&[of(1, 0..3), of(2, 0..1)]), ["k01"]);
        assert_eq!(replace(&[of(1, 0..3)]), ["k02"]);
        assert_eq!(replace(&[]), ["k01"]);
        assert!(all.is_empty() && all.of(&apps(1)).is_empty());
    }

    #[test]
    fn contest_that_both_owners_report_counts_once() {
        let mut one: Contests = of(1, 0..3).iter().collect();
        let two: Contests = of(1, 2..5).iter().collect();
        one.merge(&two);
        assert_eq!((one.first.len(), one.count), (5, 5));
        assert!(!one.to_string().contains("more"), "{one}");
    }

    #[test]
    fn count_of_contests_that_both_may_report_is_an_upper_bound() {
        let check = |one: std::ops::Range<usize>, two: std::ops::Range<usize>, expected: &str| {
            let mut merged: Contests = of(1, one).iter().collect();
            merged.merge(&of(1, two).iter().collect());
            let text = merged.to_string();
            assert!(text.ends_with(expected), "{text}");
        };
        check(0..30, 0..30, "and up to 40 more");
        check(0..30, 40..41, "and up to 21 more");
        check(0..30, 0..0, "/k01) and 20 more");
        check(0..0, 0..30, "/k01) and 20 more");
        check(0..10, 5..15, "/k01) and 5 more");
    }
}
