//! Pruning: objects that left git go, objects of others stay.

use crate::world::{World, check};
use equate_apply::cluster::Execution;

fn maps(names: &[&str]) -> String {
    names
        .iter()
        .map(|name| {
            let (name, annotation) = name.split_once('+').unwrap_or((name, ""));
            format!(
                "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, annotations: {{{annotation}}}}}\n"
            )
        })
        .collect()
}

#[tokio::test]
async fn objects_dropped_from_git_are_pruned() {
    let mut world = World::start().await;
    let protected = "c+kustomize.toolkit.fluxcd.io/prune: Disabled";
    world.run(&maps(&["a", "b", protected, "d"])).await;
    check(
        "two dropped",
        &world.run(&maps(&["a"])).await,
        "
        keep ConfigMap/default/a (unchanged)
        prune ConfigMap/default/d
        keep ConfigMap/default/c (pruning is disabled for it)
        prune ConfigMap/default/b
        = ConfigMap/default/d deleted
        = ConfigMap/default/b deleted
        ",
    );
    assert_eq!(
        world.inventory.entries(),
        [("default_a__ConfigMap".to_owned(), "v1".to_owned())]
    );
    assert_eq!(world.value("default_b__ConfigMap", "v1", "").await, "absent");
    assert_ne!(world.value("default_c__ConfigMap", "v1", "").await, "absent");
}

