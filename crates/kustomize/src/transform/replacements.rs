//! `replacements`: copies one field's value into others.

use crate::budget::{Budget, measure};
use crate::collection::Collection;
use crate::error::{BuildError, Fault, Place};
use crate::field_path::{self, NewField, PathMismatch, Visitor};
use crate::kustomization::{
    self, FieldOptions, Kustomization, Replacement, ReplacementSource, ReplacementTarget, Selector,
    UnknownFields,
};
use crate::loader::{Loader, at};
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;
use crate::selector::Matcher;
use equate_manifest::yaml::{self, Dialect, Duplicates, Options};
use serde_json::Value;
use std::collections::HashMap;

const DEFAULT_PATH: &str = "metadata.name";

pub(crate) fn apply_all(
    kustomization: &Kustomization,
    loader: &mut Loader<'_>,
    resources: &mut Collection,
    schema: &Schema,
) -> Result<(), BuildError> {
    for (index, entry) in kustomization.fields.replacements.iter().enumerate() {
        let place = kustomization.item("replacements", index);
        apply_entry(entry, &kustomization.root, place, loader, resources, schema)?;
    }
    Ok(())
}

pub(crate) fn apply_entry(
    entry: &Replacement,
    root: &str,
    place: Place,
    loader: &mut Loader<'_>,
    resources: &mut Collection,
    schema: &Schema,
) -> Result<(), BuildError> {
    if entry.path.is_empty() {
        return apply(entry, resources, schema).map_err(at(place));
    }
    if entry.source.is_some() || !entry.targets.is_empty() {
        let fault = Fault::Replacement("cannot specify both path and inline replacement".to_owned());
        return Err(at(place)(fault));
    }
    let (path, text) = loader.read_text(root, &entry.path).map_err(at(place))?;
    for entry in read(&text, &path, &loader.budget)? {
        apply(&entry, resources, schema).map_err(at(Place::file(&path)))?;
    }
    Ok(())
}

fn read(text: &str, path: &str, budget: &Budget) -> Result<Vec<Replacement>, BuildError> {
    let options = Options {
        duplicates: Duplicates::Collect,
        ..Options::default()
    };
    let documents = budget
        .load(text, &options)
        .map_err(|error| BuildError::yaml(path, error))?;
    let entries = match documents.into_iter().next().map(|document| document.value) {
        None => Vec::new(),
        Some(Value::Array(entries)) => entries,
        Some(entry) => vec![entry],
    };
    entries
        .into_iter()
        .map(|entry| {
            kustomization::decode(
                entry,
                &kustomization::shapes::REPLACEMENT,
                UnknownFields::Refused,
                &mut HashMap::new(),
            )
        })
        .collect::<Result<_, _>>()
        .map_err(|(_, fault)| at(Place::file(path))(fault))
}

fn apply(entry: &Replacement, resources: &mut Collection, schema: &Schema) -> Result<(), Fault> {
    let value = match (&entry.source, &entry.source_value) {
        (Some(_), Some(_)) => return fault("value and resource selectors are mutually exclusive"),
        (None, Some(text)) => plain(text),
        (Some(source), None) => source_value(source, resources)?,
        (None, None) => return fault("replacements must specify a source and at least one target"),
    };
    if entry.targets.is_empty() {
        return fault("replacements must specify a source and at least one target");
    }
    for target in &entry.targets {
        apply_to(target, &value, resources, schema)?;
    }
    Ok(resources.budget().check()?)
}

fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Replacement(text.into()))
}

