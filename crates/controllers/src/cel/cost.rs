//! Bounds the cost of an expression before it runs: the interpreter neither counts nor stops.
//!
//! A value has a weight (how many small copies it takes to make it) and a width (its most elements). The
//! bounds of the variables give those of every result, because only known functions are allowed: Flux's
//! list without those that make long texts from few letters. The walk costs time per part of the
//! expression, not per element of a list.

use kube_cel::cel::common::ast::operators as op;
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue};
use serde_json::Value;

/// The most steps of an expression.
pub const STEPS_MAX: u64 = 500_000;
/// The largest weight of a value: some megabytes.
const WEIGHT_MAX: u64 = 100_000;
/// A pattern is compiled each time.
const PATTERN: u64 = 2_000;
/// How often a macro copies its list per element: half of it on average.
const COPIES: u64 = 2;

/// Functions with a small result for any arguments.
const SMALL: [&str; 40] = [
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "type",
    "indexOf",
    "lastIndexOf",
    "charAt",
    "hasValue",
    "sets.contains",
    "sets.equivalent",
    "sets.intersects",
    "optional.none",
    "getFullYear",
    "getMonth",
    "getDayOfYear",
    "getDayOfMonth",
    "getDate",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
    op::EQUALS,
    op::NOT_EQUALS,
    op::LESS,
    op::LESS_EQUALS,
    op::GREATER,
    op::GREATER_EQUALS,
    op::LOGICAL_AND,
    op::LOGICAL_OR,
    op::LOGICAL_NOT,
    op::NOT_STRICTLY_FALSE,
    op::IN,
];
/// Functions whose result is no larger than all arguments together.
const LIKE_ARGUMENTS: [&str; 22] = [
    "lowerAscii",
    "upperAscii",
    "trim",
    "substring",
    "bytes",
    "reverse",
    "base64.decode",
    "optional.of",
    "optional.ofNonZeroValue",
    "value",
    "or",
    "orValue",
    op::ADD,
    op::SUBSTRACT,
    op::MULTIPLY,
    op::DIVIDE,
    op::MODULO,
    op::NEGATE,
    op::CONDITIONAL,
    op::INDEX,
    op::OPT_INDEX,
    op::OPT_SELECT,
];
/// Functions whose result is at most twice the arguments; a number has some hundred letters at most.
const LONGER: [&str; 2] = ["string", "base64.encode"];
const DIGITS: u64 = 8;
const OTHER: [&str; 4] = ["matches", "split", "join", "replace"];

pub(super) fn knows(function: &str) -> bool {
    [&SMALL[..], &LIKE_ARGUMENTS, &LONGER, &OTHER]
        .iter()
        .any(|names| names.contains(&function))
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refusal {
    Steps,
    Weight,
    Unread,
}

#[derive(Debug, Clone, Copy)]
struct Bound<'v> {
    known: Option<&'v Value>,
    weight: u64,
    width: u64,
}

impl<'v> Bound<'v> {
    const SMALL: Bound<'static> = Bound {
        known: None,
        weight: 1,
        width: 0,
    };

    fn of(value: &'v Value) -> Self {
        Self {
            known: Some(value),
            weight: weight(value),
            width: width(value),
        }
    }

    fn text(bytes: usize) -> Self {
        Self {
            weight: 1 + bytes as u64 / 64,
            ..Self::SMALL
        }
    }

    fn and(self, other: Bound<'v>) -> Self {
        Self {
            known: None,
            weight: self.weight.saturating_add(other.weight),
            width: self.width.saturating_add(other.width),
        }
    }

    fn times(self, count: u64) -> Self {
        Self {
            known: None,
            weight: self.weight.saturating_mul(count),
            width: self.width.saturating_mul(count),
        }
    }
}

pub(super) fn check(root: &IdedExpr, variables: &[(&str, &Value)]) -> Result<(), Refusal> {
    let scope = variables.iter();
    let scope = scope.map(|(name, value)| (*name, Bound::of(value))).collect();
    let mut account = Account { scope, steps: 0 };
    account.bound(root).map(drop)
}

