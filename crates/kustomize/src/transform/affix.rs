//! `namePrefix` and `nameSuffix`.

use crate::budget::Budget;
use crate::error::Fault;
use crate::field_spec::{Creation, FieldSpec, set_scalar};
use crate::passes::{Pass, Step};
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Affix<'a> {
    Prefix(&'a str),
    Suffix(&'a str),
}

impl Affix<'_> {
    fn text(&self) -> &str {
        match self {
            Self::Prefix(text) | Self::Suffix(text) => text,
        }
    }
}

const NAME: &str = "metadata/name";

#[derive(Debug)]
pub(crate) struct AffixPass<'a> {
    pub(crate) affix: Affix<'a>,
    pub(crate) specs: &'a [FieldSpec],
    pub(crate) schema: &'a Schema,
    pub(crate) budget: Budget,
}

impl Pass for AffixPass<'_> {
    fn begin(&self) -> Step<'_> {
        Box::new(|resource| self.rename(resource))
    }

    fn renames(&self) -> bool {
        true
    }
}

impl AffixPass<'_> {
    fn rename(&self, resource: &mut Resource) -> Result<(), Fault> {
        let Self { affix, budget, .. } = self;
        if keeps_its_name(resource) {
            return Ok(());
        }
        budget.spend(2 * self.specs.len())?;
        for spec in self.specs {
            let (group, version) = resource.group_version();
            if !spec.selects(group, version, resource.original_kind()) {
                continue;
            }
            if spec.path == NAME {
                // the former name is kept beside the new one
                budget.charge(affix.text().len() + resource.name().len())?;
                note(resource, *affix, self.schema);
            }
            spec.visit(resource, Creation::Scalar, budget, &mut |value| {
                let name = scalar_text(value).unwrap_or_default();
                budget.charge(affix.text().len() + name.len())?;
                let name = match affix {
                    Affix::Prefix(prefix) => format!("{prefix}{name}"),
                    Affix::Suffix(suffix) => format!("{name}{suffix}"),
                };
                set_scalar(value, name.into())
            })?;
        }
        Ok(())
    }
}

fn note(resource: &mut Resource, affix: Affix<'_>, schema: &Schema) {
    let (list, text) = match affix {
        Affix::Prefix(text) => (&mut resource.prefixes, text),
        Affix::Suffix(text) => (&mut resource.suffixes, text),
    };
    if !text.is_empty() {
        list.push(text.to_owned());
        resource.remember(schema);
    }
}

/// A definition's name derives from its group, an APIService's from its version, and a Namespace's is its
/// identity.
fn keeps_its_name(resource: &Resource) -> bool {
    match resource.original_kind() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => resource.group_version().0 == "apiregistration.k8s.io",
        _ => false,
    }
}