fn source_value(source: &ReplacementSource, resources: &mut Collection) -> Result<Value, Fault> {
    let budget = resources.budget();
    let candidates = match (source.name.as_str(), source.kind.as_str()) {
        ("", "") => resources.everything(),
        ("", kind) => resources.by_any_kind(kind),
        (name, _) => resources.by_any_name(name),
    };
    budget.spend(candidates.iter().map(|at| 20 * resources.at(*at).steps()).sum())?;
    let mut found = candidates
        .into_iter()
        .filter(|at| is_source(resources.at(*at), source));
    let shown = || {
        let or = |text: &str, other: &'static str| {
            if text.is_empty() {
                other.to_owned()
            } else {
                text.to_owned()
            }
        };
        let mut shown = format!(
            "{}.{}.{}/{}.{}",
            or(&source.kind, "[noKind]"),
            or(&source.version, "[noVer]"),
            or(&source.group, "[noGrp]"),
            or(&source.name, "[noName]"),
            or(&source.namespace, "[noNs]"),
        );
        if !source.field_path.is_empty() {
            shown = format!("{shown}:{}", source.field_path);
        }
        shown
    };
    let Some(at) = found.next() else {
        return fault(format!("nothing selected by {}", shown()));
    };
    if found.next().is_some() {
        return fault(format!("multiple matches for selector {}", shown()));
    }
    let path = match source.field_path.as_str() {
        "" => DEFAULT_PATH,
        path => path,
    };
    let object = &resources.at(at).object.0;
    let empty = |value: &&Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    let found = field_path::get_in(object, &field_path::split(path), &budget).filter(|value| !empty(value));
    let Some(value) = found else {
        return fault(format!(
            "fieldPath `{path}` is missing for replacement source {}",
            shown().trim_end_matches(&format!(":{path}"))
        ));
    };
    let Some(options) = source
        .options
        .as_ref()
        .filter(|options| !options.delimiter.is_empty())
    else {
        budget.spend(measure(value).0 / 4)?;
        return Ok(value.clone());
    };
    let Some(text) = scalar_text(value) else {
        return fault("delimiter option can only be used with scalar nodes");
    };
    budget.spend(text.len())?;
    let part = usize::try_from(options.index)
        .ok()
        .and_then(|index| text.split(options.delimiter.as_str()).nth(index));
    match part {
        Some(part) => Ok(part.into()),
        None => fault(format!(
            "options.index {} is out of bounds for value {text}",
            options.index
        )),
    }
}

fn is_source(resource: &Resource, source: &ReplacementSource) -> bool {
    let (group, version) = resource.group_version();
    let is = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
    let effective = |namespace: &str| {
        if namespace.is_empty() {
            "default".to_owned()
        } else {
            namespace.to_owned()
        }
    };
    let mut names = std::iter::once((resource.kind(), resource.name(), resource.object.namespace())).chain(
        resource.history.iter().map(|former| {
            (
                former.kind.as_str(),
                former.name.as_str(),
                former.namespace.as_str(),
            )
        }),
    );
    is(&source.group, group)
        && is(&source.version, version)
        && names.any(|(kind, name, namespace)| {
            is(&source.kind, kind)
                && is(&source.name, name)
                && (source.namespace.is_empty() || effective(&source.namespace) == effective(namespace))
        })
}

fn apply_to(
    target: &ReplacementTarget,
    value: &Value,
    resources: &mut Collection,
    schema: &Schema,
) -> Result<(), Fault> {
    let Some(select) = &target.select else {
        return fault("target must specify resources to select");
    };
    let budget = resources.budget();
    let selects = Matcher::new(select, &budget)?;
    let rejects = target
        .reject
        .iter()
        .map(|selector| Ok((selector, Matcher::new(selector, &budget)?)))
        .collect::<Result<Vec<_>, Fault>>()?;
    let paths: Vec<&str> = if target.field_paths.is_empty() {
        vec![DEFAULT_PATH]
    } else {
        target.field_paths.iter().map(String::as_str).collect()
    };
    budget.spend(paths.iter().map(|path| path.len()).sum())?;
    let paths: Vec<(&str, Vec<String>)> = paths
        .into_iter()
        .map(|path| (path, field_path::split(path)))
        .collect();
    for at in resources.candidates(&selects) {
        let resource = resources.at(at);
        budget.spend(14)?;
        if !selects.matches_metadata(resource)
            || !any_name(resource, &selects)
            || rejects
                .iter()
                .any(|(selector, matcher)| rejected(resource, selector, matcher))
        {
            continue;
        }
        resources.change(at, schema, |resource| {
            paths.iter().try_for_each(|(path, segments)| {
                budget.spend(resource.sharing.steps(&resource.object.0))?;
                let change = |resource: &mut Resource| {
                    let mut object = Value::Object(std::mem::take(&mut resource.object.0));
                    let done = copy(
                        &mut object,
                        path,
                        segments,
                        value,
                        target.options.as_ref(),
                        &budget,
                    );
                    if let Value::Object(map) = object {
                        resource.object.0 = map;
                    }
                    done
                };
                match value {
                    Value::Array(_) | Value::Object(_) => resource.apart(change),
                    _ => resource.change_scalars(change),
                }
            })
        })?;
    }
    Ok(())
}

