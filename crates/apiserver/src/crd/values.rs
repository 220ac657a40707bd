//! Validation of values against their schema: types, bounds, formats, combinators; with kube-openapi's
//! messages (1.36).
//!
//! On update an error is dropped if the value equals its old counterpart (ratcheting). Fields are visited
//! in the order of their names.

use super::correlate::Pair;
use super::go;
use super::node::{AdditionalNode, Checks, Node};
use crate::field::{FieldError, FieldErrorKind};
use equate_manifest::schema::SchemaType;
use serde_json::{Value, json};
use std::collections::HashSet;

pub(super) fn validate(value: &Value, schema: &Node, path: &str, old: Option<&Value>) -> Vec<FieldError> {
    let pair = old.map(|old| Pair {
        new: value,
        old,
        schema,
    });
    check(value, schema, path, pair).errors
}

/// Errors, and the number of passed checks: `anyOf` reports the branch that got furthest.
#[derive(Default)]
struct Outcome {
    errors: Vec<FieldError>,
    matches: usize,
}

impl Outcome {
    fn merge(&mut self, other: Self) {
        self.errors.extend(other.errors);
        self.matches += other.matches;
    }
}

fn unplaced(text: String) -> FieldError {
    FieldError::with_value(FieldErrorKind::Invalid, "<nil>", Some("\"\"".to_owned()), text)
}

fn invalid(path: &str, value: &Value, text: String) -> FieldError {
    FieldError::with_value(
        FieldErrorKind::Invalid,
        field_of(path),
        Some(go::shown(value)),
        text,
    )
}

fn type_invalid(path: &str, wanted: &str, shown: &str) -> FieldError {
    FieldError::with_value(
        FieldErrorKind::TypeInvalid,
        field_of(path),
        Some(crate::field::go_quote(shown)),
        format!(
            "{path} in body must be of type {wanted}: {}",
            crate::field::go_quote(shown)
        ),
    )
}

fn field_of(path: &str) -> String {
    let path = path.strip_prefix('.').unwrap_or(path);
    if path.is_empty() {
        "<nil>".to_owned()
    } else {
        path.to_owned()
    }
}

fn check(value: &Value, schema: &Node, path: &str, pair: Option<Pair<'_>>) -> Outcome {
    let mut outcome = check_node(value, schema, path, pair);
    if schema.checks.has_combinators() {
        let mut seen = HashSet::new();
        outcome.errors.retain(|e| seen.insert(e.to_string()));
    }
    if !outcome.errors.is_empty() && pair.is_some_and(|p| p.unchanged()) {
        outcome.errors.clear();
    }
    outcome
}

fn check_node(value: &Value, schema: &Node, path: &str, pair: Option<Pair<'_>>) -> Outcome {
    let mut out = Outcome::default();
    let checks = &schema.checks;
    if value.is_null() {
        check_type(value, schema, path, &mut out);
        check_enum(value, checks, path, &mut out);
        return out;
    }
    if schema.kind.is_some() || schema.int_or_string || checks.format.is_some() {
        check_type(value, schema, path, &mut out);
        out.matches += 1;
    }
    out.merge(check_combinators(value, checks, path, pair));
    out.matches += 1;
    match value {
        Value::String(text) => {
            check_text(value, text, checks, path, &mut out);
            out.matches += 1;
        }
        Value::Number(_) => {
            check_number(value, schema, path, &mut out);
            out.matches += 1;
        }
        Value::Array(list) => {
            check_list(list, schema, path, pair, &mut out);
            out.matches += 1;
        }
        _ => {}
    }
    check_enum(value, checks, path, &mut out);
    out.matches += 1;
    if let Value::Object(map) = value {
        check_object(map, schema, path, pair, &mut out);
        out.matches += 1;
    }
    out.matches += 1;
    out
}

fn type_name(kind: SchemaType) -> &'static str {
    match kind {
        SchemaType::Object => "object",
        SchemaType::Array => "array",
        SchemaType::String => "string",
        SchemaType::Integer => "integer",
        SchemaType::Number => "number",
        SchemaType::Boolean => "boolean",
    }
}

