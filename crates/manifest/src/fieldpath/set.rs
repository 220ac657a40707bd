//! Sets of paths and their algebra.

use super::{Path, PathElement};
use std::cmp::Ordering;
use std::sync::Arc;

/// A set of paths as a tree: paths end at members and continue in children.
///
/// Both lists are sorted and children are never empty, so equal sets are equal trees. Subtrees are shared, so
/// cloning is cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    members: Vec<PathElement>,
    children: Vec<(PathElement, Arc<Set>)>,
}

impl Set {
    /// A set of these paths. The empty path is ignored.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&path.0);
        }
        set
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// The number of paths.
    pub fn len(&self) -> usize {
        self.members.len() + self.children.iter().map(|(_, child)| child.len()).sum::<usize>()
    }

    /// The elements at which a path ends, sorted.
    pub fn members(&self) -> &[PathElement] {
        &self.members
    }

    /// The elements at which paths continue, sorted, with their subsets.
    pub fn children(&self) -> impl Iterator<Item = (&PathElement, &Set)> {
        self.children
            .iter()
            .map(|(element, child)| (element, child.as_ref()))
    }

    /// Whether a path ends at this element.
    pub fn has_member(&self, element: &PathElement) -> bool {
        self.members.binary_search(element).is_ok()
    }

    /// The subset below this element.
    pub fn child(&self, element: &PathElement) -> Option<&Set> {
        let at = self.find_child(element).ok()?;
        self.children.get(at).map(|(_, child)| child.as_ref())
    }

    /// Whether the set contains this path.
    pub fn has(&self, path: &[PathElement]) -> bool {
        match path {
            [] => false,
            [last] => self.has_member(last),
            [first, rest @ ..] => self.child(first).is_some_and(|child| child.has(rest)),
        }
    }

    /// Adds a path; the empty path is ignored.
    pub fn insert(&mut self, path: &[PathElement]) {
        match path {
            [] => {}
            [last] => self.insert_member(last.clone()),
            [first, rest @ ..] => match self.find_child(first) {
                Ok(at) => Arc::make_mut(&mut self.children[at].1).insert(rest),
                Err(at) => {
                    let mut child = Self::default();
                    child.insert(rest);
                    self.children.insert(at, (first.clone(), Arc::new(child)));
                }
            },
        }
    }

    /// Adds a path of one element.
    pub fn insert_member(&mut self, element: PathElement) {
        // walkers visit in order, so the element usually belongs at the end
        if self.members.last().is_none_or(|last| *last < element) {
            self.members.push(element);
        } else if let Err(at) = self.members.binary_search(&element) {
            self.members.insert(at, element);
        }
    }

    /// Adds a subset below an element.
    pub fn insert_child(&mut self, element: PathElement, child: Set) {
        if child.is_empty() {
            return;
        }
        if self.children.last().is_none_or(|(last, _)| *last < element) {
            self.children.push((element, Arc::new(child)));
            return;
        }
        match self.find_child(&element) {
            Ok(at) => {
                let slot = &mut self.children[at].1;
                *slot = Arc::new(slot.union(&child));
            }
            Err(at) => self.children.insert(at, (element, Arc::new(child))),
        }
    }

    /// Paths in either set.
    pub fn union(&self, other: &Set) -> Set {
        if other.is_empty() {
            return self.clone();
        }
        if self.is_empty() {
            return other.clone();
        }
        let mut out = Set::default();
        zip(
            &self.members,
            &other.members,
            |m| m,
            |a, b| {
                out.members.extend(a.or(b).cloned());
            },
        );
        zip(
            &self.children,
            &other.children,
            |(e, _)| e,
            |a, b| match (a, b) {
                (Some((element, a)), Some((_, b))) if !Arc::ptr_eq(a, b) => {
                    out.children.push((element.clone(), Arc::new(a.union(b))));
                }
                (a, b) => out.children.extend(a.or(b).cloned()),
            },
        );
        out
    }

    /// Paths in both sets.
    pub fn intersection(&self, other: &Set) -> Set {
        let mut out = Set::default();
        zip(
            &self.members,
            &other.members,
            |m| m,
            |a, b| {
                if let (Some(a), Some(_)) = (a, b) {
                    out.members.push(a.clone());
                }
            },
        );
        zip(
            &self.children,
            &other.children,
            |(e, _)| e,
            |a, b| {
                if let (Some((element, a)), Some((_, b))) = (a, b) {
                    out.push_child(element, a.intersection(b));
                }
            },
        );
        out
    }

    /// Paths in this set but not in the other. `a` and `a.b` are different paths: neither removes the other.
    pub fn difference(&self, other: &Set) -> Set {
        let mut out = Set::default();
        zip(
            &self.members,
            &other.members,
            |m| m,
            |a, b| {
                if b.is_none() {
                    out.members.extend(a.cloned());
                }
            },
        );
        zip(
            &self.children,
            &other.children,
            |(e, _)| e,
            |a, b| match (a, b) {
                (Some((element, a)), Some((_, b))) => out.push_child(element, a.difference(b)),
                (Some(a), None) => out.children.push(a.clone()),
                (None, _) => {}
            },
        );
        out
    }

    /// Like [`difference`](Self::difference), but a path in the other set also removes everything below it.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        if other.is_empty() {
            return self.clone();
        }
        let mut out = Set::default();
        zip(
            &self.members,
            &other.members,
            |m| m,
            |a, b| {
                if b.is_none() {
                    out.members.extend(a.cloned());
                }
            },
        );
        for (element, child) in &self.children {
            if other.has_member(element) {
                continue;
            }
            match other.child(element) {
                Some(removed) => out.push_child(element, child.recursive_difference(removed)),
                None => out.children.push((element.clone(), Arc::clone(child))),
            }
        }
        out
    }

    /// Whether the other set contains every path.
    pub fn is_subset(&self, other: &Set) -> bool {
        self.members.iter().all(|member| other.has_member(member))
            && self
                .children
                .iter()
                .all(|(element, child)| other.child(element).is_some_and(|o| child.is_subset(o)))
    }

    /// The paths that no other path extends.
    pub fn leaves(&self) -> Set {
        Set {
            members: self
                .members
                .iter()
                .filter(|m| self.find_child(m).is_err())
                .cloned()
                .collect(),
            children: self
                .children
                .iter()
                .map(|(element, child)| (element.clone(), Arc::new(child.leaves())))
                .collect(),
        }
    }

    /// Every path: per level, those that end there first.
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::with_capacity(self.len());
        self.collect(&mut Vec::new(), &mut out);
        out
    }

    fn collect(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for member in &self.members {
            let mut path = prefix.clone();
            path.push(member.clone());
            out.push(Path(path));
        }
        for (element, child) in &self.children {
            prefix.push(element.clone());
            child.collect(prefix, out);
            prefix.pop();
        }
    }

    fn push_child(&mut self, element: &PathElement, child: Set) {
        if !child.is_empty() {
            self.children.push((element.clone(), Arc::new(child)));
        }
    }

    fn find_child(&self, element: &PathElement) -> Result<usize, usize> {
        self.children.binary_search_by(|(e, _)| e.cmp(element))
    }
}

/// Iterates two sorted lists together; equal entries are paired.
fn zip<'a, T>(
    a: &'a [T],
    b: &'a [T],
    key: impl Fn(&T) -> &PathElement,
    mut visit: impl FnMut(Option<&'a T>, Option<&'a T>),
) {
    let (mut a, mut b) = (a, b);
    loop {
        match (a, b) {
            ([x, a_rest @ ..], [y, b_rest @ ..]) => match key(x).cmp(key(y)) {
                Ordering::Less => {
                    visit(Some(x), None);
                    a = a_rest;
                }
                Ordering::Greater => {
                    visit(None, Some(y));
                    b = b_rest;
                }
                Ordering::Equal => {
                    visit(Some(x), Some(y));
                    (a, b) = (a_rest, b_rest);
                }
            },
            ([x, a_rest @ ..], []) => {
                visit(Some(x), None);
                a = a_rest;
            }
            ([], [y, b_rest @ ..]) => {
                visit(None, Some(y));
                b = b_rest;
            }
            ([], []) => return,
        }
    }
}
