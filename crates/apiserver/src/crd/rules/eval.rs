//! Evaluation of a rule, with a limit on its work.
//!
//! Errors are values until something needs the value: `&&`, `||` and the accumulator of a comprehension
//! absorb them, as CEL defines.

use super::functions;
use super::program::{Binary, Each, EachKind, Fold, Ir};
use super::value::{Evaluated, Fail, List, Map, Text, Val};
use std::cmp::Ordering;
use std::rc::Rc;

/// The steps of one rule: upstream's cost limit for one call.
pub(super) const STEPS_MAX: u64 = 1_000_000;

pub(super) struct Run<'a> {
    /// Variables by position: `self`, `oldSelf`, then those of comprehensions.
    stack: Vec<Evaluated<'a>>,
    steps: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(this: Evaluated<'a>, old: Evaluated<'a>, steps: u64) -> Self {
        Self {
            stack: vec![this, old],
            steps,
        }
    }

    pub(super) fn remaining(&self) -> u64 {
        self.steps
    }

    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Fail> {
        self.steps = self
            .steps
            .saturating_sub(u64::try_from(steps).unwrap_or(u64::MAX));
        if self.steps == 0 { Err(Fail::Limit) } else { Ok(()) }
    }

    pub(super) fn eval(&mut self, ir: &Ir) -> Evaluated<'a> {
        self.spend(1)?;
        match ir {
            Ir::Null => Ok(Val::Null),
            Ir::Bool(b) => Ok(Val::Bool(*b)),
            Ir::Int(i) => Ok(Val::Int(*i)),
            Ir::UInt(u) => Ok(Val::UInt(*u)),
            Ir::Double(d) => Ok(Val::Double(*d)),
            Ir::Text(s) => Ok(Val::text(s.as_str())),
            Ir::Bytes(b) => Ok(Val::Bytes(Rc::from(b.as_slice()))),
            Ir::Var(place) => match self.stack.get(*place) {
                Some(value) => value.clone(),
                None => Err(Fail::new("no such attribute")),
            },
            Ir::Name(name) => {
                functions::type_value(name).ok_or_else(|| Fail::new(format!("no such attribute(s): {name}")))
            }
            Ir::Select { operand, field, test } => {
                let operand = self.eval(operand)?;
                select(operand, field, *test)
            }
            Ir::OptSelect { operand, field } => {
                let operand = self.eval(operand)?;
                optional_member(operand, &Val::text(field.as_str()))
            }
            Ir::Index(operand, index) => {
                let operand = self.eval(operand)?;
                let index = self.eval(index)?;
                match operand {
                    Val::Optional(_) => optional_member(operand, &index),
                    operand => member(&operand, &index)?.ok_or_else(|| absent(&operand, &index)),
                }
            }
            Ir::OptIndex(operand, index) => {
                let operand = self.eval(operand)?;
                let index = self.eval(index)?;
                optional_member(operand, &index)
            }
            Ir::And(a, b) => self.logic(a, b, false),
            Ir::Or(a, b) => self.logic(a, b, true),
            Ir::Not(a) => match self.eval(a)? {
                Val::Bool(b) => Ok(Val::Bool(!b)),
                _ => Err(Fail::no_overload()),
            },
            Ir::Negate(a) => match self.eval(a)? {
                Val::Int(i) => i
                    .checked_neg()
                    .map(Val::Int)
                    .ok_or_else(|| Fail::new("integer overflow")),
                Val::Double(d) => Ok(Val::Double(-d)),
                Val::Duration(d) => d
                    .checked_neg()
                    .map(Val::Duration)
                    .ok_or_else(|| Fail::new("integer overflow")),
                _ => Err(Fail::no_overload()),
            },
            Ir::NotStrictlyFalse(a) => match self.eval(a) {
                Err(Fail::Limit) => Err(Fail::Limit),
                Ok(Val::Bool(false)) => Ok(Val::Bool(false)),
                _ => Ok(Val::Bool(true)),
            },
            Ir::If(condition, yes, no) => match self.eval(condition)? {
                Val::Bool(true) => self.eval(yes),
                Val::Bool(false) => self.eval(no),
                _ => Err(Fail::no_overload()),
            },
            Ir::Binary(operator, a, b) => {
                let a = self.eval(a)?;
                let b = self.eval(b)?;
                self.binary(*operator, &a, &b)
            }
            Ir::List(items) => {
                let mut out = Vec::with_capacity(items.len());
                for (item, optional) in items {
                    match (self.eval(item)?, optional) {
                        (Val::Optional(None), true) => {}
                        (Val::Optional(Some(inner)), true) => out.push((*inner).clone()),
                        (value, _) => out.push(value),
                    }
                }
                Ok(Val::list(out))
            }
            Ir::Map(entries) => {
                let mut out: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
                for (key, value, optional) in entries {
                    let key = self.eval(key)?;
                    let value = match (self.eval(value)?, optional) {
                        (Val::Optional(None), true) => continue,
                        (Val::Optional(Some(inner)), true) => (*inner).clone(),
                        (value, _) => value,
                    };
                    insert(&mut out, key, value)?;
                }
                Ok(Val::Map(Map::Own(Rc::new(out))))
            }
            Ir::Fold(fold) => self.fold(fold),
            Ir::Each(each) => self.each(each),
            Ir::OptMap { target, body, flat } => match self.eval(target)? {
                Val::Optional(None) => Ok(Val::Optional(None)),
                Val::Optional(Some(inner)) => {
                    let value = self.scoped([Ok((*inner).clone())], |run| run.eval(body))?;
                    Ok(if *flat { value } else { Val::some(value) })
                }
                _ => Err(Fail::no_overload()),
            },
            Ir::Matches { target, regex } => match self.eval(target)? {
                Val::Text(text) => {
                    self.spend(text.as_str().len() / 10)?;
                    Ok(Val::Bool(regex.is_match(text.as_str())))
                }
                _ => Err(Fail::no_overload()),
            },
            Ir::Call { name, target, args } => {
                let mut values = Vec::with_capacity(args.len() + 1);
                if let Some(target) = target {
                    values.push(self.eval(target)?);
                }
                for arg in args {
                    values.push(self.eval(arg)?);
                }
                functions::call(self, name, target.is_some(), &values)
            }
        }
    }

    fn scoped<const N: usize, T>(
        &mut self,
        values: [Evaluated<'a>; N],
        run: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let depth = self.stack.len();
        self.stack.extend(values);
        let out = run(self);
        self.stack.truncate(depth);
        out
    }

    /// `&&` (deciding false) and `||` (deciding true): a decision overrides an error on the other side.
    fn logic(&mut self, a: &Ir, b: &Ir, deciding: bool) -> Evaluated<'a> {
        let truth = |value: Evaluated<'a>| match value {
            Ok(Val::Bool(b)) => Ok(b),
            Ok(_) => Err(Fail::no_overload()),
            Err(e) => Err(e),
        };
        let left = truth(self.eval(a));
        match left {
            Ok(b) if b == deciding => return Ok(Val::Bool(deciding)),
            Err(Fail::Limit) => return Err(Fail::Limit),
            _ => {}
        }
        let right = truth(self.eval(b));
        match (left, right) {
            (_, Ok(b)) if b == deciding => Ok(Val::Bool(deciding)),
            (_, Err(Fail::Limit)) => Err(Fail::Limit),
            (Err(e), _) | (_, Err(e)) => Err(e),
            _ => Ok(Val::Bool(!deciding)),
        }
    }

    fn binary(&mut self, operator: Binary, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
        let order = |wanted: fn(Ordering) -> bool| match a.compare(b) {
            Some(order) => Ok(Val::Bool(wanted(order))),
            None if matches!((a, b), (Val::Double(_), _) | (_, Val::Double(_))) => Ok(Val::Bool(false)),
            None => Err(Fail::no_overload()),
        };
        match operator {
            Binary::Equal | Binary::NotEqual => {
                self.spend(weight(a).min(weight(b)))?;
                Ok(Val::Bool(a.equals(b) == (operator == Binary::Equal)))
            }
            Binary::Less => order(Ordering::is_lt),
            Binary::LessEqual => order(Ordering::is_le),
            Binary::Greater => order(Ordering::is_gt),
            Binary::GreaterEqual => order(Ordering::is_ge),
            Binary::In => match b {
                Val::List(list) => {
                    self.spend(list.len())?;
                    list.contains(a).map(Val::Bool)
                }
                Val::Map(map) => Ok(Val::Bool(map.get(a).is_some())),
                _ => Err(Fail::no_overload()),
            },
            Binary::Add => self.add(a, b),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => {
                arithmetic(operator, a, b)
            }
        }
    }

    fn add(&mut self, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
        let overflow = || Fail::new("integer overflow");
        match (a, b) {
            (Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(overflow),
            (Val::UInt(a), Val::UInt(b)) => a
                .checked_add(*b)
                .map(Val::UInt)
                .ok_or_else(|| Fail::new("unsigned integer overflow")),
            (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
            (Val::Text(a), Val::Text(b)) => {
                self.spend((a.as_str().len() + b.as_str().len()) / 10)?;
                Ok(Val::text(format!("{}{}", a.as_str(), b.as_str())))
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                self.spend((a.len() + b.len()) / 10)?;
                Ok(Val::Bytes(Rc::from([&**a, &**b].concat())))
            }
            (Val::List(a), Val::List(b)) => {
                self.spend(a.len() + b.len())?;
                a.join(b)
            }
            (Val::Duration(a), Val::Duration(b)) => a.checked_add(*b).map(Val::Duration).ok_or_else(overflow),
            (Val::Time(t), Val::Duration(d)) | (Val::Duration(d), Val::Time(t)) => t
                .checked_add(jiff::SignedDuration::from_nanos(*d))
                .map(Val::Time)
                .map_err(|_| Fail::new("timestamp overflow")),
            _ => Err(Fail::no_overload()),
        }
    }

    fn elements(&mut self, range: &Val<'a>) -> Result<Vec<Evaluated<'a>>, Fail> {
        match range {
            Val::List(list) => {
                self.spend(list.len())?;
                Ok((0..list.len()).filter_map(|i| list.get(i)).collect())
            }
            Val::Map(map) => {
                self.spend(map.len())?;
                Ok(map.keys().into_iter().map(Ok).collect())
            }
            _ => Err(Fail::no_overload()),
        }
    }

    fn fold(&mut self, fold: &Fold) -> Evaluated<'a> {
        let range = self.eval(&fold.range)?;
        let elements = self.elements(&range)?;
        let init = self.eval(&fold.init);
        let at = fold.accu;
        self.scoped([init, Ok(Val::Null)], |run| {
            for element in elements {
                match run.eval(&fold.condition)? {
                    Val::Bool(false) => break,
                    Val::Bool(true) => {}
                    _ => return Err(Fail::no_overload()),
                }
                run.stack[at + 1] = element;
                let next = run.step(&fold.step, at);
                if next == Some(Fail::Limit) {
                    return Err(Fail::Limit);
                }
                if let Some(error) = next {
                    run.stack[at] = Err(error);
                }
            }
            run.eval(&fold.result)
        })
    }

    /// Advances the accumulator in place. `accu + [x]` grows the list it owns instead of copying it.
    fn step(&mut self, step: &Ir, at: usize) -> Option<Fail> {
        let is_accu = |ir: &Ir| matches!(ir, Ir::Var(place) if *place == at);
        match step {
            Ir::Binary(Binary::Add, accu, items) if is_accu(accu) => {
                if let Ir::List(items) = &**items
                    && let [(item, false)] = items.as_slice()
                {
                    let value = match self.eval(item) {
                        Ok(value) => value,
                        Err(error) => return Some(error),
                    };
                    if let Ok(Val::List(List::Own(list))) = &mut self.stack[at] {
                        Rc::make_mut(list).push(value);
                        return self.spend(1).err();
                    }
                    return None;
                }
            }
            Ir::If(condition, yes, no) if is_accu(no) => {
                return match self.eval(condition) {
                    Ok(Val::Bool(true)) => self.step(yes, at),
                    Ok(Val::Bool(false)) => None,
                    Ok(_) => Some(Fail::no_overload()),
                    Err(error) => Some(error),
                };
            }
            _ => {}
        }
        match self.eval(step) {
            Ok(value) => {
                self.stack[at] = Ok(value);
                None
            }
            Err(error) => Some(error),
        }
    }

    fn each(&mut self, each: &Each) -> Evaluated<'a> {
        let range = self.eval(&each.range)?;
        let keys = self.elements(&range)?;
        let mut out = Output::new(each.kind);
        for (index, element) in keys.into_iter().enumerate() {
            let (key, value) = match (&range, each.kind) {
                (_, EachKind::SortBy) => (Ok(Val::Null), element),
                (Val::List(_), _) => (Ok(Val::Int(i64::try_from(index).unwrap_or(i64::MAX))), element),
                (range, _) => {
                    let key = element?;
                    let value = member(range, &key)?.ok_or_else(|| absent(range, &key))?;
                    (Ok(key), Ok(value))
                }
            };
            let (item, name) = (value.clone(), key.clone());
            let evaluated = self.scoped([key, value], |run| {
                if let Some(filter) = &each.filter
                    && !matches!(run.eval(filter)?, Val::Bool(true))
                {
                    return Ok(None);
                }
                run.eval(&each.body).map(Some)
            });
            let done = match evaluated {
                Ok(None) => false,
                Ok(Some(value)) => out.take(name, item, value)?,
                Err(Fail::Limit) => return Err(Fail::Limit),
                Err(error) => out.fail(error)?,
            };
            if done {
                break;
            }
        }
        out.finish()
    }
}

