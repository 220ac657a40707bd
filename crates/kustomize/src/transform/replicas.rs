//! `replicas`: replica counts by name.

use crate::collection::Collection;
use crate::error::Fault;
use crate::field_spec::{Creation, FieldSpec, set_scalar};
use crate::kustomization::Replica;

/// Sets the count on every resource with this current or former name. No match is an error.
pub(crate) fn apply(resources: &mut Collection, replica: &Replica, specs: &[FieldSpec]) -> Result<(), Fault> {
    let mut found = false;
    let budget = resources.budget();
    for at in resources.by_any_name(&replica.name) {
        let resource = resources.content_mut(at);
        budget.spend(specs.len() * resource.steps())?;
        for spec in specs {
            let (group, version) = resource.group_version();
            let now = resource.name() == replica.name && spec.selects(group, version, resource.kind());
            let meant = now
                || resource
                    .history
                    .iter()
                    .any(|former| former.name == replica.name && spec.selects(group, version, &former.kind));
            if meant {
                found = true;
                spec.visit(resource, Creation::Scalar, &budget, &mut |value| {
                    set_scalar(value, replica.count.into())
                })?;
            }
        }
    }
    if found {
        return Ok(());
    }
    let or = |text: &str, other: &str| {
        if text.is_empty() {
            other.to_owned()
        } else {
            text.to_owned()
        }
    };
    let kinds: Vec<String> = specs
        .iter()
        .map(|spec| {
            let (kind, version, group) = (
                or(&spec.kind, "[noKind]"),
                or(&spec.version, "[noVer]"),
                or(&spec.group, "[noGrp]"),
            );
            format!("{kind}.{version}.{group}")
        })
        .collect();
    Err(Fault::NoReplicas {
        name: replica.name.clone(),
        kinds: kinds.join(" "),
    })
}
