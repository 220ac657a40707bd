//! Server-side apply: the object and its field owners after an update or an apply.
//!
//! The rules are those of structured-merge-diff v6's updater. One schema serves all managers: fields of
//! another API version are compared under the present one, as Kubernetes does where conversion changes only
//! `apiVersion`. Kubernetes' metadata stays with the API server: names of managers, ignored fields, and texts
//! of conflicts.

mod prune;

#[cfg(test)]
mod tests;

use crate::fieldpath::{Path, Set, equal};
use crate::typed::{Comparison, Errors, Type};
use serde_json::Value;
use std::collections::BTreeMap;

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The fields.
    pub fields: Set,
    /// The API version of its last write.
    pub api_version: String,
    /// Whether by apply; otherwise by update.
    pub applied: bool,
}

/// The owners by manager; `M` names a manager.
pub type Managers<M> = BTreeMap<M, Ownership>;

/// A request to update or apply.
#[derive(Debug, Clone)]
pub struct Request<'a, M> {
    /// The object's type.
    pub kind: &'a Type,
    /// The requesting manager.
    pub manager: M,
    /// The request's API version.
    pub api_version: &'a str,
    /// Fields, with everything below them, that are excluded from ownership and comparison.
    pub ignored: &'a Set,
}

/// A field that an apply would take from another manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict<M> {
    /// The owner.
    pub manager: M,
    /// The field.
    pub path: Path,
}

/// Why an apply failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError<M: std::fmt::Debug> {
    /// Other managers own fields that the configuration changes, and the request is not forced.
    #[error("{} fields belong to other managers", .0.len())]
    Conflicts(Vec<Conflict<M>>),
    /// A value is not valid for the type.
    #[error(transparent)]
    Invalid(#[from] Errors),
}

/// Records an update: the requester now owns every difference between the two objects.
pub fn update<M: Ord + Clone>(
    request: &Request<'_, M>,
    live: &Value,
    new: &Value,
    managers: Managers<M>,
) -> Result<Managers<M>, Errors> {
    let mut managers = reconcile(request.kind, managers)?;
    let changes = request.kind.compare(live, new)?.without(request.ignored);
    let touched = changes.modified.union(&changes.added);
    let lost = conflicts(&managers, &request.manager, &touched);
    release(&mut managers, &request.manager, &lost, &changes);
    let fields = match managers.remove(&request.manager) {
        Some(before) => before.fields.difference(&changes.removed).union(&touched),
        None => touched,
    };
    let fields = fields.recursive_difference(request.ignored);
    if !fields.is_empty() {
        let owned = Ownership {
            fields,
            api_version: request.api_version.to_owned(),
            applied: false,
        };
        managers.insert(request.manager.clone(), owned);
    }
    Ok(managers)
}

/// Applies a configuration. Returns the object (`None` if unchanged) and its owners.
///
/// `live` is the stored object, or the type's empty one; `config` must be valid without duplicates.
pub fn apply<M: Ord + Clone + std::fmt::Debug>(
    request: &Request<'_, M>,
    live: &Value,
    config: &Value,
    managers: Managers<M>,
    force: bool,
) -> Result<(Option<Value>, Managers<M>), ApplyError<M>> {
    let mut managers = reconcile(request.kind, managers)?;
    let merged = request.kind.merge(live, config)?;
    let fields = request
        .kind
        .field_set(config)?
        .recursive_difference(request.ignored);
    let owned = Ownership {
        fields,
        api_version: request.api_version.to_owned(),
        applied: true,
    };
    let last = managers.insert(request.manager.clone(), owned);
    let new = prune::prune(request.kind, merged, &managers, &request.manager, last.as_ref())?;

    let changes = request.kind.compare(live, &new)?.without(request.ignored);
    let lost = conflicts(
        &managers,
        &request.manager,
        &changes.modified.union(&changes.added),
    );
    if !force && !lost.is_empty() {
        let conflicts = lost.into_iter().flat_map(|(manager, fields)| {
            fields.paths().into_iter().map(move |path| Conflict {
                manager: manager.clone(),
                path,
            })
        });
        return Err(ApplyError::Conflicts(conflicts.collect()));
    }
    release(&mut managers, &request.manager, &lost, &changes);
    let changed = !equal(live, &new);
    Ok((changed.then_some(new), managers))
}

fn reconcile<M: Ord>(kind: &Type, mut managers: Managers<M>) -> Result<Managers<M>, Errors> {
    for owned in managers.values_mut() {
        if let Some(fields) = kind.reconcile(&owned.fields)? {
            owned.fields = fields;
        }
    }
    Ok(managers)
}

fn conflicts<M: Ord + Clone>(managers: &Managers<M>, me: &M, touched: &Set) -> BTreeMap<M, Set> {
    managers
        .iter()
        .filter(|(manager, _)| *manager != me)
        .map(|(manager, owned)| (manager.clone(), owned.fields.intersection(touched)))
        .filter(|(_, lost)| !lost.is_empty())
        .collect()
}

/// Removes overwritten and deleted fields from other managers, and managers without fields.
fn release<M: Ord>(managers: &mut Managers<M>, me: &M, lost: &BTreeMap<M, Set>, changes: &Comparison) {
    managers.retain(|manager, owned| {
        if manager != me {
            if let Some(lost) = lost.get(manager) {
                owned.fields = owned.fields.difference(lost);
            }
            if !changes.removed.is_empty() {
                owned.fields = owned.fields.difference(&changes.removed);
            }
        }
        !owned.fields.is_empty()
    });
}