fn check_type(value: &Value, schema: &Node, path: &str, out: &mut Outcome) {
    use SchemaType::{Array, Boolean, Integer, Number, Object, String as Text};
    let wanted = || match (schema.int_or_string, schema.kind) {
        (true, _) => "integer,string",
        (false, Some(kind)) => type_name(kind),
        (false, None) => "",
    };
    let typed = schema.int_or_string || schema.kind.is_some();
    let (found, found_format) = match value {
        Value::Null => {
            if typed && !schema.nullable {
                out.errors.push(type_invalid(path, wanted(), "null"));
            }
            return;
        }
        Value::Bool(_) => (Boolean, ""),
        Value::String(_) => (Text, ""),
        Value::Array(_) => (Array, ""),
        Value::Object(_) => (Object, ""),
        Value::Number(n) if n.is_f64() => (Number, "float64"),
        Value::Number(_) => (Integer, "int64"),
    };
    let accepts = |kind: SchemaType| {
        if schema.int_or_string {
            matches!(kind, Integer | Text)
        } else {
            schema.kind == Some(kind)
        }
    };
    let whole_float = found == Number && value.as_f64().is_some_and(|f| f.fract() == 0.0) && accepts(Integer);
    let fits = accepts(found) || whole_float || (found == Integer && accepts(Number));
    if let Some(format) = &schema.checks.format {
        let is_text_or_list = matches!(found, Text | Array);
        if !is_text_or_list && !fits && format.name != found_format {
            out.errors.push(type_invalid(path, &format.name, found_format));
            return;
        }
        if is_text_or_list && !accepts(Number) && !accepts(Integer) {
            return;
        }
    }
    if typed && !fits {
        out.errors.push(type_invalid(path, wanted(), type_name(found)));
    }
}

fn check_enum(value: &Value, checks: &Checks, path: &str, out: &mut Outcome) {
    if checks.enumeration.is_empty() {
        return;
    }
    let equal = |a: &Value, b: &Value| match (a, b) {
        (Value::Number(x), Value::Number(y)) => x == y || x.as_f64() == y.as_f64(),
        _ => a == b,
    };
    if !value.is_null() && checks.enumeration.iter().any(|allowed| equal(value, allowed)) {
        return;
    }
    let supported: Vec<String> = checks
        .enumeration
        .iter()
        .map(|v| match v {
            Value::String(s) => s.clone(),
            Value::Number(n) => go::number(n),
            other => other.to_string(),
        })
        .collect();
    let mut error = FieldError::not_supported(field_of(path), value, &supported);
    error.value = Some(go::shown(value));
    out.errors.push(error);
}

fn check_text(value: &Value, text: &str, checks: &Checks, path: &str, out: &mut Outcome) {
    let length = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    let mut broken = None;
    if let Some(max) = checks.max_length
        && length() > max
    {
        broken = Some(FieldError::too_long(
            field_of(path),
            usize::try_from(max).unwrap_or(0),
        ));
    } else if let Some(min) = checks.min_length
        && length() < min
    {
        broken = Some(invalid(
            path,
            value,
            format!("{path} in body should be at least {min} chars long"),
        ));
    } else if let Some((pattern, compiled)) = &checks.pattern {
        let why = match compiled {
            Some(regex) if regex.is_match(text) => None,
            Some(_) => Some(format!("{path} in body should match '{pattern}'")),
            None => Some(format!(
                "{path} in body should match '{pattern}, but pattern is invalid'"
            )),
        };
        broken = why.map(|why| invalid(path, value, why));
    }
    out.errors.extend(broken);
    if let Some(format) = &checks.format
        && format.is_textual()
        && !format.matches(text)
    {
        out.errors.push(type_invalid(path, &format.name, text));
    }
}

