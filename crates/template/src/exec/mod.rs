//! Executes a template.
//!
//! Walks the parts with a dot, a stack of variables and one output buffer. Maps are never copied. `at` is the
//! number of the part that messages point to: the part visited last, as in Go.

mod operand;
mod table;

use crate::ast::{Branch, Node, Pipe, Tree, Var};
use crate::cache::{Layer, RenderCache};
use crate::fault::{Chain, Error, ErrorKind, Fault};
use crate::format;
use crate::limits::{Limit, Limits, Meter};
use crate::parse;
use crate::session::{SET_NAME, Session, TemplateSet, no_template, without_no_value};
use crate::value::{Entries, Str, Value};
use std::sync::Arc;

/// The stack a level of the walk may need, and the amount to add if it is missing.
const STACK_LEFT: usize = 128 << 10;
const STACK_MORE: usize = 4 << 20;

/// The cost of formatting a time or version.
const SHOW_STEPS: u64 = 16;
/// The cost of parsing the shortest template.
const READ_STEPS: u64 = 100;
/// Enclosing calls are added to a message up to this length.
const MESSAGE_BYTES_MAX: usize = 512 << 10;

type Run<T> = Result<T, Box<Error>>;

/// A value, and whether it is in an interface, which only messages show.
#[derive(Clone)]
struct Evaluated {
    value: Value,
    boxed: bool,
}

impl Evaluated {
    fn bare(value: Value) -> Self {
        Self { value, boxed: false }
    }

    fn boxed(value: Value) -> Self {
        Self { value, boxed: true }
    }

