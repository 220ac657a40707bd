//! `vars`: replaces `$(NAME)` by values of fields. Deprecated by kustomize, but supported.

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{BuildError, Exhausted, Fault, FieldProblem, Place};
use crate::field_path;
use crate::field_spec::{Creation, FieldSpec, Selection};
use crate::kustomization::Variable;
use crate::loader::at;
use crate::resource::{Resource, split_api_version};
use crate::schema::Schema;
use serde_json::Value;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Debug, Clone)]
pub(crate) struct Bound {
    variable: Variable,
    place: Place,
}

/// Binds a variable to its resource. A missing resource is not an error yet.
pub(crate) fn bind(
    variable: &Variable,
    place: Place,
    resources: &mut Collection,
    schema: &Schema,
) -> Result<Bound, Fault> {
    let target = &variable.objref;
    let (group, version) = if target.api_version.is_empty() {
        (target.group.as_str(), target.version.as_str())
    } else {
        split_api_version(&target.api_version)
    };
    let cluster_scoped = schema.is_cluster_scoped(
        &if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        },
        &target.kind,
    );
    let anywhere = target.namespace.is_empty() && !cluster_scoped;
    let wanted = match target.namespace.as_str() {
        _ if cluster_scoped => crate::resource::CLUSTER,
        "" => "default",
        namespace => namespace,
    };
    let meant = |resource: &Resource| {
        let now = (
            resource.kind(),
            resource.name(),
            resource.effective_namespace(schema),
        );
        let before = resource.history.iter().map(|former| {
            (
                former.kind.as_str(),
                former.name.as_str(),
                former.namespace.as_str(),
            )
        });
        resource.group_version() == (group, version)
            && std::iter::once(now).chain(before).any(|(kind, name, namespace)| {
                kind == target.kind && name == target.name && (anywhere || namespace == wanted)
            })
    };
    let mut found = resources.by_any_name(&target.name);
    let steps = found.iter().map(|at| 15 * resources.at(*at).steps()).sum();
    resources.budget().spend(steps)?;
    found.retain(|at| meant(resources.at(*at)));
    match found[..] {
        [] => {}
        [at] => resources.content_mut(at).variables.push(variable.name.clone()),
        _ => {
            return Err(Fault::SeveralVariableTargets {
                name: variable.name.clone(),
                count: found.len(),
            });
        }
    }
    Ok(Bound {
        variable: variable.clone(),
        place,
    })
}

#[derive(Debug, Default)]
pub(crate) struct Variables {
    list: Vec<Bound>,
    names: HashSet<String>,
}

impl Variables {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds the variables of a base. A repeated name is an error.
    pub(crate) fn absorb(&mut self, more: Self) -> Result<(), Fault> {
        more.list.into_iter().try_for_each(|bound| self.add(bound))
    }

    pub(crate) fn add(&mut self, bound: Bound) -> Result<(), Fault> {
        if !self.names.insert(bound.variable.name.clone()) {
            let name = bound.variable.name;
            return Err(Fault::VariableTwice { name });
        }
        self.list.push(bound);
        Ok(())
    }
}

/// The values, and whether each is used.
type Values<'v> = BTreeMap<&'v str, (Value, Cell<bool>)>;

/// Substitutes the values. Unused variables produce kustomize's warnings.
pub(crate) fn resolve(
    resources: &mut Collection,
    variables: &Variables,
    specs: &[FieldSpec],
) -> Result<Option<String>, BuildError> {
    if variables.is_empty() {
        return Ok(None);
    }
    let budget = resources.budget();
    let items = resources.items();
    let mut holders: HashMap<&str, &Resource> = HashMap::new();
    for resource in items {
        for name in &resource.variables {
            holders.entry(name).or_insert(resource);
        }
    }
    let mut values = Values::new();
    for Bound { variable, place } in &variables.list {
        let holder = holders.get(variable.name.as_str()).copied();
        let value = value_of(variable, holder, &budget).map_err(at(place.clone()))?;
        values.insert(variable.name.as_str(), (value, Cell::new(false)));
    }
    let selection = Selection::new(specs, &budget);
    for resource in resources.items_mut() {
        for spec in selection.of(resource) {
            budget.owe(20 + resource.sharing.steps(&resource.object.0));
            let visited = resource.change_scalars(|resource| {
                spec.visit_any(resource, Creation::Nothing, &budget, &mut |value| {
                    expand(value, &values, &budget)
                })
            });
            visited.map_err(at(resource.place()))?;
        }
    }
    let unused: Vec<&str> = values
        .iter()
        .filter(|(_, (_, used))| !used.get())
        .map(|(name, _)| *name)
        .collect();
    Ok((!unused.is_empty())
        .then(|| format!("well-defined vars that were never replaced: {}", unused.join(","))))
}

