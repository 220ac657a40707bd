//! User expressions of the Common Expression Language with a boolean result.
//!
//! The engine counts the cost while it runs. Errors quote no values: these may belong to another tenant.

use equate_cel::{
    Budget, Environment, Evaluated, Fail, FailureKind, Library, Limits, Node, Op, Program, Schema as _,
    UNTYPED, Val, Variables, pattern_budget,
};
use serde_json::Value;

/// The longest expression.
pub const BYTES_MAX: usize = 4096;
const DEPTH_MAX: usize = 48;
/// The most steps of an expression: some ten milliseconds.
pub const STEPS_MAX: u64 = 500_000;
/// The most steps of all expressions that are evaluated with one [`Allowance`].
pub const SHARED_STEPS_MAX: u64 = 10 * STEPS_MAX;
/// The most bytes of the values that an expression makes.
const MADE_BYTES_MAX: usize = 16 << 20;

/// Why a text is no expression.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is too long.
    #[error("the CEL expression has {0} bytes; the limit is {BYTES_MAX}")]
    Long(usize),
    /// It is nested too deep.
    #[error("the CEL expression is nested more than {0} levels deep")]
    Deep(usize),
    /// It is not valid, or refers to an undeclared name.
    #[error("failed to parse the CEL expression '{expression}': {why}")]
    Invalid {
        /// The expression.
        expression: String,
        /// The problems and their positions.
        why: String,
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

/// The work that the expressions of one object may cause together.
#[derive(Debug)]
pub struct Allowance {
    steps: u64,
    /// For literal regular expressions; they stay in memory.
    patterns: Budget<'static>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            steps: SHARED_STEPS_MAX,
            patterns: pattern_budget(),
        }
    }
}

/// An expression.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Program,
}

impl Expression {
    /// Compiles a boolean expression over these variables.
    pub fn compile(
        text: &str,
        variables: &'static [&'static str],
        allowance: &mut Allowance,
    ) -> Result<Self, CompileError> {
        let expression = Self::new(text, Variables::Declared(variables), allowance)?;
        match is_dynamic(expression.program.root()) {
            true => Err(CompileError::NotBoolean(text.to_owned())),
            false => Ok(expression),
        }
    }

    /// Compiles an expression that may refer to any field of an object.
    pub fn of_object(text: &str, allowance: &mut Allowance) -> Result<Self, CompileError> {
        Self::new(text, Variables::Fields, allowance)
    }

    fn new(text: &str, variables: Variables, allowance: &mut Allowance) -> Result<Self, CompileError> {
        let environment = Environment {
            variables,
            library: Library::Flux,
            limits: Limits {
                bytes_max: BYTES_MAX,
                depth_max: DEPTH_MAX,
            },
        };
        let refused = |error: equate_cel::CompileError| match error {
            equate_cel::CompileError::Long { bytes, .. } => CompileError::Long(bytes),
            equate_cel::CompileError::Deep { max } => CompileError::Deep(max),
            equate_cel::CompileError::Invalid(why) => CompileError::Invalid {
                expression: text.to_owned(),
                why,
            },
        };
        let program = Program::compile_within(text, &environment, &mut allowance.patterns);
        let program = program.map_err(refused)?;
        program.check_names(text).map_err(refused)?;
        Ok(Self {
            text: text.to_owned(),
            program,
        })
    }

    /// Evaluates it for an object whose fields are its variables.
    pub fn holds_of(&self, fields: &serde_json::Map<String, Value>) -> Result<bool, EvaluateError> {
        self.answer(self.program.evaluate_fields(fields, &mut budget(STEPS_MAX)))
    }

    /// Evaluates it for the values of its variables, in their order.
    pub fn holds(&self, variables: &[&Value], allowance: &mut Allowance) -> Result<bool, EvaluateError> {
        let variables: Vec<Evaluated<'_>> = variables.iter().map(|value| UNTYPED.read(value)).collect();
        let steps = STEPS_MAX.min(allowance.steps);
        let mut budget = budget(steps);
        let answer = self.program.evaluate(&variables, &mut budget);
        allowance.steps -= steps - budget.left();
        if steps < STEPS_MAX && matches!(answer, Err(Fail::Cost)) {
            return Err(EvaluateError {
                expression: self.text.clone(),
                why: format!(
                    "all expressions of the object take more than {SHARED_STEPS_MAX} steps: use fewer or simpler ones"
                ),
            });
        }
        self.answer(answer)
    }

    fn answer(&self, answer: Evaluated<'_>) -> Result<bool, EvaluateError> {
        let why = match answer {
            Ok(Val::Bool(answer)) => return Ok(answer),
            Ok(other) => format!("it is {}, not bool", other.type_name()),
            Err(fail) => reason(&fail),
        };
        Err(EvaluateError {
            expression: self.text.clone(),
            why,
        })
    }
}

