//! `labels`, `commonLabels`, `commonAnnotations`: entries for maps of many fields.

use crate::collection::Collection;
use crate::error::Fault;
use crate::field_spec::{Creates, FieldSpec, Selection, Tables, merge, set_entry};
use crate::kustomization::LabelField;
use std::collections::BTreeMap;

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
    for resource in resources.contents_mut() {
        for spec in selection.of(resource) {
            spec.visit_any(resource, Creates::Map, &mut |value| {
                entries
                    .iter()
                    .try_for_each(|(key, text)| set_entry(value, key, text))
            })?;
        }
    }
    Ok(())
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
