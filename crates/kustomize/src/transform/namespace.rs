//! `namespace`: where everything lives that lives somewhere.

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{Fault, FieldProblem, node_kind};
use crate::field_spec::{Creates, FieldSpec, Selection, set_scalar};
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;
use serde_json::Value;
use std::collections::HashMap;
use std::hash::BuildHasher as _;

/// Which subjects of role bindings get the namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Subjects {
    /// Those named `default`.
    #[default]
    Default,
    /// All service accounts.
    ServiceAccounts,
    None,
}

/// What to do with which namespace.
#[derive(Debug)]
pub(crate) struct Namespace<'a> {
    pub(crate) name: &'a str,
    /// Whether a namespace that is set stays.
    pub(crate) unset_only: bool,
    pub(crate) subjects: Subjects,
}

impl Namespace<'_> {
    /// Moves every resource that may be moved; two of them in one place are an error.
    pub(crate) fn apply(
        &self,
        resources: &mut Collection,
        specs: &[FieldSpec],
        schema: &Schema,
    ) -> Result<(), Fault> {
        let budget = resources.budget();
        let items = resources.items_mut();
        let mut places = Places::of(items, schema);
        let selection = Selection::new(specs);
        for at in 0..items.len() {
            let resource = &mut items[at];
            let before = places.hash(resource, schema);
            budget.make(self.name.len() + resource.name().len())?;
            resource.remember(schema);
            self.set_own(resource, schema)?;
            self.set_subjects(resource, &budget)?;
            self.set_fields(resource, &selection, &budget)?;
            let after = places.hash(resource, schema);
            if after != before && places.moved(before, after) && several(items, at, schema) {
                return Err(Fault::NamespaceConflict {
                    id: items[at].id().to_string(),
                });
            }
        }
        Ok(())
    }

    fn set_own(&self, resource: &mut Resource, schema: &Schema) -> Result<(), Fault> {
        if resource.is_cluster_scoped(schema) {
            return Ok(());
        }
        let id = || resource.id().to_string();
        match resource
            .object
            .metadata()
            .and_then(|metadata| metadata.get("namespace"))
        {
            Some(value @ (Value::Object(_) | Value::Array(_))) => Err(Fault::Field {
                path: "metadata/namespace".to_owned(),
                id: id(),
                problem: FieldProblem::NotScalar(node_kind(value)),
            }),
            Some(value) if self.unset_only && !is_empty(value) => Ok(()),
            _ => {
                resource.set_namespace(self.name);
                Ok(())
            }
        }
    }

    fn set_subjects(&self, resource: &mut Resource, budget: &Budget) -> Result<(), Fault> {
        if !is_role_binding(resource) || self.subjects == Subjects::None {
            return Ok(());
        }
        let subjects = match resource.object.0.get_mut("subjects") {
            Some(Value::Array(subjects)) => subjects,
            None | Some(Value::Null) => return Ok(()),
            Some(other) => {
                let problem = FieldProblem::NotMap(node_kind(other));
                return Err(Fault::Field {
                    path: "subjects".to_owned(),
                    id: resource.id().to_string(),
                    problem,
                });
            }
        };
        for subject in subjects.iter_mut().filter_map(Value::as_object_mut) {
            let (field, wanted) = match self.subjects {
                Subjects::Default => ("name", "default"),
                Subjects::ServiceAccounts => ("kind", "ServiceAccount"),
                Subjects::None => continue,
            };
            if subject.get(field).is_none_or(|value| value != wanted) {
                continue;
            }
            if self.unset_only && subject.get("namespace").is_some_and(|value| !is_empty(value)) {
                continue;
            }
            budget.make(self.name.len())?;
            subject.insert("namespace".to_owned(), self.name.into());
        }
        Ok(())
    }

    fn set_fields(
        &self,
        resource: &mut Resource,
        selection: &Selection<'_>,
        budget: &Budget,
    ) -> Result<(), Fault> {
        let core = resource.object.api_version() == "v1";
        let binding = is_role_binding(resource);
        for spec in selection.of(resource) {
            let skipped = spec.path == "metadata/namespace"
                || spec.path == "metadata/name" && !core
                || binding && spec.path == "subjects/namespace";
            if skipped {
                continue;
            }
            spec.visit_any(resource, Creates::Scalar, &mut |value| {
                if self.unset_only && !is_empty(value) {
                    return Ok(());
                }
                budget.make(self.name.len())?;
                set_scalar(value, self.name.into())
            })?;
        }
        Ok(())
    }
}

/// How many resources are called what, by the hash of it.
struct Places(HashMap<u64, usize>);

impl Places {
    fn of(items: &[Resource], schema: &Schema) -> Self {
        let mut places = Self(HashMap::with_capacity(items.len()));
        for resource in items {
            let hash = places.hash(resource, schema);
            *places.0.entry(hash).or_default() += 1;
        }
        places
    }

    fn hash(&self, resource: &Resource, schema: &Schema) -> u64 {
        self.0.hasher().hash_one(resource.called(schema))
    }

    /// Whether there was something already, as far as hashes tell.
    fn moved(&mut self, before: u64, after: u64) -> bool {
        if let Some(count) = self.0.get_mut(&before) {
            *count -= 1;
        }
        let count = self.0.entry(after).or_default();
        *count += 1;
        *count > 1
    }
}

/// Whether another resource is called as the one at this place.
fn several(items: &[Resource], at: usize, schema: &Schema) -> bool {
    let called = items[at].called(schema);
    items
        .iter()
        .enumerate()
        .any(|(other, resource)| other != at && resource.called(schema) == called)
}

fn is_empty(value: &Value) -> bool {
    scalar_text(value).is_none_or(|text| text.is_empty())
}

fn is_role_binding(resource: &Resource) -> bool {
    matches!(resource.kind(), "RoleBinding" | "ClusterRoleBinding")
}