fn check_number(value: &Value, schema: &Node, path: &str, out: &mut Outcome) {
    let checks = &schema.checks;
    let Value::Number(number) = value else { return };
    let float = number.as_f64().unwrap_or(f64::NAN);
    let integer = number.as_i64();
    let kind = if schema.int_or_string { None } else { schema.kind };
    if kind == Some(SchemaType::Integer) {
        let format = checks.format.as_ref().map(|f| f.name.as_str());
        let fits = match format {
            Some("int32") => float.fract() == 0.0 && (-2_147_483_648.0..=2_147_483_647.0).contains(&float),
            _ => integer.is_some() || float.fract() == 0.0 && float.abs() < 9.3e18,
        };
        if !fits {
            let text = match format {
                Some(f) => format!("Checked value must be of type integer with format {f} in {path}"),
                None => format!("Checked value must be of type integer (default format) in {path}"),
            };
            out.errors.push(unplaced(text));
        }
    } else if kind == Some(SchemaType::Number)
        && checks.format.as_ref().is_some_and(|f| f.name == "float")
        && float.abs() > f64::from(f32::MAX)
    {
        out.errors.push(unplaced(format!(
            "Checked value must be of type number with format float in {path}"
        )));
    }
    if let Some(factor) = checks.multiple_of {
        let multiple = match integer {
            Some(n) if factor.fract() == 0.0 => {
                let factor = factor as i64;
                factor > 0 && n % factor == 0
            }
            _ => {
                let quotient = if factor < 1.0 {
                    1.0 / factor * float
                } else {
                    float / factor
                };
                factor > 0.0 && (quotient - quotient.round()).abs() < 1e-9
            }
        };
        if !multiple {
            let text = format!("{path} in body should be a multiple of {}", go::float(factor));
            out.errors.push(invalid(path, value, text));
        }
    }
    // Integers are compared with the bound cut to an integer, as upstream does.
    let bound = |b: f64| match integer {
        Some(_) => (b.trunc(), go::float(b.trunc())),
        None => (b, go::float(b)),
    };
    if let Some(min) = checks.minimum {
        let (min, shown) = bound(min);
        if float < min || (checks.exclusive_minimum && float <= min) {
            let relation = if checks.exclusive_minimum {
                "greater than"
            } else {
                "greater than or equal to"
            };
            out.errors.push(invalid(
                path,
                value,
                format!("{path} in body should be {relation} {shown}"),
            ));
        }
    }
    if let Some(max) = checks.maximum {
        let (max, shown) = bound(max);
        if float > max || (checks.exclusive_maximum && float >= max) {
            let relation = if checks.exclusive_maximum {
                "less than"
            } else {
                "less than or equal to"
            };
            out.errors.push(invalid(
                path,
                value,
                format!("{path} in body should be {relation} {shown}"),
            ));
        }
    }
}

fn check_list(list: &[Value], schema: &Node, path: &str, pair: Option<Pair<'_>>, out: &mut Outcome) {
    if let Some(items) = schema.items.as_deref() {
        for (index, item) in list.iter().enumerate() {
            let inner = pair.and_then(|p| p.item(index));
            out.merge(check(item, items, &format!("{path}[{index}]"), inner));
        }
    }
    let size = i64::try_from(list.len()).unwrap_or(i64::MAX);
    if let Some(min) = schema.checks.min_items
        && size < min
    {
        let text = format!("{path} in body should have at least {min} items");
        out.errors.push(invalid(path, &json!(size), text));
    }
    if let Some(max) = schema.checks.max_items
        && size > max
    {
        let max = usize::try_from(max).unwrap_or(0);
        out.errors
            .push(FieldError::too_many(field_of(path), list.len(), max));
    }
}

