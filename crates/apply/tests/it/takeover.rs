//! Objects created by kubectl.

use crate::world::{World, check};

const CLIENT_SIDE: &str = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","annotations":{
"kubectl.kubernetes.io/last-applied-configuration":"{}"}},"data":{"color":"blue","old":"1"}}"#;

fn settings(mode: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings, annotations: {{{mode}}}}}\ndata: {{color: green}}"
    )
}

async fn taken(mode: &str, look: bool) -> (String, String, String) {
    let mut world = World::start().await;
    let uri = "/api/v1/namespaces/default/configmaps?fieldManager=kubectl-client-side-apply";
    world.send("POST", uri, "application/json", CLIENT_SIDE).await;
    world.look = look;
    let text = world.run(&settings(mode)).await;
    let data = world.value("default_settings__ConfigMap", "v1", "/data").await;
    world.look = true;
    let again = world.run(&settings(mode)).await;
    (text, data, again)
}

#[tokio::test]
async fn kubectl_fields_are_taken_over() {
    let (text, data, again) = taken("", true).await;
    check(
        "seen",
        &text,
        "patch ConfigMap/default/settings (taken over from kubectl)\n= ConfigMap/default/settings configured",
    );
    assert_eq!(data, r#"{"color":"green"}"#);
    check("again", &again, "keep ConfigMap/default/settings (unchanged)");

    let (text, data, again) = taken("", false).await;
    check(
        "not seen",
        &text,
        "patch ConfigMap/default/settings (not seen yet)\n= ConfigMap/default/settings configured",
    );
    assert_eq!(data, r#"{"color":"green"}"#);
    check("again", &again, "keep ConfigMap/default/settings (unchanged)");
}

#[tokio::test]
async fn merge_leaves_it() {
    let (text, data, again) = taken("kustomize.toolkit.fluxcd.io/ssa: Merge", true).await;
    check(
        "seen",
        &text,
        "patch ConfigMap/default/settings (changed)\n= ConfigMap/default/settings configured",
    );
    assert_eq!(data, r#"{"color":"green","old":"1"}"#);
    check("again", &again, "keep ConfigMap/default/settings (unchanged)");
}

#[tokio::test]
async fn a_preview_foresees_the_takeover() {
    let mut world = World::start().await;
    world.run(&settings("")).await;
    let uri = "/api/v1/namespaces/default/configmaps/settings?fieldManager=kubectl-patch";
    let by_hand = async |patch: &str| {
        let kind = "application/merge-patch+json";
        world.send("PATCH", uri, kind, patch).await;
    };
    by_hand(r#"{"metadata":{"labels":{"team":"a"}},"data":{"extra":"hand"}}"#).await;
    let foreseen = async |world: &mut World| {
        let (plan, desired) = world.plan(&settings("")).await;
        let owner = world.owner.clone();
        let options = world.options(&owner);
        let execution = equate_apply::cluster::Execution::new(&options);
        let preview = world.cluster.preview(&plan, &desired, &execution).await;
        preview.plan.to_string()
    };
    check(
        "added",
        &foreseen(&mut world).await,
        r#"
        patch ConfigMap/default/settings (taken over from kubectl)
            - .data.extra: "hand"
            - .metadata.labels.team: "a"
        "#,
    );
    world.run(&settings("")).await;
    let data = world.value("default_settings__ConfigMap", "v1", "/data").await;
    assert_eq!(data, r#"{"color":"green"}"#);

    // the same value by another manager: no field changes
    world
        .send(
            "PATCH",
            uri,
            "application/merge-patch+json",
            r#"{"data":{"color":"green"}}"#,
        )
        .await;
    check(
        "same",
        &foreseen(&mut world).await,
        "keep ConfigMap/default/settings (unchanged)",
    );
}