fn any_name(resource: &Resource, matcher: &Matcher) -> bool {
    let (group, version) = resource.group_version();
    let now = (resource.kind(), resource.name(), resource.object.namespace());
    std::iter::once(now)
        .chain(resource.history.iter().map(|former| {
            (
                former.kind.as_str(),
                former.name.as_str(),
                former.namespace.as_str(),
            )
        }))
        .any(|(kind, name, namespace)| {
            matcher.matches_kind(group, version, kind) && matcher.matches_names(name, namespace)
        })
}

fn rejected(resource: &Resource, selector: &Selector, matcher: &Matcher) -> bool {
    let by_metadata = matcher.selects_metadata() && matcher.matches_metadata(resource);
    let names_something = [
        &selector.group,
        &selector.version,
        &selector.kind,
        &selector.name,
        &selector.namespace,
    ]
    .iter()
    .any(|text| !text.is_empty());
    by_metadata || names_something && any_name(resource, matcher)
}

fn copy(
    object: &mut Value,
    path: &str,
    segments: &[String],
    value: &Value,
    options: Option<&FieldOptions>,
    budget: &Budget,
) -> Result<(), Fault> {
    budget.charge_copy(value, segments.len())?;
    if into_text(object, segments, value, options, budget)? {
        return Ok(());
    }
    let creates = options.is_some_and(|options| options.create);
    let makes = creates.then(|| NewField::like(value));
    let missing = || {
        if creates {
            format!("unable to find or create field {path:?} in replacement target")
        } else {
            format!("unable to find field {path:?} in replacement target")
        }
    };
    let mut visitor = Visitor {
        makes,
        budget,
        set: &mut |field| {
            let before = match &*field {
                scalar @ (Value::Bool(_) | Value::Number(_)) => scalar.clone(),
                _ => Value::Null,
            };
            put(field, value, options, budget)?;
            // kustomize writes labels and annotations as strings
            match mistyped(&before, field)
                .filter(|_| segments.first().is_some_and(|first| first != "metadata"))
            {
                Some(why) => Err(PathMismatch::Mistyped(why)),
                None => Ok(()),
            }
        },
    };
    match field_path::visit(object, segments, &mut visitor) {
        Ok(0) => fault(missing()),
        Ok(_) => Ok(()),
        Err(PathMismatch::Exhausted(exhausted)) => Err(exhausted.into()),
        Err(PathMismatch::Mistyped(why)) => fault(format!("field {path:?} of replacement target: {why}")),
        Err(PathMismatch::Invalid(why)) => fault(format!("{}: {why}", missing())),
    }
}

/// Sets a field to the value, or one part of a delimited text. A scalar keeps its type.
fn put(
    field: &mut Value,
    value: &Value,
    options: Option<&FieldOptions>,
    budget: &Budget,
) -> Result<(), PathMismatch> {
    budget.charge(measure(value).0)?;
    let delimited = options.filter(|options| !options.delimiter.is_empty());
    let value = match delimited {
        None => value.clone(),
        Some(options) => {
            let (Some(current), Some(text)) = (scalar_text(field), scalar_text(value)) else {
                let why = "delimiter option can only be used with scalar nodes";
                return Err(PathMismatch::Invalid(why.to_owned()));
            };
            budget.charge(current.len())?;
            budget.spend(current.len() / 4)?;
            let mut parts: Vec<&str> = current.split(options.delimiter.as_str()).collect();
            match usize::try_from(options.index) {
                Err(_) => parts.insert(0, &text),
                Ok(at) => match parts.get_mut(at) {
                    Some(part) => *part = &text,
                    None => parts.push(&text),
                },
            }
            parts.join(&options.delimiter).into()
        }
    };
    *field = match (&*field, value) {
        (Value::Array(_) | Value::Object(_), value) | (_, value @ (Value::Array(_) | Value::Object(_))) => {
            value
        }
        (Value::String(_), scalar) => scalar_text(&scalar).unwrap_or_default().into(),
        (_, scalar) => plain(&scalar_text(&scalar).unwrap_or_default()),
    };
    Ok(())
}

