//! `images`: names, tags and digests of container images.

use crate::budget::{Budget, Expression};
use crate::error::{Exhausted, Fault, FieldProblem, node_kind};
use crate::field_spec::{ByType, Creation, FieldSpec, Selection, SpecTree};
use crate::kustomization::Image;
use crate::passes::{Pass, Step};
use crate::resource::{Resource, scalar_text};
use serde_json::Value;
use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Change<'a> {
    image: &'a Image,
    name: Name<'a>,
}

#[derive(Debug)]
enum Name<'a> {
    /// Plain characters and dots, which match anything.
    Plain(&'a str),
    Expression(Expression),
    /// An invalid expression, which matches nothing, as in kustomize.
    Nothing,
}

impl<'a> Change<'a> {
    pub(crate) fn new(image: &'a Image, budget: &Budget) -> Result<Self, Exhausted> {
        let plain = image
            .name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:".contains(&byte));
        let name = if plain {
            Name::Plain(&image.name)
        } else {
            expression(&image.name, budget)?.map_or(Name::Nothing, Name::Expression)
        };
        Ok(Self { image, name })
    }

    fn means(&self, image: &str, budget: &Budget) -> bool {
        match &self.name {
            Name::Plain(name) => {
                budget.owe(4 + name.len().min(image.len()) / 4);
                after_name(image, name).is_some_and(is_tag_and_digest)
            }
            Name::Expression(pattern) => pattern.is_match(image, budget),
            Name::Nothing => false,
        }
    }

    /// The new form of an image; `None` if it does not match.
    fn changed(&self, image: &str, budget: &Budget) -> Option<String> {
        if !self.means(image, budget) {
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

    fn set(&self, value: &mut Value, budget: &Budget) -> Result<(), FieldProblem> {
        if let Some(changed) = self.changed(&text_of(value)?, budget) {
            budget.charge(changed.len())?;
            *value = changed.into();
        }
        Ok(())
    }
}

fn expression(name: &str, budget: &Budget) -> Result<Result<Expression, regex::Error>, Exhausted> {
    let whole =
        format!("^{name}(:[a-zA-Z0-9_.{{}}-]*)?(@[a-zA-Z0-9]+([.+_-][a-zA-Z0-9]+)*:[a-zA-Z0-9_.{{}}-]*)?$");
    budget.pattern(&whole, name)
}

fn text_of(value: &Value) -> Result<String, FieldProblem> {
    scalar_text(value).ok_or_else(|| FieldProblem::NotScalar(node_kind(value)))
}

fn after_name<'i>(image: &'i str, name: &str) -> Option<&'i str> {
    let mut rest = image.chars();
    for wanted in name.chars() {
        let found = rest.next()?;
        if found != wanted && (wanted != '.' || found == '\n') {
            return None;
        }
    }
    Some(rest.as_str())
}

/// Whether the text is `(:TAG)?(@ALGORITHM:DIGEST)?`.
fn is_tag_and_digest(text: &str) -> bool {
    let is_word = |text: &str| {
        text.bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.{}-".contains(&byte))
    };
    let (tag, digest) = match text.split_once('@') {
        Some((tag, digest)) => (tag, Some(digest)),
        None => (text, None),
    };
    let tag_is_sound = tag.is_empty() || tag.strip_prefix(':').is_some_and(is_word);
    let digest_is_sound = digest.is_none_or(|digest| {
        digest.split_once(':').is_some_and(|(algorithm, hash)| {
            let parts = algorithm.split(['.', '+', '_', '-']);
            is_word(hash)
                && parts
                    .into_iter()
                    .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        })
    });
    tag_is_sound && digest_is_sound
}

/// The entries of a list, indexed by the ends of their names.
struct Changes<'a> {
    list: Vec<Change<'a>>,
    by_end: HashMap<&'a str, Vec<usize>>,
    rest: Vec<usize>,
}

