//! `labels`, `commonLabels`, `commonAnnotations`: entries for maps of many fields.

use crate::budget::Budget;
use crate::collection::Collection;
use crate::error::Fault;
use crate::field_spec::{Creates, FieldSpec, Selection, Tables, merge, set_entry};
use crate::kustomization::LabelField;
use crate::resource::Resource;
use crate::sharing::Member;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sets the entries in every field the specifications name.
pub(crate) fn apply(
    resources: &mut Collection,
    entries: &BTreeMap<String, String>,
    specs: &[FieldSpec],
) -> Result<(), Fault> {
    if entries.is_empty() {
        return Ok(());
    }
    let selection = Selection::new(specs);
    let budget = resources.budget();
    let keys: Vec<Arc<str>> = entries.keys().map(|key| key.as_str().into()).collect();
    for resource in resources.contents_mut() {
        let specs = selection.of(resource);
        let mut made = vec![Vec::new(); keys.len()];
        resource.in_step(|resource| {
            specs
                .iter()
                .try_for_each(|spec| set(resource, entries, &keys, spec, &mut made, &budget))
        })?;
        made.into_iter().for_each(|members| resource.sharing.add(members));
    }
    Ok(())
}

/// Sets the entries in the fields of one specification, and tells which of them were made.
fn set(
    resource: &mut Resource,
    entries: &BTreeMap<String, String>,
    keys: &[Arc<str>],
    spec: &FieldSpec,
    made: &mut [Vec<Member>],
    budget: &Budget,
) -> Result<(), Fault> {
    // noting where an object comes from writes its annotations anew
    let shares = resource.note.is_none() || spec.path != "metadata/annotations";
    spec.visit_placed(resource, Creates::Map, &mut |value, indexes| {
        for (at, (key, text)) in entries.iter().enumerate() {
            budget.make(key.len() + text.len())?;
            if set_entry(value, key, text)? && shares {
                made[at].push(Member {
                    way: Arc::clone(&spec.segments),
                    indexes: indexes.to_vec(),
                    key: Arc::clone(&keys[at]),
                });
            }
        }
        Ok(())
    })
}

/// The fields an entry of `labels` means.
pub(crate) fn fields_of(label: &LabelField, tables: &Tables) -> Result<Vec<FieldSpec>, Fault> {
    let mut specs: Vec<FieldSpec> = label.fields.iter().map(FieldSpec::from_field).collect();
    merge(&mut specs, &tables.labels)?;
    if label.include_selectors {
        merge(&mut specs, &tables.common_labels)?;
    } else {
        if label.include_templates {
            merge(&mut specs, &tables.template_labels)?;
        }
        if label.include_volume_claim_templates {
            merge(&mut specs, &tables.volume_claim_template_labels)?;
        }
        merge(&mut specs, &[FieldSpec::new("", "", "", "metadata/labels", true)])?;
    }
    Ok(specs)
}
