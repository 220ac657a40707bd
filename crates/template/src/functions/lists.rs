//! Slices. No function changes its argument.

use super::{Function, table};
use crate::call::{Call, Outcome};
use crate::fault::Fault;
use crate::limits::{Limit, Meter};
use crate::value::{Elements, List, Uint, Value};

pub(super) const FUNCTIONS: &[Function] = table! {
    "list" (;Any) => |call| call.list(call.args.to_vec());
    "tuple" (;Any) => |call| call.list(call.args.to_vec());
    "first" (Any) => |call| end(call, "find first", <[Value]>::first);
    "mustFirst" (Any) => |call| end(call, "find first", <[Value]>::first);
    "last" (Any) => |call| end(call, "find last", <[Value]>::last);
    "mustLast" (Any) => |call| end(call, "find last", <[Value]>::last);
    "rest" (Any) => |call| rest(call, "find rest", |items| items.get(1..));
    "mustRest" (Any) => |call| rest(call, "find rest", |items| items.get(1..));
    "initial" (Any) => |call| rest(call, "find initial", |items| items.split_last().map(|(_, items)| items));
    "mustInitial" (Any) => |call| rest(call, "find initial", |items| items.split_last().map(|(_, items)| items));
    "append" (Any, Any) => append;
    "mustAppend" (Any, Any) => append;
    "push" (Any, Any) => append;
    "mustPush" (Any, Any) => append;
    "prepend" (Any, Any) => prepend;
    "mustPrepend" (Any, Any) => prepend;
    "concat" (;Any) => concat;
    "reverse" (Any) => reverse;
    "mustReverse" (Any) => reverse;
    "uniq" (Any) => uniq;
    "mustUniq" (Any) => uniq;
    "without" (Any; Any) => without;
    "mustWithout" (Any; Any) => without;
    "has" (Any, Any) => has;
    "mustHas" (Any, Any) => has;
    "compact" (Any) => compact;
    "mustCompact" (Any) => compact;
    "slice" (Any; Any) => slice;
    "mustSlice" (Any; Any) => slice;
    "chunk" (Int, Any) => chunk;
    "mustChunk" (Int, Any) => chunk;
    "deepEqual" (Any, Any) => |call| {
        let (left, right, depth) = (call.arg(0).clone(), call.arg(1).clone(), call.depth_max());
        Ok(Value::Bool(same(&left, &right, depth, call.exec.meter())?))
    };
};

/// The elements of a slice of any type, or an error message.
fn items(call: &mut Call<'_, '_>, index: usize, what: &str) -> Result<Vec<Value>, Fault> {
    let found = match call.arg(index) {
        Value::List(list) => list.items().to_vec(),
        Value::Bytes(bytes) => {
            let bytes = bytes.as_bytes().iter();
            bytes
                .map(|byte| Value::Uint((*byte).into(), Uint::Uint8))
                .collect()
        }
        Value::Absent | Value::Nil => {
            return call.fail("runtime error: invalid memory address or nil pointer dereference");
        }
        other => return call.fail(format!("Cannot {what} on type {}", other.kind().name())),
    };
    call.charge_items(found.len())?;
    Ok(found)
}

fn end(call: &mut Call<'_, '_>, what: &str, pick: fn(&[Value]) -> Option<&Value>) -> Outcome {
    if let Value::List(list) = call.arg(0) {
        return Ok(pick(list.items()).cloned().unwrap_or(Value::Nil));
    }
    let items = items(call, 0, what)?;
    Ok(pick(&items).cloned().unwrap_or(Value::Nil))
}

fn rest(call: &mut Call<'_, '_>, what: &str, pick: fn(&[Value]) -> Option<&[Value]>) -> Outcome {
    let items = items(call, 0, what)?;
    Ok(match pick(&items) {
        Some(items) => List::new(items.to_vec()),
        None => List::nil(Elements::Any),
    }
    .into())
}

fn append(call: &mut Call<'_, '_>) -> Outcome {
    let mut items = items(call, 0, "push")?;
    items.push(call.arg(1).clone());
    Ok(List::new(items).into())
}

fn prepend(call: &mut Call<'_, '_>) -> Outcome {
    let mut items = items(call, 0, "prepend")?;
    items.insert(0, call.arg(1).clone());
    Ok(List::new(items).into())
}

fn concat(call: &mut Call<'_, '_>) -> Outcome {
    let mut all = Vec::new();
    for index in 0..call.count() {
        if !matches!(
            call.arg(index),
            Value::List(_) | Value::Bytes(_) | Value::Nil | Value::Absent
        ) {
            let kind = call.arg(index).kind().name();
            return call.fail(format!("Cannot concat type {kind} as list"));
        }
        all.append(&mut items(call, index, "concat")?);
    }
    if all.is_empty() {
        return Ok(List::nil(Elements::Any).into());
    }
    Ok(List::new(all).into())
}

fn reverse(call: &mut Call<'_, '_>) -> Outcome {
    let mut items = items(call, 0, "find reverse")?;
    items.reverse();
    Ok(List::new(items).into())
}