fn value_of(variable: &Variable, holder: Option<&Resource>, budget: &Budget) -> Result<Value, Fault> {
    let Some(holder) = holder else {
        let name = variable.name.clone();
        return Err(Fault::NoVariableTarget { name });
    };
    let path = match variable.fieldref.field_path.as_str() {
        "" => "metadata.name",
        path => path,
    };
    // spec.ports[0].port is spec.ports.0.port
    let path = path.replace('[', ".[");
    let segments: Vec<String> = field_path::split(&path)
        .into_iter()
        .map(
            |segment| match segment.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                Some(inner) if !inner.contains('=') => inner.to_owned(),
                _ => segment,
            },
        )
        .collect();
    let value = field_path::get_in(&holder.object.0, &segments, budget);
    if let Some(value) = value {
        budget.charge_copy(value, 0)?;
    }
    value.cloned().ok_or_else(|| Fault::NoVariableField {
        name: variable.name.clone(),
        field: segments.join("."),
        id: holder.id().to_string(),
    })
}

/// Expands a text, or the texts of a list or map.
fn expand(value: &mut Value, values: &Values<'_>, budget: &Budget) -> Result<(), FieldProblem> {
    match value {
        Value::String(text) => *value = expanded(text, values, budget)?,
        Value::Array(items) => {
            for item in items {
                let Value::String(text) = item else {
                    return Err(FieldProblem::NotText);
                };
                *item = expanded(text, values, budget)?;
            }
        }
        Value::Object(map) => {
            for value in map.values_mut() {
                if let Value::String(text) = value {
                    *value = expanded(text, values, budget)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

/// Replaces `$(NAME)`. A text that is only `$(NAME)` takes the value's type. `$$` is a dollar.
fn expanded(text: &str, values: &Values<'_>, budget: &Budget) -> Result<Value, Exhausted> {
    budget.spend(2 + text.len() / 4)?;
    // the text after it has no names
    let last_close = text.rfind(')').unwrap_or_default();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        if after.is_empty() {
            out.push('$');
            rest = after;
        } else if let Some(after) = after.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = after
            .strip_prefix('(')
            .filter(|inner| text.len() - inner.len() <= last_close)
            .and_then(|inner| inner.split_once(')'))
        {
            budget.spend(10)?;
            match values.get(name) {
                Some((value @ (Value::String(_) | Value::Number(_) | Value::Bool(_)), used)) => {
                    used.set(true);
                    if text.len() == name.len() + 3 {
                        budget.charge_copy(value, 0)?;
                        return Ok(value.clone());
                    }
                    let value = crate::resource::scalar_text(value).unwrap_or_default();
                    budget.charge(value.len())?;
                    out.push_str(&value);
                }
                _ => {
                    out.push_str("$(");
                    out.push_str(name);
                    out.push(')');
                }
            }
            rest = after;
        } else {
            out.push('$');
            rest = after;
        }
    }
    out.push_str(rest);
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_expanded() {
        let values = [
            ("A", Value::from("x")),
            ("N", Value::from(8080)),
            ("M", Value::Array(Vec::new())),
        ];
        let values = values.map(|(name, value)| (name, (value, Cell::new(false))));
        let values = Values::from(values);
        for (text, expected) in [
            ("$(A)", Value::from("x")),
            ("$(N)", Value::from(8080)),
            ("p:$(N)", Value::from("p:8080")),
            ("$$(A)", Value::from("$(A)")),
            ("$(B) $(M)", Value::from("$(B) $(M)")),
            ("cost $", Value::from("cost $")),
            ("$(A", Value::from("$(A")),
        ] {
            assert_eq!(
                expanded(text, &values, &Budget::default()),
                Ok(expected),
                "{text}"
            );
        }
    }
}
