use super::*;

const CRD: &str = "customresourcedefinitions widgets.example.com";

async fn define(bench: &Bench, name: &str, kind: &str) {
    let (key, mut crd) = object(&format!("customresourcedefinitions {name}"));
    let plural = name.split('.').next().unwrap();
    let names = json!({ "plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List") });
    crd["spec"] = json!({ "group": "example.com", "names": names });
    crd["metadata"]["finalizers"] = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    bench.put_value(key, crd).await;
    bench.idle().await;
}

fn condition(bench: &Bench, name: &str, kind: &str) -> String {
    let crd = bench.get(&format!("customresourcedefinitions {name}")).unwrap();
    let list = crd["status"]["conditions"].as_array().unwrap();
    let found = list.iter().find(|c| c["type"] == kind).unwrap();
    format!(
        "{} {}",
        found["status"].as_str().unwrap(),
        found["reason"].as_str().unwrap()
    )
}

#[tokio::test(start_paused = true)]
async fn definition_is_established_when_its_names_are_free() {
    let (bench, _running) = Bench::start(&Profile::default());
    define(&bench, "widgets.example.com", "Widget").await;
    assert_eq!(
        condition(&bench, "widgets.example.com", "Established"),
        "True InitialNamesAccepted"
    );
    define(&bench, "wodgets.example.com", "Widget").await;
    assert_eq!(
        condition(&bench, "wodgets.example.com", "NamesAccepted"),
        "False ListKindConflict"
    );
    bench.delete(CRD, Propagation::Background).await;
    bench.idle().await;
    assert_eq!(bench.get(CRD), None);
    assert_eq!(
        condition(&bench, "wodgets.example.com", "Established"),
        "True InitialNamesAccepted"
    );
}

#[tokio::test(start_paused = true)]
async fn deleted_definition_deletes_its_objects() {
    let (bench, _running) = Bench::start(&Profile::default());
    define(&bench, "widgets.example.com", "Widget").await;
    bench.put("widgets g/a").await;
    bench.put("widgets g/b +x/y").await;
    bench.delete(CRD, Propagation::Background).await;
    bench.idle().await;
    bench.check(&[
        "customresourcedefinitions widgets.example.com ~ +customresourcecleanup.apiextensions.k8s.io",
        "widgets g/b ~ +x/y",
    ]);
    assert_eq!(
        condition(&bench, "widgets.example.com", "Terminating"),
        "True InstanceDeletionInProgress"
    );
    bench
        .patch("widgets g/b", json!({ "metadata": { "finalizers": null } }))
        .await;
    bench.idle().await;
    bench.check(&[]);
}
