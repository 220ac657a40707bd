//! `x-kubernetes-validations`: CEL rules that objects must satisfy.
//!
//! Rules are parsed once per version of a definition and checked against the schema's types when the
//! definition is written. [`evaluate`] walks an object with its stored counterpart and runs them. Order and
//! texts are apiextensions-apiserver's (1.36). The cost is limited per rule and per object, so that no rule
//! blocks the server.

mod check;
mod escape;
mod named_formats;
mod types;

pub(crate) use named_formats::ALL as NAMED_FORMATS;

use super::correlate::{self, Pair};
use super::node::Node;
use super::{go, selectable};
use crate::field::{FieldError, FieldErrorKind};
use equate_cel::{
    Budget, CompileError, Environment, Evaluated, Fail, Library, Limits, Program, Schema as _, Text, Val,
    Variables,
};
use equate_manifest::schema::{Additional, Schema, SchemaType, ValidationRule};
use serde_json::Value;
use types::Whole;

/// The cost of all rules of an object.
const COST_TOTAL_MAX: u64 = 10_000_000;

/// The cost of one rule: upstream's limit for one call.
const COST_MAX: u64 = 1_000_000;

/// The bytes of the values that one rule makes.
const BYTES_MAX: usize = 64 << 20;

static ENVIRONMENT: Environment = Environment {
    variables: Variables::Declared(&["self", "oldSelf"]),
    library: Library::Kubernetes(NAMED_FORMATS),
    limits: Limits {
        // no hand-written rule is longer
        bytes_max: 16 << 10,
        // cel-go's limit
        depth_max: 250,
    },
};

/// The variable `oldSelf`.
const OLD: usize = 1;

/// The limit for the result of a `messageExpression`.
const MESSAGE_BYTES_MAX: usize = 5 * 1024;

#[derive(Debug)]
pub(super) struct Rule {
    source: ValidationRule,
    /// `None`: the rule is blank and never runs. An error: it does not compile.
    program: Option<Result<Program, String>>,
    message: Option<Program>,
    /// `fieldPath` as field errors write it, without a leading dot.
    field_path: String,
}

impl Rule {
    fn new(source: &ValidationRule, schema: &Schema) -> Self {
        let blank = source.rule.trim().is_empty();
        let message = Some(&source.message_expression).filter(|m| !m.is_empty());
        Self {
            program: (!blank).then(|| compile(&source.rule)),
            message: message.and_then(|text| compile(text).ok()),
            field_path: selectable::resolve(&source.field_path, schema, true)
                .map(|found| found.path)
                .unwrap_or_default(),
            source: source.clone(),
        }
    }

    fn text(&self) -> &str {
        if self.source.message.is_empty() {
            self.source.rule.trim()
        } else {
            self.source.message.trim()
        }
    }
}

fn compile(text: &str) -> Result<Program, String> {
    Program::compile(text, &ENVIRONMENT).map_err(|error| match error {
        CompileError::Long { bytes, max } => format!("the rule has {bytes} bytes, and may have {max}"),
        CompileError::Deep { max } => format!("the rule is nested more than {max} levels deep"),
        CompileError::Invalid(why) => why,
    })
}

pub(super) fn attach(node: &mut Node, schema: &Schema) {
    node.rules = schema
        .validations
        .iter()
        .map(|rule| Rule::new(rule, schema))
        .collect();
    let mut has_rules = !node.rules.is_empty();
    for (name, property) in &mut node.properties {
        if let Some(below) = schema.properties.get(name) {
            attach(property, below);
            has_rules |= property.has_rules && property.visible_to_rules();
        }
    }
    if let (Some(items), Some(below)) = (&mut node.items, &schema.items) {
        attach(items, below);
        has_rules |= items.has_rules;
    }
    if let (Some(super::node::AdditionalNode::Schema(inner)), Some(Additional::Schema(below))) =
        (&mut node.additional, &schema.additional_properties)
    {
        attach(inner, below);
        has_rules |= inner.has_rules;
    }
    node.has_rules = has_rules;
}

#[derive(Debug, Default)]
pub(super) struct Checked {
    pub(super) rule: Option<String>,
    pub(super) message_expression: Option<String>,
    pub(super) uses_old_self: bool,
}

