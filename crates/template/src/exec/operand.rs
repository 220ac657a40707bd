//! Operands, fields and calls.

use super::{Evaluated, Exec, Run, table};
use crate::ast::{Command, Expr, ExprKind, Tree};
use crate::call::{Args, Call, Ty};
use crate::fault::Fault;
use crate::functions::{Body, FunctionId};
use crate::literal::Number;
use crate::session::MissingKey;
use crate::value::{Entries, Int, Map, Str, Value};

struct PipelineArgs<'a> {
    dot: &'a Evaluated,
    args: &'a [Expr],
    last: Option<Value>,
}

impl Exec<'_> {
    pub(super) fn command(
        &mut self,
        tree: &Tree,
        dot: &Evaluated,
        command: &Command,
        last: Option<Value>,
    ) -> Run<Evaluated> {
        let Some((first, args)) = command.args.split_first() else {
            return self.fail(tree, "empty command");
        };
        let given = PipelineArgs { dot, args, last };
        match &first.what {
            ExprKind::Field(_) | ExprKind::Chain(..) | ExprKind::Variable(..) => {
                self.member(tree, first, given)
            }
            ExprKind::Function(function) => {
                self.at = first.at.id;
                self.function(tree, *function, command.at.id, given)
                    .map(Evaluated::bare)
            }
            ExprKind::Pipe(pipe) => {
                self.no_arguments(tree, first, &given)?;
                self.grown(|exec| exec.pipe(tree, dot, pipe)).map(Evaluated::bare)
            }
            constant => {
                self.at = first.at.id;
                self.no_arguments(tree, first, &given)?;
                match constant {
                    ExprKind::Dot => Ok(dot.clone()),
                    ExprKind::Nil => self.fail(tree, "nil is not a command"),
                    _ => self.constant(tree, first).map(Evaluated::bare),
                }
            }
        }
    }

    fn no_arguments(&self, tree: &Tree, first: &Expr, given: &PipelineArgs<'_>) -> Run<()> {
        if given.args.is_empty() && given.last.is_none() {
            return Ok(());
        }
        // shown without its parentheses
        let text = first.text();
        let text = match first.what {
            ExprKind::Pipe(_) => text.get(1..text.len() - 1).unwrap_or_default(),
            _ => &text,
        };
        self.fail(tree, format!("can't give argument to non-function {text}"))
    }

    /// A constant without an expected type.
    fn constant(&self, tree: &Tree, expr: &Expr) -> Run<Value> {
        match &expr.what {
            ExprKind::Bool(flag) => Ok(Value::Bool(*flag)),
            ExprKind::Text(_, text) => Ok(Value::String(text.clone())),
            ExprKind::Number(number) => match untyped(number) {
                Some(value) => Ok(value),
                None => self.fail(tree, format!("{} overflows int", number.text)),
            },
            _ => self.fail(
                tree,
                format!(
                    "can't evaluate command {}",
                    equate_manifest::go::quote(&expr.text())
                ),
            ),
        }
    }

    /// A field, a variable, or a variable's fields: `.a.b`, `$x.a`, `(f).a`.
    fn member(&mut self, tree: &Tree, expr: &Expr, given: PipelineArgs<'_>) -> Run<Evaluated> {
        self.at = expr.at.id;
        match &expr.what {
            ExprKind::Field(fields) => self.fields(tree, expr, fields, given.dot.clone(), given),
            ExprKind::Variable(var, fields) => {
                let seen = self.var(tree, var)?.seen.clone();
                if fields.is_empty() {
                    self.no_arguments(tree, expr, &given)?;
                    return Ok(seen);
                }
                self.fields(tree, expr, fields, seen, given)
            }
            ExprKind::Chain(inner, fields) => {
                if matches!(inner.what, ExprKind::Nil) {
                    return self.fail(
                        tree,
                        format!("indirection through explicit nil in {}", expr.text()),
                    );
                }
                let seen = self.value_of(tree, given.dot, inner)?;
                self.fields(tree, expr, fields, seen, given)
            }
            _ => self.fail(
                tree,
                format!(
                    "can't evaluate command {}",
                    equate_manifest::go::quote(&expr.text())
                ),
            ),
        }
    }

    fn fields(
        &mut self,
        tree: &Tree,
        expr: &Expr,
        fields: &[Str],
        mut seen: Evaluated,
        given: PipelineArgs<'_>,
    ) -> Run<Evaluated> {
        let Some((last, path)) = fields.split_last() else {
            return Ok(seen);
        };
        for field in path {
            let none = PipelineArgs {
                dot: given.dot,
                args: &[],
                last: None,
            };
            seen = self.field(tree, expr, field, seen, none)?;
        }
        self.field(tree, expr, last, seen, given)
    }

    #[expect(clippy::needless_pass_by_value, reason = "the value is consumed")]
    fn field(
        &mut self,
        tree: &Tree,
        expr: &Expr,
        name: &Str,
        seen: Evaluated,
        given: PipelineArgs<'_>,
    ) -> Run<Evaluated> {
        match &seen.value {
            Value::Absent => {
                if self.session.options.missing_key == MissingKey::Error {
                    let name = equate_manifest::go::quote(&name.lossy());
                    return self.fail(tree, format!("nil data; no entry for key {name}"));
                }
                Ok(Evaluated::bare(Value::Absent))
            }
            Value::Nil => self.fail(tree, format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(map) => {
                if let Some(method) = table::method(map, name) {
                    let text = name.lossy();
                    let args = self.arguments(tree, &text, method.params, method.variadic, given)?;
                    self.limited(tree, |exec| exec.session.meter.method(&args))?;
                    return match table::call(self, map, &text, &args) {
                        Ok(value) => Ok(Evaluated::bare(value)),
                        Err(fault) => {
                            self.at = expr.at.id;
                            Err(self.call_failed(tree, &text, fault))
                        }
                    };
                }
                if !given.args.is_empty() || given.last.is_some() {
                    return self.fail(tree, format!("{name} is not a method but has arguments"));
                }
                self.entry(tree, map, name)
            }
            Value::Host(host) => {
                let text = name.lossy();
                if let Some(method) = host.method(&text) {
                    let args = self.arguments(tree, &text, method.params, method.variadic, given)?;
                    self.limited(tree, |exec| exec.session.meter.method(&args))?;
                    return match host.call(&text, &args) {
                        Ok(value) => {
                            self.limited(tree, |exec| exec.session.meter.charge_result(&value))?;
                            Ok(Evaluated::bare(value))
                        }
                        Err(fault) => {
                            self.at = expr.at.id;
                            Err(self.call_failed(tree, &text, fault))
                        }
                    };
                }
                match host.field(&text) {
                    Some(_) if !given.args.is_empty() || given.last.is_some() => self.fail(
                        tree,
                        format!("{name} has arguments but cannot be invoked as function"),
                    ),
                    Some(value) => Ok(Evaluated::bare(value)),
                    None if host.kind() == crate::value::Kind::Map => Ok(Evaluated::bare(Value::Absent)),
                    None => self.no_field(tree, name, &seen),
                }
            }
            Value::Int(value, kind @ (Int::Duration | Int::Month | Int::Weekday)) => {
                match crate::functions::number_method(*value, *kind, &name.lossy()) {
                    Some(value) => {
                        self.arguments(tree, &name.lossy(), &[], None, given)?;
                        Ok(Evaluated::bare(value))
                    }
                    None => self.no_field(tree, name, &seen),
                }
            }
            _ => self.no_field(tree, name, &seen),
        }
    }

    fn no_field<T>(&self, tree: &Tree, name: &Str, seen: &Evaluated) -> Run<T> {
        let type_name = seen.type_name();
        self.fail(tree, format!("can't evaluate field {name} in type {type_name}"))
    }

    fn entry(&self, tree: &Tree, map: &Map, name: &Str) -> Run<Evaluated> {
        let is_text = map.entries_type() == Entries::String;
        match (map.get(name.as_bytes()), self.session.options.missing_key) {
            (Some(value), _) if is_text => Ok(Evaluated::bare(value)),
            (Some(value), _) => Ok(Evaluated::boxed(value)),
            (None, MissingKey::Default) => Ok(Evaluated::bare(Value::Absent)),
            (None, MissingKey::Zero) if is_text => Ok(Evaluated::bare("".into())),
            (None, MissingKey::Zero) => Ok(Evaluated::boxed(Value::Nil)),
            (None, MissingKey::Error) => {
                let name = equate_manifest::go::quote(&name.lossy());
                self.fail(tree, format!("map has no entry for key {name}"))
            }
        }
    }

    fn value_of(&mut self, tree: &Tree, dot: &Evaluated, expr: &Expr) -> Run<Evaluated> {
        self.at = expr.at.id;
        let given = PipelineArgs {
            dot,
            args: &[],
            last: None,
        };
        match &expr.what {
            ExprKind::Dot => Ok(dot.clone()),
            ExprKind::Field(_) | ExprKind::Variable(..) | ExprKind::Chain(..) => {
                self.member(tree, expr, given)
            }
            ExprKind::Pipe(pipe) => self.grown(|exec| exec.pipe(tree, dot, pipe)).map(Evaluated::bare),
            ExprKind::Function(function) => self
                .function(tree, *function, expr.at.id, given)
                .map(Evaluated::bare),
            ExprKind::Nil | ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(..) => {
                self.constant(tree, expr).map(Evaluated::bare)
            }
        }
    }

    fn argument(&mut self, tree: &Tree, dot: &Evaluated, ty: Ty, expr: &Expr) -> Run<Value> {
        self.at = expr.at.id;
        match (&expr.what, ty) {
            (ExprKind::Nil, Ty::Any) => Ok(Value::Nil),
            (ExprKind::Nil, Ty::Reflect | Ty::Map | Ty::List) => self.accept(tree, ty, Value::Absent),
            (ExprKind::Nil, _) => self.fail(tree, format!("cannot assign nil to {}", ty.name())),
            (ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(..), Ty::Any | Ty::Reflect) => {
                self.constant(tree, expr)
            }
            (ExprKind::Text(_, text), Ty::Str) => Ok(Value::String(text.clone())),
            (ExprKind::Bool(flag), Ty::Bool) => Ok(Value::Bool(*flag)),
            (
                ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(..),
                Ty::Map | Ty::List | Ty::Struct(_),
            ) => {
                let shown = expr.text();
                self.fail(
                    tree,
                    format!("can't handle {shown} for arg of type {}", ty.name()),
                )
            }
            (ExprKind::Number(number), Ty::Int | Ty::Uint32 | Ty::Float) => {
                let value = match ty {
                    Ty::Int => number.int.map(Value::int),
                    Ty::Uint32 => number
                        .uint
                        .map(|value| Value::Uint(value & u64::from(u32::MAX), crate::value::Uint::Uint32)),
                    _ => number.float.map(Value::Float),
                };
                match value {
                    Some(value) => Ok(value),
                    None => self.expected(tree, ty, expr),
                }
            }
            (ExprKind::Bool(_) | ExprKind::Number(_) | ExprKind::Text(..), _) => {
                self.expected(tree, ty, expr)
            }
            _ => {
                let seen = self.value_of(tree, dot, expr)?;
                self.accept(tree, ty, seen.value)
            }
        }
    }

    fn expected<T>(&self, tree: &Tree, ty: Ty, expr: &Expr) -> Run<T> {
        let wanted = match ty {
            Ty::Int => "integer",
            Ty::Uint32 => "unsigned integer",
            Ty::Float => "float",
            other => other.name(),
        };
        self.fail(tree, format!("expected {wanted}; found {}", expr.text()))
    }

    fn accept(&self, tree: &Tree, ty: Ty, value: Value) -> Run<Value> {
        ty.accept(value).or_else(|reason| self.fail(tree, reason))
    }

    fn arguments(
        &mut self,
        tree: &Tree,
        name: &str,
        params: &[Ty],
        variadic: Option<Ty>,
        given: PipelineArgs<'_>,
    ) -> Run<Args> {
        let count = given.args.len() + usize::from(given.last.is_some());
        match variadic {
            Some(_) if count < params.len() => {
                let (want, got) = (params.len(), given.args.len());
                return self.fail(
                    tree,
                    format!("wrong number of args for {name}: want at least {want} got {got}"),
                );
            }
            None if count != params.len() => {
                let want = params.len();
                return self.fail(
                    tree,
                    format!("wrong number of args for {name}: want {want} got {count}"),
                );
            }
            _ => {}
        }
        let type_at = |index: usize| params.get(index).copied().or(variadic).unwrap_or(Ty::Any);
        let mut args = Args::with_capacity(count);
        for (index, arg) in given.args.iter().enumerate() {
            args.push(self.argument(tree, given.dot, type_at(index), arg)?);
        }
        if let Some(last) = given.last {
            args.push(self.accept(tree, type_at(count - 1), last)?);
        }
        Ok(args)
    }

    fn function(&mut self, tree: &Tree, id: FunctionId, call_at: u32, given: PipelineArgs<'_>) -> Run<Value> {
        let function = id.function();
        let is_or = match function.body {
            Body::And => false,
            Body::Or => true,
            Body::Call => {
                let name = match (given.args.first(), &given.last) {
                    (Some(first), _) => first.text(),
                    (None, Some(Value::String(text))) => text.lossy().into_owned(),
                    (None, Some(value)) => format!("<{} Value>", value.type_name()),
                    (None, None) => String::new(),
                };
                let args = self.arguments(tree, function.name, function.params, function.variadic, given)?;
                let reason = match args.first() {
                    None | Some(Value::Absent | Value::Nil) => "call of nil".to_owned(),
                    Some(value) => format!("non-function {name} of type {}", value.type_name()),
                };
                self.at = call_at;
                return Err(self.call_failed(tree, function.name, Fault::Message(reason)));
            }
            Body::Run(run) => {
                let args = self.arguments(tree, function.name, function.params, function.variadic, given)?;
                self.limited(tree, |exec| exec.session.meter.call(&args))?;
                if function.is_unrepeatable {
                    self.session.used.insert(function.name);
                }
                return run(&mut Call { exec: self, args }).map_err(|fault| {
                    self.at = call_at;
                    self.call_failed(tree, function.name, fault)
                });
            }
        };
        let count = given.args.len() + usize::from(given.last.is_some());
        if count == 0 {
            let reason = format!(
                "wrong number of args for {}: want at least 1 got 0",
                function.name
            );
            return self.fail(tree, reason);
        }
        let mut value = Value::Absent;
        for arg in given.args {
            value = self.argument(tree, given.dot, Ty::Reflect, arg)?;
            if value.is_true() == is_or {
                return Ok(value);
            }
        }
        Ok(given.last.unwrap_or(value))
    }
}

/// The value of an untyped number; `None` if it is too large.
fn untyped(number: &Number) -> Option<Value> {
    let text = &*number.text;
    let is_hex = text.len() > 2
        && text.starts_with('0')
        && text[1..].starts_with(['x', 'X'])
        && !text.contains(['p', 'P']);
    let is_char = text.starts_with('\'');
    if !is_hex && !is_char && text.contains(['.', 'e', 'E', 'p', 'P']) {
        return number.float.map(Value::Float);
    }
    number.int.map(Value::int)
}
