use super::*;

fn only_namespaces() -> Profile {
    Profile {
        garbage_collector: false,
        service_accounts: false,
        root_ca: false,
        ..Profile::default()
    }
}

/// `Type=Status Reason: message`, one for each condition.
fn conditions(bench: &Bench) -> Vec<String> {
    let namespace = bench.get("namespaces g").unwrap();
    let list = namespace["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    list.iter()
        .map(|c| {
            let text = |k: &str| c[k].as_str().unwrap().to_owned();
            format!(
                "{}={} {}: {}",
                text("type"),
                text("status"),
                text("reason"),
                text("message")
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn deleted_namespace_is_emptied_reported_and_removed() {
    let (bench, _running) = Bench::start(&only_namespaces());
    for object in [
        "namespaces g",
        "namespaces h",
        "configmaps g/a",
        "configmaps g/b +x/y",
        "configmaps g/c +orphan",
        "serviceaccounts g/d +x/y +x/z",
        "configmaps h/a",
    ] {
        bench.put(object).await;
    }
    bench.delete("namespaces g", Propagation::Background).await;
    bench.later(Duration::from_secs(4)).await;
    assert_eq!(bench.shown().len(), 5, "nothing happens in the first seconds");
    assert_eq!(conditions(&bench), [""; 0]);
    bench.later(Duration::from_secs(2)).await;
    bench.check(&[
        "configmaps g/b ~ +x/y",
        "configmaps h/a",
        "serviceaccounts g/d ~ +x/y +x/z",
    ]);
    assert_eq!(
        conditions(&bench),
        [
            "NamespaceDeletionDiscoveryFailure=False ResourcesDiscovered: All resources successfully discovered",
            "NamespaceDeletionGroupVersionParsingFailure=False ParsedGroupVersions: All legacy kube types successfully parsed",
            "NamespaceDeletionContentFailure=False ContentDeleted: All content successfully deleted, may be waiting on finalization",
            "NamespaceContentRemaining=True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances, serviceaccounts. has 1 resource instances",
            "NamespaceFinalizersRemaining=True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: x/y in 2 resource instances, x/z in 1 resource instances",
        ]
    );
    let nothing = json!({ "metadata": { "finalizers": null } });
    bench.patch("configmaps g/b", nothing.clone()).await;
    bench.idle().await;
    assert!(conditions(&bench)[3].ends_with("remaining: serviceaccounts. has 1 resource instances"));
    bench.patch("serviceaccounts g/d", nothing).await;
    bench.idle().await;
    assert_eq!(bench.get("namespaces g"), None);
    bench.check(&["configmaps h/a"]);
}

#[tokio::test(start_paused = true)]
async fn empty_namespace_reports_success_before_removal() {
    let (bench, _running) = Bench::start(&Profile {
        namespace_delay: Duration::ZERO,
        ..only_namespaces()
    });
    bench.put("namespaces g").await;
    let mut events = bench
        .store
        .subscribe(&ResourceId::new("", "namespaces"), bench.store.revision())
        .unwrap();
    bench.delete("namespaces g", Propagation::Background).await;
    bench.idle().await;
    let seen: Vec<String> = events
        .take()
        .unwrap()
        .iter()
        .map(|e| {
            let conditions = e.entry.object()["status"]["conditions"]
                .as_array()
                .map_or(0, Vec::len);
            format!("{:?} {conditions}", e.kind)
        })
        .collect();
    assert_eq!(seen, ["Modified 0", "Modified 5", "Deleted 5"]);
}

#[tokio::test(start_paused = true)]
async fn pods_go_first_and_get_their_grace_period() {
    let (bench, _running) = Bench::start(&only_namespaces());
    bench.put("namespaces g").await;
    bench.put("configmaps g/a").await;
    // has a grace period that only a kubelet would end
    let (key, mut pod) = object("pods g/p +kubelet");
    pod["spec"] = json!({ "terminationGracePeriodSeconds": 30 });
    bench.put_value(key, pod).await;
    bench.delete("namespaces g", Propagation::Background).await;
    bench.later(Duration::from_secs(10)).await;
    bench.check(&["configmaps g/a", "pods g/p ~ +kubelet"]);
    assert!(
        conditions(&bench)[3].starts_with("NamespaceContentRemaining=False"),
        "while pods remain only errors are told"
    );
    bench
        .patch("pods g/p", json!({ "metadata": { "finalizers": null } }))
        .await;
    bench.idle().await;
    bench.check(&[]);
    assert_eq!(bench.get("namespaces g"), None);
}

#[tokio::test(start_paused = true)]
async fn other_finalizers_of_the_namespace_stay() {
    let (bench, _running) = Bench::start(&only_namespaces());
    let (key, mut namespace) = object("namespaces g");
    namespace["spec"]["finalizers"] = json!(["kubernetes", "x/y"]);
    bench.put_value(key, namespace).await;
    bench.delete("namespaces g", Propagation::Background).await;
    bench.later(Duration::from_secs(6)).await;
    let left = bench.get("namespaces g").unwrap();
    assert_eq!(left["spec"]["finalizers"], json!(["x/y"]));
}