/// Compiles a rule against the types of its schema; `whole` if that is a whole object's.
pub(super) fn check(rule: &ValidationRule, node: &Node, whole: bool) -> Checked {
    let mut out = Checked::default();
    if rule.rule.trim().is_empty() {
        return out;
    }
    let optional_old = rule.optional_old_self == Some(true);
    match compile(&rule.rule) {
        Err(why) => {
            out.rule = Some(format!("compilation failed: {why}"));
            return out;
        }
        Ok(program) => {
            out.uses_old_self = program.uses(OLD);
            match check::type_of(&rule.rule, &program, node, whole, optional_old) {
                Err(why) => {
                    out.rule = Some(format!("compilation failed: {why}"));
                    out.uses_old_self = false;
                    return out;
                }
                Ok(found) if !found.may_be(&check::Type::Bool) => {
                    out.rule = Some("cel expression must evaluate to a bool".to_owned());
                    out.uses_old_self = false;
                    return out;
                }
                Ok(_) => {}
            }
        }
    }
    if !rule.message_expression.is_empty() {
        let source = &rule.message_expression;
        out.message_expression = match compile(source) {
            Err(why) => Some(format!("messageExpression compilation failed: {why}")),
            Ok(program) => match check::type_of(source, &program, node, whole, optional_old) {
                Err(why) => Some(format!("messageExpression compilation failed: {why}")),
                Ok(found) if !found.may_be(&check::Type::Text) => {
                    Some("messageExpression must evaluate to a string".to_owned())
                }
                Ok(_) => None,
            },
        };
    }
    out
}

/// Runs all rules of `schema` on `new`, whose stored counterpart is `old`. `path` is empty at the root of
/// an object.
pub(super) fn evaluate(
    new: &Value,
    old: Option<&Value>,
    schema: &Node,
    path: &str,
    ratchet: bool,
) -> Vec<FieldError> {
    if !schema.has_rules {
        return Vec::new();
    }
    let pair = old.filter(|_| ratchet).map(|old| Pair { new, old, schema });
    let mut walk = Walk {
        errors: Vec::new(),
        cost: COST_TOTAL_MAX,
        spent: false,
    };
    let tolerated = Tolerated {
        here: pair,
        above: None,
        is_root: true,
    };
    walk.visit(new, old, schema, path, path.is_empty(), tolerated);
    walk.errors
}

/// The values that ratcheting compares: the value with its counterpart, or the nearest ancestor that has
/// one.
#[derive(Clone, Copy)]
struct Tolerated<'a> {
    here: Option<Pair<'a>>,
    above: Option<Pair<'a>>,
    is_root: bool,
}

impl<'a> Tolerated<'a> {
    /// Whether errors of rules that do not read the stored value are tolerated here.
    fn is_unchanged(&self) -> bool {
        self.here.or(self.above).is_some_and(|pair| pair.unchanged())
    }

    fn below(&self, child: impl FnOnce(Pair<'a>) -> Option<Pair<'a>>) -> Self {
        match self.here {
            None => Self {
                is_root: false,
                ..*self
            },
            Some(pair) => Self {
                here: child(pair),
                above: Some(pair),
                is_root: false,
            },
        }
    }

    fn field(&self, name: &str) -> Self {
        if self.is_root && matches!(name, "apiVersion" | "kind") {
            return Self {
                here: None,
                above: None,
                is_root: false,
            };
        }
        self.below(|pair| pair.field(name))
    }
}

struct Walk {
    errors: Vec<FieldError>,
    cost: u64,
    spent: bool,
}

fn or_nil(path: &str) -> String {
    if path.is_empty() {
        "<nil>".to_owned()
    } else {
        path.to_owned()
    }
}

fn type_text(schema: &Node) -> &'static str {
    match schema.kind {
        Some(SchemaType::Object) => "object",
        Some(SchemaType::Array) => "array",
        Some(SchemaType::String) => "string",
        Some(SchemaType::Integer) => "integer",
        Some(SchemaType::Number) => "number",
        Some(SchemaType::Boolean) => "boolean",
        None => "",
    }
}

impl Walk {
    fn visit(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &str,
        whole: bool,
        tolerated: Tolerated<'_>,
    ) {
        // The surrounding schema decides about null.
        if !schema.has_rules || value.is_null() || self.spent {
            return;
        }
        let old = old.filter(|o| !o.is_null());
        self.run_rules(value, old, schema, path, whole, tolerated);
        match value {
            Value::Object(map) => {
                let old_field = |key: &str| old.and_then(|o| o.get(key));
                if let Some(additional) = schema.additional_schema() {
                    for (key, inner) in map {
                        let at = format!("{path}[{key}]");
                        let below = tolerated.field(key);
                        self.visit(inner, old_field(key), additional, &at, additional.embedded, below);
                    }
                }
                for (name, property) in &schema.properties {
                    if let Some(inner) = map
                        .get(name)
                        .filter(|_| property.has_rules && property.visible_to_rules())
                    {
                        let at = if path.is_empty() {
                            name.clone()
                        } else {
                            format!("{path}.{name}")
                        };
                        let below = tolerated.field(name);
                        self.visit(inner, old_field(name), property, &at, property.embedded, below);
                    }
                }
            }
            Value::Array(list) => {
                let Some(items) = schema.items.as_deref().filter(|i| i.has_rules) else {
                    return;
                };
                let old_list = old.and_then(Value::as_array);
                for (index, inner) in list.iter().enumerate() {
                    let counterpart = old_list.and_then(|o| correlate::counterpart(schema, o, inner));
                    let below = tolerated.below(|pair| pair.item(index));
                    self.visit(
                        inner,
                        counterpart,
                        items,
                        &format!("{path}[{index}]"),
                        items.embedded,
                        below,
                    );
                }
            }
            _ => {}
        }
    }

