//! Functions of lists and sets, and those that texts and lists share.

use super::{Function, text};
use crate::error::{Fail, FailureKind};
use crate::eval::{Run, items, sorted};
use crate::value::{Evaluated, List, VAL_BYTES, Val};
use std::cmp::Ordering;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("sets.contains", |run, args| match args {
        [Val::List(list), Val::List(part)] => contains_all(run, list, part).map(Val::Bool),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("sets.equivalent", |run, args| match args {
        [Val::List(a), Val::List(b)] => Ok(Val::Bool(contains_all(run, a, b)? && contains_all(run, b, a)?)),
        _ => Err(Fail::no_overload()),
    }),
    Function::new("sets.intersects", intersects),
    Function::new("first", |_, args| end(args, |_| 0)),
    Function::new("last", |_, args| end(args, |list| list.len().saturating_sub(1))),
    Function::new("unwrapOpt", unwrap_all),
    Function::new("optional.unwrap", unwrap_all),
    Function::kubernetes("isSorted", is_sorted),
    Function::kubernetes("sum", sum),
    Function::kubernetes("min", |run, args| most(run, args, "min", Ordering::Greater)),
    Function::kubernetes("max", |run, args| most(run, args, "max", Ordering::Less)),
    Function::kubernetes("indexOf", |run, args| match args {
        [Val::List(list), value] => place(list.position(value, false, run.budget)?),
        _ => text::index_of(args),
    }),
    Function::kubernetes("lastIndexOf", |run, args| match args {
        [Val::List(list), value] => place(list.position(value, true, run.budget)?),
        _ => text::last_index_of(run.budget, args),
    }),
    Function::kubernetes("slice", slice),
    Function::kubernetes("flatten", |run, args| {
        let (list, depth) = match args {
            [Val::List(list)] => (list, 1),
            [Val::List(list), Val::Int(depth)] => (list, *depth),
            _ => return Err(Fail::no_overload()),
        };
        if depth < 0 {
            return Err(Fail::new("level must be non-negative"));
        }
        let mut out = Vec::new();
        flatten(run, list, depth, &mut out)?;
        Ok(Val::list(out))
    }),
    Function::kubernetes("sort", |run, args| match args {
        [Val::List(list)] => {
            let items = items(list, run.budget)?;
            let pairs = items.into_iter().map(|item| (item.clone(), item));
            sorted(pairs.collect(), run.budget).map(Val::list)
        }
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("distinct", distinct),
    Function::kubernetes("lists.range", |run, args| match args {
        [Val::Int(count)] => {
            let count = usize::try_from(*count).unwrap_or_default();
            run.spend(count)?;
            run.budget.hold(count.saturating_mul(VAL_BYTES))?;
            Ok(Val::list((0..count).map(Val::count).collect()))
        }
        _ => Err(Fail::no_overload()),
    }),
    Function::kubernetes("reverse", |run, args| match args {
        [Val::List(list)] => {
            let mut items = items(list, run.budget)?;
            items.reverse();
            Ok(Val::list(items))
        }
        _ => Err(Fail::no_overload()),
    }),
];

fn place<'a>(index: Option<usize>) -> Evaluated<'a> {
    Ok(index.map_or(Val::Int(-1), Val::count))
}

fn contains_all(run: &mut Run<'_, '_, '_>, list: &List<'_>, part: &List<'_>) -> Result<bool, Fail> {
    for item in part.items() {
        run.spend(1)?;
        if list.position(&item?, false, run.budget)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn intersects<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(a), Val::List(b)] = args else {
        return Err(Fail::no_overload());
    };
    for item in b.items() {
        run.spend(1)?;
        if a.position(&item?, false, run.budget)?.is_some() {
            return Ok(Val::Bool(true));
        }
    }
    Ok(Val::Bool(false))
}

fn end<'a>(args: &[Val<'a>], at: fn(&List<'_>) -> usize) -> Evaluated<'a> {
    match args {
        [Val::List(list)] => match list.get(at(list)) {
            Some(item) => item.map(Val::some),
            None => Ok(Val::Optional(None)),
        },
        _ => Err(Fail::no_overload()),
    }
}

fn unwrap_all<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else {
        return Err(Fail::no_overload());
    };
    let all = items(list, run.budget)?.into_iter();
    let present = all.filter_map(|item| match item {
        Val::Optional(Some(inner)) => Some((*inner).clone()),
        _ => None,
    });
    Ok(Val::list(present.collect()))
}

fn is_sorted<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else {
        return Err(Fail::no_overload());
    };
    let items = items(list, run.budget)?;
    for pair in items.windows(2) {
        match pair[0].compare(&pair[1], run.budget)? {
            Some(Ordering::Greater) => return Ok(Val::Bool(false)),
            Some(_) => {}
            None => return Err(Fail::no_overload()),
        }
    }
    Ok(Val::Bool(true))
}

fn sum<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else {
        return Err(Fail::no_overload());
    };
    let mut items = items(list, run.budget)?.into_iter();
    let Some(first) = items.next() else {
        return Ok(Val::Int(0));
    };
    if !matches!(
        first,
        Val::Int(_) | Val::UInt(_) | Val::Double(_) | Val::Duration(_)
    ) {
        return Err(Fail::no_overload());
    }
    let mut total = first;
    for item in items {
        total = run.add(&total, &item)?;
    }
    Ok(total)
}

