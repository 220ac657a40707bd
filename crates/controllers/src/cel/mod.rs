//! User expressions of the Common Expression Language with a boolean result.
//!
//! The interpreter is not made for untrusted expressions: it has no limits, recurses as deep as the text
//! is nested, and panics on unknown input. So parsing has its own stack, all parts are checked before
//! the run, `cost` bounds the cost, and a panic becomes an error. Errors quote no values: these may
//! belong to another tenant.

mod cost;

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators as op};
use kube_cel::cel::objects::Map;
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};
use serde_json::Value;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use self::cost::STEPS_MAX;
use self::cost::{Refusal, full_name};

/// The longest expression.
pub const BYTES_MAX: usize = 4096;
const BRACKETS_MAX: usize = 32;
const DEPTH_MAX: usize = 48;
/// The depth that a worker's stack has room for.
const SHALLOW: usize = 12;
/// The parser's need for the deepest text; only the used part takes memory.
const STACK: usize = 256 << 20;
/// Names before a dot that are no variables.
const NAMESPACES: [&str; 3] = ["base64", "optional", "sets"];
/// Operators that take a value out of another.
const DYNAMIC: [&str; 3] = [op::INDEX, op::OPT_INDEX, op::OPT_SELECT];

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is too long.
    #[error("the CEL expression has {0} bytes; the limit is {BYTES_MAX}")]
    Long(usize),
    /// It is not valid.
    #[error("failed to parse the CEL expression '{expression}': {why}")]
    Syntax {
        /// The expression.
        expression: String,
        /// The problem and its position.
        why: String,
    },
    /// It refers to an undeclared name.
    #[error("failed to parse the CEL expression '{expression}': undeclared reference to '{name}'")]
    Undeclared {
        /// The expression.
        expression: String,
        /// The name.
        name: String,
    },
    /// It is nested too deep.
    #[error("the CEL expression is nested more than {0} levels deep")]
    Deep(usize),
    /// It uses an unsupported part of the language.
    #[error("failed to parse the CEL expression '{expression}': {what} are not supported")]
    Unsupported {
        /// The expression.
        expression: String,
        /// The part.
        what: &'static str,
    },
    /// Its result cannot be a boolean.
    #[error("CEL expression output type mismatch: expected bool, got dyn; compare it, as in '{0} == true'")]
    NotBoolean(String),
}

/// Why an expression has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to evaluate the CEL expression '{expression}': {why}")]
pub struct EvaluateError {
    expression: String,
    why: String,
}

/// An expression.
#[derive(Debug)]
pub struct Expression {
    text: String,
    names: Vec<String>,
    program: Program,
    is_deep: bool,
}

impl Expression {
    /// Compiles a boolean expression over these variables.
    ///
    /// # Errors
    ///
    /// If it is not valid, or refers to anything else.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, CompileError> {
        let program = read(text)?;
        let root = program.expression();
        let mut scope: Vec<&str> = variables.to_vec();
        walk(root, &mut scope).map_err(|fault| fault.of(text))?;
        if is_dynamic(root) {
            return Err(CompileError::NotBoolean(text.to_owned()));
        }
        Ok(Self {
            text: text.to_owned(),
            names: Vec::new(),
            is_deep: is_deeper(root, SHALLOW),
            program,
        })
    }

    /// Compiles an expression that may refer to any field of an object.
    ///
    /// # Errors
    ///
    /// If it is not valid.
    pub fn of_object(text: &str) -> Result<Self, CompileError> {
        let program = read(text)?;
        let mut names: Vec<String> = Vec::new();
        // each round finds a name, and a text has only so many
        loop {
            let mut scope: Vec<&str> = names.iter().map(String::as_str).collect();
            match walk(program.expression(), &mut scope) {
                Ok(()) => break,
                Err(Fault::Name(name)) => names.push(name),
                Err(fault) => return Err(fault.of(text)),
            }
        }
        Ok(Self {
            text: text.to_owned(),
            names,
            is_deep: is_deeper(program.expression(), SHALLOW),
            program,
        })
    }

    /// Evaluates it for an object whose fields are its variables.
    ///
    /// # Errors
    ///
    /// If a field is missing, the result is no boolean, or it may take too long.
    pub fn holds_of(&self, fields: &serde_json::Map<String, Value>) -> Result<bool, EvaluateError> {
        let names = self.names.iter();
        // a missing field matters only if it is evaluated
        let variables: Vec<(&str, &Value)> = names
            .filter_map(|name| Some((name.as_str(), fields.get(name)?)))
            .collect();
        self.holds(&variables)
    }

    /// Evaluates it for these variables.
    ///
    /// # Errors
    ///
    /// If a field is missing, the result is no boolean, or it may take too long.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, EvaluateError> {
        let failed = |why: String| EvaluateError {
            expression: self.text.clone(),
            why,
        };
        cost::check(self.program.expression(), variables).map_err(|refusal| {
            failed(match refusal {
                Refusal::Steps => format!("it may take more than {STEPS_MAX} steps: nest fewer macros"),
                Refusal::Weight => "it may make a value that is too large".to_owned(),
                Refusal::Unread => "it has a part that is not supported".to_owned(),
            })
        })?;
        let run = || {
            let mut context = Context::default().with_all();
            for (name, value) in variables {
                context.add_variable_from_value(*name, cel(value));
            }
            self.program.execute(&context)
        };
        // the interpreter has states that it marks as unreachable, so a panic must be caught
        let answer = match self.is_deep {
            true => on_a_stack(run),
            false => catch_unwind(AssertUnwindSafe(run)).map_err(|_panic| Broken::Panicked),
        };
        let answer = answer.map_err(|broken| failed(broken.to_string()))?;
        match answer {
            Ok(Cel::Bool(answer)) => Ok(answer),
            Ok(other) => Err(failed(format!("it is {}, not bool", other.type_of()))),
            Err(ExecutionError::UndeclaredReference(name)) if !self.names.is_empty() => {
                Err(failed(format!("no such attribute(s): {name}")))
            }
            Err(error) => Err(failed(reason(&error))),
        }
    }
}

