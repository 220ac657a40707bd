//! `labels`, `commonLabels`, `commonAnnotations`: entries for maps of many fields.

use crate::budget::Budget;
use crate::error::Fault;
use crate::field_spec::{
    ByType, Creation, FieldSpec, Selection, SpecFault, SpecTree, Tables, merge, set_entry,
};
use crate::kustomization::LabelField;
use crate::passes::{Pass, Step};
use crate::resource::Resource;
use crate::sharing::Member;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The steps to set one entry.
const ENTRY_STEPS: usize = 15;

#[derive(Debug)]
pub(crate) struct LabelPass<'a> {
    entries: &'a BTreeMap<String, String>,
    keys: Vec<Arc<str>>,
    selection: Selection<'a>,
    budget: Budget,
}

impl<'a> LabelPass<'a> {
    pub(crate) fn new(
        entries: &'a BTreeMap<String, String>,
        specs: &'a [FieldSpec],
        budget: &Budget,
    ) -> Self {
        Self {
            entries,
            keys: entries.keys().map(|key| key.as_str().into()).collect(),
            selection: Selection::new(specs, budget),
            budget: budget.clone(),
        }
    }

    fn label(&self, known: &mut ByType<SpecTree<'a>>, resource: &mut Resource) -> Result<(), Fault> {
        let Self { entries, keys, .. } = self;
        if entries.is_empty() {
            return Ok(());
        }
        let spec_tree = self.selection.spec_tree(known, resource);
        let sharing = resource.sharing.steps(&resource.object.0);
        self.budget.spend(keys.len() + sharing)?;
        let mut made = vec![Vec::new(); keys.len()];
        let set = resource
            .change_scalars(|resource| set(resource, entries, keys, spec_tree, &mut made, &self.budget));
        set.map_err(|wrong| spec_tree.fault(wrong, resource))?;
        made.into_iter().for_each(|members| resource.sharing.add(members));
        Ok(())
    }
}

impl Pass for LabelPass<'_> {
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
    spec_tree: &SpecTree<'_>,
    made: &mut [Vec<Member>],
    budget: &Budget,
) -> Result<(), SpecFault> {
    let noted = resource.note.is_some();
    spec_tree.visit(
        &mut resource.object,
        Creation::Map,
        budget,
        &mut |at, value, indexes| {
            let spec = spec_tree.spec(at);
            // recording an origin rewrites the annotations
            let shares = !noted || spec.path != "metadata/annotations";
            for (at, (key, text)) in entries.iter().enumerate() {
                budget.charge(key.len() + text.len())?;
                budget.spend(ENTRY_STEPS + indexes.len())?;
                if set_entry(value, key, text)? && shares {
                    made[at].push(Member {
                        way: Arc::clone(&spec.segments),
                        indexes: indexes.to_vec(),
                        key: Arc::clone(&keys[at]),
                    });
                }
            }
            Ok(())
        },
    )
}

pub(crate) fn fields_of(
    label: &LabelField,
    tables: &Tables,
    budget: &Budget,
) -> Result<Vec<FieldSpec>, Fault> {
    let mut specs: Vec<FieldSpec> = label.fields.iter().map(FieldSpec::from_field).collect();
    merge(&mut specs, &tables.labels, budget)?;
    if label.include_selectors {
        merge(&mut specs, &tables.common_labels, budget)?;
    } else {
        if label.include_templates {
            merge(&mut specs, &tables.template_labels, budget)?;
        }
        if label.include_volume_claim_templates {
            merge(&mut specs, &tables.volume_claim_template_labels, budget)?;
        }
        merge(
            &mut specs,
            &[FieldSpec::new("", "", "", "metadata/labels", true)],
            budget,
        )?;
    }
    Ok(specs)
}
