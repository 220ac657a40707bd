//! Expressions of the Common Expression Language that users write: compiled, then asked for yes or no.
//!
//! The interpreter has no limit of its own, so what an expression may cost is bounded before it
//! runs: its length, and its parts times the size of what it looks at, once more for each level of
//! macros in macros. Errors name fields and functions and quote no values: what is looked at may be
//! another's.

use kube_cel::KubeCelExt as _;
use kube_cel::cel::common::ast::{EntryExpr, Expr, IdedExpr, operators as op};
use kube_cel::cel::objects::Map;
use kube_cel::cel::{Context, ExecutionError, Program, Value as Cel};
use serde_json::Value;
use std::collections::HashMap;

/// A longer expression belongs in a program.
pub const BYTES_MAX: usize = 4096;
/// So many steps an expression may take at most.
pub const STEPS_MAX: u64 = 3_000_000;
/// Names before a dot that are no variables.
const NAMESPACES: [&str; 9] = [
    "base64", "format", "ip", "lists", "math", "optional", "sets", "strings", "semver",
];
/// Operators that take a value out of another.
const DYNAMIC: [&str; 3] = [op::INDEX, op::OPT_INDEX, op::OPT_SELECT];

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is too long.
    #[error("a CEL expression has {0} bytes, and may have {BYTES_MAX}")]
    Long(usize),
    /// It cannot be read.
    #[error("failed to parse the CEL expression '{expression}': {why}")]
    Syntax {
        /// The expression.
        expression: String,
        /// What is wrong, and where.
        why: String,
    },
    /// It speaks of something that is not there.
    #[error("failed to parse the CEL expression '{expression}': undeclared reference to '{name}'")]
    Undeclared {
        /// The expression.
        expression: String,
        /// What it speaks of.
        name: String,
    },
    /// It is a value, and no question.
    #[error("CEL expression output type mismatch: expected bool, got dyn; compare it, as in '{0} == true'")]
    NotBoolean(String),
}

/// Why an expression has no answer.
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
    /// What it speaks of, where that is not said before.
    names: Vec<String>,
    program: Program,
    cost: Cost,
}

/// What an expression is made of.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    parts: u64,
    /// Macros in macros.
    levels: u32,
}

impl Cost {
    fn and(self, other: Cost) -> Cost {
        Cost {
            parts: self.parts.saturating_add(other.parts),
            levels: self.levels.max(other.levels),
        }
    }
}

impl Expression {
    /// Reads an expression that may speak of these variables, and asks for yes or no.
    ///
    /// # Errors
    /// When it cannot be read, or speaks of anything else.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, CompileError> {
        if text.len() > BYTES_MAX {
            return Err(CompileError::Long(text.len()));
        }
        let expression = || text.to_owned();
        let program = Program::compile(text).map_err(|error| CompileError::Syntax {
            expression: expression(),
            why: error.to_string(),
        })?;
        let root = program.expression();
        let mut scope: Vec<&str> = variables.to_vec();
        let cost = walk(root, &mut scope).map_err(|name| CompileError::Undeclared {
            expression: expression(),
            name,
        })?;
        if is_dynamic(root) {
            return Err(CompileError::NotBoolean(expression()));
        }
        Ok(Self {
            text: expression(),
            names: Vec::new(),
            program,
            cost,
        })
    }

    /// Reads an expression that may speak of any field of an object.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_object(text: &str) -> Result<Self, CompileError> {
        if text.len() > BYTES_MAX {
            return Err(CompileError::Long(text.len()));
        }
        let program = Program::compile(text).map_err(|error| CompileError::Syntax {
            expression: text.to_owned(),
            why: error.to_string(),
        })?;
        let mut names: Vec<String> = Vec::new();
        // each round finds a name, of which a text has only so many
        let cost = loop {
            let mut scope: Vec<&str> = names.iter().map(String::as_str).collect();
            match walk(program.expression(), &mut scope) {
                Ok(cost) => break cost,
                Err(name) => names.push(name),
            }
        };
        Ok(Self {
            text: text.to_owned(),
            names,
            program,
            cost,
        })
    }

    /// Whether it holds of an object whose fields are its variables.
    ///
    /// # Errors
    /// When a field is not there, it is no question, or it may take too long.
    pub fn holds_of(&self, fields: &serde_json::Map<String, Value>) -> Result<bool, EvaluateError> {
        let names = self.names.iter();
        // one that is not there matters only if it is come to
        let variables: Vec<(&str, &Value)> = names
            .filter_map(|name| Some((name.as_str(), fields.get(name)?)))
            .collect();
        self.holds(&variables)
    }

    /// Whether it holds of these values of its variables.
    ///
    /// # Errors
    /// When a field is not there, it is no question after all, or it may take too long.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, EvaluateError> {
        let failed = |why: String| EvaluateError {
            expression: self.text.clone(),
            why,
        };
        let size: u64 = variables.iter().map(|(_, value)| size(value)).sum();
        let steps = size
            .saturating_pow(self.cost.levels)
            .saturating_mul(self.cost.parts);
        if steps > STEPS_MAX {
            return Err(failed(format!(
                "it may take {steps} steps, and {STEPS_MAX} are allowed: nest fewer macros"
            )));
        }
        let mut context = Context::default().with_all();
        for (name, value) in variables {
            context.add_variable_from_value(*name, cel(value));
        }
        match self.program.execute(&context) {
            Ok(Cel::Bool(answer)) => Ok(answer),
            Ok(other) => Err(failed(format!("it is {}, not bool", other.type_of()))),
            Err(ExecutionError::UndeclaredReference(name)) if !self.names.is_empty() => {
                Err(failed(format!("no such attribute(s): {name}")))
            }
            Err(error) => Err(failed(reason(&error))),
        }
    }
}

