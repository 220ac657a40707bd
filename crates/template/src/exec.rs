//! The run of a template.
//!
//! Walks the parts with a dot, a stack of variables and one output buffer. A map is never copied; a
//! template call costs a new stack of variables. `at` is the number of the part that messages point
//! to, which is the part looked at last, as in Go.

use crate::ast::{Branch, Command, Expr, Node, Pipe, Tree, Var, What};
use crate::call::{Args, Call, Ty};
use crate::fault::{Error, ErrorKind, Fault};
use crate::format;
use crate::functions::{Body, FunctionId};
use crate::limits::{Limit, Limits, Meter};
use crate::literal::{self, Number};
use crate::parse;
use crate::session::{Layer, MissingKey, Session, TemplateSet, no_template};
use crate::value::{Entries, Int, Map, Str, Value};
use std::sync::Arc;

/// Stack that a level of the walk may need, and how much more is taken when it is not there.
const STACK_LEFT: usize = 128 << 10;
const STACK_MORE: usize = 4 << 20;

type Run<T> = Result<T, Box<Error>>;

/// A value, and whether it is seen through an interface, which only messages tell.
#[derive(Clone)]
struct Seen {
    value: Value,
    boxed: bool,
}

impl Seen {
    fn bare(value: Value) -> Self {
        Self { value, boxed: false }
    }

    fn boxed(value: Value) -> Self {
        Self { value, boxed: true }
    }

    fn type_name(&self) -> &str {
        if self.boxed {
            "interface {}"
        } else {
            self.value.type_name()
        }
    }
}

/// What comes after a part.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Slot {
    number: u32,
    seen: Seen,
}

/// A run of a template and of those it calls.
pub(crate) struct Exec<'e> {
    session: &'e mut Session,
    set: &'e TemplateSet,
    /// What texts given to `tpl` define, the innermost last.
    layers: Vec<Layer>,
    out: Vec<u8>,
    vars: Vec<Slot>,
    at: u32,
    depth: usize,
}

impl<'e> Exec<'e> {
    pub(crate) fn new(session: &'e mut Session, set: &'e TemplateSet) -> Self {
        Self {
            session,
            set,
            layers: Vec::new(),
            out: Vec::new(),
            vars: Vec::new(),
            at: 0,
            depth: 0,
        }
    }

    /// Runs a template and returns what it wrote.
    pub(crate) fn run(mut self, tree: &Arc<Tree>, data: Value) -> Run<Vec<u8>> {
        self.call_template(tree, Seen::bare(data.opened()))?;
        Ok(self.out)
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        self.session
    }

    pub(crate) fn meter(&mut self) -> &mut Meter {
        &mut self.session.meter
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.session.meter.limits()
    }

    fn lookup(&self, name: &str) -> Option<Arc<Tree>> {
        let mut empty = None;
        for layer in self.layers.iter().rev() {
            match layer.iter().find(|tree| &*tree.name == name) {
                Some(tree) if !tree.is_empty() => return Some(Arc::clone(tree)),
                Some(tree) => empty = empty.or(Some(tree)),
                None => {}
            }
        }
        self.set.get(name).or(empty).map(Arc::clone)
    }

