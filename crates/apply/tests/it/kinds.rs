//! Kinds that appear and disappear, and objects that the API server refuses.

use crate::world::{World, check};
use equate_manifest::object::GroupVersionKind;

const GADGETS: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: gadgets.example.org}
spec:
  group: example.org
  scope: SCOPE
  names: {kind: Gadget, plural: gadgets, singular: gadget, listKind: GadgetList}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const GADGET: &str = "
---
apiVersion: example.org/v1
kind: Gadget
metadata: {name: g}
spec: {size: 3, ratio: 1.0, nothing: null, list: [1, 2]}
";

#[tokio::test]
async fn a_kind_defined_in_the_same_run_is_found() {
    for scope in ["Cluster", "Namespaced"] {
        let mut world = World::start().await;
        // another caller just looked it up in vain: it must still be found
        let gvk = GroupVersionKind::new("example.org", "v1", "Gadget");
        assert!(world.cluster.resolve(&gvk).await.is_err());
        let shown = if scope == "Cluster" {
            "Gadget/g"
        } else {
            "Gadget/default/g"
        };
        let manifests = format!("{}{GADGET}", GADGETS.replace("SCOPE", scope));
        let created = format!(
            "create CustomResourceDefinition/gadgets.example.org\ncreate {shown}\n\
             = CustomResourceDefinition/gadgets.example.org created\n= {shown} created"
        );
        check(scope, &world.run(&manifests).await, &created);
        let unchanged = format!(
            "keep CustomResourceDefinition/gadgets.example.org (unchanged)\nkeep {shown} (unchanged)"
        );
        check(scope, &world.run(&manifests).await, &unchanged);
        world.memory = Default::default();
        check(scope, &world.run(&manifests).await, &unchanged);
    }
}

#[tokio::test]
async fn one_object_that_fails_costs_one_object() {
    let mut world = World::start().await;
    let manifests = format!(
        "{GADGET}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: lost, namespace: nowhere}}
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{ports: [{{port: 99999, targetPort: 80}}]}}
---
apiVersion: v1
kind: ConfigMap
metadata: {{name: good}}
"
    );
    check(
        "each",
        &world.run(&manifests).await,
        "
        create ConfigMap/default/good
        create ConfigMap/nowhere/lost
        create Service/default/web
        create Gadget/g
        = ConfigMap/default/good created
        ! ConfigMap/nowhere/lost from apps.yaml: namespace nowhere does not exist; create it, or declare it in git
        ! Service/default/web from apps.yaml: not valid: spec.ports[0].port: Invalid value: 99999: must be between 1 and 65535, inclusive
        ! Gadget/g from apps.yaml: the cluster has no kind Gadget in example.org/v1; is its CustomResourceDefinition applied?
        ",
    );
    // write-ahead: no planned object is forgotten
    assert_eq!(world.inventory.len(), 4);
}

#[tokio::test]
async fn a_stage_that_fails_ends_the_run() {
    let mut world = World::start().await;
    let manifests = "
apiVersion: v1
kind: Namespace
metadata: {name: Bad_Name}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: later}
";
    let text = world.run(manifests).await;
    assert!(
        text.contains("! Namespace/Bad_Name from apps.yaml: not valid: metadata.name: "),
        "{text}"
    );
    assert_eq!(world.value("default_later__ConfigMap", "v1", "").await, "absent");
}

#[tokio::test]
async fn a_field_that_no_type_has_is_left_out_and_named() {
    let mut world = World::start().await;
    let manifests = "
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {ports: [{port: 80, colour: blue}], selector: {app: web}}
";
    check(
        "unknown",
        &world.run(manifests).await,
        "
        create Service/default/web
        = Service/default/web created
          warning: unknown field spec.ports[0].colour was left out
        ",
    );
    check(
        "again",
        &world.run(manifests).await,
        "keep Service/default/web (unchanged)",
    );
}

#[tokio::test]
async fn an_inventory_may_name_a_version_that_is_gone() {
    let world = World::start().await;
    let any = |group: &str, version: &str, kind: &str| {
        let gvk = GroupVersionKind::new(group, version, kind);
        let cluster = world.cluster.clone();
        async move {
            match cluster.resolve_any_version(&gvk).await {
                Ok(kind) => format!(
                    "{} {} {}",
                    kind.resource.api_version, kind.resource.plural, kind.namespaced
                ),
                Err(error) => error.to_string(),
            }
        }
    };
    assert_eq!(any("apps", "v1", "Deployment").await, "apps/v1 deployments true");
    assert_eq!(
        any("apps", "v1beta1", "Deployment").await,
        "apps/v1 deployments true"
    );
    assert_eq!(any("", "v1", "Namespace").await, "v1 namespaces false");
    assert_eq!(
        any("example.org", "v1", "Gadget").await,
        "the cluster has no kind Gadget in example.org/v1; is its CustomResourceDefinition applied?"
    );
}

#[tokio::test]
async fn a_namespace_must_be_known_unless_there_is_a_default() {
    let world = World::start().await;
    let mut objects = crate::world::objects(
        "
apiVersion: v1
kind: Namespace
metadata: {name: a, namespace: wrong}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: c}
",
    );
    let error = world
        .cluster
        .assign_namespaces(&mut objects, None)
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "ConfigMap/c namespace not specified");
    world
        .cluster
        .assign_namespaces(&mut objects, Some("here"))
        .await
        .unwrap();
    assert_eq!((objects[0].namespace(), objects[1].namespace()), ("", "here"));
}

#[tokio::test]
async fn an_error_about_a_secret_does_not_quote_it() {
    let mut world = World::start().await;
    let secret = |field: &str, value: &str| {
        format!("{{apiVersion: v1, kind: Secret, metadata: {{name: s}}, {field}: {{password: {value}}}}}")
    };
    for manifest in [
        secret("data", "hunter2-hunter2"),
        secret("data", "123456"),
        secret("stringData", "123456"),
    ] {
        let text = world.run(&manifest).await;
        assert!(
            text.contains("! Secret/default/s from apps.yaml: not valid: "),
            "{text}"
        );
        assert!(!text.contains("hunter2") && !text.contains("123456"), "{text}");
    }
}