/// What went wrong, without the values it went wrong with.
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

/// Whether an expression takes a value from what it looks at and asks nothing of it.
fn is_dynamic(root: &IdedExpr) -> bool {
    match &root.expr {
        Expr::Select(select) => !select.test,
        Expr::Ident(_) => true,
        Expr::Call(call) => DYNAMIC.contains(&call.func_name.as_str()),
        _ => false,
    }
}

/// What it costs; the name of something that is not declared.
fn walk<'e>(at: &'e IdedExpr, scope: &mut Vec<&'e str>) -> Result<Cost, String> {
    let mut cost = match &at.expr {
        Expr::Unspecified | Expr::Literal(_) => Cost::default(),
        Expr::Ident(name) if scope.iter().any(|known| known == name) => Cost::default(),
        Expr::Ident(name) => return Err(name.clone()),
        Expr::Select(select) => walk(&select.operand, scope)?,
        Expr::List(list) => all(&list.elements, scope)?,
        Expr::Map(map) => entries(map.entries.iter().map(|entry| &entry.expr), scope)?,
        Expr::Struct(of) => entries(of.entries.iter().map(|entry| &entry.expr), scope)?,
        Expr::Call(call) => {
            let target = call.target.as_deref().filter(|target| !is_namespace(target));
            let target = target.map(|target| walk(target, scope)).transpose()?;
            target.unwrap_or_default().and(all(&call.args, scope)?)
        }
        Expr::Comprehension(of) => {
            let outside = walk(&of.iter_range, scope)?.and(walk(&of.accu_init, scope)?);
            let known = scope.len();
            scope.extend([of.accu_var.as_str(), of.iter_var.as_str()]);
            scope.extend(of.iter_var2.as_deref());
            let each = walk(&of.loop_cond, scope)?.and(walk(&of.loop_step, scope)?);
            let result = walk(&of.result, scope)?;
            scope.truncate(known);
            let each = Cost {
                levels: each.levels + 1,
                ..each
            };
            outside.and(each).and(result)
        }
    };
    cost.parts += 1;
    Ok(cost)
}

fn is_namespace(target: &IdedExpr) -> bool {
    matches!(&target.expr, Expr::Ident(name) if NAMESPACES.contains(&name.as_str()))
}

fn all<'e>(parts: impl IntoIterator<Item = &'e IdedExpr>, scope: &mut Vec<&'e str>) -> Result<Cost, String> {
    let mut cost = Cost::default();
    for part in parts {
        cost = cost.and(walk(part, scope)?);
    }
    Ok(cost)
}

fn entries<'e>(parts: impl Iterator<Item = &'e EntryExpr>, scope: &mut Vec<&'e str>) -> Result<Cost, String> {
    let mut cost = Cost::default();
    for part in parts {
        let more = match part {
            EntryExpr::StructField(field) => walk(&field.value, scope)?,
            EntryExpr::MapEntry(entry) => walk(&entry.key, scope)?.and(walk(&entry.value, scope)?),
        };
        cost = cost.and(more);
    }
    Ok(cost)
}

/// How much there is to look at.
fn size(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() as u64 / 64,
        Value::Array(items) => 1 + items.iter().map(size).sum::<u64>(),
        Value::Object(fields) => 1 + fields.values().map(size).sum::<u64>(),
    }
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
    fn expressions_answer_or_say_why_not() {
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
        check(&nested, Err("steps"));
    }
}
