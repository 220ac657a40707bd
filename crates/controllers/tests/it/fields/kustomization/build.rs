//! Fields that change the build.

use serde_json::{Value, json};

use super::super::{config, manifest, workload};
use crate::session::Session;

/// Builds these files with a spec. Expects kind and name of an object, a place in it, and the value there.
async fn check(files: &[(&str, &str)], spec: Value, expected: &[(&str, &str, &str, Value)]) {
    let session = Session::anywhere(files).await;
    session.kustomize("apps", "apps", spec).await;
    for (kind, name, pointer, value) in expected {
        session.is(kind, name, pointer, value.clone()).await;
    }
    session.end().await;
}

/// Tests of fields over the same files: a ConfigMap `a` and a Deployment `web`.
macro_rules! fields {
    ($($(#[$what:meta])* $name:ident: $spec:tt => [$($expected:tt),+ $(,)?];)+) => {$(
        $(#[$what])*
        #[tokio::test]
        async fn $name() {
            let files = [
                ("apps/a.yaml", &*config("a", "one")),
                ("apps/web.yaml", &*workload("web", "registry.invalid/web:1")),
            ];
            check(&files, json!($spec), &[$(fields!(@ $expected)),+]).await;
        }
    )+};
    (@ ($kind:literal, $object:literal, $pointer:literal, $value:tt)) => {
        ($kind, $object, $pointer, json!($value))
    };
}

const IMAGE: &str = "/spec/template/spec/containers/0/image";

fields! {
    spec_name_prefix: { "namePrefix": "dev-" } => [
        ("ConfigMap", "dev-a", "/data/value", "one"),
        ("Deployment", "dev-web", "/spec/replicas", 0),
    ];
    spec_name_suffix: { "nameSuffix": "-dev" } => [
        ("ConfigMap", "a-dev", "/data/value", "one"),
    ];
    spec_common_metadata_labels: { "commonMetadata": { "labels": { "team": "blue" } } } => [
        ("ConfigMap", "a", "/metadata/labels/team", "blue"),
        ("Deployment", "web", "/metadata/labels/team", "blue"),
        ("Deployment", "web", "/spec/selector/matchLabels/team", null),
    ];
    spec_common_metadata_annotations: { "commonMetadata": { "annotations": { "team": "blue" } } } => [
        ("ConfigMap", "a", "/metadata/annotations/team", "blue"),
    ];
    spec_build_metadata_origin_annotations: { "buildMetadata": ["originAnnotations"] } => [
        ("ConfigMap", "a", "/metadata/annotations/config.kubernetes.io~1origin", "path: a.yaml\n"),
    ];
    spec_build_metadata_transformer_annotations: { "namePrefix": "dev-", "buildMetadata": ["transformerAnnotations"] } => [
        ("ConfigMap", "dev-a", "/metadata/annotations/alpha.config.kubernetes.io~1transformations",
            "- configuredIn: kustomization.yaml\n  configuredBy:\n    apiVersion: builtin\n    kind: PrefixTransformer\n"),
    ];
    spec_images_name: { "images": [{ "name": "registry.invalid/web", "newTag": "2" }, { "name": "web", "newTag": "3" }] } => [
        ("Deployment", "web", "/spec/template/spec/containers/0/image", "registry.invalid/web:2"),
    ];
    spec_images_new_name: { "images": [{ "name": "registry.invalid/web", "newName": "mirror.invalid/web" }] } => [
        ("Deployment", "web", "/spec/template/spec/containers/0/image", "mirror.invalid/web:1"),
    ];
    spec_images_new_tag: { "images": [{ "name": "registry.invalid/web", "newTag": "2" }] } => [
        ("Deployment", "web", "/spec/template/spec/containers/0/image", "registry.invalid/web:2"),
    ];
    spec_images_digest: { "images": [{
        "name": "registry.invalid/web",
        "newTag": "2",
        "digest": "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae",
    }] } => [
        ("Deployment", "web", "/spec/template/spec/containers/0/image",
            "registry.invalid/web:2@sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"),
    ];
    spec_patches_patch_merge: { "patches": [{
        "patch": "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: any\nspec:\n  paused: true\n",
        "target": { "kind": "Deployment" },
    }] } => [
        ("Deployment", "web", "/spec/paused", true),
        ("Deployment", "web", "/spec/replicas", 0),
    ];
    spec_patches_patch_json: { "patches": [{
        "patch": "- op: replace\n  path: /data/value\n  value: two\n",
        "target": { "kind": "ConfigMap" },
    }] } => [
        ("ConfigMap", "a", "/data/value", "two"),
    ];
}

/// The target selects one object and not the other.
async fn chosen(target: Value) {
    let labelled = |name: &str, value: &str| {
        let metadata = json!({ "labels": { "tier": value }, "annotations": { "tier": value } });
        manifest(
            "ConfigMap",
            name,
            json!({ "metadata": metadata, "data": { "value": "one" } }),
        )
    };
    let files = [
        ("apps/a.yaml", &*labelled("a", "front")),
        ("apps/b.yaml", &*labelled("b", "back")),
        ("apps/web.yaml", &*workload("web", "registry.invalid/web:1")),
    ];
    let patch = "- op: add\n  path: /metadata/annotations/patched\n  value: \"yes\"\n";
    let spec = json!({ "patches": [{ "patch": patch, "target": target }] });
    let place = "/metadata/annotations/patched";
    let expected = [
        ("ConfigMap", "b", "/data/value", json!("one")),
        ("ConfigMap", "a", place, json!("yes")),
        ("ConfigMap", "b", place, Value::Null),
        ("Deployment", "web", place, Value::Null),
    ];
    check(&files, spec, &expected).await;
}

#[tokio::test]
async fn spec_patches_target_name() {
    chosen(json!({ "kind": "ConfigMap", "name": "a" })).await;
}

#[tokio::test]
async fn spec_patches_target_name_is_an_expression() {
    chosen(json!({ "name": "[ac]" })).await;
}

#[tokio::test]
async fn spec_patches_target_label_selector() {
    chosen(json!({ "labelSelector": "tier in (front)" })).await;
}

#[tokio::test]
async fn spec_patches_target_annotation_selector() {
    chosen(json!({ "annotationSelector": "tier=front" })).await;
}

/// The target selects the Deployment and no ConfigMap.
async fn workload_is_chosen(target: Value) {
    let files = [
        ("apps/a.yaml", &*config("web", "one")),
        ("apps/web.yaml", &*workload("web", "registry.invalid/web:1")),
    ];
    let patch = "- op: add\n  path: /metadata/annotations\n  value: {patched: \"yes\"}\n";
    let spec = json!({ "patches": [{ "patch": patch, "target": target }] });
    let place = "/metadata/annotations/patched";
    let expected = [
        ("ConfigMap", "web", "/data/value", json!("one")),
        ("Deployment", "web", place, json!("yes")),
        ("ConfigMap", "web", place, Value::Null),
    ];
    check(&files, spec, &expected).await;
}

#[tokio::test]
async fn spec_patches_target_kind() {
    workload_is_chosen(json!({ "kind": "Deployment" })).await;
}

#[tokio::test]
async fn spec_patches_target_group() {
    workload_is_chosen(json!({ "group": "apps" })).await;
}

#[tokio::test]
async fn spec_patches_target_version() {
    let files = [("apps/web.yaml", &*workload("web", "registry.invalid/web:1"))];
    let patch = |value: &str| {
        format!("- op: add\n  path: /metadata/annotations\n  value: {{patched: \"{value}\"}}\n")
    };
    let spec = json!({ "patches": [
        { "patch": patch("right"), "target": { "group": "apps", "version": "v1" } },
        { "patch": patch("wrong"), "target": { "group": "apps", "version": "v1beta1" } },
    ] });
    let expected = [(
        "Deployment",
        "web",
        "/metadata/annotations/patched",
        json!("right"),
    )];
    check(&files, spec, &expected).await;
}

#[tokio::test]
async fn spec_patches_target_namespace() {
    let session = Session::anywhere(&[
        ("apps/a.yaml", &*config("a", "one")),
        (
            "apps/b.yaml",
            &*super::super::manifest_in("@home-other", "ConfigMap", "a", json!({})),
        ),
    ])
    .await;
    session.namespace("@home-other").await;
    let patch = "- op: add\n  path: /data\n  value: {value: two}\n";
    let target = json!({ "kind": "ConfigMap", "namespace": "@home-other" });
    let spec = json!({ "patches": [{ "patch": patch, "target": target }] });
    session.kustomize("apps", "apps", spec).await;
    session
        .is_in("@home-other", "ConfigMap", "a", "/data/value", json!("two"))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("one")).await;
    session.end().await;
}

#[tokio::test]
async fn spec_path() {
    let files = [
        ("apps/dev/a.yaml", &*config("a", "dev")),
        ("apps/prod/a.yaml", &*config("a", "prod")),
    ];
    let session = Session::anywhere(&files).await;
    session.kustomize("apps", "./apps/prod/", json!({})).await;
    session.is("ConfigMap", "a", "/data/value", json!("prod")).await;
    session
        .patch("apps", json!({ "spec": { "path": "apps/dev" } }))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("dev")).await;
    session
        .patch("apps", json!({ "spec": { "path": "apps/nowhere" } }))
        .await;
    let message = session.fails("apps", "ArtifactFailed").await;
    assert!(message.contains("apps/nowhere"), "{message}");
    session.is("ConfigMap", "a", "/data/value", json!("dev")).await;
    session.end().await;
}

