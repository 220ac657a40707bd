//! The expressions of a policy: conditions, variables, validations, messages.

use crate::builtin::tree::{items, text};
use crate::crd::NAMED_FORMATS;
use equate_cel::{
    Budget, CompileError, Environment, Evaluated, Fail, Library, Limits, Map, Program, Schema as _, Text,
    UNTYPED, Val, Variables,
};
use serde_json::Value;
use std::rc::Rc;

/// The cost of all expressions of a policy for a request, as upstream.
const COST_TOTAL_MAX: u64 = 10_000_000;
const COST_MAX: u64 = 1_000_000;
/// The bytes of the values that one expression makes.
const BYTES_MAX: usize = 64 << 20;
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

const NAMES: &[&str] = &[
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
    "authorizer",
];

const LIMITS: Limits = Limits {
    bytes_max: 16 << 10,
    depth_max: 250,
};

static ENVIRONMENT: Environment = Environment {
    variables: Variables::Declared(NAMES),
    library: Library::Kubernetes(NAMED_FORMATS),
    limits: LIMITS,
};

pub(super) static MUTATION: Environment = Environment {
    variables: Variables::Declared(NAMES),
    library: Library::Mutation(NAMED_FORMATS),
    limits: LIMITS,
};

const VARIABLES: usize = 5;

pub(super) struct Inputs<'a> {
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    pub(super) request: &'a Value,
    pub(super) params: Option<&'a Value>,
    pub(super) namespace: Option<&'a Value>,
}

pub(super) enum Outcome {
    Denied {
        message: String,
        reason: String,
    },
    /// An expression did not compile or had no result.
    Failed(String),
}

/// The reason why an expression does not compile.
pub(crate) fn problem(expression: &str) -> Option<String> {
    compile(expression).err()
}

fn compile(expression: &str) -> Result<Program, String> {
    compile_in(expression, &ENVIRONMENT)
}

pub(super) fn compile_in(expression: &str, environment: &Environment) -> Result<Program, String> {
    let described = |error| match error {
        CompileError::Long { bytes, max } => format!("the expression has {bytes} bytes, and may have {max}"),
        CompileError::Deep { max } => format!("the expression is nested more than {max} levels deep"),
        CompileError::Invalid(why) => why,
    };
    let program = Program::compile(expression, environment).map_err(described)?;
    program.check_names(expression).map_err(described)?;
    Ok(program)
}

/// An expression of a list, compiled.
struct Compiled<'a> {
    entry: &'a Value,
    program: Result<Program, String>,
}

fn compiled<'a>(policy: &'a Value, list: &str, field: &str) -> Vec<Compiled<'a>> {
    items(policy, list)
        .iter()
        .map(|entry| Compiled {
            entry,
            program: compile(text(entry, field)),
        })
        .collect()
}

/// Whether all `matchConditions` of a webhook, or of the spec of a policy, hold.
pub(super) fn conditions_hold(conditional: &Value, inputs: &Inputs<'_>) -> Result<bool, String> {
    let conditions = compiled(conditional, "matchConditions", "expression");
    Run::new(inputs).all_hold(&conditions)
}

/// The value of a mutation's `jsonPatch` or `applyConfiguration`.
pub(super) fn change(policy: &Value, mutation: &Value, inputs: &Inputs<'_>) -> Result<Value, String> {
    let variables = compiled(policy, "spec.variables", "expression");
    let mutation = Compiled {
        entry: mutation,
        program: compile_in(text(mutation, "expression"), &MUTATION),
    };
    let mut run = Run::new(inputs);
    run.compose(&variables);
    super::mutation::to_json(&run.value(&mutation, "expression")?)
}

/// The validations that deny or fail; none if a condition does not hold.
pub(super) fn validate(policy: &Value, inputs: &Inputs<'_>) -> Vec<Outcome> {
    let conditions = compiled(policy, "spec.matchConditions", "expression");
    let variables = compiled(policy, "spec.variables", "expression");
    let validations = compiled(policy, "spec.validations", "expression");
    let messages = compiled(policy, "spec.validations", "messageExpression");
    let mut run = Run::new(inputs);
    match run.all_hold(&conditions) {
        Ok(true) => {}
        Ok(false) => return Vec::new(),
        Err(why) => return vec![Outcome::Failed(why)],
    }
    run.compose(&variables);
    let mut outcomes = Vec::new();
    for (validation, message) in validations.iter().zip(&messages) {
        match run.value(validation, "expression") {
            Ok(Val::Bool(true)) => {}
            Ok(_) => outcomes.push(Outcome::Denied {
                message: run.message(validation.entry, message),
                reason: text(validation.entry, "reason").to_owned(),
            }),
            Err(why) => outcomes.push(Outcome::Failed(why)),
        }
    }
    outcomes
}

