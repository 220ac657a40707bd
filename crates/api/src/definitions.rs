//! The definitions of the fifteen kinds, generated from the types and embedded as committed.
//!
//! `cargo xtask gen` writes the result of [`generate`] into `crds/`. [`definitions`] embeds those files, so
//! that a running engine needs no generator. `normalise` corrects the derived schema where it differs from
//! Flux's.

use kube::CustomResourceExt;
use serde_json::{Value, json};

/// A custom resource definition, as committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Its name, `<plural>.<group>`.
    pub name: &'static str,
    /// The YAML text.
    pub yaml: &'static str,
}

macro_rules! definitions {
    ($($kind:ty = $name:literal,)+) => {
        /// The committed definitions, by name.
        pub fn definitions() -> &'static [Definition] {
            &[$(Definition { name: $name, yaml: include_str!(concat!("../crds/", $name, ".yaml")) },)+]
        }

        /// The definitions derived from the types, by name.
        ///
        /// # Errors
        ///
        /// When a definition cannot be encoded as JSON.
        pub fn generate() -> Result<Vec<(&'static str, Value)>, serde_json::Error> {
            Ok(vec![$(($name, normalise(serde_json::to_value(<$kind>::crd())?)),)+])
        }
    };
}

definitions! {
    crate::notification::Alert = "alerts.notification.toolkit.fluxcd.io",
    crate::extensions::ArtifactGenerator = "artifactgenerators.source.extensions.fluxcd.io",
    crate::source::Bucket = "buckets.source.toolkit.fluxcd.io",
    crate::source::ExternalArtifact = "externalartifacts.source.toolkit.fluxcd.io",
    crate::source::GitRepository = "gitrepositories.source.toolkit.fluxcd.io",
    crate::source::HelmChart = "helmcharts.source.toolkit.fluxcd.io",
    crate::helm::HelmRelease = "helmreleases.helm.toolkit.fluxcd.io",
    crate::source::HelmRepository = "helmrepositories.source.toolkit.fluxcd.io",
    crate::image::ImagePolicy = "imagepolicies.image.toolkit.fluxcd.io",
    crate::image::ImageRepository = "imagerepositories.image.toolkit.fluxcd.io",
    crate::image::ImageUpdateAutomation = "imageupdateautomations.image.toolkit.fluxcd.io",
    crate::kustomize::Kustomization = "kustomizations.kustomize.toolkit.fluxcd.io",
    crate::source::OciRepository = "ocirepositories.source.toolkit.fluxcd.io",
    crate::notification::Provider = "providers.notification.toolkit.fluxcd.io",
    crate::notification::Receiver = "receivers.notification.toolkit.fluxcd.io",
}

fn normalise(mut definition: Value) -> Value {
    let names = &mut definition["spec"]["names"];
    if let Value::Object(names) = names {
        let list = format!("{}List", names["kind"].as_str().unwrap_or_default());
        names.insert("listKind".to_owned(), list.into());
        names.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
    }
    for version in definition["spec"]["versions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        if version["subresources"].is_null() {
            version["subresources"] = json!({});
        }
        let root = &mut version["schema"]["openAPIV3Schema"];
        schema(root);
        common_fields(root);
    }
    definition
}

/// Adds the fields of every object, which a derived schema omits; no field is required at the root.
fn common_fields(root: &mut Value) {
    let Value::Object(root) = root else { return };
    root.remove("required");
    if let Some(Value::Object(properties)) = root.get_mut("properties") {
        for (field, description) in [
            ("apiVersion", "The group and version of this object's form."),
            ("kind", "The kind of this object."),
        ] {
            let said = json!({ "type": "string", "description": description });
            properties.insert(field.to_owned(), said);
        }
        properties.insert("metadata".to_owned(), json!({ "type": "object" }));
    }
}

/// An optional field may be absent: Flux's definitions have no null, no title, and no integer width but
/// `int64`.
fn schema(node: &mut Value) {
    let Value::Object(node) = node else { return };
    node.remove("nullable");
    node.remove("title");
    if let Some(Value::Array(values)) = node.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    if let Some(Value::Array(required)) = node.get_mut("required") {
        required.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
    }
    if let Some(Value::Object(properties)) = node.get_mut("properties") {
        properties.values_mut().for_each(schema);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(child) = node.get_mut(key) {
            schema(child);
        }
    }
}