#[tokio::test]
async fn spec_target_namespace() {
    let session = Session::anywhere(&[
        ("apps/a.yaml", &*config("a", "one")),
        ("apps/web.yaml", &*workload("web", "registry.invalid/web:1")),
    ])
    .await;
    session.namespace("@home-target").await;
    session
        .kustomize("apps", "apps", json!({ "targetNamespace": "@home-target" }))
        .await;
    session
        .is_in("@home-target", "ConfigMap", "a", "/data/value", json!("one"))
        .await;
    session
        .is_in(
            "@home-target",
            "Deployment",
            "web",
            IMAGE,
            json!("registry.invalid/web:1"),
        )
        .await;
    session.exists("ConfigMap", "a", false).await;
    session.end().await;
}

const COMPONENT: &str =
    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ncommonAnnotations:\n  blue: \"yes\"\n";

#[tokio::test]
async fn spec_components() {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("components/blue/kustomization.yaml", COMPONENT),
    ];
    let spec = json!({ "components": ["../components/blue"] });
    let expected = [("ConfigMap", "a", "/metadata/annotations/blue", json!("yes"))];
    check(&files, spec, &expected).await;
}

#[tokio::test]
async fn spec_ignore_missing_components() {
    let files = [
        ("apps/a.yaml", &*config("a", "one")),
        ("components/blue/kustomization.yaml", COMPONENT),
    ];
    let session = Session::anywhere(&files).await;
    let components = json!(["../components/red", "../components/blue"]);
    session
        .kustomize("apps", "apps", json!({ "components": components }))
        .await;
    let message = session.fails("apps", "BuildFailed").await;
    assert!(message.contains("components/red"), "{message}");
    session
        .patch("apps", json!({ "spec": { "ignoreMissingComponents": true } }))
        .await;
    session
        .is("ConfigMap", "a", "/metadata/annotations/blue", json!("yes"))
        .await;
    session.end().await;
}