/// The type error if a scalar cannot replace another.
fn mistyped(before: &Value, after: &Value) -> Option<String> {
    let wanted = match before {
        Value::Bool(_) if !after.is_boolean() => "bool",
        Value::Number(number) if number.is_f64() && !after.is_number() => "float",
        Value::Number(number) if !number.is_f64() && !after.is_i64() && !after.is_u64() => "int",
        _ => return None,
    };
    let found = match after {
        Value::String(_) => "str",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::Null => "null",
        Value::Array(_) | Value::Object(_) => return None,
    };
    let text = scalar_text(after).unwrap_or_default();
    Some(format!("cannot decode !!{found} `{text}` as a !!{wanted}"))
}

/// A text as an untagged YAML scalar.
fn plain(text: &str) -> Value {
    match yaml::scalar(Dialect::Yaml12, text) {
        Some(value) if !text.is_empty() => value,
        _ => text.into(),
    }
}

/// Copies the value into a JSON or YAML text in a field; false if there is none.
fn into_text(
    object: &mut Value,
    segments: &[String],
    value: &Value,
    options: Option<&FieldOptions>,
    budget: &Budget,
) -> Result<bool, Fault> {
    for at in 1..segments.len() {
        let (outer, inner) = segments.split_at(at);
        budget.spend(at)?;
        let found = field_path::get(object, outer, budget);
        if found.is_some_and(Value::is_null) && options.is_some_and(|options| options.create) {
            // kustomize reads `null` as YAML, in which nothing can be created
            return Ok(true);
        }
        let Some(text) = found.and_then(Value::as_str) else {
            continue;
        };
        let Some(mut content) = first_document(text, budget) else {
            continue;
        };
        let makes = options
            .filter(|options| options.create)
            .map(|_| NewField::like(value));
        budget.charge(text.len())?;
        let mut visitor = Visitor {
            makes,
            budget,
            set: &mut |field| put(field, value, options, budget),
        };
        let set = field_path::visit(&mut content.value, inner, &mut visitor);
        if let Err(PathMismatch::Exhausted(exhausted)) = set {
            return Err(exhausted.into());
        }
        // kustomize ignores a failure to create fields in null
        if !set.is_ok_and(|count| count > 0 || makes.is_some()) {
            // for a text within a text kustomize changes only a copy
            let Some(before) = first_document(text, budget) else {
                return Ok(false);
            };
            content = before;
            if !into_text(&mut content.value.clone(), inner, value, options, budget)? {
                return Ok(false);
            }
        }
        budget.spend(4 * (measure(&content.value).0 + text.len()))?;
        let written = write_like(text, &content.value);
        let mut visitor = Visitor {
            makes: None,
            budget,
            set: &mut |field| {
                budget.charge(written.len())?;
                *field = written.clone().into();
                Ok(())
            },
        };
        return match field_path::visit(object, outer, &mut visitor) {
            Err(PathMismatch::Exhausted(exhausted)) => Err(exhausted.into()),
            done => Ok(done.is_ok_and(|count| count > 0)),
        };
    }
    Ok(false)
}

fn first_document(text: &str, budget: &Budget) -> Option<yaml::Document> {
    let read = Options {
        dialect: Dialect::Yaml12,
        ..Options::default()
    };
    budget.load(text, &read).ok()?.into_iter().next()
}

/// JSON stays JSON and keeps its indentation; anything else is YAML and keeps its form.
fn write_like(before: &str, value: &Value) -> String {
    if !before.trim_start().starts_with(['{', '[']) {
        let text = yaml::rewrite(before, value).unwrap_or_else(|| yaml::to_string(value));
        return text.trim().to_owned();
    }
    if before.contains('\n')
        && before.contains("  ")
        && let Ok(text) = serde_json::to_string_pretty(value)
    {
        return text;
    }
    equate_manifest::json::to_go_string(value)
}
