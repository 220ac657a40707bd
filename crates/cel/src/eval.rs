//! Evaluation of a program, which pays for each step.
//!
//! Errors are values until something needs the value: `&&`, `||` and the macros `all` and `exists` absorb
//! them, as CEL defines. An error of the budget ends the run.

use crate::budget::Budget;
use crate::environment::NamedFormat;
use crate::error::{Fail, FailureKind};
use crate::functions::{self, Opaque, Patterns};
use crate::program::{Binary, Call, Each, EachKind, Node, Op};
use crate::value::{Bytes, Evaluated, List, Text, VAL_BYTES, Val, bad_index, member};
use smallvec::SmallVec;
use std::cmp::Ordering;

pub(crate) struct Run<'a, 'r, 's> {
    variables: &'r [Evaluated<'a>],
    /// The variables of macros.
    stack: Vec<Evaluated<'a>>,
    pub(crate) budget: &'r mut Budget<'s>,
    /// Computed regular expressions.
    pub(crate) patterns: Patterns,
    pub(crate) formats: &'static [NamedFormat],
}

impl<'a, 'r, 's> Run<'a, 'r, 's> {
    pub(crate) fn new(
        variables: &'r [Evaluated<'a>],
        budget: &'r mut Budget<'s>,
        formats: &'static [NamedFormat],
    ) -> Self {
        Self {
            formats,
            variables,
            stack: Vec::new(),
            budget,
            patterns: Patterns::default(),
        }
    }

    pub(crate) fn spend(&mut self, units: usize) -> Result<(), Fail> {
        self.budget.spend(units)
    }

    pub(crate) fn eval(&mut self, node: &'a Node) -> Evaluated<'a> {
        self.spend(1)?;
        match &node.op {
            Op::Null => Ok(Val::Null),
            Op::Bool(b) => Ok(Val::Bool(*b)),
            Op::Int(i) => Ok(Val::Int(*i)),
            Op::UInt(u) => Ok(Val::UInt(*u)),
            Op::Double(d) => Ok(Val::Double(*d)),
            Op::Text(text) => Ok(Val::Text(Text::Borrowed(text))),
            Op::Bytes(bytes) => Ok(Val::Bytes(Bytes::Borrowed(bytes))),
            Op::Variable(place) => given(self.variables.get(*place)),
            Op::Local(place) => given(self.stack.get(*place)),
            Op::Type(name) => Ok(Val::Type(name)),
            Op::Format(format) => Ok(Val::Opaque(Opaque::format(**format))),
            Op::Undeclared(name) | Op::Message(name) => Err(Fail::absent(name)),
            Op::Select { operand, field, test } => self.select(operand, field, *test),
            Op::OptSelect { operand, field } => {
                let operand = self.eval(operand)?;
                self.optional_field(operand, field)
            }
            Op::Index(operand, index) => {
                let operand = self.eval(operand)?;
                let position = self.eval(index)?;
                match operand {
                    Val::Optional(_) => self.optional_member(operand, &position),
                    operand => match member(&operand, &position, self.budget)? {
                        Some(found) => Ok(found),
                        None => Err(absent(&operand, &position, matches!(index.op, Op::Text(_)))),
                    },
                }
            }
            Op::OptIndex(operand, index) => {
                let operand = self.eval(operand)?;
                let index = self.eval(index)?;
                self.optional_member(operand, &index)
            }
            Op::And(all) => self.logic(all, false),
            Op::Or(all) => self.logic(all, true),
            Op::Not(a) => match self.eval(a)? {
                Val::Bool(b) => Ok(Val::Bool(!b)),
                _ => Err(Fail::no_overload()),
            },
            Op::Negate(a) => match self.eval(a)? {
                Val::Int(i) => i.checked_neg().map(Val::Int).ok_or_else(Fail::overflow),
                Val::Double(d) => Ok(Val::Double(-d)),
                Val::Duration(d) => d.checked_neg().map(Val::Duration).ok_or_else(Fail::overflow),
                _ => Err(Fail::no_overload()),
            },
            Op::If(condition, yes, no) => match self.eval(condition)? {
                Val::Bool(true) => self.eval(yes),
                Val::Bool(false) => self.eval(no),
                _ => Err(Fail::no_overload()),
            },
            Op::Binary(operator, a, b) => {
                let a = self.eval(a)?;
                let b = self.eval(b)?;
                self.binary(*operator, &a, &b)
            }
            Op::List(items) => self.list(items),
            Op::Map(entries) => self.map(entries),
            Op::Each(each) => self.each(each),
            Op::OptMap { target, body, flat } => self.opt_map(target, body, *flat),
            Op::Call(call) => self.call(call),
        }
    }

    fn list(&mut self, items: &'a [(Node, bool)]) -> Evaluated<'a> {
        self.budget.hold(items.len() * VAL_BYTES)?;
        let mut out = Vec::with_capacity(items.len());
        for (item, optional) in items {
            match (self.eval(item)?, optional) {
                (Val::Optional(None), true) => {}
                (Val::Optional(Some(inner)), true) => out.push((*inner).clone()),
                (value, true) => return Err(not_optional("list element", &value)),
                (value, false) => out.push(value),
            }
        }
        Ok(Val::list(out))
    }

    fn map(&mut self, entries: &'a [(Node, Node, bool)]) -> Evaluated<'a> {
        let mut out: Vec<(Val<'a>, Val<'a>)> = Vec::with_capacity(entries.len());
        for (key, value, optional) in entries {
            let key = self.eval(key)?;
            let value = match (self.eval(value)?, optional) {
                (Val::Optional(None), true) => continue,
                (Val::Optional(Some(inner)), true) => (*inner).clone(),
                (value, true) => {
                    let of = format!("entry '{}'", functions::show(&key));
                    return Err(not_optional(&of, &value));
                }
                (value, false) => value,
            };
            // of entries with one key, the last counts
            match position(&out, &key, self.budget)? {
                Some(at) => out[at].1 = value,
                None => out.push((key, value)),
            }
        }
        Ok(Val::map(out))
    }

    fn opt_map(&mut self, target: &'a Node, body: &'a Node, flat: bool) -> Evaluated<'a> {
        match self.eval(target)? {
            Val::Optional(None) => Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => {
                self.stack.push(Ok((*inner).clone()));
                let value = self.eval(body);
                self.stack.pop();
                Ok(if flat { value? } else { Val::some(value?) })
            }
            _ => Err(Fail::no_overload()),
        }
    }

    fn call(&mut self, call: &'a Call) -> Evaluated<'a> {
        let mut values: SmallVec<[Val<'a>; 3]> = SmallVec::new();
        let mut bytes = 0;
        for arg in &call.args {
            let value = self.eval(arg)?;
            bytes += value.byte_count();
            values.push(value);
        }
        // each function may read its texts once
        self.budget.read(bytes)?;
        match call.function {
            Some(function) => functions::call(self, function, &values, call.pattern.as_ref()),
            None => Err(Fail::no_overload()),
        }
    }

    /// `&&` (deciding false) and `||` (deciding true): a decision overrides an error of another part.
    fn logic(&mut self, all: &'a [Node], deciding: bool) -> Evaluated<'a> {
        let mut error = None;
        for part in all {
            match self.eval(part) {
                Ok(Val::Bool(b)) if b == deciding => return Ok(Val::Bool(deciding)),
                Ok(Val::Bool(_)) => {}
                Ok(_) => error = error.or_else(|| Some(Fail::no_overload())),
                Err(fail) if fail.is_final() => return Err(fail),
                Err(fail) => error = error.or(Some(fail)),
            }
        }
        error.map_or(Ok(Val::Bool(!deciding)), Err)
    }

    fn binary(&mut self, operator: Binary, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
        match operator {
            Binary::Equal => a.equals(b, self.budget).map(Val::Bool),
            Binary::NotEqual => a.equals(b, self.budget).map(|same| Val::Bool(!same)),
            Binary::Less => self.order(a, b, Ordering::is_lt),
            Binary::LessEqual => self.order(a, b, Ordering::is_le),
            Binary::Greater => self.order(a, b, Ordering::is_gt),
            Binary::GreaterEqual => self.order(a, b, Ordering::is_ge),
            Binary::In => match b {
                Val::List(list) => {
                    let found = list.position(a, false, self.budget)?;
                    Ok(Val::Bool(found.is_some()))
                }
                Val::Map(map) => Ok(Val::Bool(map.get(a, self.budget)?.is_some())),
                _ => Err(Fail::no_overload()),
            },
            Binary::Add => self.add(a, b),
            Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => {
                arithmetic(operator, a, b)
            }
        }
    }

    fn order(&mut self, a: &Val<'a>, b: &Val<'a>, wanted: fn(Ordering) -> bool) -> Evaluated<'a> {
        match a.compare(b, self.budget)? {
            Some(order) => Ok(Val::Bool(wanted(order))),
            // NaN
            None if matches!((a, b), (Val::Double(_), _) | (_, Val::Double(_))) && is_numeric(a, b) => {
                Ok(Val::Bool(false))
            }
            None => Err(Fail::no_overload()),
        }
    }

    pub(crate) fn add(&mut self, a: &Val<'a>, b: &Val<'a>) -> Evaluated<'a> {
        match (a, b) {
            (Val::Int(a), Val::Int(b)) => a.checked_add(*b).map(Val::Int).ok_or_else(Fail::overflow),
            (Val::UInt(a), Val::UInt(b)) => a
                .checked_add(*b)
                .map(Val::UInt)
                .ok_or_else(Fail::unsigned_overflow),
            (Val::Double(a), Val::Double(b)) => Ok(Val::Double(a + b)),
            (Val::Text(a), Val::Text(b)) => {
                let (a, b) = (a.as_str(), b.as_str());
                self.budget.write(a.len() + b.len())?;
                Ok(Val::text([a, b].concat()))
            }
            (Val::Bytes(a), Val::Bytes(b)) => {
                let (a, b) = (a.as_slice(), b.as_slice());
                self.budget.write(a.len() + b.len())?;
                Ok(Val::bytes([a, b].concat()))
            }
            (Val::List(a), Val::List(b)) => a.join(b, self.budget),
            (Val::Duration(a), Val::Duration(b)) => {
                a.checked_add(*b).map(Val::Duration).ok_or_else(Fail::overflow)
            }
            (Val::Time(t), Val::Duration(d)) | (Val::Duration(d), Val::Time(t)) => t
                .checked_add(jiff::SignedDuration::from_nanos(*d))
                .map(Val::Time)
                .map_err(|_| Fail::of(FailureKind::Overflow, "timestamp overflow")),
            _ => Err(Fail::no_overload()),
        }
    }

    fn select(&mut self, operand: &'a Node, field: &'a str, test: bool) -> Evaluated<'a> {
        let value = match self.eval(operand) {
            Ok(value) => value,
            // the name of an absent variable goes on with its fields
            Err(fail) if matches!(operand.op, Op::Variable(_) | Op::Select { test: false, .. }) => {
                return Err(fail.with_field(field));
            }
            Err(fail) => return Err(fail),
        };
        match value {
            Val::Map(map) => {
                let found = map.field(field, self.budget)?;
                match found {
                    found if test => Ok(Val::Bool(found.is_some())),
                    Some(found) => Ok(found),
                    None => Err(Fail::no_field(field)),
                }
            }
            Val::Optional(_) => {
                let found = self.optional_field(value, field)?;
                match test {
                    true => Ok(Val::Bool(!matches!(found, Val::Optional(None)))),
                    false => Ok(found),
                }
            }
            Val::List(_) => Err(bad_index(&Val::Text(Text::Borrowed(field)))),
            _ => Err(Fail::no_field(field)),
        }
    }

    fn optional_field(&mut self, operand: Val<'a>, field: &'a str) -> Evaluated<'a> {
        self.optional_member(operand, &Val::Text(Text::Borrowed(field)))
    }

    fn optional_member(&mut self, operand: Val<'a>, index: &Val<'_>) -> Evaluated<'a> {
        let inner = match operand {
            Val::Optional(None) => return Ok(Val::Optional(None)),
            Val::Optional(Some(inner)) => (*inner).clone(),
            value => value,
        };
        Ok(match member(&inner, index, self.budget)? {
            Some(value) => Val::some(value),
            None => Val::Optional(None),
        })
    }

    fn elements(&mut self, range: &Val<'a>) -> Result<Vec<Evaluated<'a>>, Fail> {
        match range {
            Val::List(list) => {
                self.spend(list.len())?;
                Ok(list.items().collect())
            }
            Val::Map(map) => {
                self.spend(map.len())?;
                Ok(map.keys().into_iter().map(Ok).collect())
            }
            other => {
                let text = format!("got '{}', expected iterable type", go_type(other));
                Err(Fail::of(FailureKind::Overload, text))
            }
        }
    }

    fn each(&mut self, each: &'a Each) -> Evaluated<'a> {
        let range = self.eval(&each.range)?;
        let elements = self.elements(&range)?;
        let depth = self.stack.len();
        let mut out = Output::new(each.kind);
        for (index, element) in elements.into_iter().enumerate() {
            // the stack holds the variables while the body runs
            if each.is_pair {
                let (key, value) = match &range {
                    Val::List(_) => (Ok(Val::count(index)), element),
                    range => {
                        let key = element?;
                        let found = member(range, &key, self.budget)?;
                        let value = found.ok_or_else(|| absent(range, &key, false))?;
                        (Ok(key), Ok(value))
                    }
                };
                self.stack.push(key);
                self.stack.push(value);
            } else {
                self.stack.push(element);
            }
            let evaluated = self.body(each);
            let outcome = match evaluated {
                Ok(None) => Ok(false),
                Ok(Some(value)) => out.take(&self.stack[depth], value, self.budget),
                Err(fail) => Err(fail),
            };
            self.stack.truncate(depth);
            match outcome {
                Ok(false) => {}
                Ok(true) => break,
                Err(fail) => out.fail(fail)?,
            }
        }
        out.finish(self.budget)
    }

    fn body(&mut self, each: &'a Each) -> Result<Option<Val<'a>>, Fail> {
        if let Some(filter) = &each.filter {
            match self.eval(filter)? {
                Val::Bool(true) => {}
                Val::Bool(false) => return Ok(None),
                _ => return Err(Fail::no_overload()),
            }
        }
        self.eval(&each.body).map(Some)
    }
}

/// The name of a value's type in Go.
fn go_type(value: &Val<'_>) -> &'static str {
    match value {
        Val::Null => "types.Null",
        Val::Bool(_) => "types.Bool",
        Val::Int(_) => "types.Int",
        Val::UInt(_) => "types.Uint",
        Val::Double(_) => "types.Double",
        Val::Text(_) => "types.String",
        Val::Bytes(_) => "types.Bytes",
        Val::Duration(_) => "types.Duration",
        Val::Time(_) => "types.Timestamp",
        Val::Optional(_) => "*types.Optional",
        Val::Type(_) => "*types.Type",
        other => other.type_name(),
    }
}

fn given<'a>(value: Option<&Evaluated<'a>>) -> Evaluated<'a> {
    match value {
        Some(value) => value.clone(),
        None => Err(Fail::of(FailureKind::Attribute, "no such attribute")),
    }
}

/// The results of a macro.
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

    /// Adds the result for a key or element; whether no more are needed.
    fn take(&mut self, first: &Evaluated<'a>, value: Val<'a>, budget: &mut Budget<'_>) -> Result<bool, Fail> {
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
                return Ok(self.decided);
            }
            EachKind::List => {
                budget.hold(VAL_BYTES)?;
                self.items.push(value);
            }
            EachKind::Map => insert(&mut self.entries, first.clone()?, value, budget)?,
            EachKind::Entries => match value {
                Val::Map(map) => {
                    budget.spend(map.len())?;
                    for key in map.keys() {
                        if let Some(value) = map.get(&key, budget)? {
                            insert(&mut self.entries, key, value, budget)?;
                        }
                    }
                }
                _ => return Err(Fail::no_overload()),
            },
            EachKind::Sort => {
                budget.hold(2 * VAL_BYTES)?;
                self.entries.push((value, first.clone()?));
            }
        }
        Ok(false)
    }

    /// Keeps an error of `all` and `exists`, because another element may decide.
    fn fail(&mut self, error: Fail) -> Result<(), Fail> {
        if error.is_final() || !matches!(self.kind, EachKind::All | EachKind::Exists) {
            return Err(error);
        }
        self.error.get_or_insert(error);
        Ok(())
    }

    fn finish(self, budget: &mut Budget<'_>) -> Evaluated<'a> {
        if let (Some(error), false) = (self.error, self.decided) {
            return Err(error);
        }
        Ok(match self.kind {
            EachKind::All => Val::Bool(!self.decided),
            EachKind::Exists => Val::Bool(self.decided),
            EachKind::ExistsOne => Val::Bool(self.count == 1),
            EachKind::List => Val::list(self.items),
            EachKind::Map | EachKind::Entries => Val::map(self.entries),
            EachKind::Sort => Val::list(sorted(self.entries, budget)?),
        })
    }
}

