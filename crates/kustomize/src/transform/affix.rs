//! `namePrefix` and `nameSuffix`.

use crate::collection::Collection;
use crate::error::Fault;
use crate::field_spec::{Creates, FieldSpec, set_scalar};
use crate::resource::{Resource, scalar_text};
use crate::schema::Schema;

/// What is put before or after a name.
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

/// Puts it there, in every resource but those whose name means something.
pub(crate) fn apply(
    resources: &mut Collection,
    affix: Affix<'_>,
    specs: &[FieldSpec],
    schema: &Schema,
) -> Result<(), Fault> {
    let budget = resources.budget();
    let rename = |(): &mut (), resource: &mut Resource| {
        if keeps_its_name(resource) {
            return Ok(());
        }
        for spec in specs {
            let (group, version) = resource.group_version();
            if !spec.selects(group, version, resource.original_kind()) {
                continue;
            }
            if spec.path == NAME {
                // what it was called is kept beside what it is called
                budget.make(affix.text().len() + resource.name().len())?;
                note(resource, affix, schema);
            }
            spec.visit(resource, Creates::Scalar, &mut |value| {
                let name = scalar_text(value).unwrap_or_default();
                budget.make(affix.text().len() + name.len())?;
                let name = match affix {
                    Affix::Prefix(prefix) => format!("{prefix}{name}"),
                    Affix::Suffix(suffix) => format!("{name}{suffix}"),
                };
                set_scalar(value, name.into())
            })?;
        }
        Ok(())
    };
    budget.workers().each(resources.items_mut(), || (), rename)
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

/// A definition's name is made of its group, an API service's of its version, a namespace's is itself.
fn keeps_its_name(resource: &Resource) -> bool {
    match resource.original_kind() {
        "CustomResourceDefinition" | "Namespace" => true,
        "APIService" => resource.group_version().0 == "apiregistration.k8s.io",
        _ => false,
    }
}