/// The first element that no other exceeds: `worse` is the order of an element that another replaces.
fn most<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>], name: &str, worse: Ordering) -> Evaluated<'a> {
    let [Val::List(list)] = args else {
        return Err(Fail::no_overload());
    };
    let mut items = items(list, run.budget)?.into_iter();
    let mut best = items
        .next()
        .ok_or_else(|| Fail::new(format!("{name} called on empty list")))?;
    for item in items {
        match best.compare(&item, run.budget)? {
            Some(order) if order == worse => best = item,
            Some(_) => {}
            None => return Err(Fail::no_overload()),
        }
    }
    Ok(best)
}

fn slice<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list), Val::Int(start), Val::Int(end)] = args else {
        return Err(Fail::no_overload());
    };
    let fail = |why: &str| {
        let text = format!("cannot slice({start}, {end}), {why}");
        Err(Fail::of(FailureKind::Index, text))
    };
    let (Ok(from), Ok(to)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return fail("negative indexes not supported");
    };
    if from > to {
        return fail("start index must be less than or equal to end index");
    }
    if list.len() < to {
        return fail(&format!("list is length {}", list.len()));
    }
    run.spend(to - from)?;
    run.budget.hold((to - from) * VAL_BYTES)?;
    let part = (from..to).filter_map(|index| list.get(index));
    part.collect::<Result<Vec<_>, _>>().map(Val::list)
}

fn flatten<'a>(
    run: &mut Run<'a, '_, '_>,
    list: &List<'a>,
    depth: i64,
    out: &mut Vec<Val<'a>>,
) -> Result<(), Fail> {
    for item in list.items() {
        run.spend(1)?;
        match item? {
            Val::List(inner) if depth > 0 => flatten(run, &inner, depth - 1, out)?,
            item => {
                run.budget.hold(VAL_BYTES)?;
                out.push(item);
            }
        }
    }
    Ok(())
}

fn distinct<'a>(run: &mut Run<'a, '_, '_>, args: &[Val<'a>]) -> Evaluated<'a> {
    let [Val::List(list)] = args else {
        return Err(Fail::no_overload());
    };
    let mut out: Vec<Val<'a>> = Vec::new();
    for item in items(list, run.budget)? {
        let mut is_new = true;
        for known in &out {
            run.spend(1)?;
            if known.equals(&item, run.budget)? {
                is_new = false;
                break;
            }
        }
        if is_new {
            out.push(item);
        }
    }
    Ok(Val::list(out))
}