struct Output<'a> {
    kind: EachKind,
    error: Option<Fail>,
    decided: bool,
    count: usize,
    items: Vec<Val<'a>>,
    entries: Vec<(Val<'a>, Val<'a>)>,
}

impl<'a> Output<'a> {
    fn new(kind: EachKind) -> Self {
        Self {
            kind,
            error: None,
            decided: false,
            count: 0,
            items: Vec::new(),
            entries: Vec::new(),
        }
    }

    fn take(&mut self, key: Evaluated<'a>, item: Evaluated<'a>, value: Val<'a>) -> Result<bool, Fail> {
        match self.kind {
            EachKind::All | EachKind::Exists | EachKind::ExistsOne => {
                let Val::Bool(holds) = value else {
                    return Err(Fail::no_overload());
                };
                self.count += usize::from(holds);
                self.decided = match self.kind {
                    EachKind::All => !holds,
                    EachKind::Exists => holds,
                    _ => false,
                };
                Ok(self.decided)
            }
            EachKind::TransformList => {
                self.items.push(value);
                Ok(false)
            }
            EachKind::TransformMap => insert(&mut self.entries, key?, value).map(|()| false),
            EachKind::TransformMapEntry => match value {
                Val::Map(map) => {
                    for key in map.keys() {
                        if let Some(value) = map.get(&key) {
                            insert(&mut self.entries, key, value?)?;
                        }
                    }
                    Ok(false)
                }
                _ => Err(Fail::no_overload()),
            },
            EachKind::SortBy => {
                self.entries.push((value, item?));
                Ok(false)
            }
        }
    }

