//! The spec of a Flux Kustomization in a case.

use equate_kustomize::{CommonMetadata, Spec, SpecImage, SpecPatch, SpecTarget, Substitution};
use equate_manifest::yaml::{self, Options};
use serde_json::Value;
use std::collections::BTreeMap;

/// Parses the fields; an unknown one is a mistake in the case.
pub(super) fn read(path: &str, text: &str) -> Spec {
    let mut documents = yaml::load(text, &Options::default()).unwrap();
    let Value::Object(fields) = documents.remove(0).value else {
        panic!("a spec is a map");
    };
    let mut spec = Spec {
        path: path.to_owned(),
        ..Spec::default()
    };
    for (name, value) in &fields {
        match name.as_str() {
            "targetNamespace" => spec.target_namespace = string(value),
            "namePrefix" => spec.name_prefix = string(value),
            "nameSuffix" => spec.name_suffix = string(value),
            "components" => spec.components = list(value).iter().map(string).collect(),
            "ignoreMissingComponents" => spec.ignore_missing_components = value == true,
            "patches" => spec.patches = list(value).iter().map(patch).collect(),
            "images" => spec.images = list(value).iter().map(image).collect(),
            "buildMetadata" => spec.build_metadata = list(value).iter().map(string).collect(),
            "commonMetadata" => {
                spec.common_metadata = CommonMetadata {
                    labels: texts(&value["labels"]),
                    annotations: texts(&value["annotations"]),
                }
            }
            "postBuild" => {
                spec.substitute = Some(Substitution {
                    variables: texts(&value["substitute"]),
                    always: value["substituteStrategy"] == "Always",
                    strict: value["strict"] == true,
                });
            }
            other => panic!("{other} is not read"),
        }
    }
    spec
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(key, value)| (key.clone(), string(value))).collect()
}

fn patch(value: &Value) -> SpecPatch {
    SpecPatch {
        patch: string(&value["patch"]),
        target: value.get("target").map(|target| SpecTarget {
            group: string(&target["group"]),
            version: string(&target["version"]),
            kind: string(&target["kind"]),
            name: string(&target["name"]),
            namespace: string(&target["namespace"]),
            label_selector: string(&target["labelSelector"]),
            annotation_selector: string(&target["annotationSelector"]),
        }),
    }
}

fn image(value: &Value) -> SpecImage {
    SpecImage {
        name: string(&value["name"]),
        new_name: string(&value["newName"]),
        new_tag: string(&value["newTag"]),
        digest: string(&value["digest"]),
    }
}
