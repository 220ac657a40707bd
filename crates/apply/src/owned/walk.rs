//! Extracts a manager's fields from a live object.
//!
//! `FieldsV1` is walked as JSON: `f:name` enters a map, `k:{...}` and `v:...` select list items, `.` is
//! the place itself, an empty object ends a path. Nothing is copied: the tree borrows from the object.
//! Malformed entries select nothing.

use super::canonical;
use crate::pointer::{self, Left, Pointer, through};
use equate_manifest::fieldpath::equal;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

#[derive(Debug)]
pub(super) enum Tree<'a> {
    /// The whole value.
    Whole(&'a Value),
    /// The whole value without the ignored parts.
    Rest(Value),
    /// Some entries of a map, sorted by key.
    Map(Vec<(&'a str, Tree<'a>)>),
    /// Some items of a list, in order.
    List(Vec<Tree<'a>>),
}

impl Tree<'_> {
    pub(super) fn hash(&self, hash: &mut Sha256) {
        match self {
            Self::Whole(value) => canonical::hash(hash, value),
            Self::Rest(value) => canonical::hash(hash, value),
            Self::Map(entries) => {
                hash.update(b"{");
                for (key, tree) in entries {
                    canonical::hash_key(hash, key);
                    tree.hash(hash);
                }
                hash.update(b"}");
            }
            Self::List(items) => {
                hash.update(b"[");
                items.iter().for_each(|item| item.hash(hash));
                hash.update(b"]");
            }
        }
    }

    pub(super) fn to_value(&self) -> Value {
        match self {
            Self::Whole(value) => (*value).clone(),
            Self::Rest(value) => value.clone(),
            Self::Map(entries) => entries
                .iter()
                .map(|(key, tree)| ((*key).to_owned(), tree.to_value()))
                .collect::<Map<_, _>>()
                .into(),
            Self::List(items) => items.iter().map(Tree::to_value).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::Map(entries) => entries.is_empty(),
            Self::List(items) => items.is_empty(),
            Self::Whole(_) | Self::Rest(_) => false,
        }
    }
}

/// The fields the manager's applies own, without the ignored ones; `None` without an entry.
pub(super) fn extract<'a>(
    object: &'a Map<String, Value>,
    manager: &str,
    ignored: &[Pointer],
) -> Option<Tree<'a>> {
    let entries = object.get("metadata")?.get("managedFields")?.as_array()?;
    let ours = entries.iter().position(|entry| is_apply_of(entry, manager))?;
    let fields = entries.get(ours)?.get("fieldsV1")?.as_object()?;
    let others = entries
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != ours)
        .filter_map(|(_, entry)| entry.get("fieldsV1"))
        .collect();
    let mut walk = Walk {
        others,
        path: Vec::new(),
    };
    Some(walk.map(object, fields, &pointer::left(ignored)))
}

/// Whether an entry of `managedFields` is the manager's apply to the object itself.
pub(crate) fn is_apply_of(entry: &Value, manager: &str) -> bool {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
    text("manager") == manager && text("operation") == "Apply" && text("subresource").is_empty()
}

/// Whether the apply of another manager owns the field at a pointer.
pub(super) fn applied_by_another(object: &Map<String, Value>, manager: &str, way: &[String]) -> bool {
    let entries = object
        .get("metadata")
        .and_then(|metadata| metadata.get("managedFields")?.as_array());
    let text = |entry: &Value, key: &str| {
        entry
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut others = entries.into_iter().flatten().filter(|entry| {
        text(entry, "manager") != manager
            && text(entry, "operation") == "Apply"
            && text(entry, "subresource").is_empty()
    });
    others.any(|entry| {
        let fields = entry.get("fieldsV1").and_then(Value::as_object);
        fields.is_some_and(|fields| map_holds(object, fields, way))
    })
}

fn map_holds(live: &Map<String, Value>, fields: &Map<String, Value>, way: &[String]) -> bool {
    let Some((name, rest)) = way.split_first() else {
        return true;
    };
    let below = fields.get(&format!("f:{name}")).and_then(Value::as_object);
    below.is_some_and(|below| rest.is_empty() || holds(live.get(name), below, rest))
}

fn holds(live: Option<&Value>, fields: &Map<String, Value>, way: &[String]) -> bool {
    match live {
        Some(Value::Object(map)) => map_holds(map, fields, way),
        Some(Value::Array(items)) => {
            let Some((step, rest)) = way.split_first() else {
                return true;
            };
            let Some((at, item)) = pointer::index(step).and_then(|at| Some((at, items.get(at)?))) else {
                return false;
            };
            let mut below = fields.iter().filter_map(|(key, below)| {
                let picked = Pick::parse(key).is_some_and(|pick| pick.takes(at, item));
                below.as_object().filter(|_| picked)
            });
            below.any(|below| rest.is_empty() || holds(Some(item), below, rest))
        }
        _ => false,
    }
}

struct Walk<'a> {
    /// The fields of all other managers.
    others: Vec<&'a Value>,
    /// The `FieldsV1` keys of the current position.
    path: Vec<&'a str>,
}

