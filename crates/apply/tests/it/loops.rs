//! The ordinary cycle: create, no change, change, drift, restart.

use crate::world::{World, check};

const APP: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, creationTimestamp: null}
    spec:
      hostNetwork: false
      containers:
      - name: c
        image: nginx:1
        ports: [{containerPort: 80}, {containerPort: 53, protocol: UDP}]
        resources: {requests: {cpu: 1000m, memory: 0.5Gi}, limits: {}}
        env: [{name: B, value: b}, {name: A, value: a}]
      volumes: [{name: tmp, emptyDir: {}}]
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  selector: {app: web}
  ports: [{port: 80}]
---
apiVersion: v1
kind: Secret
metadata: {name: token, namespace: shop}
stringData: {password: hunter2}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: shop, annotations: {a.b/c.d: \"1\"}}
data: {color: blue, \"dotted.key\": \"3\"}
";

const UNCHANGED: &str = "
    keep Namespace/shop (unchanged)
    keep ConfigMap/shop/settings (unchanged)
    keep Secret/shop/token (unchanged)
    keep Service/shop/web (unchanged)
    keep Deployment/shop/web (unchanged)
";

#[tokio::test]
async fn unchanged_objects_cost_no_request() {
    let mut world = World::start().await;
    let created = "
        create Namespace/shop
        create ConfigMap/shop/settings
        create Secret/shop/token
        create Service/shop/web
        create Deployment/shop/web
        = Namespace/shop created
        = ConfigMap/shop/settings created
        = Secret/shop/token created
        = Service/shop/web created
        = Deployment/shop/web created
    ";
    check("first", &world.run(APP).await, created);
    check("again", &world.run(APP).await, UNCHANGED);
    // after a restart the memory is empty: values stored as sent are still recognised
    world.memory = Default::default();
    check("restarted", &world.run(APP).await, UNCHANGED);
}

#[tokio::test]
async fn changes_in_git_are_patched_and_drift_is_corrected() {
    let mut world = World::start().await;
    world.run(APP).await;
    let blue = "keep Namespace/shop (unchanged)
        patch ConfigMap/shop/settings (changed)
        keep Secret/shop/token (unchanged)
        keep Service/shop/web (unchanged)
        keep Deployment/shop/web (unchanged)
        = ConfigMap/shop/settings configured";
    let green = APP.replace("blue", "green");
    check("changed", &world.run(&green).await, &blue.replace("        ", ""));
    assert_eq!(
        world.value("shop_settings__ConfigMap", "v1", "/data/color").await,
        "\"green\""
    );

    let merge = "application/merge-patch+json";
    let uri = "/api/v1/namespaces/shop/configmaps/settings?fieldManager=person";
    // fields without owner or of other owners are no drift
    world.send("PATCH", uri, merge, r#"{"data":{"extra":"x"}}"#).await;
    check("a field of another", &world.run(&green).await, UNCHANGED);
    world
        .send("PATCH", uri, merge, r#"{"data":{"color":"red"}}"#)
        .await;
    let drifted = blue.replace("(changed)", "(drifted)").replace("        ", "");
    check("drift", &world.run(&green).await, &drifted);
    assert_eq!(
        world.value("shop_settings__ConfigMap", "v1", "/data").await,
        r#"{"color":"green","dotted.key":"3","extra":"x"}"#
    );
    world
        .send("PATCH", uri, merge, r#"{"data":{"color":null}}"#)
        .await;
    check("a field removed", &world.run(&green).await, &drifted);
    // without memory, drift looks like a change in git, and is corrected as well
    world.memory = Default::default();
    world
        .send("PATCH", uri, merge, r#"{"data":{"color":"red"}}"#)
        .await;
    check(
        "drift over a restart",
        &world.run(&green).await,
        &blue.replace("        ", ""),
    );
}

#[tokio::test]
async fn deleted_objects_are_created_again() {
    let mut world = World::start().await;
    world.run(APP).await;
    world
        .send(
            "DELETE",
            "/api/v1/namespaces/shop/services/web",
            "application/json",
            "",
        )
        .await;
    check(
        "deleted",
        &world.run(APP).await,
        "
        keep Namespace/shop (unchanged)
        keep ConfigMap/shop/settings (unchanged)
        keep Secret/shop/token (unchanged)
        create Service/shop/web
        keep Deployment/shop/web (unchanged)
        = Service/shop/web created
        ",
    );
}

#[tokio::test]
async fn unobserved_objects_are_read_first() {
    let mut world = World::start().await;
    world.run(APP).await;
    world.memory = Default::default();
    world.look = false;
    check(
        "unseen",
        &world.run(APP).await,
        "
        patch Namespace/shop (not seen yet)
        patch ConfigMap/shop/settings (not seen yet)
        patch Secret/shop/token (not seen yet)
        patch Service/shop/web (not seen yet)
        patch Deployment/shop/web (not seen yet)
        = Namespace/shop kept (unchanged)
        = ConfigMap/shop/settings kept (unchanged)
        = Secret/shop/token kept (unchanged)
        = Service/shop/web kept (unchanged)
        = Deployment/shop/web kept (unchanged)
        ",
    );
}

#[tokio::test]
async fn a_preview_names_the_fields_and_writes_nothing() {
    let mut world = World::start().await;
    world.run(APP).await;
    let changed = APP
        .replace("replicas: 2", "replicas: 3")
        .replace("nginx:1", "nginx:2")
        .replace("hunter2", "hunter3")
        + "
---
apiVersion: v1
kind: Namespace
metadata: {name: new}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a, namespace: new}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, namespace: nowhere}
";
    world.memory = Default::default();
    let (plan, desired) = world.plan(&changed).await;
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let execution = equate_apply::cluster::Execution::new(&options);
    let preview = world.cluster.preview(&plan, &desired, &execution).await;
    check(
        "preview",
        &preview.plan.to_string(),
        r#"
        create Namespace/new
        keep Namespace/shop (unchanged)
        create ConfigMap/new/a
        create ConfigMap/nowhere/b
        keep ConfigMap/shop/settings (unchanged)
        patch Secret/shop/token (changed)
            ~ .data.password: *** -> ***
        keep Service/shop/web (unchanged)
        patch Deployment/shop/web (changed)
            ~ .spec.replicas: 2 -> 3
            ~ .spec.template.spec.containers[name=c].image: "nginx:1" -> "nginx:2"
        "#,
    );
    let failures: Vec<_> = preview
        .failures
        .iter()
        .map(|f| format!("{f}: {}", f.error))
        .collect();
    assert_eq!(
        failures,
        [
            "ConfigMap/nowhere/b from apps.yaml: namespace nowhere does not exist; create it, or declare it in git"
        ]
    );
    assert_eq!(
        world
            .value("shop_web_apps_Deployment", "v1", "/spec/replicas")
            .await,
        "2"
    );
    assert_eq!(world.value("_new__Namespace", "v1", "").await, "absent");
}
