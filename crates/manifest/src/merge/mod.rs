//! Server-side apply: what an object becomes, and who owns what, after an update or an apply.
//!
//! The rules are those of structured-merge-diff v6's updater. One schema
//! serves all managers: a manager that wrote another API version is compared
//! under the present one, as Kubernetes does where conversion changes nothing
//! but `apiVersion`. It knows nothing of Kubernetes' metadata: which names
//! managers have, what ownership is not recorded and how a conflict is told
//! are the API server's business.

mod prune;

#[cfg(test)]
mod tests;

use crate::fieldpath::{Path, Set, equal};
use crate::typed::{Comparison, Errors, Type};
use serde_json::Value;
use std::collections::BTreeMap;

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ownership {
    /// The fields.
    pub fields: Set,
    /// The API version in which it wrote them last.
    pub api_version: String,
    /// Whether by apply; otherwise by update.
    pub applied: bool,
}

/// Who owns what. `M` names a manager.
pub type Managers<M> = BTreeMap<M, Ownership>;

/// A request as structured merge sees it.
#[derive(Debug, Clone)]
pub struct Request<'a, M> {
    /// The object's type.
    pub kind: &'a Type,
    /// Who asks.
    pub manager: M,
    /// In which API version.
    pub api_version: &'a str,
    /// Fields, with all below them, whose ownership and whose changes are ignored.
    pub ignored: &'a Set,
}

/// A field that an apply would take from another manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict<M> {
    /// Who owns it.
    pub manager: M,
    /// The field.
    pub path: Path,
}

/// Why there was no apply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError<M: std::fmt::Debug> {
    /// Others own fields that the configuration sets to another value, and it was not forced.
    #[error("{} fields belong to other managers", .0.len())]
    Conflicts(Vec<Conflict<M>>),
    /// A value is not of the type.
    #[error(transparent)]
    Invalid(#[from] Errors),
}

/// Books an update: who asks now owns what differs between the two objects. The object is `new` as it is.
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

/// Applies a configuration: answers the object (`None` if it stays as it is) and who owns what.
///
/// `live` is what is stored, or the type's empty object; `config` must be valid without duplicates.
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

/// What others own of the touched fields.
fn conflicts<M: Ord + Clone>(managers: &Managers<M>, me: &M, touched: &Set) -> BTreeMap<M, Set> {
    managers
        .iter()
        .filter(|(manager, _)| *manager != me)
        .map(|(manager, owned)| (manager.clone(), owned.fields.intersection(touched)))
        .filter(|(_, lost)| !lost.is_empty())
        .collect()
}

/// Takes from the others what was overwritten or removed, and forgets who owns nothing.
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
