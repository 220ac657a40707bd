//! Controllers through the whole API, with a paused clock.

use axum::body::Body;
use equate_apiserver::cluster::Builder;
use equate_apiserver::{EmbeddedCluster, Identity, Profile};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

pub(crate) struct Bench(EmbeddedCluster);

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::with(EmbeddedCluster::builder().controllers(Profile::differential())).await
    }

    pub(crate) async fn with(builder: Builder) -> Self {
        Self(builder.build().await.unwrap())
    }

    pub(crate) async fn ask(&self, method: &str, path: &str, body: &Value) -> (StatusCode, Value) {
        self.ask_as(Identity::admin(), method, path, body).await
    }

    pub(crate) async fn ask_as(
        &self,
        who: Identity,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (StatusCode, Value) {
        let media = if method == "PATCH" {
            "application/merge-patch+json"
        } else {
            "application/json"
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", media)
            .extension(who)
            .body(if body.is_null() {
                Body::empty()
            } else {
                Body::from(body.to_string())
            })
            .unwrap();
        let response = self.0.router().oneshot(request).await.unwrap();
        let status = response.status();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (
            status,
            serde_json::from_slice(&bytes).unwrap_or_else(|_| json!(String::from_utf8_lossy(&bytes))),
        )
    }

    pub(crate) async fn respond(&self, request: Request<Body>) -> http::Response<Body> {
        self.0.router().oneshot(request).await.unwrap()
    }

    /// Waits until a custom resource is served: its definition is established a moment after the write.
    pub(crate) async fn until_served(&self, path: &str) {
        let served = async {
            while !self.ask("GET", path, &Value::Null).await.0.is_success() {
                tokio::time::advance(Duration::from_millis(10)).await;
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), served)
            .await
            .expect("never served");
    }

    pub(crate) async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let (status, answer) = self.ask(method, path, &body).await;
        assert!(status.is_success(), "{method} {path}: {answer}");
        answer
    }

    async fn config_map(&self, name: &str, owner: Option<&str>, finalizers: &[&str]) -> String {
        let mut meta = json!({ "name": name });
        if let Some(uid) = owner {
            meta["ownerReferences"] = json!([
                { "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "blockOwnerDeletion": true }
            ]);
        }
        if !finalizers.is_empty() {
            meta["finalizers"] = json!(finalizers);
        }
        let made = self.done("POST", &in_g(""), json!({ "metadata": meta })).await;
        made["metadata"]["uid"].as_str().unwrap().to_owned()
    }

    /// The ConfigMaps made by the test: name, `~` if being deleted, `@` if owned.
    async fn shown(&self) -> Vec<String> {
        let list = self.done("GET", &in_g(""), Value::Null).await;
        let items = list["items"].as_array().unwrap().iter();
        let items = items.map(|o| &o["metadata"]);
        let items = items.filter(|m| m["name"] != "kube-root-ca.crt");
        items
            .map(|m| {
                let mut line = m["name"].as_str().unwrap().to_owned();
                if m.get("deletionTimestamp").is_some() {
                    line.push('~');
                }
                if m.get("ownerReferences").is_some() {
                    line.push('@');
                }
                line
            })
            .collect()
    }
}

fn in_g(name: &str) -> String {
    let slash = if name.is_empty() { "" } else { "/" };
    format!("/api/v1/namespaces/g/configmaps{slash}{name}")
}

/// A paused clock advances only when nothing else is left to do.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub(crate) async fn settle() {
    pass(Duration::from_millis(1)).await;
}

#[tokio::test(start_paused = true)]
async fn deletion_follows_the_propagation_policy() {
    let check = async |propagation: &str, finalizers: &[&str], want: &[&str]| {
        let bench = Bench::new().await;
        bench
            .done(
                "POST",
                "/api/v1/namespaces",
                json!({ "metadata": { "name": "g" } }),
            )
            .await;
        let owner = bench.config_map("owner", None, &[]).await;
        bench.config_map("dependent", Some(&owner), finalizers).await;
        settle().await;
        bench
            .done(
                "DELETE",
                &in_g("owner"),
                json!({ "propagationPolicy": propagation }),
            )
            .await;
        settle().await;
        assert_eq!(bench.shown().await, want, "{propagation} {finalizers:?}");
    };
    check("Background", &[], &[]).await;
    check("Foreground", &[], &[]).await;
    check("Orphan", &[], &["dependent"]).await;
    check("Background", &["a.io/b"], &["dependent~@"]).await;
    check("Foreground", &["a.io/b"], &["dependent~@", "owner~"]).await;
    check("Orphan", &["a.io/b"], &["dependent"]).await;
}

