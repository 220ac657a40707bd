//! Fields of one object that share a value.
//!
//! kustomize's label and annotation passes put one YAML node into every field they create in an object, so a
//! later change to one changes all. A key that exists is set in place and shares nothing new. A field leaves
//! its group when it is deleted, when a map around it is replaced, or when a list around it is patched. A
//! JSON patch ends all sharing in its target, which is serialized for it.
//!
//! A selector is immutable in a cluster: it decides whether an existing object can be applied again.
//!
//! Not covered: a map copied by a replacement, whose values kustomize shares with the source.

use crate::budget::BYTES_PER_STEP;
use crate::resource::Resource;
use serde_json::{Map, Value};
use std::sync::Arc;

#[derive(Debug, Clone, Default)]
pub(crate) struct Sharing(Vec<Vec<Member>>);

/// A field: an entry of a map named by a field specification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Member {
    /// The path of the map; lists on the way have no segment.
    pub(crate) way: Arc<[String]>,
    /// The indexes in those lists.
    pub(crate) indexes: Vec<usize>,
    pub(crate) key: Arc<str>,
}

enum PatchEffect {
    None,
    Set,
    /// The field is replaced and leaves its group.
    Replaced,
}

impl Sharing {
    pub(crate) fn add(&mut self, mut members: Vec<Member>) {
        if members.len() > 1 {
            // the order in which a patch sets them
            members.sort_by(|one, other| one.names().cmp(other.names()));
            self.0.push(members);
        }
    }

    /// The steps to compare all groups before and after a change of the object.
    pub(crate) fn steps(&self, object: &Map<String, Value>) -> usize {
        let of = |members: &Vec<Member>| {
            let first = members.first().and_then(|member| member.get(object)?.as_str());
            let text = first.map_or(0, str::len) / BYTES_PER_STEP;
            members.iter().map(Member::steps).sum::<usize>() + 2 * text
        };
        self.0.iter().map(of).sum()
    }

    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    fn values(&self, object: &Map<String, Value>) -> Vec<Option<Value>> {
        let first = |members: &Vec<Member>| members.first().and_then(|member| member.get(object).cloned());
        self.0.iter().map(first).collect()
    }

    fn follow(&mut self, object: &mut Map<String, Value>, before: &[Option<Value>]) {
        for (members, before) in self.0.iter_mut().zip(before) {
            members.retain(|member| member.get(object).is_some());
            let changed = |member: &&Member| member.get(object) != before.as_ref();
            let new = members.iter().rev().find(changed);
            if let Some(new) = new.and_then(|member| member.get(object)).cloned() {
                set_all(members, object, &new);
            }
        }
        self.tidy();
    }

    /// Removes fields that changed from their groups.
    fn part(&mut self, object: &Map<String, Value>, before: &[Option<Value>]) {
        for (members, before) in self.0.iter_mut().zip(before) {
            members.retain(|member| {
                member
                    .get(object)
                    .is_some_and(|value| Some(value) == before.as_ref())
            });
        }
        self.tidy();
    }

    pub(crate) fn follow_patch(&mut self, object: &mut Map<String, Value>, patch: &Map<String, Value>) {
        if is_replaced(patch) {
            // kustomize replaces a copy
            return;
        }
        for members in &mut self.0 {
            let mut new = None;
            members.retain(|member| {
                let (Some(value), mention) = (member.get(object), member.mention(patch)) else {
                    return false;
                };
                if matches!(mention, PatchEffect::Set) {
                    new = Some(value.clone());
                }
                !matches!(mention, PatchEffect::Replaced)
            });
            if let Some(new) = new {
                set_all(members, object, &new);
            }
        }
        self.tidy();
    }

    fn tidy(&mut self) {
        self.0.retain(|members| members.len() > 1);
    }
}

impl Resource {
    /// Runs a change of scalars and propagates it within groups.
    pub(crate) fn change_scalars<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.sharing.values(&self.object.0);
        let done = change(self);
        self.sharing.follow(&mut self.object.0, &before);
        done
    }

    /// Runs a change that replaces maps or lists; fields in them leave their groups.
    pub(crate) fn apart<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.sharing.values(&self.object.0);
        let done = change(self);
        self.sharing.part(&self.object.0, &before);
        done
    }
}

fn set_all(members: &[Member], object: &mut Map<String, Value>, new: &Value) {
    for member in members {
        if let Some(value) = member.get_mut(object) {
            value.clone_from(new);
        }
    }
}

impl Member {
    fn steps(&self) -> usize {
        8 + 6 * (self.way.len() + self.indexes.len())
    }

    /// The names on the way, without list marks, and the key.
    fn names(&self) -> impl Iterator<Item = &str> {
        let way = self.way.iter();
        way.map(|name| name.strip_suffix("[]").unwrap_or(name))
            .chain(std::iter::once(&*self.key))
    }

    fn get<'v>(&self, object: &'v Map<String, Value>) -> Option<&'v Value> {
        let mut indexes = self.indexes.iter();
        let mut names = self.names();
        let mut value = object.get(names.next()?)?;
        for name in names {
            while let Value::Array(items) = value {
                value = items.get(*indexes.next()?)?;
            }
            value = value.get(name)?;
        }
        Some(value)
    }

    fn get_mut<'v>(&self, object: &'v mut Map<String, Value>) -> Option<&'v mut Value> {
        let mut indexes = self.indexes.iter();
        let mut names = self.names();
        let mut value = object.get_mut(names.next()?)?;
        for name in names {
            while value.is_array() {
                value = value.get_mut(*indexes.next()?)?;
            }
            value = value.get_mut(name)?;
        }
        Some(value)
    }

    fn mention(&self, patch: &Map<String, Value>) -> PatchEffect {
        let mut map = patch;
        for name in self.names() {
            match map.get(name) {
                None => return PatchEffect::None,
                Some(Value::Object(inner)) if is_replaced(inner) => return PatchEffect::Replaced,
                Some(Value::Object(inner)) => map = inner,
                Some(Value::Null | Value::Array(_)) => return PatchEffect::Replaced,
                Some(_) => return PatchEffect::Set,
            }
        }
        PatchEffect::None
    }
}

fn is_replaced(patch: &Map<String, Value>) -> bool {
    patch
        .get("$patch")
        .is_some_and(|directive| directive == "replace" || directive == "delete")
}
