//! The field lists of transformers: kustomize's own plus those of `configurations`.

use super::{FieldSpec, MERGE_STEPS, merge};
use crate::budget::Budget;
use crate::error::Fault;
use crate::kustomization::Configuration;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, LazyLock};

static BUILT_IN: LazyLock<Arc<Tables>> =
    LazyLock::new(|| Arc::new(Tables::from_table(include_str!("../../data/field-specs.txt"))));

static NONE: LazyLock<Arc<Tables>> = LazyLock::new(Arc::default);

/// All lists. Entries for one kind come before entries for all kinds, which skip a path that exists: so a
/// configured kind overrides a default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tables {
    pub(crate) name_prefix: Vec<FieldSpec>,
    pub(crate) name_suffix: Vec<FieldSpec>,
    pub(crate) namespace: Vec<FieldSpec>,
    pub(crate) labels: Vec<FieldSpec>,
    pub(crate) common_labels: Vec<FieldSpec>,
    pub(crate) template_labels: Vec<FieldSpec>,
    pub(crate) volume_claim_template_labels: Vec<FieldSpec>,
    pub(crate) common_annotations: Vec<FieldSpec>,
    pub(crate) images: Vec<FieldSpec>,
    pub(crate) replicas: Vec<FieldSpec>,
    pub(crate) variables: Vec<FieldSpec>,
    pub(crate) references: Vec<Reference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Reference {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) kind: String,
    pub(crate) fields: Vec<FieldSpec>,
}

/// Places by group, version and kind.
type Places = HashMap<[String; 3], usize>;

impl Reference {
    fn target(&self) -> [String; 3] {
        [self.group.clone(), self.version.clone(), self.kind.clone()]
    }
}

/// The steps to make and sort a key.
const SORT_STEPS: usize = 60;

impl Tables {
    pub(crate) fn built_in() -> Arc<Self> {
        Arc::clone(&BUILT_IN)
    }

    pub(crate) fn none() -> Arc<Self> {
        Arc::clone(&NONE)
    }

