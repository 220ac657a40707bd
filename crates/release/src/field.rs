//! Version fields of objects: container images, charts, OCI references, values at declared paths.

use crate::artifact::{Subject, Version};
use crate::config::ValuePath;
use serde_json::Value;
use std::fmt;

/// The most levels that are searched for containers.
const DEPTH_MAX: usize = 64;

/// A version field of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its JSON pointer.
    pub pointer: String,
    /// Its form.
    pub form: Form,
    /// The thing it is a version of.
    pub subject: Subject,
    /// Its version.
    pub version: Version,
}

/// The form in which a field holds a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// A whole image reference, `NAME:TAG@DIGEST`.
    Image,
    /// The version of a chart.
    Chart,
    /// `ref.tag`, `ref.semver` and `ref.digest` of an OCIRepository; the pointer is that of `ref`.
    OciRef,
    /// A declared value that is a version alone.
    Value,
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Image => "image",
            Self::Chart => "chart version",
            Self::OciRef => "OCI reference",
            Self::Value => "value",
        })
    }
}

/// Splits an image reference into name, tag and digest. A port is part of the name.
pub fn split_image(image: &str) -> (&str, Version) {
    let (rest, digest) = image.split_once('@').unwrap_or((image, ""));
    let (name, tag) = match rest.rsplit_once(':') {
        Some((name, tag)) if !tag.contains('/') => (name, tag),
        _ => (rest, ""),
    };
    let version = Version {
        tag: tag.to_owned(),
        digest: digest.to_owned(),
    };
    (name, version)
}

/// Joins what [`split_image`] splits.
pub fn join_image(name: &str, version: &Version) -> String {
    let mut image = name.to_owned();
    if !version.tag.is_empty() {
        image.push(':');
        image.push_str(&version.tag);
    }
    if !version.digest.is_empty() {
        image.push('@');
        image.push_str(&version.digest);
    }
    image
}

/// The version fields of an object, in the order of its text.
pub fn of(object: &Value, declared: &[ValuePath]) -> Vec<Field> {
    let mut fields = Vec::new();
    let (group, kind) = group_and_kind(object);
    match (group, kind) {
        ("helm.toolkit.fluxcd.io", "HelmRelease") => fields.extend(chart(object)),
        ("source.toolkit.fluxcd.io", "OCIRepository") => fields.extend(oci(object)),
        _ => containers(object, &mut String::new(), 0, &mut fields),
    }
    for path in declared.iter().filter(|path| path.matches(kind)) {
        fields.extend(value(object, path));
    }
    fields
}

/// The object without its versions: the fields are null, and the names of images stay. Two objects that
/// differ only in versions are equal then.
pub fn without(object: &Value, fields: &[Field]) -> Value {
    let mut object = object.clone();
    for field in fields {
        let Some(place) = object.pointer_mut(&field.pointer) else {
            continue;
        };
        match field.form {
            Form::Image => *place = Value::String(field.subject.name().to_owned()),
            Form::Chart | Form::Value => *place = Value::Null,
            Form::OciRef => {
                if let Value::Object(reference) = place {
                    for key in ["tag", "semver", "digest"] {
                        reference.remove(key);
                    }
                }
            }
        }
    }
    object
}

pub(crate) fn group_and_kind(object: &Value) -> (&str, &str) {
    let version = object
        .get("apiVersion")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    (group, kind)
}

