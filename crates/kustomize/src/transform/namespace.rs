//! `namespace`: sets the namespace of every namespaced object.

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::{Fault, FieldProblem, node_kind};
use crate::field_spec::{ByType, Creation, FieldSpec, Selection, set_scalar};
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;
use serde_json::Value;
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, RandomState};

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

/// The steps to hash a resource's id twice and move it.
const RESOURCE_STEPS: usize = 40;

#[derive(Debug)]
pub(crate) struct Namespace<'a> {
    pub(crate) name: &'a str,
    /// Whether to keep a namespace that is set.
    pub(crate) unset_only: bool,
    pub(crate) subjects: Subjects,
}

impl Namespace<'_> {
    /// Moves every namespaced resource. Two with the same id afterwards are an error.
    pub(crate) fn apply<'s>(
        &self,
        resources: &mut Collection,
        specs: &'s [FieldSpec],
        schema: &Schema,
    ) -> Result<(), Fault> {
        let budget = resources.budget();
        let workers = budget.workers();
        let items = resources.items_mut();
        let hasher = RandomState::new();
        let hash = |resource: &Resource| hasher.hash_one(resource.called(schema));
        let selection = Selection::new(specs, &budget);
        let set = |known: &mut ByType<Vec<&'s FieldSpec>>, resource: &mut Resource| {
            if resource.from_chart {
                return Ok(hash(resource));
            }
            budget.check()?;
            budget.charge(self.name.len() + resource.name().len())?;
            budget.spend(RESOURCE_STEPS * resource.steps())?;
            resource.remember(schema);
            self.set_own(resource, schema)?;
            self.set_subjects(resource, &budget)?;
            self.set_fields(resource, &selection, known, &budget)?;
            Ok(hash(resource))
        };
        // none stops at a fault: earlier ids decide about conflicts
        let moves = workers.map(items, ByType::new, |known, resource| {
            let before = hash(resource);
            Ok::<_, Infallible>((before, set(known, resource).map_err(Box::<Fault>::new)))
        });
        let (before, after): (Vec<u64>, Vec<_>) = moves.done.into_iter().unzip();
        let mut places = IdCounts::new(&before);
        for (at, moved) in after.into_iter().enumerate() {
            let hash = moved.map_err(|fault| *fault)?;
            if hash != before[at]
                && places.moved(before[at], hash)
                && is_duplicate(items, at, &before, hash, schema)
            {
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
        budget.spend(4 * subjects.len())?;
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
            budget.charge(self.name.len())?;
            subject.insert("namespace".to_owned(), self.name.into());
        }
        Ok(())
    }

    fn set_fields<'s>(
        &self,
        resource: &mut Resource,
        selection: &Selection<'s>,
        known: &mut ByType<Vec<&'s FieldSpec>>,
        budget: &Budget,
    ) -> Result<(), Fault> {
        let specs = known.of(resource.object.api_version(), resource.kind(), || {
            let core = resource.object.api_version() == "v1";
            let binding = is_role_binding(resource);
            let mut specs = selection.of(resource);
            specs.retain(|spec| match spec.path.as_str() {
                "metadata/namespace" => false,
                "metadata/name" => core,
                "subjects/namespace" => !binding,
                _ => true,
            });
            specs
        });
        for spec in specs {
            spec.visit_any(resource, Creation::Scalar, budget, &mut |value| {
                if self.unset_only && !is_empty(value) {
                    return Ok(());
                }
                budget.charge(self.name.len())?;
                set_scalar(value, self.name.into())
            })?;
        }
        Ok(())
    }
}

struct IdCounts(HashMap<u64, usize>);

impl IdCounts {
    fn new(hashes: &[u64]) -> Self {
        let mut places = HashMap::with_capacity(hashes.len() * 2);
        for hash in hashes {
            *places.entry(*hash).or_default() += 1;
        }
        Self(places)
    }

    /// Whether the id was taken already, judging by hashes.
    fn moved(&mut self, before: u64, after: u64) -> bool {
        if let Some(count) = self.0.get_mut(&before) {
            *count -= 1;
        }
        let count = self.0.entry(after).or_default();
        *count += 1;
        *count > 1
    }
}

/// Whether another resource has the id of the one at this place, as if resources were moved one by one: later
/// ones count with their old ids.
fn is_duplicate(items: &[Resource], at: usize, before: &[u64], hash: u64, schema: &Schema) -> bool {
    let called = items[at].called(schema);
    let mut moved = items[..at].iter();
    let mut rest = items.iter().zip(before).skip(at + 1);
    moved.any(|other| other.called(schema) == called)
        || rest
            .any(|(other, before)| *before == hash && other.all_called(schema).any(|other| other == called))
}

fn is_empty(value: &Value) -> bool {
    scalar_text(value).is_none_or(|text| text.is_empty())
}

fn is_role_binding(resource: &Resource) -> bool {
    matches!(resource.kind(), "RoleBinding" | "ClusterRoleBinding")
}