    fn from_table(table: &str) -> Self {
        let mut tables = Self::default();
        let any = |word: &str| {
            if word == "-" {
                String::new()
            } else {
                word.to_owned()
            }
        };
        for line in table.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            match words[..] {
                ["references", group, version, kind] => tables.references.push(Reference {
                    group: any(group),
                    version: any(version),
                    kind: any(kind),
                    fields: Vec::new(),
                }),
                [create, group, version, kind, path] => {
                    let spec = FieldSpec::new(&any(group), &any(version), &any(kind), path, create == "+");
                    if let Some(reference) = tables.references.last_mut() {
                        reference.fields.push(spec);
                    }
                }
                [list, create, group, version, kind, path] => {
                    let spec = FieldSpec::new(&any(group), &any(version), &any(kind), path, create == "+");
                    if let Some(list) = tables.list(list) {
                        list.push(spec);
                    }
                }
                _ => {}
            }
        }
        tables
    }

    fn list(&mut self, name: &str) -> Option<&mut Vec<FieldSpec>> {
        Some(match name {
            "namePrefix" => &mut self.name_prefix,
            "nameSuffix" => &mut self.name_suffix,
            "namespace" => &mut self.namespace,
            "commonLabels" => &mut self.common_labels,
            "templateLabels" => &mut self.template_labels,
            "volumeClaimTemplateLabels" => &mut self.volume_claim_template_labels,
            "commonAnnotations" => &mut self.common_annotations,
            "images" => &mut self.images,
            "replicas" => &mut self.replicas,
            "varReference" => &mut self.variables,
            _ => return None,
        })
    }

    pub(crate) fn extend(&mut self, configuration: &Configuration, budget: &Budget) -> Result<(), Fault> {
        let specs = |fields: &[crate::kustomization::FieldSpecField]| -> Vec<FieldSpec> {
            fields.iter().map(FieldSpec::from_field).collect()
        };
        for (list, more) in [
            (&mut self.name_prefix, &configuration.name_prefix),
            (&mut self.name_suffix, &configuration.name_suffix),
            (&mut self.namespace, &configuration.namespace),
            (&mut self.labels, &configuration.labels),
            (&mut self.common_labels, &configuration.common_labels),
            (&mut self.template_labels, &configuration.template_labels),
            (
                &mut self.volume_claim_template_labels,
                &configuration.volume_claim_template_labels,
            ),
            (&mut self.common_annotations, &configuration.common_annotations),
            (&mut self.images, &configuration.images),
            (&mut self.replicas, &configuration.replicas),
            (&mut self.variables, &configuration.var_reference),
        ] {
            merge(list, &specs(more), budget)?;
        }
        let mut places = self.places(budget)?;
        for reference in &configuration.name_reference {
            let reference = Reference {
                group: reference.group.clone(),
                version: reference.version.clone(),
                kind: reference.kind.clone(),
                fields: specs(&reference.field_specs),
            };
            self.refer(&reference, &mut places, budget)?;
        }
        self.sort(budget)
    }

    pub(crate) fn absorb(tables: &mut Arc<Self>, other: &Arc<Self>, budget: &Budget) -> Result<(), Fault> {
        if Arc::ptr_eq(tables, &NONE) {
            let mut fresh = Self::default();
            if Arc::ptr_eq(other, &BUILT_IN) {
                *tables = Arc::clone(other);
                return Ok(());
            }
            fresh.add(other, budget)?;
            *tables = Arc::new(fresh);
            return Ok(());
        }
        if Arc::ptr_eq(tables, other) || Arc::ptr_eq(other, &NONE) {
            return Ok(());
        }
        Arc::make_mut(tables).add(other, budget)
    }

    fn sort(&mut self, budget: &Budget) -> Result<(), Fault> {
        for list in [
            &mut self.name_prefix,
            &mut self.name_suffix,
            &mut self.namespace,
            &mut self.labels,
            &mut self.common_labels,
            &mut self.template_labels,
            &mut self.volume_claim_template_labels,
            &mut self.common_annotations,
            &mut self.images,
            &mut self.replicas,
            &mut self.variables,
        ] {
            budget.spend(SORT_STEPS * list.len())?;
            list.sort_by_cached_key(|spec| crate::order::kind_key(&spec.group, &spec.version, &spec.kind));
        }
        budget.spend(SORT_STEPS * self.references.len())?;
        self.references.sort_by_cached_key(|reference| {
            crate::order::kind_key(&reference.group, &reference.version, &reference.kind)
        });
        Ok(())
    }

    fn add(&mut self, other: &Self, budget: &Budget) -> Result<(), Fault> {
        let Self {
            name_prefix,
            name_suffix,
            namespace,
            labels,
            common_labels,
            template_labels,
            volume_claim_template_labels,
            common_annotations,
            images,
            replicas,
            variables,
            references,
        } = other;
        for (list, more) in [
            (&mut self.name_prefix, name_prefix),
            (&mut self.name_suffix, name_suffix),
            (&mut self.namespace, namespace),
            (&mut self.labels, labels),
            (&mut self.common_labels, common_labels),
            (&mut self.template_labels, template_labels),
            (
                &mut self.volume_claim_template_labels,
                volume_claim_template_labels,
            ),
            (&mut self.common_annotations, common_annotations),
            (&mut self.images, images),
            (&mut self.replicas, replicas),
            (&mut self.variables, variables),
        ] {
            merge(list, more, budget)?;
        }
        let mut places = self.places(budget)?;
        for reference in references {
            self.refer(reference, &mut places, budget)?;
        }
        self.sort(budget)
    }

    /// The places of references in the list.
    fn places(&self, budget: &Budget) -> Result<Places, Fault> {
        budget.spend(MERGE_STEPS * self.references.len())?;
        // from the end: the first of repeated targets counts
        let places = self.references.iter().enumerate().rev();
        Ok(places.map(|(at, reference)| (reference.target(), at)).collect())
    }

    fn refer(&mut self, reference: &Reference, places: &mut Places, budget: &Budget) -> Result<(), Fault> {
        budget.spend(MERGE_STEPS * (1 + reference.fields.len()))?;
        match places.entry(reference.target()) {
            Entry::Occupied(place) => merge(
                &mut self.references[*place.get()].fields,
                &reference.fields,
                budget,
            ),
            Entry::Vacant(place) => {
                place.insert(self.references.len());
                self.references.push(reference.clone());
                Ok(())
            }
        }
    }
}