    fn run_rules(
        &mut self,
        value: &Value,
        old: Option<&Value>,
        schema: &Node,
        path: &str,
        whole: bool,
        tolerated: Tolerated<'_>,
    ) {
        let kind = type_text(schema);
        let fail = |text: String| {
            let shown = Some(crate::field::go_quote(kind));
            FieldError::with_value(FieldErrorKind::Invalid, or_nil(path), shown, text)
        };
        let root = Whole(schema);
        let typed = |value| match whole {
            true => root.read(value),
            false => schema.read(value),
        };
        for rule in &schema.rules {
            if self.spent {
                return;
            }
            let program = match &rule.program {
                None => continue,
                Some(Ok(program)) => program,
                Some(Err(why)) => {
                    self.errors
                        .push(fail(format!("rule compile error: compilation failed: {why}")));
                    continue;
                }
            };
            let optional_old = rule.source.optional_old_self == Some(true);
            if program.uses(OLD) && old.is_none() && !optional_old {
                continue;
            }
            let old_self = match (old, optional_old) {
                (Some(old), false) => typed(old),
                (Some(old), true) => typed(old).map(Val::some),
                (None, true) => Ok(Val::Optional(None)),
                (None, false) => Err(Fail::absent("oldSelf")),
            };
            let variables = [typed(value), old_self];
            match self.run(program, &variables) {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(error) if error.is_final() && self.cost == 0 => {
                    self.spent = true;
                    self.errors.push(fail(
                        "validation failed due to running out of cost budget, no further validation rules will be \
                         run"
                        .to_owned(),
                    ));
                    return;
                }
                Err(error) if error.is_final() => {
                    self.spent = true;
                    self.errors.push(fail(format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be \
                         run due to call cost exceeds limit for rule: {}",
                        rule.text()
                    )));
                    return;
                }
                Err(error) if error.to_string().starts_with("no such overload") => {
                    self.errors.push(fail(format!(
                        "'{error}': call arguments did not match a supported operator, function or macro signature \
                         for rule: {}",
                        rule.text()
                    )));
                    continue;
                }
                Err(error) => {
                    self.errors
                        .push(fail(format!("{error} evaluating rule: {}", rule.text())));
                    continue;
                }
            }
            if !program.uses(OLD) && tolerated.is_unchanged() {
                continue;
            }
            let detail = match &rule.message {
                None => None,
                Some(message) => match self.run(message, &variables) {
                    Ok(Val::Text(text)) => usable_message(&text),
                    Err(error) if error.is_final() => {
                        self.spent = true;
                        let why = if self.cost == 0 {
                            "messageExpression evaluation failed due to running out of cost budget, no further \
                             validation rules will be run"
                                .to_owned()
                        } else {
                            format!(
                                "no further validation rules will be run due to call cost exceeds limit for \
                                 messageExpression: {}",
                                crate::field::go_quote(&rule.source.message_expression)
                            )
                        };
                        self.errors.push(fail(why));
                        return;
                    }
                    // A failed message expression falls back to the static message.
                    Ok(_) | Err(_) => None,
                },
            };
            let detail = detail.unwrap_or_else(|| {
                if rule.source.message.is_empty() {
                    format!("failed rule: {}", rule.text())
                } else {
                    rule.text().to_owned()
                }
            });
            self.errors.push(broken(rule, value, schema, path, detail));
        }
    }

    fn run<'a>(&mut self, program: &'a Program, variables: &[Evaluated<'a>]) -> Evaluated<'a> {
        let cost = self.cost.min(COST_MAX);
        let mut budget = Budget::new(cost, BYTES_MAX);
        let out = program.evaluate(variables, &mut budget);
        self.cost -= cost - budget.left();
        out
    }
}

fn usable_message(text: &Text<'_>) -> Option<String> {
    let text = text.as_str().trim();
    let usable = !text.is_empty() && text.len() <= MESSAGE_BYTES_MAX && !text.contains('\n');
    usable.then(|| text.to_owned())
}

fn broken(rule: &Rule, value: &Value, schema: &Node, path: &str, detail: String) -> FieldError {
    let field = match (path.is_empty(), rule.field_path.is_empty()) {
        (true, true) => "<nil>".to_owned(),
        (true, false) => rule.field_path.clone(),
        (false, true) => path.to_owned(),
        (false, false) => format!("{path}.{}", rule.field_path),
    };
    let is_compound = matches!(schema.kind, Some(SchemaType::Object | SchemaType::Array));
    let shown = (!is_compound).then(|| go::shown(value));
    match rule.source.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(field, detail),
        Some("FieldValueRequired") => FieldError::required(field, detail),
        Some("FieldValueDuplicate") => FieldError::with_value(FieldErrorKind::Duplicate, field, shown, ""),
        _ => FieldError::with_value(FieldErrorKind::Invalid, field, shown, detail),
    }
}
