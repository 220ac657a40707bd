//! The digests of a spec's parts, as upstream's status has them: SHA-256 of the JSON of Go's types.

use std::fmt::Write as _;

use equate_api::helm::PostRenderer;
use equate_api::meta::CommonMetadata;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The digest of `spec.postRenderers`; `None` without any.
pub(crate) fn post_renderers(renderers: &[PostRenderer]) -> Option<String> {
    if renderers.is_empty() {
        return None;
    }
    let each = renderers.iter().map(|renderer| {
        let kustomize = renderer.kustomize.as_ref().map(|kustomize| {
            let patches = kustomize.patches.iter().map(|patch| {
                let target = patch.target.as_ref().map(|target| {
                    object(&[
                        ("group", optional(target.group.as_ref())),
                        ("version", optional(target.version.as_ref())),
                        ("kind", optional(target.kind.as_ref())),
                        ("namespace", optional(target.namespace.as_ref())),
                        ("name", optional(target.name.as_ref())),
                        (
                            "annotationSelector",
                            optional(target.annotation_selector.as_ref()),
                        ),
                        ("labelSelector", optional(target.label_selector.as_ref())),
                    ])
                });
                object(&[("patch", Some(text(&patch.patch))), ("target", target)])
            });
            let images = kustomize.images.iter().map(|image| {
                object(&[
                    ("name", Some(text(&image.name))),
                    ("newName", optional(image.new_name.as_ref())),
                    ("newTag", optional(image.new_tag.as_ref())),
                    ("digest", optional(image.digest.as_ref())),
                ])
            });
            object(&[("patches", list(patches)), ("images", list(images))])
        });
        object(&[("kustomize", kustomize)])
    });
    list(each).map(|json| digest(&json))
}

/// The digest of `spec.commonMetadata`.
pub(crate) fn common_metadata(metadata: Option<&CommonMetadata>) -> Option<String> {
    let metadata = metadata?;
    let map = |map: &std::collections::BTreeMap<String, String>| {
        let pairs: Vec<String> = map
            .iter()
            .map(|(key, value)| format!("{}:{}", text(key), text(value)))
            .collect();
        (!pairs.is_empty()).then(|| format!("{{{}}}", pairs.join(",")))
    };
    let json = object(&[
        ("annotations", map(&metadata.annotations)),
        ("labels", map(&metadata.labels)),
    ]);
    Some(digest(&json))
}

/// JSON of Go's encoder, which ends with a line break.
fn digest(json: &str) -> String {
    let mut shown = String::from("sha256:");
    for byte in Sha256::digest(format!("{json}\n").as_bytes()) {
        // writing to a String does not fail
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

fn object(fields: &[(&str, Option<String>)]) -> String {
    let present = fields
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let fields: Vec<String> = present
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    format!("{{{}}}", fields.join(","))
}

fn list(items: impl Iterator<Item = String>) -> Option<String> {
    let items: Vec<String> = items.collect();
    (!items.is_empty()).then(|| format!("[{}]", items.join(",")))
}

fn text(text: &str) -> String {
    equate_manifest::json::to_go_string(&Value::String(text.to_owned()))
}

fn optional(value: Option<&String>) -> Option<String> {
    value.filter(|value| !value.is_empty()).map(|value| text(value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_have_the_json_of_go() {
        let renderers: Vec<PostRenderer> = serde_json::from_value(json!([{ "kustomize": {
            "images": [{ "name": "a", "newTag": "1" }],
            "patches": [{ "patch": "- <x>", "target": { "kind": "Deployment" } }],
        } }]))
        .unwrap();
        // sha256 of [{"kustomize":{"patches":[{"patch":"- \u003cx\u003e","target":{"kind":"Deployment"}}],
        // "images":[{"name":"a","newTag":"1"}]}}] and a line break, without the break in this comment
        let json = "[{\"kustomize\":{\"patches\":[{\"patch\":\"- \\u003cx\\u003e\",\"target\":{\"kind\":\"Deployment\"}}],\
                    \"images\":[{\"name\":\"a\",\"newTag\":\"1\"}]}}]";
        assert_eq!(post_renderers(&renderers).unwrap(), digest(json));
        assert_eq!(post_renderers(&[]), None);
        let metadata: CommonMetadata =
            serde_json::from_value(json!({ "labels": { "a": "b" }, "annotations": { "c": "d" } })).unwrap();
        let json = "{\"annotations\":{\"c\":\"d\"},\"labels\":{\"a\":\"b\"}}";
        assert_eq!(common_metadata(Some(&metadata)).unwrap(), digest(json));
        assert_eq!(common_metadata(None), None);
    }
}
