//! Annotations that control apply and prune.

use crate::world::{World, check};

fn settings(mode: &str, color: &str) -> String {
    format!(
        "
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  annotations: {{{mode}}}
data: {{color: {color}}}
"
    )
}

const DATA: (&str, &str, &str) = ("default_settings__ConfigMap", "v1", "/data");

#[tokio::test]
async fn if_not_present_creates_once() {
    let mut world = World::start().await;
    let mode = "kustomize.toolkit.fluxcd.io/ssa: IfNotPresent";
    check(
        "create",
        &world.run(&settings(mode, "blue")).await,
        "create ConfigMap/default/settings\n= ConfigMap/default/settings created",
    );
    check(
        "leave",
        &world.run(&settings(mode, "red")).await,
        "keep ConfigMap/default/settings (exists, and is never changed)",
    );
    world.look = false;
    world.memory = Default::default();
    check(
        "leave what was not seen",
        &world.run(&settings(mode, "red")).await,
        "patch ConfigMap/default/settings (not seen yet)\n\
         = ConfigMap/default/settings kept (exists, and is never changed)",
    );
    assert_eq!(world.value(DATA.0, DATA.1, DATA.2).await, r#"{"color":"blue"}"#);
    // it is still ours: once it leaves git it is pruned
    world.look = true;
    world.allow_empty = Some("main@sha1:1".to_owned());
    check(
        "prune",
        &world.run("").await,
        "prune ConfigMap/default/settings\n= ConfigMap/default/settings deleted",
    );
}

#[tokio::test]
async fn ignored_objects_are_left_alone() {
    let mut world = World::start().await;
    for mode in [
        "kustomize.toolkit.fluxcd.io/ssa: Ignore",
        "kustomize.toolkit.fluxcd.io/reconcile: disabled",
    ] {
        check(
            mode,
            &world.run(&settings(mode, "blue")).await,
            "keep ConfigMap/default/settings (ignored by its annotations)",
        );
    }
    world.run(&settings("", "blue")).await;
    let uri = "/api/v1/namespaces/default/configmaps/settings";
    let pause = r#"{"metadata":{"annotations":{"kustomize.toolkit.fluxcd.io/reconcile":"disabled"}}}"#;
    world
        .send("PATCH", uri, "application/merge-patch+json", pause)
        .await;
    check(
        "paused in the cluster",
        &world.run(&settings("", "red")).await,
        "keep ConfigMap/default/settings (ignored by its annotations)",
    );
    world.allow_empty = Some("main@sha1:1".to_owned());
    check(
        "not pruned either",
        &world.run("").await,
        "keep ConfigMap/default/settings (ignored by its annotations)",
    );
    assert_eq!(world.value(DATA.0, DATA.1, DATA.2).await, r#"{"color":"blue"}"#);
}

const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: migrate, annotations: {ANNOTATIONS}}
spec:
  template:
    metadata: {labels: {app: migrate}}
    spec:
      restartPolicy: Never
      containers: [{name: c, image: \"migrate:1\"}]
";

#[tokio::test]
async fn immutable_changes_recreate_only_if_allowed() {
    let mut world = World::start().await;
    let first = JOB.replace("ANNOTATIONS", "");
    world.run(&first).await;
    let uid = world
        .value("default_migrate_batch_Job", "v1", "/metadata/uid")
        .await;
    let text = world.run(&first.replace("migrate:1", "migrate:2")).await;
    let (plan, refusal) = text.split_once('\n').unwrap();
    assert_eq!(plan, "patch Job/default/migrate (changed)");
    assert!(
        refusal
            .starts_with("! Job/default/migrate from apps.yaml: a field cannot be changed: spec.template: ")
            && refusal.contains("field is immutable")
            && refusal
                .trim_end()
                .ends_with("allow recreating it with `kustomize.toolkit.fluxcd.io/force: Enabled`"),
        "{refusal}"
    );
    assert_eq!(
        world
            .value("default_migrate_batch_Job", "v1", "/metadata/uid")
            .await,
        uid
    );

    let forced = JOB
        .replace("ANNOTATIONS", "kustomize.toolkit.fluxcd.io/force: Enabled")
        .replace("migrate:1", "migrate:2");
    check(
        "recreate",
        &world.run(&forced).await,
        "patch Job/default/migrate (changed)\n= Job/default/migrate recreated",
    );
    let anew = world
        .value("default_migrate_batch_Job", "v1", "/metadata/uid")
        .await;
    assert_ne!(anew, uid);

    // an invalid manifest does not delete the live object, even with force
    world.force = true;
    let text = world.run(&forced.replace("Never", "Sometimes")).await;
    assert!(
        text.contains("! Job/default/migrate from apps.yaml: not valid: spec.template.spec.restartPolicy: "),
        "{text}"
    );
    assert_eq!(
        world
            .value("default_migrate_batch_Job", "v1", "/metadata/uid")
            .await,
        anew
    );
}
