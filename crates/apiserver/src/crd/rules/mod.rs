//! `x-kubernetes-validations`: CEL rules that objects must satisfy.
//!
//! Rules are parsed once per version of a definition and checked against the schema's types when the
//! definition is written. [`evaluate`] walks an object with its stored counterpart and runs them. Order and
//! texts are apiextensions-apiserver's (1.36). Steps are limited per rule and per object, so that no rule
//! blocks the server.

mod check;
mod escape;
mod eval;
mod functions;
mod program;
mod value;

use super::correlate::{self, Pair};
use super::node::Node;
use super::{go, selectable};
use crate::field::{FieldError, FieldErrorKind};
use equate_manifest::schema::{Additional, Schema, SchemaType, ValidationRule};
use eval::Run;
use program::Program;
use serde_json::Value;
use value::{Fail, Text, Val};

const STEPS_TOTAL_MAX: u64 = 10_000_000;

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
            program: (!blank).then(|| program::parse(&source.rule)),
            message: message.and_then(|m| program::parse(m).ok()),
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
    match program::parse(&rule.rule) {
        Err(why) => {
            out.rule = Some(format!("compilation failed: {why}"));
            return out;
        }
        Ok(program) => {
            out.uses_old_self = program.uses_old_self;
            match check::type_of(&rule.rule, &program.root, node, whole, optional_old) {
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
        out.message_expression = match program::parse(source) {
            Err(why) => Some(format!("messageExpression compilation failed: {why}")),
            Ok(program) => match check::type_of(source, &program.root, node, whole, optional_old) {
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
        steps: STEPS_TOTAL_MAX,
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
    steps: u64,
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
            if program.uses_old_self && old.is_none() && !optional_old {
                continue;
            }
            match self.run(program, value, old, schema, whole, optional_old) {
                Ok(Val::Bool(true)) => continue,
                Ok(_) => {}
                Err(Fail::Limit) if self.steps == 0 => {
                    self.spent = true;
                    self.errors.push(fail(
                        "validation failed due to running out of cost budget, no further validation rules will be \
                         run"
                        .to_owned(),
                    ));
                    return;
                }
                Err(Fail::Limit) => {
                    self.spent = true;
                    self.errors.push(fail(format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be \
                         run due to call cost exceeds limit for rule: {}",
                        rule.text()
                    )));
                    return;
                }
                Err(Fail::Error(why)) if why.starts_with("no such overload") => {
                    self.errors.push(fail(format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature \
                         for rule: {}",
                        rule.text()
                    )));
                    continue;
                }
                Err(Fail::Error(why)) => {
                    self.errors
                        .push(fail(format!("{why} evaluating rule: {}", rule.text())));
                    continue;
                }
            }
            if !program.uses_old_self && tolerated.is_unchanged() {
                continue;
            }
            let detail = match &rule.message {
                None => None,
                Some(message) => match self.run(message, value, old, schema, whole, optional_old) {
                    Ok(Val::Text(text)) => usable_message(&text),
                    Err(Fail::Limit) => {
                        self.spent = true;
                        let why = if self.steps == 0 {
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
                    Ok(_) | Err(Fail::Error(_)) => None,
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

    fn run<'a>(
        &mut self,
        program: &Program,
        value: &'a Value,
        old: Option<&'a Value>,
        schema: &'a Node,
        whole: bool,
        optional_old: bool,
    ) -> Result<Val<'a>, Fail> {
        let this = Val::from_json(value, schema, whole);
        let old = match (old, optional_old) {
            (Some(old), false) => Val::from_json(old, schema, whole),
            (Some(old), true) => Val::from_json(old, schema, whole).map(Val::some),
            (None, true) => Ok(Val::Optional(None)),
            (None, false) => Err(Fail::new("no such attribute(s): oldSelf")),
        };
        let budget = self.steps.min(eval::STEPS_MAX);
        let mut run = Run::new(this, old, budget);
        let out = run.eval(&program.root);
        self.steps = self.steps.saturating_sub(budget - run.remaining());
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