    /// Adds an error: `all` and `exists` go on, because another item may decide.
    fn fail(&mut self, error: Fail) -> Result<bool, Fail> {
        if matches!(self.kind, EachKind::All | EachKind::Exists) {
            self.error.get_or_insert(error);
            return Ok(false);
        }
        Err(error)
    }

    fn finish(mut self) -> Evaluated<'a> {
        if let (Some(error), false) = (self.error, self.decided) {
            return Err(error);
        }
        Ok(match self.kind {
            EachKind::All => Val::Bool(!self.decided),
            EachKind::Exists => Val::Bool(self.decided),
            EachKind::ExistsOne => Val::Bool(self.count == 1),
            EachKind::TransformList => Val::list(self.items),
            EachKind::TransformMap | EachKind::TransformMapEntry => Val::Map(Map::Own(Rc::new(self.entries))),
            EachKind::SortBy => {
                if self
                    .entries
                    .windows(2)
                    .any(|pair| pair[0].0.compare(&pair[1].0).is_none())
                {
                    return Err(Fail::no_overload());
                }
                self.entries
                    .sort_by(|a, b| a.0.compare(&b.0).unwrap_or(Ordering::Equal));
                Val::list(self.entries.into_iter().map(|(_, item)| item).collect())
            }
        })
    }
}

