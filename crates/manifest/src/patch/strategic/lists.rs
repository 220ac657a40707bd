//! Orders and matches items of merging lists.

use super::error::{StrategicError, display, display_list};
use super::{DELETE, MARKER};
use serde_json::Value;

/// How items of a merging list are identified.
#[derive(Clone, Copy)]
pub(super) struct Identity<'k> {
    /// The merge key; empty for lists of scalars.
    pub(super) key: &'k str,
    pub(super) maps: bool,
}

impl Identity<'_> {
    fn of<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        if self.maps { item.get(self.key) } else { Some(item) }
    }

    fn position(&self, order: &[Value], item: &Value) -> Option<usize> {
        let wanted = self.of(item);
        order.iter().position(|candidate| self.of(candidate) == wanted)
    }
}

/// Whether the items of all lists are maps. All must have one type, and none may be a list.
pub(super) fn items_are_maps(lists: &[&[Value]]) -> Result<bool, StrategicError> {
    let mut first: Option<&Value> = None;
    for item in lists.iter().copied().flatten() {
        match first {
            None if item.is_array() => return Err(StrategicError::ListOfLists),
            None => first = Some(item),
            Some(other) if same_type(other, item) => {}
            Some(_) => {
                let lists: Vec<String> = lists.iter().map(|list| display_list(list)).collect();
                return Err(StrategicError::MixedList {
                    lists: format!("[{}]", lists.join(" ")),
                });
            }
        }
    }
    first.map(Value::is_object).ok_or(StrategicError::NoElements)
}

/// Whether Go would decode both into the same type.
pub(super) fn same_type(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Bool(_), Value::Bool(_))
        | (Value::String(_), Value::String(_))
        | (Value::Array(_), Value::Array(_))
        | (Value::Object(_), Value::Object(_)) => true,
        (Value::Number(left), Value::Number(right)) => left.is_f64() == right.is_f64(),
        _ => false,
    }
}

pub(super) fn find(items: &[Value], key: &str, value: &Value) -> Result<Option<usize>, StrategicError> {
    for (index, item) in items.iter().enumerate() {
        let map = item.as_object().ok_or(StrategicError::ItemNotMap { index })?;
        if map.get(key) == Some(value) {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

pub(super) fn delete(items: &mut Vec<Value>, key: &str, value: &Value) -> Result<(), StrategicError> {
    while let Some(index) = find(items, key, value)? {
        items.remove(index);
    }
    Ok(())
}

/// Orders a merged list: items named in `order` follow it; the others keep their order in `server` and
/// precede the first named item that follows them there.
pub(super) fn arrange(
    merged: Vec<Value>,
    order: &[Value],
    server: &[Value],
    identity: Identity<'_>,
) -> Result<Vec<Value>, StrategicError> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        let is_named = if identity.key.is_empty() {
            order.contains(&item)
        } else {
            let map = item
                .as_object()
                .ok_or_else(|| StrategicError::expected_map(&item))?;
            let value = map
                .get(identity.key)
                .ok_or_else(|| StrategicError::no_merge_key(&item, identity.key))?;
            find(order, identity.key, value)?.is_some()
        };
        if is_named {
            named.push(item);
        } else {
            others.push(item);
        }
    }
    if identity.maps {
        for item in named.iter().chain(order).chain(&others).chain(server) {
            let map = item
                .as_object()
                .ok_or_else(|| StrategicError::expected_map(item))?;
            if !map.contains_key(identity.key) {
                return Err(StrategicError::no_merge_key(item, identity.key));
            }
        }
    }
    // an item marked for deletion sorts last among its equals
    let rank = |order: &[Value], item: &Value| {
        (
            identity.maps && item.get(MARKER).is_some_and(|directive| directive == DELETE),
            identity.position(order, item),
        )
    };
    named.sort_by_cached_key(|item| rank(order, item));
    others.sort_by_cached_key(|item| rank(server, item));

    let mut result = Vec::with_capacity(named.len() + others.len());
    let mut named = named.into_iter().peekable();
    for other in others {
        let place = identity.position(server, &other);
        while let Some(item) = named.next_if(|item| match (place, identity.position(server, item)) {
            (Some(place), Some(of_named)) => place >= of_named,
            _ => true,
        }) {
            result.push(item);
        }
        result.push(other);
    }
    result.extend(named);
    Ok(result)
}

/// Checks that the patch's items occur in `order` in the same relative order; items with a directive do not
/// count.
pub(super) fn check_order(patch: &[Value], order: &[Value], key: &str) -> Result<(), StrategicError> {
    if order.is_empty() || patch.is_empty() {
        return Ok(());
    }
    let mut items = Vec::with_capacity(patch.len());
    for item in patch {
        if !key.is_empty() {
            let map = item
                .as_object()
                .ok_or_else(|| StrategicError::expected_map(item))?;
            if map.get(MARKER).is_some_and(|directive| directive == DELETE) {
                continue;
            }
        }
        items.push(item);
    }
    let mut items = items.into_iter().peekable();
    let mut places = order.iter();
    while let Some(item) = items.peek() {
        if item.get(MARKER).is_some() {
            items.next();
            continue;
        }
        let Some(place) = places.next() else {
            return Err(StrategicError::OrderMismatch {
                patch: display_list(patch),
                order: display_list(order),
            });
        };
        if equal_by(item, place, key)? {
            items.next();
        }
    }
    Ok(())
}

fn equal_by(left: &Value, right: &Value, key: &str) -> Result<bool, StrategicError> {
    if key.is_empty() {
        return Ok(left == right);
    }
    let value = |item: &Value| {
        let map = item
            .as_object()
            .ok_or_else(|| StrategicError::expected_map(item))?;
        map.get(key).cloned().ok_or_else(|| StrategicError::NoMergeKey {
            map: display(item),
            key: key.to_owned(),
        })
    };
    Ok(value(left)? == value(right)?)
}
