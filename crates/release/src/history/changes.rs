//! The paths that differ between two trees, by the ids of their directories.

use crate::config::join;
use equate_kustomize::{EntryKind, Stat, Tree};
use std::cmp::Ordering;

/// The sorted paths of files and links that differ. A directory into which `descend` does not lead is one path.
pub(super) fn between(before: &dyn Tree, after: &dyn Tree, descend: &dyn Fn(&str) -> bool) -> Vec<String> {
    let mut changed = Vec::new();
    if before.stat("") != after.stat("") {
        let trees = (Some(before), Some(after));
        directory(trees, "", descend, &mut changed);
    }
    changed
}

type Trees<'t> = (Option<&'t dyn Tree>, Option<&'t dyn Tree>);

fn directory(
    (before, after): Trees<'_>,
    path: &str,
    descend: &dyn Fn(&str) -> bool,
    changed: &mut Vec<String>,
) {
    let list = |tree: Option<&dyn Tree>| tree.and_then(|tree| tree.list(path)).unwrap_or_default();
    let (old, new) = (list(before), list(after));
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((one, _)), Some((other, _))) => one.cmp(other),
        };
        let left = old.next_if(|_| order.is_le());
        let right = new.next_if(|_| order.is_ge());
        let (left_stat, right_stat) = (left.map(|(_, stat)| stat), right.map(|(_, stat)| stat));
        if left_stat == right_stat {
            continue;
        }
        let Some((name, _)) = left.or(right) else {
            return;
        };
        let below = join(path, name);
        let is_directory = |stat: Option<&Stat>| stat.is_some_and(|stat| stat.kind == EntryKind::Directory);
        let is_leaf = |stat: Option<&Stat>| stat.is_some_and(|stat| stat.kind != EntryKind::Directory);
        let is_deep = descend(&below);
        if !is_deep || is_leaf(left_stat) || is_leaf(right_stat) {
            changed.push(below.clone());
        }
        if is_deep {
            let trees = (
                before.filter(|_| is_directory(left_stat)),
                after.filter(|_| is_directory(right_stat)),
            );
            if trees.0.is_some() || trees.1.is_some() {
                directory(trees, &below, descend, changed);
            }
        }
    }
}