    /// `include`: the output of a template as a text.
    pub(crate) fn include(&mut self, name: &Str, data: Value) -> Result<Str, Fault> {
        let limit = self.limits().include_depth_max;
        let nested = self.session.included.entry(name.clone()).or_insert(0);
        if *nested > limit {
            return Err(Fault::message(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *nested += 1;
        let result = match self.lookup(&name.lossy()) {
            Some(tree) => self.capture(&tree, data),
            None => Err(no_template(&name.lossy(), &self.session.options.set_name)),
        };
        if let Some(nested) = self.session.included.get_mut(name) {
            *nested -= 1;
        }
        result.map(Str::from).map_err(|error| Fault::Template {
            prefix: String::new(),
            error,
        })
    }

    /// `tpl`: a text run as a template. What it defines is seen by what it calls, and gone afterwards.
    pub(crate) fn tpl(&mut self, text: &Str, data: Value) -> Result<Str, Fault> {
        let failed = |prefix: &str, error| {
            let shown = literal::quote(&text.lossy());
            Fault::Template {
                prefix: format!("{prefix} {shown}: "),
                error,
            }
        };
        let layer = match self.session.layers.get(text) {
            Some(layer) => Arc::clone(layer),
            None => {
                self.session.meter.work(text.len().saturating_mul(4))?;
                let source = Arc::clone(&self.session.options.set_name);
                let trees = parse::parse(&source, &text.lossy().into(), self.set.library())
                    .map_err(|error| failed("cannot parse template", error))?;
                let layer: Layer = trees.into();
                self.session.layers.insert(text.clone(), Arc::clone(&layer));
                layer
            }
        };
        let Some(tree) = layer.first().map(Arc::clone) else {
            return Ok("".into());
        };
        self.layers.push(layer);
        let result = self.capture(&tree, data);
        self.layers.pop();
        let output = result.map_err(|error| failed("error during tpl function execution for", error))?;
        Ok(without_no_value(output).into())
    }

    /// Runs a template with an output, variables and place of its own.
    fn capture(&mut self, tree: &Arc<Tree>, data: Value) -> Run<Vec<u8>> {
        let outer = std::mem::take(&mut self.out);
        let result = self.call_template(tree, Seen::bare(data.opened()));
        let output = std::mem::replace(&mut self.out, outer);
        result?;
        self.limited(tree, |exec| {
            exec.session.meter.work(output.len())?;
            exec.session.meter.make(output.len())
        })?;
        Ok(output)
    }

    fn call_template(&mut self, tree: &Arc<Tree>, dot: Seen) -> Run<()> {
        let depth_max = self.limits().calls_depth_max;
        if self.depth >= depth_max {
            return Err(self.limit(tree, Limit::Calls(depth_max)));
        }
        self.depth += 1;
        let first = Slot {
            number: 0,
            seen: dot.clone(),
        };
        let vars = std::mem::replace(&mut self.vars, vec![first]);
        let at = self.at;
        let result = stacker::maybe_grow(STACK_LEFT, STACK_MORE, || self.list(tree, &dot, &tree.root));
        self.vars = vars;
        self.at = at;
        self.depth -= 1;
        result.map(|_| ())
    }

    fn fail<T>(&self, tree: &Tree, reason: impl Into<String>) -> Run<T> {
        Err(self.error(tree, ErrorKind::Exec, reason.into()))
    }

    fn limit(&self, tree: &Tree, limit: Limit) -> Box<Error> {
        self.error(tree, ErrorKind::Limit(limit), limit.to_string())
    }

    fn limited(&mut self, tree: &Tree, spend: impl FnOnce(&mut Self) -> Result<(), Limit>) -> Run<()> {
        spend(self).map_err(|limit| self.limit(tree, limit))
    }

    fn error(&self, tree: &Tree, kind: ErrorKind, reason: String) -> Box<Error> {
        let (line, column, context) = tree.context(self.at);
        let (source, name) = (&tree.source, literal::quote(&tree.name));
        Box::new(Error {
            kind,
            message: format!("template: {source}:{line}:{column}: executing {name} at <{context}>: {reason}"),
            template: source.to_string(),
            line,
            column: Some(column),
            reason,
        })
    }

    /// The error of a call, around the one of the template that the function ran.
    fn call_failed(&self, tree: &Tree, name: &str, fault: Fault) -> Box<Error> {
        match fault {
            Fault::Message(message) => {
                let mut error = self.error(tree, ErrorKind::Exec, format!("error calling {name}: {message}"));
                error.reason = message;
                error
            }
            Fault::Limit(limit) => {
                let reason = format!("error calling {name}: {limit}");
                self.error(tree, ErrorKind::Limit(limit), reason)
            }
            Fault::Template { prefix, error } => {
                let reason = format!("error calling {name}: {prefix}{}", error.message);
                let outer = self.error(tree, error.kind, reason);
                Box::new(Error {
                    message: outer.message,
                    ..*error
                })
            }
        }
    }

    fn list(&mut self, tree: &Tree, dot: &Seen, list: &[Node]) -> Run<Flow> {
        for node in list {
            match self.node(tree, dot, node)? {
                Flow::Next => {}
                left => return Ok(left),
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, tree: &Tree, dot: &Seen, node: &Node) -> Run<Flow> {
        self.limited(tree, |exec| exec.session.meter.step())?;
        match node {
            Node::Text(text) => self.write(tree, text.as_bytes())?,
            Node::Action(at, pipe) => {
                self.at = at.id;
                let value = self.pipe(tree, dot, pipe)?;
                if pipe.decl.is_empty() {
                    self.at = at.id;
                    self.print(tree, &value)?;
                }
            }
            Node::If(branch) => {
                self.at = branch.at.id;
                return self.grown(|exec| exec.condition(tree, dot, branch, false));
            }
            Node::With(branch) => {
                self.at = branch.at.id;
                return self.grown(|exec| exec.condition(tree, dot, branch, true));
            }
            Node::Range(branch) => {
                self.at = branch.at.id;
                return self.grown(|exec| exec.range(tree, dot, branch));
            }
            Node::Template(at, name, pipe) => {
                self.at = at.id;
                let Some(callee) = self.lookup(name) else {
                    return self.fail(tree, format!("template {} not defined", literal::quote(name)));
                };
                let dot = match pipe {
                    Some(pipe) => self.pipe(tree, dot, pipe)?,
                    None => Value::Absent,
                };
                self.call_template(&callee, Seen::bare(dot))?;
            }
            Node::Break => return Ok(Flow::Break),
            Node::Continue => return Ok(Flow::Continue),
        }
        Ok(Flow::Next)
    }

    fn grown<T>(&mut self, run: impl FnOnce(&mut Self) -> T) -> T {
        stacker::maybe_grow(STACK_LEFT, STACK_MORE, || run(self))
    }

    fn write(&mut self, tree: &Tree, bytes: &[u8]) -> Run<()> {
        let limit = self.limits().output_bytes_max;
        if self.out.len() + bytes.len() > limit {
            return Err(self.limit(tree, Limit::Output(limit)));
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn print(&mut self, tree: &Tree, value: &Value) -> Run<()> {
        match value {
            Value::String(text) => self.write(tree, text.as_bytes()),
            Value::Absent | Value::Nil => self.write(tree, b"<no value>"),
            value => {
                let text = format::plain(value, self.limits()).map_err(|limit| self.limit(tree, limit))?;
                self.write(tree, &text)
            }
        }
    }

    fn condition(&mut self, tree: &Tree, dot: &Seen, branch: &Branch, is_with: bool) -> Run<Flow> {
        let mark = self.vars.len();
        let value = self.pipe(tree, dot, &branch.pipe)?;
        let flow = if value.is_true() {
            if is_with {
                self.list(tree, &Seen::bare(value), &branch.list)
            } else {
                self.list(tree, dot, &branch.list)
            }
        } else {
            match &branch.else_list {
                Some(list) => self.list(tree, dot, list),
                None => Ok(Flow::Next),
            }
        };
        self.vars.truncate(mark);
        flow
    }

    fn range(&mut self, tree: &Tree, dot: &Seen, branch: &Branch) -> Run<Flow> {
        let outer = self.vars.len();
        let value = self.pipe(tree, dot, &branch.pipe)?;
        let mark = self.vars.len();
        let any = match &value {
            Value::Int(count, _) => self.range_int(tree, branch, mark, &value, *count)?,
            Value::Uint(count, _) => self.range_int(
                tree,
                branch,
                mark,
                &value,
                i64::try_from(*count).unwrap_or(i64::MAX),
            )?,
            Value::List(list) => {
                let boxed = list.elements() == crate::value::Elements::Any;
                for (index, item) in list.items().iter().enumerate() {
                    let item = Seen {
                        value: item.clone(),
                        boxed,
                    };
                    let index = Seen::bare(Value::int(index as i64));
                    if self.iteration(tree, branch, mark, index, item)? == Flow::Break {
                        break;
                    }
                }
                !list.is_empty()
            }
            Value::Bytes(bytes) => {
                for (index, byte) in bytes.as_bytes().iter().enumerate() {
                    let item = Seen::bare(Value::Uint((*byte).into(), crate::value::Uint::Uint8));
                    let index = Seen::bare(Value::int(index as i64));
                    if self.iteration(tree, branch, mark, index, item)? == Flow::Break {
                        break;
                    }
                }
                !bytes.is_empty()
            }
            Value::Map(map) => {
                // as it is now, whatever the iterations do to it
                let entries = map.snapshot();
                self.limited(tree, |exec| exec.session.meter.make_items(entries.len() * 2))?;
                let boxed = map.entries_type() != Entries::String;
                let any = !entries.is_empty();
                for (key, value) in entries {
                    let key = Seen::bare(Value::String(key));
                    if self.iteration(tree, branch, mark, key, Seen { value, boxed })? == Flow::Break {
                        break;
                    }
                }
                any
            }
            Value::Absent | Value::Nil => false,
            Value::Host(host) if host.entries().is_some() && host.kind() != crate::value::Kind::Struct => {
                let entries = host.entries().unwrap_or_default();
                let any = !entries.is_empty();
                for (key, value) in entries {
                    if self.iteration(tree, branch, mark, Seen::bare(key), Seen::bare(value))? == Flow::Break
                    {
                        break;
                    }
                }
                any
            }
            other => {
                let shown = format::plain(other, self.limits()).map_err(|limit| self.limit(tree, limit))?;
                let shown = String::from_utf8_lossy(&shown).into_owned();
                return self.fail(tree, format!("range can't iterate over {shown}"));
            }
        };
        self.vars.truncate(mark);
        let flow = match &branch.else_list {
            Some(list) if !any => self.list(tree, dot, list)?,
            _ => Flow::Next,
        };
        self.vars.truncate(outer);
        Ok(flow)
    }

    fn range_int(
        &mut self,
        tree: &Tree,
        branch: &Branch,
        mark: usize,
        value: &Value,
        count: i64,
    ) -> Run<bool> {
        if branch.pipe.decl.len() > 1 {
            return self.fail(
                tree,
                format!("can't use {count} to iterate over more than one variable"),
            );
        }
        for number in 0..count {
            let number = match value {
                Value::Int(_, kind) => Value::Int(number, *kind),
                Value::Uint(_, kind) => Value::Uint(number as u64, *kind),
                _ => Value::int(number),
            };
            if self.iteration(tree, branch, mark, Seen::bare(Value::Absent), Seen::bare(number))?
                == Flow::Break
            {
                break;
            }
        }
        Ok(count > 0)
    }

    fn iteration(&mut self, tree: &Tree, branch: &Branch, mark: usize, key: Seen, item: Seen) -> Run<Flow> {
        self.limited(tree, |exec| exec.session.meter.step())?;
        let pipe = &branch.pipe;
        match (pipe.decl.as_slice(), pipe.is_assign) {
            ([], _) => {}
            ([one], true) => self.set_var(tree, one, item.clone())?,
            ([one, two, ..], true) => {
                self.set_var(tree, one, key)?;
                self.set_var(tree, two, item.clone())?;
            }
            ([_], false) => self.set_top(1, item.clone()),
            ([_, _, ..], false) => {
                self.set_top(2, key);
                self.set_top(1, item.clone());
            }
        }
        let flow = self.list(tree, &item, &branch.list)?;
        self.vars.truncate(mark);
        Ok(match flow {
            Flow::Break => Flow::Break,
            Flow::Next | Flow::Continue => Flow::Next,
        })
    }

    fn set_top(&mut self, back: usize, seen: Seen) {
        let index = self.vars.len().saturating_sub(back);
        if let Some(slot) = self.vars.get_mut(index) {
            slot.seen = seen;
        }
    }

    fn set_var(&mut self, tree: &Tree, var: &Var, seen: Seen) -> Run<()> {
        match self.vars.iter_mut().rev().find(|slot| slot.number == var.slot) {
            Some(slot) => {
                slot.seen = seen;
                Ok(())
            }
            None => self.fail(tree, format!("undefined variable: {}", var.name)),
        }
    }

    /// The value of a pipeline, without the difference between nil and no value.
    fn pipe(&mut self, tree: &Tree, dot: &Seen, pipe: &Pipe) -> Run<Value> {
        self.at = pipe.at.id;
        let mut last = None;
        for command in &pipe.commands {
            last = Some(self.command(tree, dot, command, last)?.value.opened());
        }
        let value = last.unwrap_or_default();
        for var in &pipe.decl {
            let seen = Seen::bare(value.clone());
            if pipe.is_assign {
                self.set_var(tree, var, seen)?;
            } else {
                self.vars.push(Slot {
                    number: var.slot,
                    seen,
                });
            }
        }
        Ok(value)
    }

    fn command(&mut self, tree: &Tree, dot: &Seen, command: &Command, last: Option<Value>) -> Run<Seen> {
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

    /// A constant where nothing says what type it should have.
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

    /// A field, a variable, or the fields of one: `.a.b`, `$x.a`, `(f).a`.
    fn member(&mut self, tree: &Tree, expr: &Expr, given: Given<'_>) -> Run<Seen> {
        self.at = expr.at.id;
        match &expr.what {
            What::Field(fields) => self.fields(tree, expr, fields, given.dot.clone(), given),
            What::Variable(var, fields) => {
                let found = self.vars.iter().rev().find(|slot| slot.number == var.slot);
                let Some(seen) = found.map(|slot| slot.seen.clone()) else {
                    return self.fail(tree, format!("undefined variable: {}", var.name));
                };
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
                if !given.args.is_empty() || given.last.is_some() {
                    return self.fail(tree, format!("{name} is not a method but has arguments"));
                }
                self.entry(tree, map, name)
            }
            Value::Host(host) => {
                let text = name.lossy();
                if let Some(method) = host.method(&text) {
                    let args = self.arguments(tree, &text, method.params, method.variadic, given)?;
                    return match host.call(&text, &args) {
                        Ok(value) => Ok(Seen::bare(value)),
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

    /// The value of an operand, whatever its type.
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

    /// An operand as an argument.
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
                self.limited(tree, |exec| exec.session.meter.step())?;
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

/// What a command gives to its first word.
struct Given<'a> {
    dot: &'a Seen,
    args: &'a [Expr],
    last: Option<Value>,
}

/// The value of a number that may be of any type; none when it is too large.
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

/// What Helm leaves of a text: what had no value is gone.
fn without_no_value(text: Vec<u8>) -> Vec<u8> {
    const NONE: &[u8] = b"<no value>";
    if !text.windows(NONE.len()).any(|window| window == NONE) {
        return text;
    }
    let mut kept = Vec::with_capacity(text.len());
    let mut rest = &text[..];
    while let Some((first, after)) = rest.split_first() {
        match rest.strip_prefix(NONE) {
            Some(after) => rest = after,
            None => {
                kept.push(*first);
                rest = after;
            }
        }
    }
    kept
}
