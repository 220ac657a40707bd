//! `images`: names, tags and digests of container images.

use crate::collection::Collection;
use crate::error::{Fault, FieldProblem, node_kind};
use crate::field_spec::{Creates, FieldSpec};
use crate::kustomization::Image;
use crate::resource::scalar_text;
use regex::Regex;
use serde_json::Value;

/// An entry of `images`, made ready.
#[derive(Debug)]
pub(crate) struct Change<'a> {
    image: &'a Image,
    /// `None` if the name makes no expression: then nothing matches, as upstream has it.
    pattern: Option<Regex>,
}

impl<'a> Change<'a> {
    pub(crate) fn new(image: &'a Image) -> Self {
        let pattern = Regex::new(&format!(
            "^{}(:[a-zA-Z0-9_.{{}}-]*)?(@[a-zA-Z0-9]+([.+_-][a-zA-Z0-9]+)*:[a-zA-Z0-9_.{{}}-]*)?$",
            image.name
        ));
        Self {
            image,
            pattern: pattern.ok(),
        }
    }

    /// The changed form of an image, `None` if it is not meant.
    fn changed(&self, image: &str) -> Option<String> {
        if !self.pattern.as_ref()?.is_match(image) {
            return None;
        }
        let (name, tag, digest) = split(image);
        let Image {
            name: _,
            new_name,
            new_tag,
            tag_suffix,
            digest: new_digest,
        } = self.image;
        let mut changed = if new_name.is_empty() { name } else { new_name }.to_owned();
        let (tag, digest) = match (new_tag.as_str(), new_digest.as_str()) {
            ("", "") if tag_suffix.is_empty() => (tag.to_owned(), digest),
            ("", "") => (format!("{tag}{tag_suffix}"), ""),
            (tag, digest) => (tag.to_owned(), digest),
        };
        if !tag.is_empty() {
            changed.push(':');
            changed.push_str(&tag);
        }
        if !digest.is_empty() {
            changed.push('@');
            changed.push_str(digest);
        }
        Some(changed)
    }

    fn set(&self, value: &mut Value) -> Result<(), FieldProblem> {
        let Some(text) = scalar_text(value) else {
            return Err(FieldProblem::NotScalar(node_kind(value)));
        };
        if let Some(changed) = self.changed(&text) {
            *value = changed.into();
        }
        Ok(())
    }

    /// The legacy scan: `image` under any list named `containers` or `initContainers`.
    fn scan(&self, value: &mut Value) -> Result<(), FieldProblem> {
        match value {
            Value::Array(items) => items.iter_mut().try_for_each(|item| self.scan(item)),
            Value::Object(map) => map.iter_mut().try_for_each(|(key, value)| {
                self.scan(value)?;
                match value {
                    Value::Array(items) if key == "containers" || key == "initContainers" => items
                        .iter_mut()
                        .filter_map(|item| item.get_mut("image"))
                        .filter(|image| !image.is_null())
                        .try_for_each(|image| self.set(image)),
                    _ => Ok(()),
                }
            }),
            _ => Ok(()),
        }
    }
}

/// Changes all images the entry means, in everything but definitions.
pub(crate) fn apply(resources: &mut Collection, image: &Image, specs: &[FieldSpec]) -> Result<(), Fault> {
    let change = Change::new(image);
    for resource in resources.contents_mut() {
        if resource.kind() == "CustomResourceDefinition" {
            continue;
        }
        let scanned = resource
            .object
            .0
            .values_mut()
            .try_for_each(|value| change.scan(value));
        scanned.map_err(|problem| Fault::Field {
            path: "image".to_owned(),
            id: resource.id().to_string(),
            problem,
        })?;
        for spec in specs {
            spec.visit(resource, Creates::Nothing, &mut |value| change.set(value))?;
        }
    }
    Ok(())
}

/// Name, tag and digest of an image. A colon before the first slash is a port's.
fn split(image: &str) -> (&str, &str, &str) {
    let from = image.find('/').unwrap_or(0);
    let at = image[from..].find('@').map(|at| at + from);
    let colon = image[from..].find(':').map(|colon| colon + from);
    match (colon, at) {
        (None, None) => (image, "", ""),
        (Some(colon), Some(at)) if colon < at => (&image[..colon], &image[colon + 1..at], &image[at + 1..]),
        (_, Some(at)) => (&image[..at], "", &image[at + 1..]),
        (Some(colon), None) => (&image[..colon], &image[colon + 1..], ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_changes_what_it_names() {
        let entry = |name: &str, new_name: &str, new_tag: &str, digest: &str, suffix: &str| Image {
            name: name.to_owned(),
            new_name: new_name.to_owned(),
            new_tag: new_tag.to_owned(),
            tag_suffix: suffix.to_owned(),
            digest: digest.to_owned(),
        };
        for (image, change, expected) in [
            ("nginx", entry("nginx", "", "1.2", "", ""), Some("nginx:1.2")),
            (
                "nginx:1@sha256:ab",
                entry("nginx", "", "2", "", ""),
                Some("nginx:2"),
            ),
            (
                "nginx:1",
                entry("nginx", "", "", "sha256:ab", ""),
                Some("nginx@sha256:ab"),
            ),
            (
                "nginx:1",
                entry("nginx", "", "2", "sha256:ab", ""),
                Some("nginx:2@sha256:ab"),
            ),
            (
                "nginx:1@sha256:ab",
                entry("nginx", "web", "", "", ""),
                Some("web:1@sha256:ab"),
            ),
            ("nginx:1", entry("nginx", "", "", "", "-x"), Some("nginx:1-x")),
            ("r:5000/a:1", entry("r:5000/a", "b", "", "", ""), Some("b:1")),
            ("nginxx", entry("nginx", "", "1", "", ""), None),
            ("nginx", entry("(", "", "1", "", ""), None),
        ] {
            assert_eq!(
                Change::new(&change).changed(image).as_deref(),
                expected,
                "{image} {change:?}"
            );
        }
    }
}