struct Account<'e, 'v> {
    /// The names in scope, the innermost last.
    scope: Vec<(&'e str, Bound<'v>)>,
    steps: u64,
}

impl<'e, 'v> Account<'e, 'v>
where
    'v: 'e,
{
    fn bound(&mut self, at: &'e IdedExpr) -> Result<Bound<'v>, Refusal> {
        let bound = match &at.expr {
            Expr::Literal(LiteralValue::String(text)) => Bound::text(text.inner().len()),
            Expr::Literal(LiteralValue::Bytes(bytes)) => Bound::text(bytes.inner().len()),
            Expr::Literal(_) => Bound::SMALL,
            // a missing variable is never evaluated, or ends the run
            Expr::Ident(name) => self.named(name).unwrap_or(Bound::SMALL),
            Expr::Select(select) => {
                let of = self.bound(&select.operand)?;
                let known = of.known.map(|value| value.get(&select.field));
                match known {
                    _ if select.test => Bound::SMALL,
                    Some(field) => field.map_or(Bound::SMALL, Bound::of),
                    None => of,
                }
            }
            Expr::List(list) => {
                let all = self.all(&list.elements)?;
                Bound {
                    width: all.width.max(list.elements.len() as u64),
                    ..all
                }
            }
            Expr::Map(map) => {
                let mut all = Bound::SMALL;
                for entry in &map.entries {
                    all = all.and(match &entry.expr {
                        EntryExpr::MapEntry(entry) => self.bound(&entry.key)?.and(self.bound(&entry.value)?),
                        EntryExpr::StructField(_) => return Err(Refusal::Unread),
                    });
                }
                Bound {
                    width: all.width.max(map.entries.len() as u64),
                    ..all
                }
            }
            Expr::Struct(_) => return Err(Refusal::Unread),
            Expr::Unspecified => return Err(Refusal::Unread),
            Expr::Call(call) => self.call(call)?,
            Expr::Comprehension(of) => self.comprehension(of)?,
        };
        if bound.weight > WEIGHT_MAX {
            return Err(Refusal::Weight);
        }
        // a value is copied when it is read
        self.spend(bound.weight)?;
        Ok(bound)
    }

    fn spend(&mut self, steps: u64) -> Result<(), Refusal> {
        self.steps = self.steps.saturating_add(steps);
        match self.steps > STEPS_MAX {
            true => Err(Refusal::Steps),
            false => Ok(()),
        }
    }

    fn named(&self, name: &str) -> Option<Bound<'v>> {
        let mut scope = self.scope.iter().rev();
        scope.find(|(known, _)| *known == name).map(|(_, bound)| *bound)
    }

    fn all(&mut self, parts: &'e [IdedExpr]) -> Result<Bound<'v>, Refusal> {
        let mut all = Bound::SMALL;
        for part in parts {
            all = all.and(self.bound(part)?);
        }
        Ok(all)
    }

    fn call(&mut self, call: &'e CallExpr) -> Result<Bound<'v>, Refusal> {
        let (name, target) = full_name(call);
        let target = target.map(|target| self.bound(target)).transpose()?;
        let arguments = self.all(&call.args)?;
        let given = target.map_or(arguments, |target| target.and(arguments));
        // the argument is read as a whole
        self.spend(given.weight)?;
        let text = |weight| Bound {
            weight,
            ..Bound::SMALL
        };
        Ok(match &*name {
            name if SMALL.contains(&name) => Bound::SMALL,
            name if LIKE_ARGUMENTS.contains(&name) => Bound { known: None, ..given },
            name if LONGER.contains(&name) => given.times(2).and(text(DIGITS)),
            "matches" => {
                self.spend(PATTERN)?;
                Bound::SMALL
            }
            // as many parts as there are letters
            "split" => Bound {
                width: given.weight.saturating_mul(64),
                ..given.times(64)
            },
            // a separator for each part
            "join" => text(
                given
                    .weight
                    .saturating_add(given.width.saturating_mul(arguments.weight)),
            ),
            "replace" => text(given.weight.saturating_mul(growth(&call.args, arguments.weight))),
            _ => return Err(Refusal::Unread),
        })
    }

    /// The expansion of macros. Their accumulators grow by the result of one element.
    fn comprehension(&mut self, of: &'e ComprehensionExpr) -> Result<Bound<'v>, Refusal> {
        let range = self.bound(&of.iter_range)?;
        let init = self.bound(&of.accu_init)?;
        let before = self.steps;
        let known = self.scope.len();
        let none = Bound {
            weight: 0,
            ..Bound::SMALL
        };
        self.scope.push((&of.accu_var, none));
        let element = element(range);
        self.scope.push((&of.iter_var, element));
        if let Some(second) = &of.iter_var2 {
            self.scope.push((second, element));
        }
        self.bound(&of.loop_cond)?;
        let added = self.bound(&of.loop_step)?;
        let each = self.steps - before;
        let total = match grows(&of.loop_step) {
            true => init.and(added.times(range.width)),
            false => init.and(added),
        };
        self.scope.truncate(known);
        self.scope.push((&of.accu_var, total));
        let copies = total.weight.saturating_mul(COPIES);
        let more = each.saturating_add(copies).saturating_mul(range.width);
        self.spend(more)?;
        let result = self.bound(&of.result)?;
        self.scope.truncate(known);
        Ok(result)
    }
}

/// The factor by which replacing all of one text by another lengthens the result.
fn growth(arguments: &[IdedExpr], weight: u64) -> u64 {
    let length = |at: usize| match &arguments.get(at)?.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner().len() as u64),
        _ => None,
    };
    match (length(0), length(1)) {
        (Some(0), Some(new)) => new + 1,
        (Some(old), Some(new)) => new.div_ceil(old).max(1),
        // each letter by the whole text
        _ => weight.saturating_mul(64),
    }
}

/// Whether a macro's accumulator grows with each element: a list to which one is added.
fn grows(step: &IdedExpr) -> bool {
    match &step.expr {
        Expr::Call(call) if call.func_name == op::ADD => {
            call.args.iter().any(|part| matches!(part.expr, Expr::List(_)))
        }
        Expr::Call(call) if call.func_name == op::CONDITIONAL => call.args.iter().any(grows),
        _ => false,
    }
}

pub(super) fn full_name(call: &CallExpr) -> (String, Option<&IdedExpr>) {
    let target = call.target.as_deref();
    match target.map(|target| &target.expr) {
        Some(Expr::Ident(space)) if super::NAMESPACES.contains(&space.as_str()) => {
            (format!("{space}.{}", call.func_name), None)
        }
        _ => (call.func_name.clone(), target),
    }
}

fn element(range: Bound<'_>) -> Bound<'_> {
    let most = |values: &mut dyn Iterator<Item = &Value>| {
        values.fold(Bound::SMALL, |most, value| Bound {
            known: None,
            weight: most.weight.max(weight(value)),
            width: most.width.max(width(value)),
        })
    };
    match range.known {
        Some(Value::Array(items)) => most(&mut items.iter()),
        Some(Value::Object(fields)) => {
            let names = fields.keys().map(String::len).max().unwrap_or_default();
            most(&mut fields.values()).and(Bound::text(names))
        }
        _ => Bound { known: None, ..range },
    }
}

fn weight(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() as u64 / 64,
        Value::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Value::Object(fields) => {
            let names = fields.keys().map(|name| 1 + name.len() as u64 / 64);
            1 + names.sum::<u64>() + fields.values().map(weight).sum::<u64>()
        }
    }
}

fn width(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(items) => items.iter().map(width).fold(items.len() as u64, u64::max),
        Value::Object(fields) => fields.values().map(width).fold(fields.len() as u64, u64::max),
    }
}