/// The error without the values that caused it.
fn reason(error: &ExecutionError) -> String {
    match error {
        // these name a field or function of the expression
        ExecutionError::NoSuchKey(name) => format!("no such key: {name}"),
        ExecutionError::UndeclaredReference(name) => format!("undeclared reference to '{name}'"),
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::IndexOutOfBounds(_) => "index out of bounds".to_owned(),
        ExecutionError::FunctionError { function, .. } => format!("error in function '{function}'"),
        _ => "no such overload: an operator or function has values of the wrong type".to_owned(),
    }
}

/// Whether an expression only reads a value and computes nothing.
fn is_dynamic(root: &IdedExpr) -> bool {
    match &root.expr {
        Expr::Select(select) => !select.test,
        Expr::Ident(_) => true,
        Expr::Call(call) => DYNAMIC.contains(&call.func_name.as_str()),
        _ => false,
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    Name(String),
    Function(String),
    Unsupported(&'static str),
}

impl Fault {
    fn of(self, expression: &str) -> CompileError {
        let expression = expression.to_owned();
        match self {
            Fault::Name(name) | Fault::Function(name) => CompileError::Undeclared { expression, name },
            Fault::Unsupported(what) => CompileError::Unsupported { expression, what },
        }
    }
}

/// Parses a text of any depth.
fn read(text: &str) -> Result<Program, CompileError> {
    if text.len() > BYTES_MAX {
        return Err(CompileError::Long(text.len()));
    }
    if brackets(text) > BRACKETS_MAX {
        return Err(CompileError::Deep(BRACKETS_MAX));
    }
    let syntax = |why: String| CompileError::Syntax {
        expression: text.to_owned(),
        why,
    };
    // the parser's frames are large, and a deep result must be dropped on the stack that made it
    let parse = || match Program::compile(text) {
        Ok(program) if is_deeper(program.expression(), DEPTH_MAX) => Err(CompileError::Deep(DEPTH_MAX)),
        Ok(program) => Ok(program),
        // the position marker, as Flux indents it
        Err(error) => Err(syntax(error.to_string().replace("\n| ", "\n | "))),
    };
    on_a_stack(parse).unwrap_or_else(|broken| Err(syntax(broken.to_string())))
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("the interpreter failed")]
    Panicked,
    #[error("cannot start a thread for it: {0}")]
    Thread(#[from] std::io::Error),
}

/// Runs a function on a stack that is deep enough for all parsed texts.
fn on_a_stack<T: Send>(run: impl FnOnce() -> T + Send) -> Result<T, Broken> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK);
        let running = thread.spawn_scoped(scope, run)?;
        running.join().map_err(|_panic| Broken::Panicked)
    })
}