fn budget(steps: u64) -> Budget<'static> {
    Budget::new(steps, MADE_BYTES_MAX)
}

/// The error without the values that caused it.
fn reason(fail: &Fail) -> String {
    let failure = match fail {
        Fail::Cost => return format!("it takes more than {STEPS_MAX} steps: nest fewer macros"),
        Fail::Memory => return format!("it makes values of more than {MADE_BYTES_MAX} bytes"),
        Fail::Stopped => return "it was interrupted".to_owned(),
        Fail::Error(failure) => failure,
    };
    match failure.kind {
        // these name a field of the expression, or nothing
        FailureKind::Attribute | FailureKind::Field | FailureKind::Zero | FailureKind::Overflow => {
            failure.text.clone()
        }
        FailureKind::Key => "no such key".to_owned(),
        FailureKind::Index => "index out of bounds".to_owned(),
        FailureKind::Other(Some(function)) => format!("error in function '{function}'"),
        FailureKind::Overload | FailureKind::Other(None) => {
            "no such overload: an operator or function has values of the wrong type".to_owned()
        }
    }
}

/// Whether an expression only reads a value and computes nothing.
fn is_dynamic(root: &Node) -> bool {
    match &root.op {
        Op::Select { test, .. } => !test,
        Op::Variable(_) | Op::OptSelect { .. } | Op::Index(..) | Op::OptIndex(..) => true,
        _ => false,
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
            let mut allowance = Allowance::default();
            let compiled =
                Expression::compile(text, &["dep"], &mut allowance).map_err(|error| error.to_string());
            let answer = compiled.and_then(|expression| {
                let answer = expression.holds(&[&dep], &mut allowance);
                answer.map_err(|error| error.to_string())
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
        check("a{} == a{}", Err("undeclared reference to 'a'"));
        check(
            "lists.range(100000000000).size() == 1",
            Err("undeclared reference to"),
        );
        let doubled = "'a'".to_owned() + &".replace('a', 'aa')".repeat(40) + " == ''";
        check(&doubled, Err("steps"));
        let doubled = "[[dep]]".to_owned() + &".map(a, a + a)".repeat(30) + " == []";
        check(&doubled, Err("steps"));
        check(
            "dep.metadata.labels[dep.metadata.labels.secret] == 'x'",
            Err("no such key"),
        );
        check(
            "dep.metadata.labels.secret.matches('(') || int(dep.metadata.labels.secret) == 1",
            Err("error in function 'matches'"),
        );
        check("'%s'.format([dep.metadata.name]) == 'infra'", Ok(true));
        check("strings.quote(dep.metadata.name) == '\"infra\"'", Ok(true));
        check("[1, 2].map(n, n + 1).exists(n, n == 3)", Ok(true));
        check(
            "dep.metadata.name.replace('in', 'out').split('t').size() == 2",
            Ok(true),
        );
    }

    #[test]
    fn the_expressions_of_an_object_have_steps_together() {
        let text = "dep.all(x, dep.all(y, x != y || x == y))";
        let dep = json!((0..200).collect::<Vec<_>>());
        let mut allowance = Allowance::default();
        let expression = Expression::compile(text, &["dep"], &mut allowance).unwrap();
        assert_eq!(expression.holds(&[&dep], &mut Allowance::default()), Ok(true));
        let error = (0..SHARED_STEPS_MAX).find_map(|_| expression.holds(&[&dep], &mut allowance).err());
        let error = error.unwrap().to_string();
        assert!(error.contains("all expressions of the object"), "{error}");
    }

    /// The stack of a runtime worker, part of which is in use.
    const STACK: usize = 1 << 20;

    #[test]
    fn no_expression_crashes_the_process() {
        let check = |head: &str, part: &str, middle: &str, tail: &str| {
            for times in [1, 3, 6, 9, 12, 25, 45, 100, BYTES_MAX / part.len()] {
                let text = format!("{head}{}{middle}{}", part.repeat(times), tail.repeat(times));
                let run = move || {
                    if let Ok(expression) = Expression::of_object(&text, &mut Allowance::default()) {
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
