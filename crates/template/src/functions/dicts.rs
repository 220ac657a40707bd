//! Maps. `set`, `unset` and the merges change their argument, for all holders.

use super::strings::text_of;
use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::limits::Limit;
use crate::value::{Entries, List, Map, Str, Value};

pub(super) const FUNCTIONS: &[Function] = table! {
    "dict" (;Any) => dict;
    "get" (Map, Str) => |call| Ok(call.map(0).get(call.bytes(1)).unwrap_or_else(|| "".into()));
    "set" (Map, Str, Any) => set;
    "unset" (Map, Str) => |call| {
        call.map(0).remove(call.bytes(1));
        Ok(call.map(0).into())
    };
    "hasKey" (Map, Str) => |call| Ok(Value::Bool(call.map(0).contains(call.bytes(1))));
    "pluck" (Str; Map) => |call| {
        let found = (1..call.count()).filter_map(|index| call.map(index).get(call.bytes(0)));
        let found = found.collect();
        call.list(found)
    };
    "keys" (;Map) => |call| {
        let maps = 0..call.count();
        let keys: Vec<Str> = maps.flat_map(|index| call.map(index).snapshot()).map(|(key, _)| key).collect();
        call.charge_items(keys.len())?;
        Ok(List::strings(keys).into())
    };
    "values" (Map) => |call| {
        let values = call.map(0).snapshot().into_iter().map(|(_, value)| value).collect();
        call.list(values)
    };
    "pick" (Map; Str) => |call| kept(call, true);
    "omit" (Map; Str) => |call| kept(call, false);
    "merge" (Map; Map) => |call| merge(call, false);
    "mustMerge" (Map; Map) => |call| merge(call, false);
    "mergeOverwrite" (Map; Map) => |call| merge(call, true);
    "mustMergeOverwrite" (Map; Map) => |call| merge(call, true);
    "deepCopy" (Any) => copy;
    "mustDeepCopy" (Any) => copy;
    "dig" (;Any) => dig;
    "default" (Any; Any) => |call| Ok(call.arg(usize::from(call.arg(1).is_true())).clone());
    "empty" (Any) => |call| Ok(Value::Bool(!call.arg(0).is_true()));
    "coalesce" (;Any) => |call| {
        Ok(call.args.iter().find(|arg| arg.is_true()).cloned().unwrap_or(Value::Nil))
    };
    "all" (;Any) => |call| Ok(Value::Bool(call.args.iter().all(Value::is_true)));
    "any" (;Any) => |call| Ok(Value::Bool(call.args.iter().any(Value::is_true)));
    "ternary" (Any, Any, Bool) => |call| Ok(call.arg(usize::from(!call.arg(2).is_true())).clone());
    "kindOf" (Any) => |call| Ok(call.arg(0).kind().name().into());
    "kindIs" (Str, Any) => |call| Ok(Value::Bool(call.bytes(0) == call.arg(1).kind().name().as_bytes()));
    "typeOf" (Any) => |call| Ok(call.arg(0).type_name().into());
    "typeIs" (Str, Any) => |call| Ok(Value::Bool(call.bytes(0) == call.arg(1).type_name().as_bytes()));
    "typeIsLike" (Str, Any) => |call| {
        let (wanted, name) = (call.text(0), call.arg(1).type_name());
        Ok(Value::Bool(wanted == name || name.strip_prefix('*') == Some(&*wanted)))
    };
};

fn dict(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.count();
    call.exec.meter().make_map(count / 2)?;
    let map = Map::new();
    for index in (0..call.count()).step_by(2) {
        let key = call.arg(index).clone();
        let key = text_of(call, &key)?;
        let value = match call.args.get(index + 1) {
            Some(value) => value.clone(),
            None => "".into(),
        };
        map.insert(key, value);
    }
    Ok(map.into())
}

/// The size of a map entry without its key's text.
const ENTRY_BYTES: usize = 128;

/// Whether a map that takes the value could contain itself.
fn may_cycle(value: &Value) -> bool {
    matches!(value, Value::Map(_) | Value::List(_))
}

fn remember_changed(call: &mut Call<'_, '_>, map: &Map) -> Result<(), Fault> {
    call.exec.meter().make(size_of::<Map>())?;
    call.exec.session().changed.push(map.clone());
    Ok(())
}

fn set(call: &mut Call<'_, '_>) -> Outcome {
    let (map, key, value) = (call.map(0), call.str(1), call.arg(2).clone());
    call.made(key.len() + ENTRY_BYTES)?;
    if may_cycle(&value) {
        remember_changed(call, &map)?;
    }
    if !map.insert(key, value) {
        return call.fail("assignment to entry in nil map");
    }
    Ok(map.into())
}