/// The nesting depth of brackets; those in texts count, and closing ones there do not.
fn brackets(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text.bytes() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn is_deeper(at: &IdedExpr, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else {
        return true;
    };
    let deeper = |part: &IdedExpr| is_deeper(part, left);
    match &at.expr {
        Expr::Unspecified | Expr::Literal(_) | Expr::Ident(_) => false,
        Expr::Select(select) => deeper(&select.operand),
        Expr::List(list) => list.elements.iter().any(deeper),
        Expr::Map(map) => map.entries.iter().any(|entry| is_entry_deeper(&entry.expr, left)),
        Expr::Struct(of) => of.entries.iter().any(|entry| is_entry_deeper(&entry.expr, left)),
        Expr::Call(call) => call.target.as_deref().is_some_and(deeper) || call.args.iter().any(deeper),
        Expr::Comprehension(of) => {
            let parts = [
                &of.iter_range,
                &of.accu_init,
                &of.loop_cond,
                &of.loop_step,
                &of.result,
            ];
            parts.into_iter().any(deeper)
        }
    }
}

fn is_entry_deeper(entry: &EntryExpr, left: usize) -> bool {
    match entry {
        EntryExpr::StructField(field) => is_deeper(&field.value, left),
        EntryExpr::MapEntry(entry) => is_deeper(&entry.key, left) || is_deeper(&entry.value, left),
    }
}

fn walk<'e>(at: &'e IdedExpr, scope: &mut Vec<&'e str>) -> Result<(), Fault> {
    match &at.expr {
        Expr::Literal(_) => Ok(()),
        Expr::Ident(name) if scope.iter().any(|known| known == name) => Ok(()),
        Expr::Ident(name) => Err(Fault::Name(name.clone())),
        Expr::Select(select) => walk(&select.operand, scope),
        Expr::List(list) => all(&list.elements, scope),
        Expr::Map(map) => map.entries.iter().try_for_each(|entry| match &entry.expr {
            EntryExpr::MapEntry(entry) => walk(&entry.key, scope).and_then(|()| walk(&entry.value, scope)),
            EntryExpr::StructField(_) => Err(Fault::Unsupported("messages")),
        }),
        Expr::Struct(_) | Expr::Unspecified => Err(Fault::Unsupported("messages")),
        Expr::Call(call) => {
            let (name, target) = full_name(call);
            if !cost::knows(&name) {
                return Err(Fault::Function(name));
            }
            target.map_or(Ok(()), |target| walk(target, scope))?;
            all(&call.args, scope)
        }
        Expr::Comprehension(of) => {
            walk(&of.iter_range, scope)?;
            walk(&of.accu_init, scope)?;
            let known = scope.len();
            scope.extend([of.accu_var.as_str(), of.iter_var.as_str()]);
            scope.extend(of.iter_var2.as_deref());
            walk(&of.loop_cond, scope)?;
            walk(&of.loop_step, scope)?;
            walk(&of.result, scope)?;
            scope.truncate(known);
            Ok(())
        }
    }
}

fn all<'e>(parts: impl IntoIterator<Item = &'e IdedExpr>, scope: &mut Vec<&'e str>) -> Result<(), Fault> {
    parts.into_iter().try_for_each(|part| walk(part, scope))
}