impl<'a> Changes<'a> {
    fn new(images: &'a [Image], budget: &Budget) -> Result<Self, Exhausted> {
        let list = images.iter().map(|image| Change::new(image, budget));
        let list = list.collect::<Result<Vec<_>, _>>()?;
        let (mut by_end, mut rest) = (HashMap::<_, Vec<usize>>::new(), Vec::new());
        for (at, change) in list.iter().enumerate() {
            match change.name {
                Name::Plain(name) if !end_of(name).contains(['.', ':']) => {
                    by_end.entry(end_of(name)).or_default().push(at);
                }
                Name::Plain(_) | Name::Expression(_) => rest.push(at),
                Name::Nothing => {}
            }
        }
        Ok(Self { list, by_end, rest })
    }

    /// The first entry at or after `from` that matches one of the images.
    fn next(&self, images: &[String], from: usize, budget: &Budget) -> Option<usize> {
        let first = |image: &String| {
            budget.owe(10 + image.len() / 4);
            let end = end_of(image);
            let end = &end[..end.find([':', '@']).unwrap_or(end.len())];
            let named = self.by_end.get(end).map_or(&[][..], Vec::as_slice);
            [named, &self.rest]
                .into_iter()
                .filter_map(|places| {
                    let later = &places[places.partition_point(|at| *at < from)..];
                    later
                        .iter()
                        .copied()
                        .find(|at| self.list[*at].means(image, budget))
                })
                .min()
        };
        images.iter().filter_map(first).min()
    }
}

fn end_of(name: &str) -> &str {
    name.rsplit_once('/').map_or(name, |(_, end)| end)
}

/// Changes all matching images, entry by entry, except in CustomResourceDefinitions.
pub(crate) struct ImagePass<'a> {
    changes: Changes<'a>,
    selection: Selection<'a>,
    budget: Budget,
}

impl<'a> ImagePass<'a> {
    pub(crate) fn new(
        images: &'a [Image],
        specs: &'a [FieldSpec],
        budget: &Budget,
    ) -> Result<Self, Exhausted> {
        Ok(Self {
            changes: Changes::new(images, budget)?,
            selection: Selection::new(specs, budget),
            budget: budget.clone(),
        })
    }

    fn tag(&self, known: &mut ByType<SpecTree<'a>>, resource: &mut Resource) -> Result<(), Fault> {
        if resource.kind() == "CustomResourceDefinition" {
            return Ok(());
        }
        let spec_tree = self.selection.spec_tree(known, resource);
        let changes = &self.changes;
        let mut from = 0;
        // one entry's result may match a later entry
        while from < changes.list.len() {
            let mut found = Vec::new();
            visit(resource, spec_tree, &self.budget, &mut |value| {
                found.push(text_of(value)?);
                Ok(())
            })?;
            let Some(at) = changes.next(&found, from, &self.budget) else {
                break;
            };
            visit(resource, spec_tree, &self.budget, &mut |value| {
                changes.list[at].set(value, &self.budget)
            })?;
            from = at + 1;
        }
        Ok(())
    }
}

impl Pass for ImagePass<'_> {
    fn begin(&self) -> Step<'_> {
        let mut known = ByType::new();
        Box::new(move |resource| self.tag(&mut known, resource))
    }
}

/// Calls `set` for every image of a resource, repeatedly for images found by both the scan and a
/// specification.
fn visit(
    resource: &mut Resource,
    spec_tree: &SpecTree<'_>,
    budget: &Budget,
    set: &mut dyn FnMut(&mut Value) -> Result<(), FieldProblem>,
) -> Result<(), Fault> {
    let scanned = resource
        .object
        .0
        .values_mut()
        .try_for_each(|value| scan(value, budget, set));
    scanned.map_err(|problem| Fault::Field {
        path: "image".to_owned(),
        id: resource.id().to_string(),
        problem,
    })?;
    let visited = spec_tree.visit(
        &mut resource.object,
        Creation::Nothing,
        budget,
        &mut |_, value, _| set(value),
    );
    visited.map_err(|wrong| spec_tree.fault(wrong, resource))
}