impl<'a> Walk<'a> {
    /// `None` if only ignored parts are owned.
    fn value(
        &mut self,
        live: &'a Value,
        fields: &'a Map<String, Value>,
        left: &Left<'_>,
    ) -> Option<Tree<'a>> {
        let tree = match live {
            _ if fields.is_empty() => match self.leaf(live) {
                Tree::Whole(value) if !left.is_empty() => {
                    return pointer::without(value, left).map(Tree::Rest);
                }
                leaf => leaf,
            },
            Value::Object(map) => self.map(map, fields, left),
            Value::Array(items) => self.list(items, fields, left),
            // we own fields inside of a former map or list: the whole value is new
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Tree::Whole(live),
        };
        (left.is_empty() || !tree.is_empty()).then_some(tree)
    }

    fn map(
        &mut self,
        live: &'a Map<String, Value>,
        fields: &'a Map<String, Value>,
        left: &Left<'_>,
    ) -> Tree<'a> {
        let mut entries = Vec::with_capacity(fields.len());
        for (key, below) in fields {
            let Some(name) = key.strip_prefix("f:") else {
                continue;
            };
            let (Some(value), Some(below)) = (live.get(name), below.as_object()) else {
                continue;
            };
            let Some(left) = through(left, name).filter(|_| !value.is_null()) else {
                continue;
            };
            self.path.push(key);
            entries.extend(self.value(value, below, &left).map(|tree| (name, tree)));
            self.path.pop();
        }
        Tree::Map(entries)
    }

    /// Items in live order: an apply determines their order.
    fn list(&mut self, live: &'a [Value], fields: &'a Map<String, Value>, left: &Left<'_>) -> Tree<'a> {
        let picks: Vec<_> = fields
            .iter()
            .filter_map(|(key, below)| Some((key.as_str(), Pick::parse(key)?, below.as_object()?)))
            .collect();
        let mut items = Vec::with_capacity(picks.len());
        for (at, item) in live.iter().enumerate() {
            let exact = picks.iter().find(|(_, pick, _)| pick.takes(at, item));
            // an unwritten key stands for its default in the schema
            let found = exact.or_else(|| picks.iter().find(|(_, pick, _)| pick.takes_with_defaults(item)));
            let left = match left.is_empty() {
                true => Some(Vec::new()),
                false => through(left, &at.to_string()),
            };
            if let (Some((key, _, below)), Some(left)) = (found, left) {
                self.path.push(key);
                items.extend(self.value(item, below, &left));
                self.path.pop();
            }
        }
        Tree::List(items)
    }

    /// A path that ends here is an atomic value, or an empty map or list that others may have filled.
    fn leaf(&self, live: &'a Value) -> Tree<'a> {
        match live {
            Value::Object(map) if !map.is_empty() && self.filled_by_others() => Tree::Map(Vec::new()),
            Value::Array(items) if !items.is_empty() && self.filled_by_others() => Tree::List(Vec::new()),
            _ => Tree::Whole(live),
        }
    }

    fn filled_by_others(&self) -> bool {
        self.others.iter().any(|fields| {
            let here = self.path.iter().try_fold(*fields, |at, key| at.get(*key));
            here.and_then(Value::as_object)
                .is_some_and(|below| below.keys().any(|key| key != "."))
        })
    }
}

/// The list items selected by a `FieldsV1` element.
enum Pick {
    Key(Map<String, Value>),
    Value(Value),
    Index(usize),
}

impl Pick {
    fn parse(element: &str) -> Option<Self> {
        let (kind, text) = element.split_once(':')?;
        match kind {
            "k" => serde_json::from_str(text).ok().map(Self::Key),
            "v" => serde_json::from_str(text).ok().map(Self::Value),
            "i" => text.parse().ok().map(Self::Index),
            _ => None,
        }
    }

    fn takes(&self, at: usize, item: &Value) -> bool {
        match self {
            Self::Key(keys) => keys
                .iter()
                .all(|(key, value)| item.get(key).is_some_and(|found| equal(found, value))),
            Self::Value(value) => equal(item, value),
            Self::Index(index) => *index == at,
        }
    }

    fn takes_with_defaults(&self, item: &Value) -> bool {
        let Self::Key(keys) = self else {
            return false;
        };
        let mut some = false;
        let agrees = keys.iter().all(|(key, value)| match item.get(key) {
            None | Some(Value::Null) => true,
            Some(found) => {
                some = true;
                equal(found, value)
            }
        });
        agrees && some
    }
}