    fn type_name(&self) -> &'static str {
        if self.boxed {
            "interface {}"
        } else {
            self.value.type_name()
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    Next,
    Break,
    Continue,
}

struct Slot {
    number: u32,
    seen: Evaluated,
}

pub(crate) struct Exec<'e> {
    session: &'e mut Session,
    set: &'e TemplateSet,
    /// The definitions of texts given to `tpl`, the innermost last.
    layers: Vec<Layer>,
    out: Vec<u8>,
    out_from: usize,
    vars: Vec<Slot>,
    vars_from: usize,
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
            out_from: 0,
            vars: Vec::new(),
            vars_from: 0,
            at: 0,
            depth: 0,
        }
    }

    pub(crate) fn run(mut self, tree: &Arc<Tree>, data: Value) -> Run<Str> {
        self.call_template(tree, Evaluated::bare(data.opened()))?;
        Ok(self.out.into())
    }

    pub(crate) fn session(&mut self) -> &mut Session {
        self.session
    }

    pub(crate) fn cache(&self) -> &RenderCache {
        self.set.cache()
    }

    pub(crate) fn meter(&mut self) -> &mut Meter {
        &mut self.session.meter
    }

    pub(crate) fn limits(&self) -> &Limits {
        self.session.meter.limits()
    }

    /// Charges a template lookup, which searches all texts that `tpl` is running.
    fn looked_up(&mut self) -> Result<(), Limit> {
        const LAYERS_PER_STEP: usize = 16;
        match self.layers.len() / LAYERS_PER_STEP {
            0 => Ok(()),
            steps => self.session.meter.steps(steps as u64),
        }
    }

    fn lookup(&self, name: &str) -> Option<Arc<Tree>> {
        let mut empty = None;
        for layer in self.layers.iter().rev() {
            match layer.get(name) {
                Some(tree) if !tree.is_empty => return Some(Arc::clone(tree)),
                Some(tree) => empty = empty.or(Some(tree)),
                None => {}
            }
        }
        self.set.get(name).or(empty).map(Arc::clone)
    }

    /// `include`: returns a template's output as a text.
    pub(crate) fn include(&mut self, name: &Str, data: Value) -> Result<Str, Fault> {
        let limit = self.limits().include_depth_max;
        self.looked_up()?;
        let nested = self.session.included.entry(name.clone()).or_insert(0);
        if *nested > limit {
            return Err(Fault::message(format!(
                "rendering template has a nested reference name: {name}: unable to execute template"
            )));
        }
        *nested += 1;
        let result = match self.lookup(&name.lossy()) {
            Some(tree) => self.capture(&tree, data),
            None => Err(no_template(&name.lossy())),
        };
        if let Some(nested) = self.session.included.get_mut(name) {
            *nested -= 1;
        }
        result.map_err(|error| Fault::Template {
            prefix: String::new(),
            error,
        })
    }

    /// `tpl`: runs a text as a template. Its definitions are visible to templates it calls, and dropped
    /// afterwards.
    pub(crate) fn tpl(&mut self, text: &Str, data: Value) -> Result<Str, Fault> {
        // most texts in values are plain
        if memchr::memmem::find(text.as_bytes(), b"{{").is_none() {
            self.session.meter.work(text.len())?;
            return Ok(without_no_value(text.clone()));
        }
        let failed = |prefix: &str, error| {
            let shown = equate_manifest::go::quote(&text.lossy());
            Fault::Template {
                prefix: format!("{prefix} {shown}: "),
                error,
            }
        };
        let layer = match self.set.cache().layer(text) {
            Some(layer) => layer,
            None => {
                // the cost of the parts in the densest text
                self.session.meter.work(text.len().saturating_mul(32))?;
                self.session.meter.steps(READ_STEPS)?;
                self.session.meter.make(text.len().saturating_mul(40))?;
                let read = parse::parse(
                    &SET_NAME.into(),
                    &text.lossy().into(),
                    self.set.library(),
                    parse::READ_BYTES_MAX,
                );
                let read = read.map_err(|error| failed("cannot parse template", error))?;
                let layer = Layer::new(read.trees);
                self.set.cache().keep_layer(text.clone(), layer.clone());
                layer
            }
        };
        let Some(tree) = layer.own.clone() else {
            return Ok("".into());
        };
        self.layers.push(layer);
        let result = self.capture(&tree, data);
        self.layers.pop();
        result
            .map(without_no_value)
            .map_err(|error| failed("error during tpl function execution for", error))
    }

    /// Runs a template with its own output, variables and place. The output is appended to the caller's and
    /// cut off again.
    fn capture(&mut self, tree: &Arc<Tree>, data: Value) -> Run<Str> {
        let outer = std::mem::replace(&mut self.out_from, self.out.len());
        let result = self.call_template(tree, Evaluated::bare(data.opened()));
        let output = result.map(|()| Str::from(&self.out[self.out_from..]));
        self.out.truncate(self.out_from);
        self.out_from = outer;
        let output = output?;
        self.limited(tree, |exec| {
            exec.session.meter.work(output.len())?;
            exec.session.meter.make(output.len())
        })?;
        Ok(output)
    }

    #[expect(clippy::needless_pass_by_value, reason = "the callee owns the dot")]
    fn call_template(&mut self, tree: &Arc<Tree>, dot: Evaluated) -> Run<()> {
        let depth_max = self.limits().calls_depth_max;
        if self.depth >= depth_max {
            return Err(self.limit(tree, Limit::Calls(depth_max)));
        }
        self.depth += 1;
        let vars_from = std::mem::replace(&mut self.vars_from, self.vars.len());
        self.vars.push(Slot {
            number: 0,
            seen: dot.clone(),
        });
        let at = self.at;
        let result = stacker::maybe_grow(STACK_LEFT, STACK_MORE, || self.list(tree, &dot, &tree.root));
        self.vars.truncate(self.vars_from);
        self.vars_from = vars_from;
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
        let (source, name) = (&tree.source, equate_manifest::go::quote(&tree.name));
        Box::new(Error {
            kind,
            message: format!("template: {source}:{line}:{column}: executing {name} at <{context}>: {reason}"),
            template: source.to_string(),
            line,
            column: Some(column),
            reason,
            chain: Chain::default(),
        })
    }

    fn call_failed(&self, tree: &Tree, name: &str, fault: Fault) -> Box<Error> {
        match fault {
            Fault::Message(message) => {
                let mut error = self.error(tree, ErrorKind::Exec, format!("error calling {name}: {message}"));
                error.reason = message;
                error.chain.is_foreign = true;
                error
            }
            Fault::Rejected(message) => {
                let mut error = self.error(
                    tree,
                    ErrorKind::Rejected,
                    format!("error calling {name}: {message}"),
                );
                error.reason = message;
                error
            }
            Fault::Limit(limit) => {
                let reason = format!("error calling {name}: {limit}");
                self.error(tree, ErrorKind::Limit(limit), reason)
            }
            // a text that runs itself would be quoted again and again
            Fault::Template { prefix, error } if prefix.len() + error.message.len() > MESSAGE_BYTES_MAX => {
                error
            }
            Fault::Template { prefix, mut error } => {
                let reason = format!("error calling {name}: {prefix}{}", error.message);
                error.chain.inner.push(error.message.len());
                error.chain.is_foreign |= !prefix.is_empty();
                if error.kind == ErrorKind::Parse {
                    error.kind = ErrorKind::Exec;
                }
                error.message = self.error(tree, error.kind, reason).message;
                error
            }
        }
    }

    fn list(&mut self, tree: &Tree, dot: &Evaluated, list: &[Node]) -> Run<Flow> {
        for node in list {
            match self.node(tree, dot, node)? {
                Flow::Next => {}
                left => return Ok(left),
            }
        }
        Ok(Flow::Next)
    }

    fn node(&mut self, tree: &Tree, dot: &Evaluated, node: &Node) -> Run<Flow> {
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
                self.limited(tree, Self::looked_up)?;
                let Some(callee) = self.lookup(name) else {
                    return self.fail(
                        tree,
                        format!("template {} not defined", equate_manifest::go::quote(name)),
                    );
                };
                let dot = match pipe {
                    Some(pipe) => self.pipe(tree, dot, pipe)?,
                    None => Value::Absent,
                };
                self.call_template(&callee, Evaluated::bare(dot))?;
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
        if self.out.len() - self.out_from + bytes.len() > limit {
            return Err(self.limit(tree, Limit::Output(limit)));
        }
        if let Err(limit) = self.session.meter.write(bytes.len()) {
            return Err(self.limit(tree, limit));
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn print(&mut self, tree: &Tree, value: &Value) -> Run<()> {
        match value {
            Value::String(text) => self.write(tree, text.as_bytes()),
            Value::Absent | Value::Nil => self.write(tree, b"<no value>"),
            value => {
                if let Value::Host(_) = value {
                    self.limited(tree, |exec| exec.session.meter.steps(SHOW_STEPS))?;
                }
                let text = format::plain(value, self.limits()).map_err(|limit| self.limit(tree, limit))?;
                self.write(tree, &text)
            }
        }
    }

    fn condition(&mut self, tree: &Tree, dot: &Evaluated, branch: &Branch, is_with: bool) -> Run<Flow> {
        let mark = self.vars.len();
        let value = self.pipe(tree, dot, &branch.pipe)?;
        let flow = if value.is_true() {
            if is_with {
                self.list(tree, &Evaluated::bare(value), &branch.list)
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

    fn range(&mut self, tree: &Tree, dot: &Evaluated, branch: &Branch) -> Run<Flow> {
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
                    let item = Evaluated {
                        value: item.clone(),
                        boxed,
                    };
                    let index = Evaluated::bare(Value::int(index as i64));
                    if self.iteration(tree, branch, mark, index, item)? == Flow::Break {
                        break;
                    }
                }
                !list.is_empty()
            }
            Value::Bytes(bytes) => {
                for (index, byte) in bytes.as_bytes().iter().enumerate() {
                    let item = Evaluated::bare(Value::Uint((*byte).into(), crate::value::Uint::Uint8));
                    let index = Evaluated::bare(Value::int(index as i64));
                    if self.iteration(tree, branch, mark, index, item)? == Flow::Break {
                        break;
                    }
                }
                !bytes.is_empty()
            }
            Value::Map(map) => {
                // iterations may change the map
                let entries = map.snapshot();
                self.limited(tree, |exec| exec.session.meter.make_items(entries.len() * 2))?;
                let boxed = map.entries_type() != Entries::String;
                let any = !entries.is_empty();
                for (key, value) in entries {
                    let key = Evaluated::bare(Value::String(key));
                    if self.iteration(tree, branch, mark, key, Evaluated { value, boxed })? == Flow::Break {
                        break;
                    }
                }
                any
            }
            Value::Absent | Value::Nil => false,
            Value::Host(host) if host.count().is_some() && host.kind() != crate::value::Kind::Struct => {
                let entries = host.entries().unwrap_or_default();
                let any = !entries.is_empty();
                for (key, value) in entries {
                    if self.iteration(tree, branch, mark, Evaluated::bare(key), Evaluated::bare(value))?
                        == Flow::Break
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
            if self.iteration(
                tree,
                branch,
                mark,
                Evaluated::bare(Value::Absent),
                Evaluated::bare(number),
            )? == Flow::Break
            {
                break;
            }
        }
        Ok(count > 0)
    }

    #[expect(clippy::needless_pass_by_value, reason = "the iteration owns key and item")]
    fn iteration(
        &mut self,
        tree: &Tree,
        branch: &Branch,
        mark: usize,
        key: Evaluated,
        item: Evaluated,
    ) -> Run<Flow> {
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

    fn set_top(&mut self, back: usize, seen: Evaluated) {
        let index = self.vars.len().saturating_sub(back);
        if let Some(slot) = self.vars.get_mut(index) {
            slot.seen = seen;
        }
    }

    fn set_var(&mut self, tree: &Tree, var: &Var, seen: Evaluated) -> Run<()> {
        self.var(tree, var)?.seen = seen;
        Ok(())
    }

    /// Finds a variable: the last with its name. Skipping very many is charged.
    fn var(&mut self, tree: &Tree, var: &Var) -> Run<&mut Slot> {
        const SLOTS_PER_STEP: usize = 16;
        let mut vars = self.vars[self.vars_from..].iter().rev();
        let Some(back) = vars.position(|slot| slot.number == var.slot) else {
            return self.fail(tree, format!("undefined variable: {}", var.name));
        };
        if back > SLOTS_PER_STEP {
            let steps = (back / SLOTS_PER_STEP) as u64;
            self.limited(tree, |exec| exec.session.meter.steps(steps))?;
        }
        let at = self.vars.len() - 1 - back;
        Ok(&mut self.vars[at])
    }

    /// The value of a pipeline, with absent values as nil.
    fn pipe(&mut self, tree: &Tree, dot: &Evaluated, pipe: &Pipe) -> Run<Value> {
        self.at = pipe.at.id;
        let mut last = None;
        for command in &pipe.commands {
            last = Some(self.command(tree, dot, command, last)?.value.opened());
        }
        let value = last.unwrap_or_default();
        for var in &pipe.decl {
            let seen = Evaluated::bare(value.clone());
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
}