/// The legacy scan: `image` in any list named `containers` or `initContainers`.
fn scan(
    value: &mut Value,
    budget: &Budget,
    set: &mut dyn FnMut(&mut Value) -> Result<(), FieldProblem>,
) -> Result<(), FieldProblem> {
    budget.spend(1)?;
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(|item| scan(item, budget, set)),
        Value::Object(map) => map.iter_mut().try_for_each(|(key, value)| {
            scan(value, budget, set)?;
            match value {
                Value::Array(items) if key == "containers" || key == "initContainers" => items
                    .iter_mut()
                    .filter_map(|item| item.get_mut("image"))
                    .filter(|image| !image.is_null())
                    .try_for_each(&mut *set),
                _ => Ok(()),
            }
        }),
        _ => Ok(()),
    }
}

/// Splits an image into name, tag and digest. A colon before the first slash belongs to a port.
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
    use crate::collection::Collection;
    use serde_json::json;

    #[test]
    fn entry_changes_matching_images() {
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
                Change::new(&change, &Budget::default())
                    .unwrap()
                    .changed(image, &Budget::default())
                    .as_deref(),
                expected,
                "{image} {change:?}"
            );
        }
    }

    #[test]
    fn plain_name_matches_like_its_expression() {
        let budget = Budget::default();
        let names = ["", "nginx", "r:5000/a", "x.y/a.b", "a:1", "a/b-c_d"];
        let images = [
            "",
            ":1",
            "nginx",
            "nginx:",
            "nginx:1@sha256:ab",
            "nginx@sha256:",
            "nginx@sha256",
            "nginx@a.-b:c",
            "nginx:1@a+b:c",
            "nginx:1:2",
            "nginx:{x}",
            "nginx/x",
            "r:5000/a:1",
            "x.y/a.b",
            "x/y/a/b:2",
            "x\ny/a.b",
            "xéy/a.b",
            "a:1",
            "a:1:2",
            "a/b-c_d@x:y",
        ];
        for name in names {
            let image = Image {
                name: name.to_owned(),
                new_name: "new".to_owned(),
                ..Image::default()
            };
            let plain = Change::new(&image, &Budget::default()).unwrap();
            assert!(matches!(plain.name, Name::Plain(_)), "{name}");
            let expression = Change {
                image: &image,
                name: Name::Expression(expression(name, &Budget::default()).unwrap().unwrap()),
            };
            let list = Changes::new(std::slice::from_ref(&image), &Budget::default()).unwrap();
            for image in images {
                let means = plain.means(image, &budget);
                assert_eq!(means, expression.means(image, &budget), "{name} {image}");
                assert_eq!(
                    list.next(&[image.to_owned()], 0, &budget).is_some(),
                    means,
                    "{name} {image}"
                );
            }
        }
    }

    #[test]
    fn entries_apply_in_order() {
        let entry = |name: &str, new_name: &str| Image {
            name: name.to_owned(),
            new_name: new_name.to_owned(),
            ..Image::default()
        };
        let images = [
            entry("c", "d"),
            entry("a", "b"),
            entry("b.*", "c"),
            entry("c", "e"),
            entry("a", "f"),
        ];
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "a:1"}, {"image": "x"}]}});
        let Value::Object(pod) = pod else {
            panic!("no object");
        };
        let mut resources = Collection::default();
        let schema = crate::schema::Schema::built_in();
        resources
            .append(Resource::new(pod, crate::Origin::default()), schema)
            .unwrap();
        let tagging = ImagePass::new(&images, &[], &Budget::default()).unwrap();
        crate::passes::run(&tagging, &mut resources).unwrap();
        let containers = &resources.items()[0].object.0["spec"]["containers"];
        assert_eq!(*containers, json!([{"image": "e:1"}, {"image": "x"}]));
    }
}
