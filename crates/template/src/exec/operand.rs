//! Operands, fields and calls.

use super::{Exec, Run, Seen, table};
use crate::ast::{Command, Expr, Tree, What};
use crate::call::{Args, Call, Ty};
use crate::fault::Fault;
use crate::functions::{Body, FunctionId};
use crate::literal::{self, Number};
use crate::session::MissingKey;
use crate::value::{Entries, Int, Map, Str, Value};

/// The other arguments of a command.
struct Given<'a> {
    dot: &'a Seen,
    args: &'a [Expr],
    last: Option<Value>,
}

impl Exec<'_> {
    pub(super) fn command(
        &mut self,
        tree: &Tree,
        dot: &Seen,
        command: &Command,
        last: Option<Value>,
    ) -> Run<Seen> {
        let Some((first, args)) = command.args.split_first() else {
            return self.fail(tree, "empty command");
        };
        let given = Given { dot, args, last };
        match &first.what {
            What::Field(_) | What::Chain(..) | What::Variable(..) => self.member(tree, first, given),
            What::Function(function) => {
                self.at = first.at.id;
                self.function(tree, *function, command.at.id, given)
                    .map(Seen::bare)
            }
            What::Pipe(pipe) => {
                self.no_arguments(tree, first, &given)?;
                self.grown(|exec| exec.pipe(tree, dot, pipe)).map(Seen::bare)
            }
            constant => {
                self.at = first.at.id;
                self.no_arguments(tree, first, &given)?;
                match constant {
                    What::Dot => Ok(dot.clone()),
                    What::Nil => self.fail(tree, "nil is not a command"),
                    _ => self.constant(tree, first).map(Seen::bare),
                }
            }
        }
    }

    fn no_arguments(&self, tree: &Tree, first: &Expr, given: &Given<'_>) -> Run<()> {
        if given.args.is_empty() && given.last.is_none() {
            return Ok(());
        }
        // shown without its parentheses
        let text = first.text();
        let text = match first.what {
            What::Pipe(_) => text.get(1..text.len() - 1).unwrap_or_default(),
            _ => &text,
        };
        self.fail(tree, format!("can't give argument to non-function {text}"))
    }

    /// A constant without an expected type.
    fn constant(&self, tree: &Tree, expr: &Expr) -> Run<Value> {
        match &expr.what {
            What::Bool(flag) => Ok(Value::Bool(*flag)),
            What::Text(_, text) => Ok(Value::String(text.clone())),
            What::Number(number) => match untyped(number) {
                Some(value) => Ok(value),
                None => self.fail(tree, format!("{} overflows int", number.text)),
            },
            _ => self.fail(
                tree,
                format!("can't evaluate command {}", literal::quote(&expr.text())),
            ),
        }
    }

    /// A field, a variable, or a variable's fields: `.a.b`, `$x.a`, `(f).a`.
    fn member(&mut self, tree: &Tree, expr: &Expr, given: Given<'_>) -> Run<Seen> {
        self.at = expr.at.id;
        match &expr.what {
            What::Field(fields) => self.fields(tree, expr, fields, given.dot.clone(), given),
            What::Variable(var, fields) => {
                let seen = self.var(tree, var)?.seen.clone();
                if fields.is_empty() {
                    self.no_arguments(tree, expr, &given)?;
                    return Ok(seen);
                }
                self.fields(tree, expr, fields, seen, given)
            }
            What::Chain(inner, fields) => {
                if matches!(inner.what, What::Nil) {
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
                format!("can't evaluate command {}", literal::quote(&expr.text())),
            ),
        }
    }

    fn fields(
        &mut self,
        tree: &Tree,
        expr: &Expr,
        fields: &[Str],
        mut seen: Seen,
        given: Given<'_>,
    ) -> Run<Seen> {
        let Some((last, path)) = fields.split_last() else {
            return Ok(seen);
        };
        for field in path {
            let none = Given {
                dot: given.dot,
                args: &[],
                last: None,
            };
            seen = self.field(tree, expr, field, seen, none)?;
        }
        self.field(tree, expr, last, seen, given)
    }

    #[expect(clippy::needless_pass_by_value, reason = "what is seen is seen no more")]
    fn field(&mut self, tree: &Tree, expr: &Expr, name: &Str, seen: Seen, given: Given<'_>) -> Run<Seen> {
        match &seen.value {
            Value::Absent => {
                if self.session.options.missing_key == MissingKey::Error {
                    let name = literal::quote(&name.lossy());
                    return self.fail(tree, format!("nil data; no entry for key {name}"));
                }
                Ok(Seen::bare(Value::Absent))
            }
            Value::Nil => self.fail(tree, format!("nil pointer evaluating interface {{}}.{name}")),
            Value::Map(map) => {
                if let Some(method) = table::method(map, name) {
                    let text = name.lossy();
                    let args = self.arguments(tree, &text, method.params, method.variadic, given)?;
                    self.limited(tree, |exec| exec.session.meter.method(&args))?;
                    return match table::call(self, map, &text, &args) {
                        Ok(value) => Ok(Seen::bare(value)),
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
                            self.limited(tree, |exec| exec.session.meter.given(&value))?;
                            Ok(Seen::bare(value))
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
                    Some(value) => Ok(Seen::bare(value)),
                    None if host.kind() == crate::value::Kind::Map => Ok(Seen::bare(Value::Absent)),
                    None => self.no_field(tree, name, &seen),
                }
            }
            Value::Int(value, kind @ (Int::Duration | Int::Month | Int::Weekday)) => {
                match crate::functions::number_method(*value, *kind, &name.lossy()) {
                    Some(value) => {
                        self.arguments(tree, &name.lossy(), &[], None, given)?;
                        Ok(Seen::bare(value))
                    }
                    None => self.no_field(tree, name, &seen),
                }
            }
            _ => self.no_field(tree, name, &seen),
        }
    }

    fn no_field<T>(&self, tree: &Tree, name: &Str, seen: &Seen) -> Run<T> {
        let type_name = seen.type_name();
        self.fail(tree, format!("can't evaluate field {name} in type {type_name}"))
    }

    fn entry(&self, tree: &Tree, map: &Map, name: &Str) -> Run<Seen> {
        let is_text = map.entries_type() == Entries::String;
        match (map.get(name.as_bytes()), self.session.options.missing_key) {
            (Some(value), _) if is_text => Ok(Seen::bare(value)),
            (Some(value), _) => Ok(Seen::boxed(value)),
            (None, MissingKey::Default) => Ok(Seen::bare(Value::Absent)),
            (None, MissingKey::Zero) if is_text => Ok(Seen::bare("".into())),
            (None, MissingKey::Zero) => Ok(Seen::boxed(Value::Nil)),
            (None, MissingKey::Error) => {
                let name = literal::quote(&name.lossy());
                self.fail(tree, format!("map has no entry for key {name}"))
            }
        }
    }

    /// The value of an operand of any type.
    fn value_of(&mut self, tree: &Tree, dot: &Seen, expr: &Expr) -> Run<Seen> {
        self.at = expr.at.id;
        let given = Given {
            dot,
            args: &[],
            last: None,
        };
        match &expr.what {
            What::Dot => Ok(dot.clone()),
            What::Field(_) | What::Variable(..) | What::Chain(..) => self.member(tree, expr, given),
            What::Pipe(pipe) => self.grown(|exec| exec.pipe(tree, dot, pipe)).map(Seen::bare),
            What::Function(function) => self.function(tree, *function, expr.at.id, given).map(Seen::bare),
            What::Nil | What::Bool(_) | What::Number(_) | What::Text(..) => {
                self.constant(tree, expr).map(Seen::bare)
            }
        }
    }

    fn argument(&mut self, tree: &Tree, dot: &Seen, ty: Ty, expr: &Expr) -> Run<Value> {
        self.at = expr.at.id;
        match (&expr.what, ty) {
            (What::Nil, Ty::Any) => Ok(Value::Nil),
            (What::Nil, Ty::Reflect | Ty::Map | Ty::List) => self.accept(tree, ty, Value::Absent),
            (What::Nil, _) => self.fail(tree, format!("cannot assign nil to {}", ty.name())),
            (What::Bool(_) | What::Number(_) | What::Text(..), Ty::Any | Ty::Reflect) => {
                self.constant(tree, expr)
            }
            (What::Text(_, text), Ty::Str) => Ok(Value::String(text.clone())),
            (What::Bool(flag), Ty::Bool) => Ok(Value::Bool(*flag)),
            (What::Bool(_) | What::Number(_) | What::Text(..), Ty::Map | Ty::List | Ty::Struct(_)) => {
                let shown = expr.text();
                self.fail(
                    tree,
                    format!("can't handle {shown} for arg of type {}", ty.name()),
                )
            }
            (What::Number(number), Ty::Int | Ty::Uint32 | Ty::Float) => {
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
            (What::Bool(_) | What::Number(_) | What::Text(..), _) => self.expected(tree, ty, expr),
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
        given: Given<'_>,
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

    fn function(&mut self, tree: &Tree, id: FunctionId, call_at: u32, given: Given<'_>) -> Run<Value> {
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