fn check_object(
    map: &serde_json::Map<String, Value>,
    schema: &Node,
    path: &str,
    pair: Option<Pair<'_>>,
    out: &mut Outcome,
) {
    let checks = &schema.checks;
    let size = i64::try_from(map.len()).unwrap_or(i64::MAX);
    if let Some(min) = checks.min_properties
        && size < min
    {
        let text = format!("{path} in body should have at least {min} properties");
        out.errors.push(invalid(path, &json!(size), text));
    }
    if let Some(max) = checks.max_properties
        && size > max
    {
        let max = usize::try_from(max).unwrap_or(0);
        out.errors
            .push(FieldError::too_many(field_of(path), map.len(), max));
    }
    // Conversion rewrites `apiVersion` and `kind` of the root, so their old values do not count.
    let pair_of = |key: &str| {
        let invisible = path.is_empty() && matches!(key, "apiVersion" | "kind");
        if invisible {
            None
        } else {
            pair.and_then(|p| p.field(key))
        }
    };
    match &schema.additional {
        Some(AdditionalNode::Allowed(false)) => {
            for key in map.keys().filter(|k| !schema.properties.contains_key(*k)) {
                let text = format!("{path}.{key} in body is a forbidden property");
                out.errors.push(invalid(path, &json!(key), text));
            }
        }
        Some(AdditionalNode::Schema(additional)) => {
            for (key, value) in map.iter().filter(|(k, _)| !schema.properties.contains_key(*k)) {
                out.merge(check(value, additional, &format!("{path}.{key}"), pair_of(key)));
            }
        }
        _ => {}
    }
    for (name, property) in &schema.properties {
        if let Some(value) = map.get(name) {
            let inner = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            out.merge(check(value, property, &inner, pair_of(name)));
        }
    }
    for name in &checks.required {
        if !map.contains_key(name) {
            out.errors
                .push(FieldError::required(field_of(&format!("{path}.{name}")), ""));
        }
    }
}

fn check_combinators(value: &Value, checks: &Checks, path: &str, pair: Option<Pair<'_>>) -> Outcome {
    let mut out = Outcome::default();
    let branch = |schema: &Node| {
        let mut outcome = check_node(value, schema, path, pair);
        if schema.checks.has_combinators() {
            let mut seen = HashSet::new();
            outcome.errors.retain(|e| seen.insert(e.to_string()));
        }
        outcome
    };
    let quoted = || crate::field::go_quote(path);
    if !checks.any_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut success = None;
        for schema in &checks.any_of {
            let outcome = branch(schema);
            if outcome.errors.is_empty() {
                success = Some(outcome);
                break;
            }
            if best.as_ref().is_none_or(|b| outcome.matches > b.matches) {
                best = Some(outcome);
            }
        }
        match success {
            Some(outcome) => out.merge(outcome),
            None => {
                let text = format!("{} must validate at least one schema (anyOf)", quoted());
                out.errors.push(unplaced(text));
                out.merge(best.unwrap_or_default());
            }
        }
    }
    if !checks.one_of.is_empty() {
        let mut best: Option<Outcome> = None;
        let mut success = None;
        let mut valid = 0;
        for schema in &checks.one_of {
            let outcome = branch(schema);
            if outcome.errors.is_empty() {
                valid += 1;
                best = None;
                success = success.or(Some(outcome));
            } else if valid == 0 && best.as_ref().is_none_or(|b| outcome.matches > b.matches) {
                best = Some(outcome);
            }
        }
        if valid == 1 {
            out.merge(success.unwrap_or_default());
        } else {
            let found = match valid {
                0 => "Found none valid".to_owned(),
                n => format!("Found {n} valid alternatives"),
            };
            let text = format!(
                "{} must validate one and only one schema (oneOf). {found}",
                quoted()
            );
            out.errors.push(unplaced(text));
            out.merge(best.unwrap_or_default());
        }
    }
    if !checks.all_of.is_empty() {
        let mut valid = 0;
        for schema in &checks.all_of {
            let outcome = branch(schema);
            if outcome.errors.is_empty() {
                valid += 1;
            }
            out.merge(outcome);
        }
        if valid != checks.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            let text = format!("{} must validate all the schemas (allOf){none}", quoted());
            out.errors.push(unplaced(text));
        }
    }
    if let Some(schema) = &checks.not
        && branch(schema).errors.is_empty()
    {
        out.errors.push(unplaced(format!(
            "{} must not validate the schema (not)",
            quoted()
        )));
    }
    out.matches += 1;
    out
}