#[tokio::test]
async fn changed_objects_are_read_again_before_pruning() {
    let mut world = World::start().await;
    world.run(&maps(&["a", "b", "c", "d"])).await;
    let (plan, _) = world.plan(&maps(&["a"])).await;
    let change = async |name: &str, metadata: &str| {
        let path = format!("/api/v1/namespaces/default/configmaps/{name}");
        let patch = format!(r#"{{"metadata":{metadata}}}"#);
        world
            .send("PATCH", &path, "application/merge-patch+json", &patch)
            .await;
    };
    // between plan and deletion: protect it; give it to another owner; change something irrelevant
    let disabled = r#"{"annotations":{"kustomize.toolkit.fluxcd.io/prune":"Disabled"}}"#;
    change("b", disabled).await;
    let given = r#"{"labels":{"kustomize.toolkit.fluxcd.io/name":"other"}}"#;
    change("c", given).await;
    change("d", r#"{"annotations":{"example.org/seen":"yes"}}"#).await;
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let pruned = world.cluster.prune(&plan.prune, &Execution::new(&options)).await;
    assert!(pruned.succeeded());
    let deleted: Vec<String> = pruned.changes().map(|(id, _)| id.to_string()).collect();
    assert_eq!(deleted, ["ConfigMap/default/d"]);
    for (name, gone) in [("b", false), ("c", false), ("d", true)] {
        let id = format!("default_{name}__ConfigMap");
        assert_eq!(world.value(&id, "v1", "").await == "absent", gone, "{name}");
    }
}

#[tokio::test]
async fn unobserved_objects_are_read_before_pruning() {
    let mut world = World::start().await;
    let protected = "b+kustomize.toolkit.fluxcd.io/prune: Disabled";
    world.run(&maps(&["a", protected, "c"])).await;
    world
        .send(
            "DELETE",
            "/api/v1/namespaces/default/configmaps/c",
            "application/json",
            "",
        )
        .await;
    world.look = false;
    check(
        "unseen",
        &world.run(&maps(&["x"])).await,
        "
        patch ConfigMap/default/x (not seen yet)
        prune ConfigMap/default/c
        prune ConfigMap/default/b
        prune ConfigMap/default/a
        = ConfigMap/default/x created
        = ConfigMap/default/b kept (pruning is disabled for it)
        = ConfigMap/default/a deleted
        ",
    );
}

#[tokio::test]
async fn recreated_objects_are_not_pruned() {
    let mut world = World::start().await;
    world.run(&maps(&["a", "b"])).await;
    let (plan, desired) = world.plan(&maps(&["a"])).await;
    assert!(desired.len() == 1);
    // between plan and prune another object of that name is created
    let uri = "/api/v1/namespaces/default/configmaps";
    world
        .send("DELETE", &format!("{uri}/b"), "application/json", "")
        .await;
    let theirs = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"}}"#;
    world.send("POST", uri, "application/json", theirs).await;
    let owner = world.owner.clone();
    let options = world.options(&owner);
    let execution = Execution::new(&options);
    let pruned = world.cluster.prune(&plan.prune, &execution).await;
    let mut text = plan.to_string();
    crate::world::say(&mut text, &pruned);
    check(
        "theirs",
        &text,
        "
        keep ConfigMap/default/a (unchanged)
        prune ConfigMap/default/b
        = ConfigMap/default/b kept (its labels name no owner)
        ",
    );
    assert_ne!(world.value("default_b__ConfigMap", "v1", "").await, "absent");
}

#[tokio::test]
async fn an_empty_render_prunes_nothing_until_it_is_confirmed() {
    let mut world = World::start().await;
    world.run(&maps(&["a", "b"])).await;
    let inventory = world.inventory.clone();
    check(
        "empty",
        &world.run("").await,
        "revision main@sha1:1 renders no objects, so 2 would be pruned: nothing is; \
         annotate with equate.dev/allow-empty: main@sha1:1 if it is meant",
    );
    assert_eq!(world.inventory, inventory);
    world.allow_empty = Some("main@sha1:0".to_owned());
    assert!(
        world.run("").await.contains("nothing is"),
        "another revision confirms nothing"
    );
    world.allow_empty = Some("main@sha1:1".to_owned());
    check(
        "confirmed",
        &world.run("").await,
        "
        prune ConfigMap/default/b
        prune ConfigMap/default/a
        = ConfigMap/default/b deleted
        = ConfigMap/default/a deleted
        ",
    );
    assert!(world.inventory.is_empty());
}

#[tokio::test]
async fn two_owners_of_one_object() {
    let mut first = World::start().await;
    let mut second = first.other("late");
    first.run(&maps(&["a", "b"])).await;
    let contested = first.inventory.ids().next().unwrap().clone();
    second.claims.insert((contested.clone(), first.owner.clone()));
    check(
        "the later one does not take it",
        &second.run(&maps(&["a", "c"])).await,
        "
        keep ConfigMap/default/a (owned by Kustomization flux-system/apps)
        create ConfigMap/default/c
        = ConfigMap/default/c created
        ",
    );
    assert_eq!(
        second.inventory.entries(),
        [("default_c__ConfigMap".to_owned(), "v1".to_owned())]
    );
    // the first owner drops it: it is handed over, not recreated
    first.contenders.insert(contested, second.owner.clone());
    check(
        "the first gives it up",
        &first.run(&maps(&["b"])).await,
        "
        keep ConfigMap/default/b (unchanged)
        keep ConfigMap/default/a (handed over to Kustomization flux-system/late)
        ",
    );
    let uid = second.value("default_a__ConfigMap", "v1", "/metadata/uid").await;
    second.claims.clear();
    check(
        "the later one takes it",
        &second.run(&maps(&["a", "c"])).await,
        "
        patch ConfigMap/default/a (changed)
        keep ConfigMap/default/c (unchanged)
        = ConfigMap/default/a configured
        ",
    );
    assert_eq!(
        second.value("default_a__ConfigMap", "v1", "/metadata/uid").await,
        uid
    );
    // an inventory that still has it does not prune it
    first.contenders.clear();
    first.inventory = second.inventory.clone();
    check(
        "not ours",
        &first.run(&maps(&["b"])).await,
        "
        keep ConfigMap/default/b (unchanged)
        keep ConfigMap/default/c (belongs to Kustomization flux-system/late)
        keep ConfigMap/default/a (belongs to Kustomization flux-system/late)
        ",
    );
}