struct Run<'a, 'i> {
    inputs: &'i Inputs<'a>,
    cost: u64,
    /// In order: each sees those before it.
    variables: Vec<(&'a str, Evaluated<'a>)>,
}

impl<'a, 'i> Run<'a, 'i> {
    fn new(inputs: &'i Inputs<'a>) -> Self {
        Self {
            inputs,
            cost: COST_TOTAL_MAX,
            variables: Vec::new(),
        }
    }

    /// A condition that is false counts more than one that fails.
    fn all_hold(&mut self, conditions: &'a [Compiled<'_>]) -> Result<bool, String> {
        let mut failed = Vec::new();
        for condition in conditions {
            match self.value(condition, "expression") {
                Ok(Val::Bool(true)) => {}
                Ok(_) => return Ok(false),
                Err(why) if failed.contains(&why) => {}
                Err(why) => failed.push(why),
            }
        }
        match failed.as_slice() {
            [] => Ok(true),
            [one] => Err(one.clone()),
            _ => Err(format!("[{}]", failed.join(", "))),
        }
    }

    fn value(&mut self, compiled: &'a Compiled<'_>, field: &str) -> Result<Val<'a>, String> {
        let program = match &compiled.program {
            Ok(program) => program,
            Err(why) => return Err(format!("compilation error: {why}")),
        };
        self.evaluate(program).map_err(|error| match error {
            Fail::Error(_) => {
                let expression = text(compiled.entry, field);
                format!(
                    "expression '{expression}' resulted in error: {}",
                    self.cause(&error)
                )
            }
            _ => {
                "validation failed due to running out of cost budget, no further validation rules will be run"
                    .to_owned()
            }
        })
    }

    fn compose(&mut self, variables: &'a [Compiled<'a>]) {
        for variable in variables {
            let value = match &variable.program {
                Ok(program) => self.evaluate(program),
                Err(why) => Err(Fail::new(why.clone())),
            };
            self.variables.push((text(variable.entry, "name"), value));
        }
    }

    /// A read of a failed variable reports the variable's error.
    fn cause(&self, error: &Fail) -> String {
        let plain = error.to_string();
        let failed = self.variables.iter().find_map(|(name, value)| match value {
            Err(why) if plain == format!("no such key: {name}") => {
                Some(format!("composited variable {name:?} fails to evaluate: {why}"))
            }
            _ => None,
        });
        failed.unwrap_or(plain)
    }

    fn evaluate(&mut self, program: &'a Program) -> Evaluated<'a> {
        let read = |value: Option<&'a Value>| value.map_or(Ok(Val::Null), |value| UNTYPED.read(value));
        let inputs = self.inputs;
        let variables = if program.uses(VARIABLES) {
            let known = self.variables.iter().filter_map(|(name, value)| {
                Some((Val::Text(Text::Borrowed(name)), value.as_ref().ok()?.clone()))
            });
            Ok(Val::Map(Map::Own(Rc::new(known.collect()))))
        } else {
            Ok(Val::Null)
        };
        let values = [
            read(inputs.object),
            read(inputs.old),
            UNTYPED.read(inputs.request),
            read(inputs.params),
            read(inputs.namespace),
            variables,
            Err(Fail::new("this server has no `authorizer`")),
        ];
        let cost = self.cost.min(COST_MAX);
        let mut budget = Budget::new(cost, BYTES_MAX);
        let value = program.evaluate(&values, &mut budget);
        self.cost -= cost - budget.left();
        value
    }

    fn message(&mut self, validation: &Value, expression: &'a Compiled<'_>) -> String {
        let computed = match &expression.program {
            Ok(program) if !text(expression.entry, "messageExpression").is_empty() => {
                self.evaluate(program).ok()
            }
            _ => None,
        };
        if let Some(Val::Text(computed)) = computed {
            let computed = computed.as_str().trim();
            if !computed.is_empty() && computed.len() <= MESSAGE_BYTES_MAX && !computed.contains('\n') {
                return computed.to_owned();
            }
        }
        match text(validation, "message").trim() {
            "" => format!("failed expression: {}", text(validation, "expression").trim()),
            message => message.to_owned(),
        }
    }
}