pub(crate) fn name(object: &Value) -> &str {
    object
        .pointer("/metadata/name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn chart(object: &Value) -> Option<Field> {
    let spec = object.pointer("/spec/chart/spec")?;
    let version = spec.get("version")?.as_str()?;
    let name = spec.get("chart").and_then(Value::as_str).unwrap_or(name(object));
    Some(Field {
        pointer: "/spec/chart/spec/version".to_owned(),
        form: Form::Chart,
        subject: Subject::Chart(name.trim_start_matches("./").to_owned()),
        version: Version::tag(version),
    })
}

fn oci(object: &Value) -> Option<Field> {
    let url = object.pointer("/spec/url")?.as_str()?;
    let reference = object.pointer("/spec/ref")?;
    let text = |key: &str| reference.get(key).and_then(Value::as_str).unwrap_or_default();
    let tag = match text("semver") {
        "" => text("tag"),
        range => range,
    };
    let version = Version {
        tag: tag.to_owned(),
        digest: text("digest").to_owned(),
    };
    (!version.is_empty()).then(|| Field {
        pointer: "/spec/ref".to_owned(),
        form: Form::OciRef,
        subject: Subject::Oci(url.strip_prefix("oci://").unwrap_or(url).to_owned()),
        version,
    })
}

fn value(object: &Value, path: &ValuePath) -> Option<Field> {
    let pointer = path.pointer();
    let text = object.pointer(&pointer)?.as_str()?;
    let subject = path.name.clone().unwrap_or_else(|| name(object).to_owned());
    let (form, subject, version) = if path.image {
        let (name, version) = split_image(text);
        (Form::Image, Subject::Image(name.to_owned()), version)
    } else {
        (Form::Value, Subject::Value(subject), Version::parse(text)?)
    };
    Some(Field {
        pointer,
        form,
        subject,
        version,
    })
}

/// Lists of containers anywhere in an object, as kustomize finds them.
fn containers(value: &Value, pointer: &mut String, depth: usize, fields: &mut Vec<Field>) {
    if depth > DEPTH_MAX {
        return;
    }
    let length = pointer.len();
    match value {
        Value::Object(map) => {
            for (key, child) in map {
                pointer.push('/');
                pointer.push_str(&escaped(key));
                if matches!(key.as_str(), "containers" | "initContainers")
                    && let Value::Array(items) = child
                {
                    images(items, pointer, fields);
                } else {
                    containers(child, pointer, depth + 1, fields);
                }
                pointer.truncate(length);
            }
        }
        Value::Array(items) => {
            for (at, child) in items.iter().enumerate() {
                pointer.push_str(&format!("/{at}"));
                containers(child, pointer, depth + 1, fields);
                pointer.truncate(length);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn images(items: &[Value], pointer: &str, fields: &mut Vec<Field>) {
    for (at, item) in items.iter().enumerate() {
        let Some(image) = item.get("image").and_then(Value::as_str) else {
            continue;
        };
        let (name, version) = split_image(image);
        if name.is_empty() {
            continue;
        }
        fields.push(Field {
            pointer: format!("{pointer}/{at}/image"),
            form: Form::Image,
            subject: Subject::Image(name.to_owned()),
            version,
        });
    }
}

/// A key as a segment of a JSON pointer.
pub(crate) fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::{Form, join_image, of, split_image, without};
    use crate::artifact::Version;
    use serde_json::json;

    #[test]
    fn image_references_split_and_join() {
        #[track_caller]
        fn check(image: &str, name: &str, tag: &str, digest: &str) {
            let version = Version {
                tag: tag.to_owned(),
                digest: digest.to_owned(),
            };
            assert_eq!(split_image(image), (name, version.clone()));
            assert_eq!(join_image(name, &version), image);
        }
        check("nginx", "nginx", "", "");
        check("nginx:1.25", "nginx", "1.25", "");
        check("host:5000/a/b", "host:5000/a/b", "", "");
        check("host:5000/a/b:1@sha256:ab", "host:5000/a/b", "1", "sha256:ab");
    }

    #[test]
    fn fields_of_known_kinds_are_found() {
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"},
            "spec": {"template": {"spec": {
                "initContainers": [{"name": "i", "image": "init:1"}],
                "containers": [{"name": "a", "image": "host:5000/a:2"}, {"name": "none"}],
            }}},
        });
        let found = of(&deployment, &[]);
        let texts: Vec<String> = found
            .iter()
            .map(|field| format!("{} {} {}", field.pointer, field.subject, field.version))
            .collect();
        assert_eq!(
            texts,
            [
                "/spec/template/spec/containers/0/image image host:5000/a 2",
                "/spec/template/spec/initContainers/0/image image init 1",
            ]
        );
        let mut other = deployment.clone();
        other["spec"]["template"]["spec"]["containers"][0]["image"] = json!("host:5000/a:3");
        let now = of(&other, &[]);
        assert_eq!(without(&deployment, &found), without(&other, &now));
    }

    #[test]
    fn charts_and_oci_repositories_have_versions() {
        let release = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "metadata": {"name": "r"},
            "spec": {"chart": {"spec": {"chart": "podinfo", "version": ">=1.0.0"}}},
        });
        let found = of(&release, &[]);
        assert_eq!(
            (
                found[0].form,
                found[0].version.is_range(),
                found[0].subject.to_string()
            ),
            (Form::Chart, true, "chart podinfo".to_owned())
        );
        let repository = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository", "metadata": {"name": "r"},
            "spec": {"url": "oci://registry.example/charts/podinfo", "ref": {"tag": "6.5.0"}},
        });
        let found = of(&repository, &[]);
        assert_eq!(
            found[0].subject.to_string(),
            "oci registry.example/charts/podinfo"
        );
        assert_eq!(found[0].version, Version::tag("6.5.0"));
    }
}
