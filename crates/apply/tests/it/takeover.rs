//! Objects created by kubectl.

use crate::world::{World, check, objects};
use equate_apply::difference::differences;

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

/// The plan of a preview, and its failures.
async fn foreseen(world: &mut World, manifests: &str) -> String {
    let (plan, desired) = world.plan(manifests).await;
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let execution = equate_apply::cluster::Execution::new(&options);
    let preview = world.cluster.preview(&plan, &desired, &execution).await;
    let failures = preview.failures.iter();
    let failures = failures.map(|failure| format!("! {failure}: {}\n", failure.error));
    preview.plan.to_string() + &failures.collect::<String>()
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
    check(
        "added",
        &foreseen(&mut world, &settings("")).await,
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
        &foreseen(&mut world, &settings("")).await,
        "keep ConfigMap/default/settings (unchanged)",
    );
}

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web:1, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  serviceName: db
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: db:1}]}
";

/// Creates objects as `kubectl create` does: it becomes the manager of all fields, also of defaults.
async fn create_by_kubectl(world: &World, manifests: &str) {
    for object in objects(manifests) {
        let place = match object.api_version() {
            "v1" => "/api/v1".to_owned(),
            version => format!("/apis/{version}"),
        };
        let kinds = format!("{}s", object.kind().to_lowercase());
        let uri = format!("{place}/namespaces/default/{kinds}?fieldManager=kubectl-create");
        let body = serde_json::to_string(&object).unwrap();
        world.send("POST", &uri, "application/json", &body).await;
    }
}

/// A preview, whose changes are those of the run after it.
async fn true_preview(by_kubectl: &str) -> String {
    let mut world = World::start().await;
    create_by_kubectl(&world, by_kubectl).await;
    let live = async |world: &World| {
        [
            world.get("default_web_apps_Deployment", "v1").await.unwrap(),
            world.get("default_web__Service", "v1").await.unwrap(),
            world.get("default_db_apps_StatefulSet", "v1").await.unwrap(),
        ]
    };
    let before = live(&world).await;
    let preview = foreseen(&mut world, WEB).await;
    world.run(WEB).await;
    let after = live(&world).await;
    let changes = before.iter().zip(&after);
    let changes = changes.flat_map(|(before, after)| differences(before, after));
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    // the Deployment's controller writes annotations
    let done = changes.filter(|change| !change.path.contains("annotations"));
    let done = done.map(|change| change.to_string()).collect();
    let foreseen = preview.lines().filter_map(|line| line.strip_prefix("    "));
    let foreseen = foreseen.map(str::to_owned).collect();
    assert_eq!(sorted(foreseen), sorted(done), "{preview}");
    preview
}

const LABELS: &str = r#"+ .metadata.labels: {"kustomize.toolkit.fluxcd.io/name":"apps","kustomize.toolkit.fluxcd.io/namespace":"flux-system"}"#;

#[tokio::test]
async fn a_preview_knows_the_defaults_that_come_back() {
    check(
        "identical objects",
        &true_preview(WEB).await,
        &format!(
            "
            patch Service/default/web (taken over from kubectl)
                {LABELS}
            patch Deployment/default/web (taken over from kubectl)
                {LABELS}
            patch StatefulSet/default/db (taken over from kubectl)
                {LABELS}
            "
        ),
    );
    let by_hand = WEB
        .replace(
            "name: web}\nspec:\n",
            "name: web}\nspec:\n  replicas: 3\n  paused: true\n",
        )
        .replace("image: web:1, ", "image: web:1, env: [{name: A, value: b}], ")
        .replace(
            "spec: {selector",
            "spec: {type: LoadBalancer, sessionAffinity: ClientIP, selector",
        )
        .replace("[{port: 80}]", "[{port: 80, nodePort: 30080}]");
    check(
        "other values",
        &true_preview(&by_hand).await,
        &format!(
            "
            patch Service/default/web (taken over from kubectl)
                {LABELS}
                - .spec.allocateLoadBalancerNodePorts: true
                - .spec.externalTrafficPolicy: \"Cluster\"
                - .spec.ports[0].nodePort: 30080
                ~ .spec.sessionAffinity: \"ClientIP\" -> \"None\"
                - .spec.sessionAffinityConfig: {{\"clientIP\":{{\"timeoutSeconds\":10800}}}}
                ~ .spec.type: \"LoadBalancer\" -> \"ClusterIP\"
            patch Deployment/default/web (taken over from kubectl)
                {LABELS}
                - .spec.paused: true
                ~ .spec.replicas: 3 -> 1
                - .spec.template.spec.containers[name=web].env: [{{\"name\":\"A\",\"value\":\"b\"}}]
            patch StatefulSet/default/db (taken over from kubectl)
                {LABELS}
            "
        ),
    );
}

#[tokio::test]
async fn a_preview_of_a_takeover_that_the_api_server_refuses() {
    let mut world = World::start().await;
    let by_hand = WEB.replace(
        "serviceName: db",
        "serviceName: db\n  podManagementPolicy: Parallel",
    );
    create_by_kubectl(&world, &by_hand).await;
    let preview = foreseen(&mut world, WEB).await;
    let refusal = |text: &str| text.lines().find(|line| line.starts_with('!')).map(str::to_owned);
    let refused = refusal(&preview).unwrap();
    assert!(
        refused.contains("StatefulSet/default/db from apps.yaml: a field cannot be changed"),
        "{refused}"
    );
    assert_eq!(refusal(&world.run(WEB).await), Some(refused));
}
