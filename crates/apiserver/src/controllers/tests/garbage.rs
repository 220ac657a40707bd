use super::*;

fn only_garbage() -> Profile {
    Profile {
        namespaces: false,
        service_accounts: false,
        root_ca: false,
        ..Profile::default()
    }
}

async fn check(objects: &[&str], delete: &str, propagation: Propagation, want: &[&str]) {
    let (bench, _running) = Bench::start(&only_garbage());
    for object in objects {
        bench.put(object).await;
    }
    bench.idle().await;
    bench.delete(delete, propagation).await;
    bench.idle().await;
    assert_eq!(
        bench.shown(),
        want,
        "{objects:?}, {delete} deleted {propagation:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owners() {
    use Propagation::{Background, Foreground, Orphan};
    let chain = [
        "configmaps g/a",
        "configmaps g/b @ConfigMap:a!",
        "configmaps g/c @ConfigMap:b!",
    ];
    check(&chain, "configmaps g/a", Background, &[]).await;
    check(&chain, "configmaps g/a", Foreground, &[]).await;
    check(
        &chain,
        "configmaps g/a",
        Orphan,
        &["configmaps g/b", "configmaps g/c @b!"],
    )
    .await;
    // one owner left: the dangling reference goes, the object stays
    let two = [
        "configmaps g/a",
        "configmaps g/b",
        "configmaps g/c @ConfigMap:a @ConfigMap:b!",
    ];
    let kept = ["configmaps g/b", "configmaps g/c @b!"];
    check(&two, "configmaps g/a", Background, &kept).await;
    check(&two, "configmaps g/a", Foreground, &kept).await;
    check(&two, "configmaps g/a", Orphan, &kept).await;
    // a finalizer keeps a dependent; foreground deletion waits if it blocks
    let held = ["configmaps g/a", "configmaps g/b @ConfigMap:a! +x/y"];
    check(
        &held,
        "configmaps g/a",
        Foreground,
        &[
            "configmaps g/a ~ +foregroundDeletion",
            "configmaps g/b ~ @a! +x/y",
        ],
    )
    .await;
    check(
        &held,
        "configmaps g/a",
        Background,
        &["configmaps g/b ~ @a! +x/y"],
    )
    .await;
    let free = ["configmaps g/a", "configmaps g/b @ConfigMap:a +x/y"];
    check(&free, "configmaps g/a", Foreground, &["configmaps g/b ~ @a +x/y"]).await;
    // owners in a cycle do not wait for each other
    let circle = ["configmaps g/a @ConfigMap:b!", "configmaps g/b @ConfigMap:a!"];
    check(&circle, "configmaps g/a", Foreground, &[]).await;
    let node = ["nodes n", "configmaps g/a @Node:n"];
    check(&node, "nodes n", Background, &[]).await;
}

#[tokio::test(start_paused = true)]
async fn unresolvable_references_are_reported_or_deleted() {
    let (bench, _running) = Bench::start(&only_garbage());
    bench.put("namespaces g").await;
    bench.put("namespaces h").await;
    bench.put("configmaps h/far").await;
    bench.put("configmaps g/near").await;
    for object in [
        "configmaps g/absent @ConfigMap:nobody",
        "configmaps g/foreign @ConfigMap:near?",
        "configmaps g/across @ConfigMap:far",
        "configmaps g/unserved @Gadget:x",
        "nodes up @ConfigMap:far",
    ] {
        bench.put(object).await;
    }
    bench.idle().await;
    bench.check(&[
        "configmaps g/near",
        "configmaps g/unserved @x",
        "configmaps h/far",
        "nodes up @far",
    ]);
    let snapshot = bench.store.snapshot();
    let events = snapshot.list(&ResourceId::new("", "events"), None);
    let messages: Vec<(String, String)> = events
        .map(|(path, e)| {
            assert_eq!(e.object()["reason"], "OwnerRefInvalidNamespace");
            let message = e.object()["message"].as_str().unwrap();
            (path.namespace().to_owned(), message.to_owned())
        })
        .collect();
    assert_eq!(
        messages,
        [(
            "g".to_owned(),
            "ownerRef [v1/ConfigMap, namespace: g, name: far, uid: uid-far] does not exist in namespace \"g\""
                .to_owned()
        )]
    );
}

#[tokio::test(start_paused = true)]
async fn owner_of_unserved_kind_counts_as_present() {
    let (bench, _running) = Bench::start(&only_garbage());
    bench.put("configmaps g/a @Widget:w").await;
    bench.idle().await;
    bench.check(&["configmaps g/a @w"]);
    let (key, mut crd) = object("customresourcedefinitions widgets.example.com");
    crd["spec"] = json!({ "group": "example.com", "names": { "plural": "widgets", "kind": "Widget" } });
    bench.put_value(key, crd).await;
    bench.idle().await;
    bench.check(&["customresourcedefinitions widgets.example.com"]);
}

#[tokio::test(start_paused = true)]
async fn start_completes_pending_deletions() {
    let bench = Bench::new();
    bench.put("configmaps g/a @ConfigMap:gone").await;
    bench.put("configmaps g/b +foregroundDeletion").await;
    bench
        .patch(
            "configmaps g/b",
            json!({ "metadata": { "deletionTimestamp": "2027-01-01T00:00:00Z" } }),
        )
        .await;
    bench.put("configmaps g/c @ConfigMap:b!").await;
    let _running = bench.run(&only_garbage());
    bench.idle().await;
    bench.check(&[]);
}

#[tokio::test(start_paused = true)]
async fn failed_steps_are_retried() {
    let (bench, _running) = Bench::start(&only_garbage());
    bench.put("configmaps g/a").await;
    bench.put("configmaps g/b @ConfigMap:a").await;
    bench.delete("configmaps g/a", Propagation::Background).await;
    bench.broken.store(3, Ordering::SeqCst);
    bench.idle().await;
    bench.check(&["configmaps g/b @a"]);
    bench.later(Duration::from_secs(1)).await;
    bench.check(&[]);
}

#[tokio::test(start_paused = true)]
async fn disabled_collector_changes_nothing() {
    let (bench, _running) = Bench::start(&Profile {
        garbage_collector: false,
        ..only_garbage()
    });
    bench.put("configmaps g/a @ConfigMap:gone").await;
    bench.later(Duration::from_mins(1)).await;
    bench.check(&["configmaps g/a @gone"]);
}
