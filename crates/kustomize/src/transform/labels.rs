//! `labels`, `commonLabels`, `commonAnnotations`: entries for maps of many fields.

use crate::budget::Budget;
use crate::error::Fault;
use crate::field_spec::{ByType, Creates, FieldSpec, Selection, Tables, Ways, Wrong, merge, set_entry};
use crate::kustomization::LabelField;
use crate::passes::{Pass, Step};
use crate::resource::Resource;
use crate::sharing::Member;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sets the entries in every field of the specifications.
#[derive(Debug)]
pub(crate) struct Labelling<'a> {
    entries: &'a BTreeMap<String, String>,
    keys: Vec<Arc<str>>,
    selection: Selection<'a>,
    budget: Budget,
}

impl<'a> Labelling<'a> {
    pub(crate) fn new(
        entries: &'a BTreeMap<String, String>,
        specs: &'a [FieldSpec],
        budget: &Budget,
    ) -> Self {
        Self {
            entries,
            keys: entries.keys().map(|key| key.as_str().into()).collect(),
            selection: Selection::new(specs),
            budget: budget.clone(),
        }
    }

    fn label(&self, known: &mut ByType<Ways<'a>>, resource: &mut Resource) -> Result<(), Fault> {
        let Self { entries, keys, .. } = self;
        if entries.is_empty() {
            return Ok(());
        }
        let ways = self.selection.ways(known, resource);
        let mut made = vec![Vec::new(); keys.len()];
        let set = resource.in_step(|resource| set(resource, entries, keys, ways, &mut made, &self.budget));
        set.map_err(|wrong| ways.fault(wrong, resource))?;
        made.into_iter().for_each(|members| resource.sharing.add(members));
        Ok(())
    }
}

impl Pass for Labelling<'_> {
    fn begin(&self) -> Step<'_> {
        let mut known = ByType::new();
        Box::new(move |resource| self.label(&mut known, resource))
    }
}

/// Sets the entries in a resource's fields and reports which it created.
fn set(
    resource: &mut Resource,
    entries: &BTreeMap<String, String>,
    keys: &[Arc<str>],
    ways: &Ways<'_>,
    made: &mut [Vec<Member>],
    budget: &Budget,
) -> Result<(), Wrong> {
    let noted = resource.note.is_some();
    ways.visit(&mut resource.object, Creates::Map, &mut |at, value, indexes| {
        let spec = ways.spec(at);
        // recording an origin rewrites the annotations
        let shares = !noted || spec.path != "metadata/annotations";
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

/// The fields of an entry of `labels`.
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
