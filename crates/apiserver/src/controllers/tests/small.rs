//! The controllers with a single rule.

use super::*;

#[tokio::test(start_paused = true)]
async fn active_namespaces_get_defaults() {
    let (bench, _running) = Bench::start(&Profile::default());
    bench.put("namespaces g").await;
    bench.idle().await;
    let furniture = ["configmaps g/kube-root-ca.crt", "serviceaccounts g/default"];
    bench.check(&furniture);
    let ca = "configmaps g/kube-root-ca.crt";
    assert_eq!(bench.get(ca).unwrap()["data"], json!({ "ca.crt": "PEM" }));
    for place in furniture {
        bench.delete(place, Propagation::Background).await;
        bench.idle().await;
        bench.check(&furniture);
    }
    bench
        .patch(
            ca,
            json!({ "data": { "ca.crt": "forged", "more": "x" }, "metadata": { "annotations": null } }),
        )
        .await;
    bench.idle().await;
    let right = bench.get(ca).unwrap();
    assert_eq!(right["data"], json!({ "ca.crt": "PEM" }));
    assert!(right["metadata"]["annotations"]["kubernetes.io/description"].is_string());
    bench.delete("namespaces g", Propagation::Background).await;
    bench
        .delete("serviceaccounts g/default", Propagation::Background)
        .await;
    bench.idle().await;
    bench.check(&[ca]);
    bench.later(Duration::from_secs(6)).await;
    bench.check(&[]);
    assert_eq!(bench.get("namespaces g"), None);
}

#[tokio::test(start_paused = true)]
async fn controllers_can_be_switched_off_individually() {
    let check = async |profile: Profile, want: &[&str]| {
        let (bench, running) = Bench::start(&profile);
        bench.put("namespaces g").await;
        bench.later(Duration::from_secs(1)).await;
        bench.check(want);
        running.abort();
    };
    let off = Profile {
        service_accounts: false,
        ..Profile::default()
    };
    check(off, &["configmaps g/kube-root-ca.crt"]).await;
    let off = Profile {
        root_ca: false,
        ..Profile::default()
    };
    check(off, &["serviceaccounts g/default"]).await;
}

#[tokio::test(start_paused = true)]
async fn aggregated_roles_follow_changes() {
    let (bench, _running) = Bench::start(&Profile::default());
    let put = async |name: &str, label: &str, gathers: &str, verb: &str| {
        let (key, mut role) = object(&format!("clusterroles {name}"));
        role["metadata"]["labels"] = json!({ label: "true" });
        if gathers.is_empty() {
            role["rules"] = json!([{ "verbs": [verb] }]);
        } else {
            role["aggregationRule"] =
                json!({ "clusterRoleSelectors": [{ "matchLabels": { gathers: "true" } }] });
        }
        bench.put_value(key, role).await;
        bench.idle().await;
    };
    let verbs = |name: &str| {
        let role = bench.get(&format!("clusterroles {name}")).unwrap();
        let rules = role["rules"].as_array().cloned().unwrap_or_default();
        rules
            .iter()
            .map(|r| r["verbs"][0].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    put("outer", "", "to-outer", "").await;
    put("inner", "to-outer", "to-inner", "").await;
    put("leaf", "to-inner", "", "get").await;
    assert_eq!(verbs("outer"), ["get"]);
    put("leaf2", "to-inner", "", "list").await;
    assert_eq!(verbs("outer"), ["get", "list"]);
    bench.delete("clusterroles leaf", Propagation::Background).await;
    bench.idle().await;
    assert_eq!(verbs("outer"), ["list"]);
}

#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_their_last_write() {
    let count = |bench: &Bench| bench.store.snapshot().count(&ResourceId::new("", "events"), None);
    let bench = Bench::new();
    let (key, mut old) = object("events g/old");
    old["lastTimestamp"] = json!((bench.now() - jiff::SignedDuration::from_mins(50)).to_string());
    bench.put_value(key, old).await;
    let _running = bench.run(&Profile::default());
    bench.put("events g/a").await;
    bench.put("events g/b").await;
    bench.later(Duration::from_mins(11)).await;
    assert_eq!(
        count(&bench),
        2,
        "the one from before the start goes by its own time"
    );
    bench.later(Duration::from_mins(30)).await;
    bench.patch("events g/b", json!({ "count": 2 })).await;
    bench.later(Duration::from_mins(25)).await;
    assert_eq!(count(&bench), 1, "a write gives another hour");
    bench.later(Duration::from_mins(40)).await;
    assert_eq!(count(&bench), 0);
}