#[tokio::test(start_paused = true)]
async fn namespace_gets_defaults_and_ends_empty() {
    let bench = Bench::new().await;
    let g = "/api/v1/namespaces/g";
    bench
        .done(
            "POST",
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "g" } }),
        )
        .await;
    settle().await;
    let account = bench
        .done("GET", &format!("{g}/serviceaccounts/default"), Value::Null)
        .await;
    assert_eq!(account["metadata"].get("managedFields"), None);
    let ca = bench.done("GET", &in_g("kube-root-ca.crt"), Value::Null).await;
    assert_eq!(ca["data"]["ca.crt"], bench.0.certificate_authority());
    assert_eq!(
        ca["metadata"]["managedFields"][0]["manager"],
        "kube-controller-manager"
    );

    bench.config_map("held", None, &["a.io/b"]).await;
    bench.config_map("free", None, &[]).await;
    bench.done("DELETE", g, Value::Null).await;
    let (status, refused) = bench
        .ask("POST", &in_g(""), &json!({ "metadata": { "name": "late" } }))
        .await;
    assert_eq!(
        (status.as_u16(), &refused["details"]["causes"][0]["reason"]),
        (403, &json!("NamespaceTerminating"))
    );
    pass(Duration::from_secs(6)).await;
    assert_eq!(bench.shown().await, ["held~"]);
    let namespace = bench.done("GET", g, Value::Null).await;
    let told: Vec<String> = namespace["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            format!(
                "{}={}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            "NamespaceDeletionDiscoveryFailure=False",
            "NamespaceDeletionGroupVersionParsingFailure=False",
            "NamespaceDeletionContentFailure=False",
            "NamespaceContentRemaining=True",
            "NamespaceFinalizersRemaining=True",
        ]
    );
    let managers = namespace["metadata"]["managedFields"].as_array().unwrap();
    let status = managers.iter().find(|m| m["subresource"] == "status").unwrap();
    assert_eq!(status["manager"], "kube-controller-manager");
    bench
        .done(
            "PATCH",
            &in_g("held"),
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
    settle().await;
    let (status, _) = bench.ask("GET", g, &Value::Null).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn deleted_definition_is_served_until_its_objects_are_gone() {
    let bench = Bench::new().await;
    let crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let widgets = "/apis/example.com/v1/widgets";
    let schema = json!({ "openAPIV3Schema": { "type": "object" } });
    bench
        .done(
            "POST",
            crds,
            json!({
                "metadata": { "name": "widgets.example.com" },
                "spec": {
                    "group": "example.com", "scope": "Cluster",
                    "names": { "plural": "widgets", "kind": "Widget" },
                    "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
                },
            }),
        )
        .await;
    settle().await;
    for (name, finalizers) in [("a", json!([])), ("b", json!(["a.io/b"]))] {
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": { "name": name, "finalizers": finalizers },
        });
        bench.done("POST", widgets, widget).await;
    }
    bench
        .done("DELETE", &format!("{crds}/widgets.example.com"), Value::Null)
        .await;
    settle().await;
    let widget = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "late" } });
    let (_, refused) = bench.ask("POST", widgets, &widget).await;
    assert_eq!(
        refused["message"],
        r#"widgets.example.com "late" is forbidden: create not allowed while custom resource definition is terminating"#
    );
    let left = bench.done("GET", widgets, Value::Null).await;
    let names: Vec<&Value> = left["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| &o["metadata"]["name"])
        .collect();
    assert_eq!(names, ["b"]);
    bench
        .done(
            "PATCH",
            &format!("{widgets}/b"),
            json!({ "metadata": { "finalizers": null } }),
        )
        .await;
    settle().await;
    let (status, _) = bench
        .ask("GET", &format!("{crds}/widgets.example.com"), &Value::Null)
        .await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn the_kubernetes_service_comes_back() {
    let bench = Bench::new().await;
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let before = bench.done("GET", path, Value::Null).await;
    bench.done("DELETE", path, Value::Null).await;
    settle().await;
    let after = bench.done("GET", path, Value::Null).await;
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["metadata"]["labels"], before["metadata"]["labels"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
}

#[tokio::test(start_paused = true)]
async fn component_statuses_are_an_empty_list() {
    let bench = Bench::new().await;
    let path = "/api/v1/componentstatuses";
    let request = Request::get(path).extension(Identity::admin());
    let response = bench.respond(request.body(Body::empty()).unwrap()).await;
    assert_eq!(
        response.headers()["warning"],
        "299 - \"v1 ComponentStatus is deprecated in v1.19+\""
    );
    let list = bench.done("GET", path, Value::Null).await;
    assert_eq!(
        (&list["kind"], &list["items"]),
        (&json!("ComponentStatusList"), &json!([]))
    );
    for (method, path, expected) in [
        ("GET", format!("{path}/etcd-0"), 404),
        ("POST", path.to_owned(), 405),
        ("DELETE", path.to_owned(), 405),
    ] {
        let (status, answer) = bench.ask(method, &path, &json!({})).await;
        assert_eq!(status, expected, "{method} {path}: {answer}");
    }
}