fn kept(call: &mut Call<'_, '_>, wanted: bool) -> Outcome {
    let keys: Vec<Str> = (1..call.count()).map(|index| call.str(index)).collect();
    let entries = call.map(0).snapshot();
    call.exec.meter().work(entries.len() * (keys.len() + 1) * 8)?;
    call.exec.meter().make_map(entries.len())?;
    let entries = entries
        .into_iter()
        .filter(|(key, _)| keys.contains(key) == wanted);
    Ok(entries.collect::<Map>().into())
}

fn merge(call: &mut Call<'_, '_>, overwrite: bool) -> Outcome {
    let mut target = call.map(0);
    if target.is_nil() && (1..call.count()).any(|index| !call.map(index).is_empty()) {
        target = Map::new();
    }
    let limit = call.depth_max();
    for index in 1..call.count() {
        let source = call.map(index);
        merge_into(call, &target, &source, overwrite, limit)?;
    }
    Ok(target.into())
}

/// Merges a map into another. Empty values of the target count as missing; lists are not merged.
fn merge_into(
    call: &mut Call<'_, '_>,
    target: &Map,
    source: &Map,
    overwrite: bool,
    depth: usize,
) -> Result<(), Fault> {
    let Some(below) = depth.checked_sub(1) else {
        return Err(Limit::Depth(call.depth_max()).into());
    };
    remember_changed(call, target)?;
    for (key, value) in source.snapshot() {
        call.exec.meter().work(64)?;
        let there = target.get(key.as_bytes());
        if matches!(value, Value::Nil) {
            if overwrite {
                target.insert(key, value);
            }
            continue;
        }
        if let (Value::Map(from), Some(Value::Map(into))) = (&value, &there)
            && !into.is_nil()
        {
            stacker::maybe_grow(64 << 10, 1 << 20, || {
                merge_into(call, into, from, overwrite, below)
            })?;
            if !into.is_empty() {
                continue;
            }
        }
        if overwrite || !there.is_some_and(|there| there.is_true()) {
            call.made(key.len() + ENTRY_BYTES)?;
            target.insert(key, value);
        }
    }
    Ok(())
}

fn copy(call: &mut Call<'_, '_>) -> Outcome {
    let value = call.arg(0).clone();
    if matches!(value, Value::Nil | Value::Absent) {
        return call.fail("reflect: call of reflect.Value.Type on zero Value");
    }
    let limit = call.depth_max();
    deep_copy(call, &value, limit)
}

fn deep_copy(call: &mut Call<'_, '_>, value: &Value, depth: usize) -> Outcome {
    let Some(below) = depth.checked_sub(1) else {
        return Err(Limit::Depth(call.depth_max()).into());
    };
    Ok(match value {
        Value::List(list) if !list.is_nil() => {
            call.charge_items(list.len())?;
            let mut items = Vec::with_capacity(list.len());
            for item in list.items() {
                items.push(stacker::maybe_grow(64 << 10, 1 << 20, || {
                    deep_copy(call, item, below)
                })?);
            }
            List::of(list.elements(), items).into()
        }
        Value::Map(map) if !map.is_nil() => {
            let entries = map.snapshot();
            call.exec.meter().make_map(entries.len())?;
            let copy = Map::of(map.entries_type(), std::collections::BTreeMap::new());
            for (key, value) in entries {
                let value = stacker::maybe_grow(64 << 10, 1 << 20, || deep_copy(call, &value, below))?;
                copy.insert(key, value);
            }
            copy.into()
        }
        other => other.clone(),
    })
}

fn dig(call: &mut Call<'_, '_>) -> Outcome {
    let count = call.count();
    if count < 3 {
        return call.fail("dig needs at least three arguments");
    }
    let conversion = |value: &Value, wanted: &str| {
        let name = match value {
            Value::Nil | Value::Absent => "nil",
            value => value.type_name(),
        };
        Fault::message(format!(
            "interface conversion: interface {{}} is {name}, not {wanted}"
        ))
    };
    const MAP: &str = "map[string]interface {}";
    let as_map = |value: &Value| match value {
        Value::Map(map) if map.entries_type() == Entries::Any => Ok(map.clone()),
        other => Err(conversion(other, MAP)),
    };
    let mut map = as_map(call.arg(count - 1))?;
    let mut keys: Vec<Str> = Vec::new();
    for index in 0..count - 2 {
        match call.arg(index) {
            Value::String(key) => keys.push(key.clone()),
            other => return Err(conversion(other, "string")),
        }
    }
    let Some((last, path)) = keys.split_last() else {
        return Ok(Value::Nil);
    };
    for key in path {
        match map.get(key.as_bytes()) {
            Some(next) => map = as_map(&next)?,
            None => return Ok(call.arg(count - 2).clone()),
        }
    }
    Ok(map
        .get(last.as_bytes())
        .unwrap_or_else(|| call.arg(count - 2).clone()))
}