/// `reflect.DeepEqual`.
fn same(left: &Value, right: &Value, depth: usize, meter: &mut Meter) -> Result<bool, Limit> {
    stacker::maybe_grow(64 << 10, 1 << 20, || same_here(left, right, depth, meter))
}

fn same_here(left: &Value, right: &Value, depth: usize, meter: &mut Meter) -> Result<bool, Limit> {
    let depth_max = meter.limits().value_depth_max;
    let below = depth.checked_sub(1).ok_or(Limit::Depth(depth_max))?;
    meter.step()?;
    Ok(match (left, right) {
        (Value::Absent | Value::Nil, Value::Absent | Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left, a), Value::Int(right, b)) => left == right && a == b,
        (Value::Uint(left, a), Value::Uint(right, b)) => left == right && a == b,
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::String(left), Value::String(right)) | (Value::Bytes(left), Value::Bytes(right)) => {
            meter.work(left.len().min(right.len()))?;
            left == right
        }
        (Value::List(left), Value::List(right)) => {
            if left.elements() != right.elements()
                || left.is_nil() != right.is_nil()
                || left.len() != right.len()
            {
                return Ok(false);
            }
            for (left, right) in left.items().iter().zip(right.items()) {
                if !same(left, right, below, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(left), Value::Map(right)) => {
            if left.entries_type() != right.entries_type() || left.is_nil() != right.is_nil() {
                return Ok(false);
            }
            let (Some(left), Some(right)) = (left.read(), right.read()) else {
                return Ok(true);
            };
            if left.len() != right.len() {
                return Ok(false);
            }
            for ((key, left), (other, right)) in left.iter().zip(right.iter()) {
                if key != other || !same(left, right, below, meter)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Host(left), Value::Host(right)) => {
            left.type_name() == right.type_name() && left.text() == right.text()
        }
        _ => false,
    })
}

fn in_list(call: &mut Call<'_, '_>, list: &[Value], needle: &Value) -> Result<bool, Fault> {
    let depth = call.depth_max();
    for item in list {
        if same(item, needle, depth, call.exec.meter())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn uniq(call: &mut Call<'_, '_>) -> Outcome {
    let items = items(call, 0, "find uniq")?;
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !in_list(call, &kept, &item)? {
            kept.push(item);
        }
    }
    Ok(List::new(kept).into())
}

fn without(call: &mut Call<'_, '_>) -> Outcome {
    let items = items(call, 0, "find without")?;
    let omitted = call.rest(1).to_vec();
    let mut kept: Vec<Value> = Vec::new();
    for item in items {
        if !in_list(call, &omitted, &item)? {
            kept.push(item);
        }
    }
    Ok(List::new(kept).into())
}

fn has(call: &mut Call<'_, '_>) -> Outcome {
    if matches!(call.arg(1), Value::Nil | Value::Absent) {
        return Ok(Value::Bool(false));
    }
    let needle = call.arg(0).clone();
    let items = match call.arg(1) {
        Value::List(list) => list.clone(),
        _ => List::new(items(call, 1, "find has")?),
    };
    in_list(call, items.items(), &needle).map(Value::Bool)
}

fn compact(call: &mut Call<'_, '_>) -> Outcome {
    let mut items = items(call, 0, "compact")?;
    items.retain(Value::is_true);
    Ok(List::new(items).into())
}

fn slice(call: &mut Call<'_, '_>) -> Outcome {
    let (items, elements) = match call.arg(0) {
        Value::List(list) => (list.items().to_vec(), list.elements()),
        Value::Bytes(_) => (items(call, 0, "slice")?, Elements::Any),
        Value::Absent | Value::Nil => {
            return call.fail("runtime error: invalid memory address or nil pointer dereference");
        }
        other => {
            let kind = other.kind().name();
            return call.fail(format!("list should be type of slice or array but {kind}"));
        }
    };
    let count = items.len() as i64;
    if count == 0 {
        return Ok(Value::Nil);
    }
    let bound = |index: usize| call.rest(1).get(index).map(super::cast::int);
    let start = bound(0).unwrap_or(0);
    let end = bound(1).unwrap_or(count);
    if start < 0 || end > count || start > end {
        return call.fail("reflect.Value.Slice: slice index out of bounds");
    }
    call.charge_items((end - start) as usize)?;
    Ok(List::of(elements, items[start as usize..end as usize].to_vec()).into())
}

fn chunk(call: &mut Call<'_, '_>) -> Outcome {
    let size = call.int(0);
    if !matches!(
        call.arg(1),
        Value::List(_) | Value::Bytes(_) | Value::Nil | Value::Absent
    ) {
        let kind = call.arg(1).kind().name();
        return call.fail(format!("Cannot chunk type {kind}"));
    }
    let items = items(call, 1, "chunk")?;
    let Some(size) = usize::try_from(size).ok().filter(|size| *size > 0) else {
        return call.fail("runtime error: makeslice: len out of range");
    };
    let chunks = items.chunks(size).map(|chunk| List::new(chunk.to_vec()).into());
    Ok(List::of(Elements::Lists, chunks.collect()).into())
}