fn cel(value: &Value) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(yes) => Cel::Bool(*yes),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Cel::Int(integer),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(text.clone().into()),
        Value::Array(items) => Cel::List(items.iter().map(cel).collect::<Vec<_>>().into()),
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| (name.clone(), cel(value)));
            Cel::Map(Map::from(fields.collect::<HashMap<String, Cel>>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn expressions_are_evaluated_or_fail_with_a_reason() {
        let dep = json!({
            "metadata": { "name": "infra", "generation": 3, "labels": { "stage": "2", "secret": "hunter2" } },
            "status": { "conditions": [
                { "type": "Ready", "status": "False" },
                { "type": "Reconciling", "status": "True" },
            ], "observedGeneration": 3 },
        });
        let check = |text: &str, expected: Result<bool, &str>| {
            let compiled = Expression::compile(text, &["dep"]).map_err(|error| error.to_string());
            let answer = compiled.and_then(|expression| {
                expression
                    .holds(&[("dep", &dep)])
                    .map_err(|error| error.to_string())
            });
            match (answer, expected) {
                (Ok(answer), Ok(expected)) => assert_eq!(answer, expected, "{text}"),
                (Err(error), Err(part)) => {
                    assert!(error.contains(part), "{text}: {error}");
                    assert!(!error.contains("hunter2"), "{text}: {error}");
                }
                (answer, expected) => panic!("{text}: {answer:?}, not {expected:?}"),
            }
        };
        check("true", Ok(true));
        check("dep.metadata.labels['stage'] == '2'", Ok(true));
        check(
            "dep.metadata.generation == dep.status.observedGeneration",
            Ok(true),
        );
        check("dep.metadata.generation > 3", Ok(false));
        check("has(dep.status.nothing)", Ok(false));
        check(
            "dep.status.conditions.filter(c, c.type == 'Ready').all(c, c.status == 'True')",
            Ok(false),
        );
        check(
            "dep.status.conditions.exists(c, c.type == 'Ready' && c.status == 'False')",
            Ok(true),
        );
        check("dep.metadata.name in ['infra', 'base']", Ok(true));
        check("dep.metadata.name.startsWith('inf')", Ok(true));
        check("sets.contains(['infra'], [dep.metadata.name])", Ok(true));
        check("dep.status.nothing == 'x'", Err("nothing"));
        check("dep.", Err("failed to parse the CEL expression 'dep.'"));
        check("other.x == 1", Err("undeclared reference to 'other'"));
        check(
            "c == 1 || dep.status.conditions.all(c, true)",
            Err("undeclared reference to 'c'"),
        );
        check("dep.metadata.labels", Err("expected bool, got dyn"));
        check("dep.metadata.labels.secret + 1 == 2", Err("no such overload"));
        check("nothing(dep)", Err("nothing"));
        check("'text'", Err("not bool"));
        check(&"a".repeat(BYTES_MAX + 1), Err("4097 bytes"));
        let nested = (0..6).fold("true".to_owned(), |inner, n| {
            format!("dep.status.conditions.all(v{n}, {inner})")
        });
        check(&nested, Ok(true));
        let nested = (0..14).fold("true".to_owned(), |inner, n| {
            format!("[1, 1, 1].all(v{n}, {inner})")
        });
        check(&nested, Err("steps"));
        check("a{} == a{}", Err("messages are not supported"));
        check(
            "lists.range(100000000000).size() == 1",
            Err("undeclared reference to"),
        );
        let doubled = "'a'".to_owned() + &".replace('a', 'aa')".repeat(40) + " == ''";
        check(&doubled, Err("too large"));
        let doubled = "[dep]".to_owned() + &".map(a, a + a)".repeat(12) + " == []";
        check(&doubled, Err("it may"));
        check("[1, 2].map(n, n + 1).exists(n, n == 3)", Ok(true));
        check(
            "dep.metadata.name.replace('in', 'out').split('t').size() == 2",
            Ok(true),
        );
    }

    /// The stack of a runtime worker, part of which is in use.
    const STACK: usize = 1 << 20;

    #[test]
    fn no_expression_crashes_the_process() {
        let check = |head: &str, part: &str, middle: &str, tail: &str| {
            for times in [1, 3, 6, 9, 12, 25, 45, 100, BYTES_MAX / part.len()] {
                let text = format!("{head}{}{middle}{}", part.repeat(times), tail.repeat(times));
                let run = move || {
                    if let Ok(expression) = Expression::of_object(&text) {
                        let fields = json!({ "a": { "a": [[1]] } });
                        let answer = expression.holds_of(fields.as_object().unwrap());
                        drop(answer);
                    }
                };
                let thread = std::thread::Builder::new().stack_size(STACK);
                thread.spawn(run).unwrap().join().unwrap();
            }
        };
        check("a", ".a", "", "");
        check("a", "[0]", "", "");
        check("1", "+1", "", "");
        check("1", " in [1]", "", "");
        check("1", "<1", "", "");
        check("true", "&&true", "", "");
        check("", "true?1:", "1", "");
        check("'a'", ".trim()", "", "");
        check("", "!", "true", "");
        check("", "-", "1", "");
        check("", "(", "1", ")");
        check("", "(')'+", "''", ")");
        check("", "[", "1", "]");
        check("", "{1:", "1", "}");
        check("", "int(", "1", ")");
        check("", "[1].all(x,", "true", ")");
        check("", "[1].map(x,", "1", ")");
        check("", "{", "", "");
        check("", "'", "", "");
        check("", "a{", "", "}");
    }
}
