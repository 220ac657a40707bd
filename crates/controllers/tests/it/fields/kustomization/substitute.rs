//! Variables.

use serde_json::{Value, json};

use super::super::{config, manifest_in};
use crate::session::Session;

async fn check(value: &str, spec: Value, expected: &str) {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", value))]).await;
    for (kind, name, data, field) in [
        ("ConfigMap", "colours", "blue", "data"),
        ("Secret", "secrets", "c2VjcmV0", "data"),
    ] {
        let object = manifest_in("@home", kind, name, json!({ field: { "colour": data } }));
        session.create(serde_json::from_str(&object).unwrap()).await;
    }
    session.kustomize("apps", "apps", spec).await;
    session.is("ConfigMap", "a", "/data/value", json!(expected)).await;
    session.end().await;
}

#[tokio::test]
async fn spec_post_build_substitute() {
    let spec = json!({ "postBuild": { "substitute": { "colour": "red" } } });
    check(
        "a ${colour} ${size:=large} $${colour} $colour",
        spec,
        "a red large ${colour} $colour",
    )
    .await;
}

#[tokio::test]
async fn spec_post_build_substitute_from_kind_config_map() {
    let from = json!([{ "kind": "ConfigMap", "name": "colours" }]);
    check(
        "${colour}",
        json!({ "postBuild": { "substituteFrom": from } }),
        "blue",
    )
    .await;
}

#[tokio::test]
async fn spec_post_build_substitute_from_kind_secret() {
    let from = json!([{ "kind": "Secret", "name": "secrets" }]);
    check(
        "${colour}",
        json!({ "postBuild": { "substituteFrom": from } }),
        "secret",
    )
    .await;
}

#[tokio::test]
async fn spec_post_build_substitute_from_name_the_last_counts() {
    let from = json!([{ "kind": "Secret", "name": "secrets" }, { "kind": "ConfigMap", "name": "colours" }]);
    check(
        "${colour}",
        json!({ "postBuild": { "substituteFrom": from } }),
        "blue",
    )
    .await;
}

#[tokio::test]
async fn spec_post_build_substitute_from_name_what_is_inline_wins() {
    let from = json!([{ "kind": "ConfigMap", "name": "colours" }]);
    let spec = json!({ "postBuild": { "substituteFrom": from, "substitute": { "colour": "red" } } });
    check("${colour}", spec, "red").await;
}

#[tokio::test]
async fn spec_post_build_substitute_from_optional() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "${colour:=none}"))]).await;
    let spec = |optional: bool| {
        let from = json!([{ "kind": "ConfigMap", "name": "absent", "optional": optional }]);
        json!({ "postBuild": { "substitute": { "size": "large" }, "substituteFrom": from } })
    };
    session.kustomize("apps", "apps", spec(false)).await;
    let message = session.fails("apps", "BuildFailed").await;
    assert!(message.contains("absent"), "{message}");
    session.patch("apps", json!({ "spec": spec(true) })).await;
    session.is("ConfigMap", "a", "/data/value", json!("none")).await;
    session.end().await;
}

/// Without any variable nothing is substituted.
#[tokio::test]
async fn spec_post_build_substitute_strategy_with_variables() {
    let strategy = |more: Value| {
        let mut post = json!({ "substituteStrategy": "WithVariables" });
        super::super::merge(&mut post, &more);
        json!({ "postBuild": post })
    };
    let text = "${colour:=none}";
    check(text, strategy(json!({})), text).await;
    check(
        text,
        strategy(json!({ "substitute": { "size": "large" } })),
        "none",
    )
    .await;
}

/// Unless the spec requires it.
#[tokio::test]
async fn spec_post_build_substitute_strategy_always() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "${colour:=none}"))]).await;
    session
        .kustomize("apps", "apps", json!({ "postBuild": {} }))
        .await;
    session
        .is("ConfigMap", "a", "/data/value", json!("${colour:=none}"))
        .await;
    session
        .patch(
            "apps",
            json!({ "spec": { "postBuild": { "substituteStrategy": "Always" } } }),
        )
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("none")).await;
    session.end().await;
}

/// Noticed at once, because the ConfigMap has the label.
#[tokio::test]
async fn label_watch() {
    let session = Session::anywhere(&[("apps/a.yaml", &*config("a", "${colour}"))]).await;
    let metadata = json!({ "labels": { "reconcile.fluxcd.io/watch": "Enabled" } });
    let object = manifest_in(
        "@home",
        "ConfigMap",
        "colours",
        json!({ "metadata": metadata, "data": { "colour": "blue" } }),
    );
    session.create(serde_json::from_str(&object).unwrap()).await;
    let from = json!([{ "kind": "ConfigMap", "name": "colours" }]);
    session
        .kustomize("apps", "apps", json!({ "postBuild": { "substituteFrom": from } }))
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("blue")).await;
    let patch = json!({ "data": { "colour": "red" } });
    session
        .merge::<k8s_openapi::api::core::v1::ConfigMap>("@home", "colours", patch)
        .await;
    session.is("ConfigMap", "a", "/data/value", json!("red")).await;
    session.end().await;
}