fn insert<'a>(entries: &mut Vec<(Val<'a>, Val<'a>)>, key: Val<'a>, value: Val<'a>) -> Result<(), Fail> {
    if !matches!(key, Val::Text(_) | Val::Int(_) | Val::UInt(_) | Val::Bool(_)) {
        return Err(Fail::new(format!("unsupported key type: {}", key.type_name())));
    }
    if entries.iter().any(|(k, _)| k.equals(&key)) {
        return Err(Fail::new(format!(
            "insert failed: key {} already exists",
            functions::show(&key)
        )));
    }
    entries.push((key, value));
    Ok(())
}

fn weight(value: &Val<'_>) -> usize {
    match value {
        Val::Text(t) => t.as_str().len() / 10,
        Val::Bytes(b) => b.len() / 10,
        Val::List(l) => l.len(),
        Val::Map(m) => m.len(),
        _ => 1,
    }
}

fn arithmetic<'a>(operator: Binary, a: &Val<'_>, b: &Val<'_>) -> Evaluated<'a> {
    let overflow = || Fail::new("integer overflow");
    let unsigned = || Fail::new("unsigned integer overflow");
    match (operator, a, b) {
        (Binary::Divide, Val::Int(_), Val::Int(0)) | (Binary::Divide, Val::UInt(_), Val::UInt(0)) => {
            Err(Fail::new("division by zero"))
        }
        (Binary::Modulo, Val::Int(_), Val::Int(0)) | (Binary::Modulo, Val::UInt(_), Val::UInt(0)) => {
            Err(Fail::new("modulus by zero"))
        }
        (Binary::Subtract, Val::Int(a), Val::Int(b)) => a.checked_sub(*b).map(Val::Int).ok_or_else(overflow),
        (Binary::Multiply, Val::Int(a), Val::Int(b)) => a.checked_mul(*b).map(Val::Int).ok_or_else(overflow),
        (Binary::Divide, Val::Int(a), Val::Int(b)) => a.checked_div(*b).map(Val::Int).ok_or_else(overflow),
        (Binary::Modulo, Val::Int(a), Val::Int(b)) => a.checked_rem(*b).map(Val::Int).ok_or_else(overflow),
        (Binary::Subtract, Val::UInt(a), Val::UInt(b)) => {
            a.checked_sub(*b).map(Val::UInt).ok_or_else(unsigned)
        }
        (Binary::Multiply, Val::UInt(a), Val::UInt(b)) => {
            a.checked_mul(*b).map(Val::UInt).ok_or_else(unsigned)
        }
        (Binary::Divide, Val::UInt(a), Val::UInt(b)) => a.checked_div(*b).map(Val::UInt).ok_or_else(unsigned),
        (Binary::Modulo, Val::UInt(a), Val::UInt(b)) => a.checked_rem(*b).map(Val::UInt).ok_or_else(unsigned),
        (Binary::Subtract, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a - b)),
        (Binary::Multiply, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a * b)),
        (Binary::Divide, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a / b)),
        (Binary::Subtract, Val::Duration(a), Val::Duration(b)) => {
            a.checked_sub(*b).map(Val::Duration).ok_or_else(overflow)
        }
        (Binary::Subtract, Val::Time(t), Val::Duration(d)) => t
            .checked_sub(jiff::SignedDuration::from_nanos(*d))
            .map(Val::Time)
            .map_err(|_| Fail::new("timestamp overflow")),
        (Binary::Subtract, Val::Time(a), Val::Time(b)) => {
            i64::try_from(a.as_nanosecond() - b.as_nanosecond())
                .map(Val::Duration)
                .map_err(|_| overflow())
        }
        _ => Err(Fail::no_overload()),
    }
}