/// Sorts values by keys of one type.
pub(crate) fn sorted<'a>(
    mut entries: Vec<(Val<'a>, Val<'a>)>,
    budget: &mut Budget<'_>,
) -> Result<Vec<Val<'a>>, Fail> {
    if let Some((first, _)) = entries.first() {
        if !first.is_ordered() {
            return Err(Fail::new("list elements must be comparable"));
        }
        let kind = first.type_name();
        if entries.iter().any(|(key, _)| key.type_name() != kind) {
            return Err(Fail::new("list elements must have the same type"));
        }
    }
    // paid before, because a comparison cannot fail
    let texts = entries.iter().map(|(key, _)| key.byte_count() / 16);
    let comparison = 1 + texts.max().unwrap_or_default();
    let comparisons = entries.len() * (entries.len().max(1).ilog2() as usize + 1);
    budget.spend(comparisons.saturating_mul(comparison))?;
    budget.hold(entries.len() * VAL_BYTES)?;
    entries.sort_by(|(a, _), (b, _)| a.sort_order(b));
    Ok(entries.into_iter().map(|(_, value)| value).collect())
}

fn not_optional(what: &str, value: &Val<'_>) -> Fail {
    let shown = functions::show(value);
    let text = format!("cannot initialize optional {what} from non-optional value {shown}");
    Fail::of(FailureKind::Overload, text)
}

