//! Values, post-renderers and metadata.

use serde_json::{Value, json};

use super::{KIND, installed, ready, release, start, start_with, value};
use crate::fields::manifest;
use crate::session::{Options, Session};

/// Installs with a spec. Expects kind and name of an object, a place in it, and the value there.
async fn check(files: &[(&str, &str)], spec: Value, expected: &[(&str, &str, &str, Value)]) {
    let session = start_with(files, Options::default()).await;
    installed(&session, spec).await;
    for (kind, name, pointer, value) in expected {
        session.is(kind, name, pointer, value.clone()).await;
    }
    session.end().await;
}

/// Tests of fields over the same chart, with the Deployment `app-web`.
macro_rules! fields {
    ($($(#[$what:meta])* $name:ident: $spec:tt => [$($expected:tt),+ $(,)?];)+) => {$(
        $(#[$what])*
        #[tokio::test]
        async fn $name() {
            let mut spec = json!({ "values": { "web": "registry.invalid/web:1" } });
            crate::fields::merge(&mut spec, &json!($spec));
            check(&[], spec, &[$(fields!(@ $expected)),+]).await;
        }
    )+};
    (@ ($kind:literal, $object:literal, $pointer:literal, $value:tt)) => {
        ($kind, $object, $pointer, json!($value))
    };
}

fields! {
    spec_values: { "values": { "value": "two" } } => [
        ("ConfigMap", "app-map", "/data/value", "two"),
    ];
    spec_common_metadata_labels: { "commonMetadata": { "labels": { "team": "blue" } } } => [
        ("ConfigMap", "app-map", "/metadata/labels/team", "blue"),
        ("Deployment", "app-web", "/metadata/labels/team", "blue"),
        ("Deployment", "app-web", "/spec/selector/matchLabels/team", null),
    ];
    spec_common_metadata_annotations: { "commonMetadata": { "annotations": { "team": "blue" } } } => [
        ("ConfigMap", "app-map", "/metadata/annotations/team", "blue"),
    ];
    spec_post_renderers_kustomize_images_name: { "postRenderers": [{ "kustomize": { "images": [
        { "name": "registry.invalid/web", "newTag": "2" }, { "name": "web", "newTag": "3" },
    ] } }] } => [
        ("Deployment", "app-web", "/spec/template/spec/containers/0/image", "registry.invalid/web:2"),
    ];
    spec_post_renderers_kustomize_images_new_name: { "postRenderers": [{ "kustomize": { "images": [
        { "name": "registry.invalid/web", "newName": "mirror.invalid/web" },
    ] } }] } => [
        ("Deployment", "app-web", "/spec/template/spec/containers/0/image", "mirror.invalid/web:1"),
    ];
    spec_post_renderers_kustomize_images_new_tag: { "postRenderers": [{ "kustomize": { "images": [
        { "name": "registry.invalid/web", "newTag": "2" },
    ] } }] } => [
        ("Deployment", "app-web", "/spec/template/spec/containers/0/image", "registry.invalid/web:2"),
    ];
    spec_post_renderers_kustomize_images_digest: { "postRenderers": [{ "kustomize": { "images": [{
        "name": "registry.invalid/web",
        "digest": "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    }] } }] } => [
        ("Deployment", "app-web", "/spec/template/spec/containers/0/image",
            "registry.invalid/web@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"),
    ];
    spec_post_renderers_kustomize_patches_patch: { "postRenderers": [{ "kustomize": { "patches": [
        { "target": { "kind": "ConfigMap" }, "patch": "- {op: replace, path: /data/value, value: patched}" },
    ] } }] } => [
        ("ConfigMap", "app-map", "/data/value", "patched"),
    ];
    spec_post_renderers_kustomize_patches_patch_merge: { "postRenderers": [{ "kustomize": { "patches": [
        { "patch": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: app-web}\nspec: {paused: true}\n" },
    ] } }] } => [
        ("Deployment", "app-web", "/spec/paused", true),
        ("Deployment", "app-web", "/spec/replicas", 0),
    ];
}

/// Later values take precedence, and a nested change keeps the rest.
#[tokio::test]
async fn spec_values_that_change() {
    let session = start().await;
    installed(&session, json!({ "values": { "value": "two", "extra": "more" } })).await;
    session
        .is("ConfigMap", "app-extra", "/data/value", json!("more"))
        .await;
    session
        .respec(KIND, "app", json!({ "values": { "extra": null } }))
        .await;
    ready(&session, "UpgradeSucceeded", 2).await;
    value(&session, "two").await;
    session.exists("ConfigMap", "app-extra", false).await;
    session.end().await;
}

/// Three objects with marks, and one in another namespace.
pub(super) const MARKED: &str = r#"{{- range $name, $tier := dict "a" "front" "b" "back" }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  labels: {tier: {{ $tier }}}
  annotations: {tier: {{ $tier }}, drift: "no"}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: c, annotations: {drift: "no"}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: d, namespace: @home-far, annotations: {drift: "no"}}
"#;

/// The objects that a target selects.
pub(super) const OBJECTS: [(&str, &str, &str); 4] = [
    ("@home", "ConfigMap", "a"),
    ("@home", "ConfigMap", "b"),
    ("@home", "Role", "c"),
    ("@home-far", "ConfigMap", "d"),
];

/// A patch with a target reaches these objects and no others.
async fn chosen(target: Value, expected: &[&str]) {
    let session = start_with(
        &[("charts/app/templates/marked.yaml", MARKED)],
        Options::default(),
    )
    .await;
    session.namespace("@home-far").await;
    let patch = "- {op: add, path: /metadata/annotations/patched, value: \"yes\"}";
    // the ConfigMap of every release has no annotations
    let first = json!({ "target": { "name": "app-map" }, "patch":
        "- {op: add, path: /metadata/annotations, value: {}}" });
    let patches = json!([first, { "target": target, "patch": patch }]);
    installed(
        &session,
        json!({ "postRenderers": [{ "kustomize": { "patches": patches } }] }),
    )
    .await;
    for (namespace, kind, name) in OBJECTS {
        let value = match expected.contains(&name) {
            true => json!("yes"),
            false => Value::Null,
        };
        session
            .is_in(namespace, kind, name, "/metadata/annotations/patched", value)
            .await;
    }
    session.end().await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_name() {
    chosen(json!({ "name": "[ac]" }), &["a", "c"]).await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_kind() {
    chosen(json!({ "kind": "Role" }), &["c"]).await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_group() {
    chosen(json!({ "group": "rbac.authorization.k8s.io" }), &["c"]).await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_version() {
    chosen(json!({ "kind": "Role", "version": "v1" }), &["c"]).await;
    chosen(json!({ "kind": "Role", "version": "v2" }), &[]).await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_namespace() {
    chosen(json!({ "namespace": "@home-far" }), &["d"]).await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_label_selector() {
    chosen(json!({ "labelSelector": "tier in (front)" }), &["a"]).await;
}

#[tokio::test]
async fn spec_post_renderers_kustomize_patches_target_annotation_selector() {
    chosen(json!({ "annotationSelector": "tier=back" }), &["b"]).await;
}

/// A patch of all ConfigMaps reaches the hook, or not.
async fn rendered(strategy: &str, hook: Value) {
    let session = start().await;
    let patch = "- {op: add, path: /metadata/labels, value: {patched: \"yes\"}}";
    let patches = json!([{ "target": { "kind": "ConfigMap" }, "patch": patch }]);
    let spec = json!({
        "values": { "pre-install": "plain" },
        "postRenderStrategy": strategy,
        "postRenderers": [{ "kustomize": { "patches": patches } }],
    });
    installed(&session, spec).await;
    session
        .is("ConfigMap", "app-map", "/metadata/labels/patched", json!("yes"))
        .await;
    session.exists("ConfigMap", "app-pre-install", true).await;
    session
        .is("ConfigMap", "app-pre-install", "/metadata/labels/patched", hook)
        .await;
    session.end().await;
}

#[tokio::test]
async fn spec_post_render_strategy_nohooks() {
    rendered("nohooks", Value::Null).await;
}

#[tokio::test]
async fn spec_post_render_strategy_combined() {
    rendered("combined", json!("yes")).await;
}

#[tokio::test]
async fn spec_post_render_strategy_separate() {
    rendered("separate", json!("yes")).await;
}

/// A ConfigMap or Secret `values` with this text under a key.
async fn holder(session: &Session, kind: &str, key: &str, text: &str) {
    let field = if kind == "Secret" { "stringData" } else { "data" };
    let object = manifest(kind, "values", json!({ field: { key: text } }));
    session.create(serde_json::from_str(&object).unwrap()).await;
}

/// Values from `values` with these fields of the reference.
async fn from(kind: &str, key: &str, text: &str, reference: Value, expected: &str) {
    let session = start().await;
    holder(&session, kind, key, text).await;
    let mut whole = json!({ "kind": kind, "name": "values" });
    crate::fields::merge(&mut whole, &reference);
    installed(&session, json!({ "valuesFrom": [whole] })).await;
    value(&session, expected).await;
    session.end().await;
}

#[tokio::test]
async fn spec_values_from_kind_config_map() {
    from("ConfigMap", "values.yaml", "value: map\n", json!({}), "map").await;
}

/// Its values never reach the status or an event.
#[tokio::test]
async fn spec_values_from_kind_secret() {
    let session = start().await;
    holder(
        &session,
        "Secret",
        "values.yaml",
        "value: hunter2\nbroken: true\n",
    )
    .await;
    let references = json!([{ "kind": "Secret", "name": "values" }]);
    release(&session, "app", json!({ "valuesFrom": references })).await;
    session
        .condition(KIND, "app", "Released", "InstallFailed", "")
        .await;
    session
        .respec(KIND, "app", json!({ "values": { "broken": false } }))
        .await;
    value(&session, "hunter2").await;
    session.conceals(KIND, "app", &["hunter2"]).await;
    session.end().await;
}

#[tokio::test]
async fn spec_values_from_name() {
    let session = start().await;
    let references = json!([{ "kind": "ConfigMap", "name": "values" }]);
    release(&session, "app", json!({ "valuesFrom": references })).await;
    let message = "could not resolve ConfigMap chart values reference '@home/values' with key 'values.yaml': \
                   configmaps \"values\" not found";
    session.reports(KIND, "app", "ValuesError", message).await;
    holder(&session, "ConfigMap", "values.yaml", "value: map\n").await;
    session.demand(KIND, "app", "now").await;
    value(&session, "map").await;
    session.end().await;
}

#[tokio::test]
async fn spec_values_from_values_key() {
    from(
        "ConfigMap",
        "prod",
        "value: prod\n",
        json!({ "valuesKey": "prod" }),
        "prod",
    )
    .await;
}

/// Set as `helm --set` does; inline values take precedence.
#[tokio::test]
async fn spec_values_from_target_path() {
    let reference = json!({ "valuesKey": "secret", "targetPath": "value" });
    from("Secret", "secret", "by-path", reference, "by-path").await;
}

/// Set as `helm --set-literal` does.
#[tokio::test]
async fn spec_values_from_literal() {
    let reference = json!({ "valuesKey": "text", "targetPath": "value", "literal": true });
    from("ConfigMap", "text", "{a,b}=[1]", reference, "{a,b}=[1]").await;
}

/// Without it, a missing object or key fails.
#[tokio::test]
async fn spec_values_from_optional() {
    let session = start().await;
    holder(&session, "ConfigMap", "other", "value: map\n").await;
    let reference = |name: &str, optional: bool| json!({ "valuesFrom": [{ "kind": "ConfigMap", "name": name, "optional": optional }] });
    release(&session, "app", reference("values", false)).await;
    session.reports(KIND, "app", "ValuesError", "key not found").await;
    session.respec(KIND, "app", reference("values", true)).await;
    ready(&session, "InstallSucceeded", 1).await;
    session.respec(KIND, "app", reference("none", false)).await;
    session.reports(KIND, "app", "ValuesError", "not found").await;
    session.respec(KIND, "app", reference("none", true)).await;
    session.reports(KIND, "app", "InstallSucceeded", "").await;
    value(&session, "one").await;
    session.end().await;
}