fn select<'a>(operand: Val<'a>, field: &str, test: bool) -> Evaluated<'a> {
    let key = Val::Text(Text::Shared(Rc::from(field)));
    match operand {
        Val::Map(map) if test => Ok(Val::Bool(map.get(&key).is_some())),
        Val::Map(map) => map.get(&key).unwrap_or_else(|| Err(Fail::no_key(field))),
        Val::Optional(None) if test => Ok(Val::Bool(false)),
        Val::Optional(Some(inner)) if test => select((*inner).clone(), field, true),
        Val::Optional(_) => optional_member(operand, &key),
        _ => Err(Fail::no_overload()),
    }
}

fn member<'a>(operand: &Val<'a>, index: &Val<'_>) -> Result<Option<Val<'a>>, Fail> {
    match operand {
        Val::Map(map) => map.get(index).transpose(),
        Val::List(list) => {
            let at = match index {
                Val::Int(i) => usize::try_from(*i).ok(),
                Val::UInt(u) => usize::try_from(*u).ok(),
                Val::Double(d) if d.fract() == 0.0 && *d >= 0.0 => Some(*d as usize),
                _ => return Err(Fail::no_overload()),
            };
            at.and_then(|at| list.get(at)).transpose()
        }
        _ => Err(Fail::no_overload()),
    }
}

fn absent(operand: &Val<'_>, index: &Val<'_>) -> Fail {
    match operand {
        Val::List(_) => Fail::new(format!("index out of bounds: {}", functions::show(index))),
        _ => Fail::no_key(&functions::show(index)),
    }
}

fn optional_member<'a>(operand: Val<'a>, index: &Val<'_>) -> Evaluated<'a> {
    let inner = match operand {
        Val::Optional(None) => return Ok(Val::Optional(None)),
        Val::Optional(Some(inner)) => (*inner).clone(),
        value => value,
    };
    Ok(match member(&inner, index)? {
        Some(value) => Val::some(value),
        None => Val::Optional(None),
    })
}