/// The entry of a key.
fn position(
    entries: &[(Val<'_>, Val<'_>)],
    key: &Val<'_>,
    budget: &mut Budget<'_>,
) -> Result<Option<usize>, Fail> {
    budget.spend(entries.len() / 4)?;
    budget.hold(2 * VAL_BYTES)?;
    for (at, (known, _)) in entries.iter().enumerate() {
        if known.equals(key, budget)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn insert<'a>(
    entries: &mut Vec<(Val<'a>, Val<'a>)>,
    key: Val<'a>,
    value: Val<'a>,
    budget: &mut Budget<'_>,
) -> Result<(), Fail> {
    if position(entries, &key, budget)?.is_some() {
        let text = format!("insert failed: key {} already exists", functions::show(&key));
        return Err(Fail::of(FailureKind::Key, text));
    }
    entries.push((key, value));
    Ok(())
}

fn is_numeric(a: &Val<'_>, b: &Val<'_>) -> bool {
    [a, b]
        .iter()
        .all(|value| matches!(value, Val::Int(_) | Val::UInt(_) | Val::Double(_)))
}

fn arithmetic<'a>(operator: Binary, a: &Val<'_>, b: &Val<'_>) -> Evaluated<'a> {
    let int = |result: Option<i64>| result.map(Val::Int).ok_or_else(Fail::overflow);
    let uint = |result: Option<u64>| result.map(Val::UInt).ok_or_else(Fail::unsigned_overflow);
    let nanos = |result: Option<i64>| result.map(Val::Duration).ok_or_else(Fail::overflow);
    match (operator, a, b) {
        (Binary::Divide, _, Val::Int(0) | Val::UInt(0)) if a.type_name() == b.type_name() => {
            Err(Fail::of(FailureKind::Zero, "division by zero"))
        }
        (Binary::Modulo, _, Val::Int(0) | Val::UInt(0)) if a.type_name() == b.type_name() => {
            Err(Fail::of(FailureKind::Zero, "modulus by zero"))
        }
        (Binary::Subtract, Val::Int(a), Val::Int(b)) => int(a.checked_sub(*b)),
        (Binary::Multiply, Val::Int(a), Val::Int(b)) => int(a.checked_mul(*b)),
        (Binary::Divide, Val::Int(a), Val::Int(b)) => int(a.checked_div(*b)),
        (Binary::Modulo, Val::Int(a), Val::Int(b)) => int(a.checked_rem(*b)),
        (Binary::Subtract, Val::UInt(a), Val::UInt(b)) => uint(a.checked_sub(*b)),
        (Binary::Multiply, Val::UInt(a), Val::UInt(b)) => uint(a.checked_mul(*b)),
        (Binary::Divide, Val::UInt(a), Val::UInt(b)) => uint(a.checked_div(*b)),
        (Binary::Modulo, Val::UInt(a), Val::UInt(b)) => uint(a.checked_rem(*b)),
        (Binary::Subtract, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a - b)),
        (Binary::Multiply, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a * b)),
        (Binary::Divide, Val::Double(a), Val::Double(b)) => Ok(Val::Double(a / b)),
        (Binary::Subtract, Val::Duration(a), Val::Duration(b)) => nanos(a.checked_sub(*b)),
        (Binary::Subtract, Val::Time(t), Val::Duration(d)) => t
            .checked_sub(jiff::SignedDuration::from_nanos(*d))
            .map(Val::Time)
            .map_err(|_| Fail::of(FailureKind::Overflow, "timestamp overflow")),
        (Binary::Subtract, Val::Time(a), Val::Time(b)) => {
            nanos(i64::try_from(a.as_nanosecond() - b.as_nanosecond()).ok())
        }
        _ => Err(Fail::no_overload()),
    }
}

/// The error about an absent index or key; a computed key is a value.
fn absent(operand: &Val<'_>, index: &Val<'_>, is_literal: bool) -> Fail {
    let shown = functions::show(index);
    match operand {
        Val::List(_) => Fail::of(FailureKind::Index, format!("index out of bounds: {shown}")),
        _ if is_literal => Fail::no_field(&shown),
        _ => Fail::of(FailureKind::Key, format!("no such key: {shown}")),
    }
}

/// The items of a list, paid for.
pub(crate) fn items<'a>(list: &List<'a>, budget: &mut Budget<'_>) -> Result<Vec<Val<'a>>, Fail> {
    budget.spend(list.len())?;
    budget.hold(list.len() * VAL_BYTES)?;
    list.items().collect()
}
