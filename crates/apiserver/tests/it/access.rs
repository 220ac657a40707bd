//! Access checks where path, query and body disagree.

use super::lifecycle::{Bench, settle};
use equate_apiserver::Identity;
use serde_json::{Value, json};

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/g";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/g/leases/l";
const PODS: &str = "/api/v1/namespaces/g/pods";

fn zed() -> Identity {
    Identity::user("zed", ["system:authenticated"])
}

/// A namespace with two Secrets and a pod, and a user `zed` who has these rules there.
async fn bench(rules: Value) -> Bench {
    let bench = Bench::new().await;
    for (path, body) in [
        (
            "/api/v1/namespaces".to_owned(),
            json!({ "metadata": { "name": "g" } }),
        ),
        (
            "/api/v1/namespaces/g/secrets".to_owned(),
            json!({ "metadata": { "name": "mine" } }),
        ),
        (
            "/api/v1/namespaces/g/secrets".to_owned(),
            json!({ "metadata": { "name": "other" } }),
        ),
        (
            PODS.to_owned(),
            json!({
                "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] },
            }),
        ),
        (
            format!("{ROLES}/roles"),
            json!({ "metadata": { "name": "r" }, "rules": rules }),
        ),
        (
            format!("{ROLES}/rolebindings"),
            json!({
                "metadata": { "name": "r" },
                "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r" },
                "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "zed" }],
            }),
        ),
    ] {
        bench.done("POST", &path, body).await;
        // The pod needs the namespace's ServiceAccount, which a controller creates.
        settle().await;
    }
    bench
}

#[tokio::test(start_paused = true)]
async fn right_is_limited_to_its_name() {
    let rules = json!([
        { "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"], "verbs": ["get", "watch"] },
        { "apiGroups": [""], "resources": ["pods/status"], "verbs": ["get", "watch"] },
    ]);
    let bench = bench(rules).await;
    let check = async |path: &str, want: &str| {
        let (status, answer) = bench.ask_as(zed(), "GET", path, &Value::Null).await;
        let got = match status.as_u16() {
            200 if answer["kind"].is_string() => format!("{} {}", answer["kind"], answer["metadata"]["name"]),
            200 => "a stream".to_owned(),
            code => code.to_string(),
        };
        assert_eq!(got.replace('"', ""), want, "{path}: {answer}");
    };
    // A path with a name is a get, whatever the query asks for.
    check(
        "/api/v1/namespaces/g/secrets/mine?watch=true&timeoutSeconds=1",
        "Secret mine",
    )
    .await;
    check(
        "/api/v1/namespaces/g/secrets/mine/?watch=true&timeoutSeconds=1",
        "Secret mine",
    )
    .await;
    check(
        "/api/v1/namespaces/g/secrets//mine?watch=true&timeoutSeconds=1",
        "Secret mine",
    )
    .await;
    check(
        "/api/v1/namespaces/g/pods/p/status?watch=true&timeoutSeconds=1",
        "Pod p",
    )
    .await;
    check(
        "/api/v1/namespaces/g/secrets/other?watch=true&timeoutSeconds=1",
        "403",
    )
    .await;
    check("/api/v1/namespaces/g/secrets?watch=true&timeoutSeconds=1", "403").await;
}

#[tokio::test(start_paused = true)]
async fn right_is_limited_to_its_namespace() {
    let everything = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }]);
    let bench = bench(everything).await;
    bench
        .done(
            "POST",
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "h" } }),
        )
        .await;
    let check = async |method: &str, path: &str, want: u16| {
        let (status, answer) = bench.ask_as(zed(), method, path, &Value::Null).await;
        assert_eq!(status.as_u16(), want, "{method} {path}: {answer}");
    };
    check("GET", "/api/v1/namespaces/g", 200).await;
    check("GET", "/api/v1/namespaces/h", 403).await;
    for name in ["", "/g", "/h", "?fieldSelector=metadata.name%3Dg"] {
        let path = format!("/api/v1/namespaces/g/namespaces{name}");
        check("GET", &path, if name == "/g" { 200 } else { 404 }).await;
    }
    check("DELETE", "/api/v1/namespaces/g/namespaces/h", 404).await;
    check("GET", "/api/v1/namespaces/g/nodes", 404).await;
}

#[tokio::test(start_paused = true)]
async fn update_right_does_not_allow_create() {
    let leases = |verbs: &[&str]| json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": verbs }]);
    let check = async |verbs: &[&str], want: u16| {
        let bench = bench(leases(verbs)).await;
        let lease = json!({ "metadata": { "name": "l" } });
        let (status, answer) = bench.ask_as(zed(), "PUT", LEASE, &lease).await;
        assert_eq!(status.as_u16(), want, "{verbs:?}: {answer}");
        if want == 403 {
            assert_eq!(
                answer["message"],
                "leases.coordination.k8s.io \"l\" is forbidden: User \"zed\" cannot create resource \"leases\" in API group \"coordination.k8s.io\" in the namespace \"g\""
            );
        }
    };
    check(&["get", "update"], 403).await;
    check(&["get", "update", "create"], 201).await;
}

#[tokio::test(start_paused = true)]
async fn malformed_delete_options_delete_nothing() {
    let bench = bench(json!([])).await;
    let pod = format!("{PODS}/p");
    let eviction = format!("{pod}/eviction");
    let check = async |method: &str, path: &str, body: Value, want: u16, message: &str| {
        let (status, answer) = bench.ask_as(Identity::admin(), method, path, &body).await;
        assert_eq!(status.as_u16(), want, "{method} {path} {body}: {answer}");
        assert_eq!(
            answer["message"].as_str().unwrap_or_default(),
            message,
            "{method} {path} {body}"
        );
        let left = bench.done("GET", &pod, Value::Null).await;
        assert!(
            left["metadata"].get("deletionTimestamp").is_none() && left["status"].get("conditions").is_none(),
            "{method} {path} {body}: {left}"
        );
    };
    for (body, message) in [
        (
            json!({ "dryRun": "All" }),
            "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
        ),
        (
            json!({ "preconditions": { "uid": 5 } }),
            "json: cannot unmarshal number into Go struct field Preconditions.preconditions.uid of type types.UID",
        ),
        (
            json!({ "gracePeriodSeconds": "x" }),
            "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
        ),
    ] {
        check("DELETE", &pod, body.clone(), 400, message).await;
        check("DELETE", PODS, body, 400, message).await;
    }
    let named = |name: &str| json!({ "metadata": { "name": name } });
    let other = "name in URL does not match name in Eviction object";
    check("POST", &eviction, named("other"), 400, other).await;
    check("POST", &format!("{eviction}?dryRun=All"), named("p"), 201, "").await;
    let dry = json!({ "metadata": { "name": "p" }, "deleteOptions": { "dryRun": ["All"] } });
    check("POST", &eviction, dry, 201, "").await;
}

#[tokio::test(start_paused = true)]
async fn longest_timeout_is_accepted() {
    let bench = bench(json!([])).await;
    let path = format!("{PODS}?watch=true&timeoutSeconds={}", i64::MAX);
    // The clock is paused: it ends at once, after a year.
    let (status, answer) = bench.ask_as(Identity::admin(), "GET", &path, &Value::Null).await;
    assert_eq!(status.as_u16(), 200, "{answer}");
    assert_eq!(answer["type"], "ADDED");
}

#[tokio::test(start_paused = true)]
async fn odd_revisions_and_selectors() {
    let bench = bench(json!([])).await;
    let check = async |path: &str, want: u16, message: &str| {
        let (status, answer) = bench.ask_as(Identity::admin(), "GET", path, &Value::Null).await;
        assert_eq!(status.as_u16(), want, "{path}: {answer}");
        assert_eq!(answer["message"], message, "{path}");
    };
    const NO_NUMBER: &str =
        "resourceVersion: Invalid value: \"x\": strconv.ParseUint: parsing \"x\": invalid syntax";
    check(&format!("{PODS}/p?resourceVersion=x"), 500, NO_NUMBER).await;
    check(&format!("{PODS}?watch=1&resourceVersion=x"), 500, NO_NUMBER).await;
    let in_list = format!("invalid resource version: {NO_NUMBER}");
    check(&format!("{PODS}?resourceVersion=x"), 400, &in_list).await;
    check(
        &format!("{PODS}?labelSelector=a%20in"),
        400,
        "unable to parse requirement: found '' expected: '('",
    )
    .await;
    let path = "/api/v1/namespaces/g/configmaps";
    let large = json!({ "metadata": { "name": "large" }, "data": { "a": "x".repeat(1 << 21) } });
    let (_, answer) = bench.ask_as(Identity::admin(), "POST", path, &large).await;
    assert_eq!(
        answer["message"],
        "ConfigMap \"large\" is invalid: []: Too long: may not be more than 1048576 bytes"
    );
    for (revision, want) in [("0", 201), ("abc", 201), ("5", 500)] {
        let body = json!({ "metadata": { "name": format!("at-{revision}"), "resourceVersion": revision } });
        let (status, answer) = bench.ask_as(Identity::admin(), "POST", path, &body).await;
        assert_eq!(status.as_u16(), want, "{revision}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn patch_cannot_change_the_kind() {
    let bench = bench(json!([])).await;
    let secret = "/api/v1/namespaces/g/secrets/mine";
    let check = async |patch: Value, want: u16, says: &str| {
        let (status, answer) = bench.ask_as(Identity::admin(), "PATCH", secret, &patch).await;
        assert_eq!(status.as_u16(), want, "{patch}: {answer}");
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(message.ends_with(says), "{patch}: {message}");
        let left = bench.done("GET", secret, Value::Null).await;
        assert_eq!(
            (&left["kind"], &left["apiVersion"]),
            (&json!("Secret"), &json!("v1")),
            "{patch}"
        );
    };
    check(
        json!({ "kind": "ConfigMap" }),
        422,
        ": converting (v1.ConfigMap) to (core.Secret): unknown conversion",
    )
    .await;
    check(
        json!({ "apiVersion": "v2" }),
        422,
        ": no kind \"Secret\" is registered for version \"v2\"",
    )
    .await;
    check(json!({ "kind": null }), 200, "").await;
    check(
        json!({ "metadata": null }),
        400,
        "the name of the object (mine based on URL) was undeterminable: name must be provided",
    )
    .await;
}

/// With a journal a commit takes a while, in which others choose their addresses.
#[tokio::test]
async fn no_two_services_get_one_address() {
    let directory = tempfile::tempdir().unwrap();
    let builder = equate_apiserver::EmbeddedCluster::builder();
    let cluster = builder
        .journal(directory.path().join("journal"))
        .build()
        .await
        .unwrap();
    let client = cluster.client();
    let services = "/api/v1/namespaces/default/services";
    let create = async |i: usize| {
        let body = json!({
            "metadata": { "name": format!("s{i}") },
            "spec": { "type": "NodePort", "ports": [{ "port": 80 }] },
        });
        let request = http::Request::post(services).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).unwrap();
        let made: Value = client.request(request).await.unwrap();
        let spec = &made["spec"];
        (
            spec["clusterIP"].to_string(),
            spec["ports"][0]["nodePort"].to_string(),
        )
    };
    const COUNT: usize = 24;
    let made = futures::future::join_all((0..COUNT).map(create)).await;
    let addresses: std::collections::BTreeSet<_> = made.iter().map(|(address, _)| address).collect();
    let ports: std::collections::BTreeSet<_> = made.iter().map(|(_, port)| port).collect();
    assert_eq!((addresses.len(), ports.len()), (COUNT, COUNT), "{made:?}");
}

#[tokio::test(start_paused = true)]
async fn reviews_say_who_may_do_what() {
    let rules = json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": ["get"] }]);
    let bench = bench(rules).await;
    let group = |group: &str| format!("/apis/{group}.k8s.io/v1");
    let authorization = group("authorization");
    let ask = async |who: Identity, path: String, body: Value| {
        let (status, answer) = bench.ask_as(who, "POST", &path, &body).await;
        assert_eq!(status.as_u16(), 201, "{path}: {answer}");
        answer
    };
    let pods = |verb: &str| json!({ "namespace": "g", "verb": verb, "resource": "pods" });
    let own = format!("{authorization}/selfsubjectaccessreviews");
    let asked = json!({ "spec": { "resourceAttributes": pods("get") } });
    let answer = ask(zed(), own.clone(), asked).await;
    assert_eq!(answer["kind"], "SelfSubjectAccessReview");
    assert_eq!(answer["spec"]["resourceAttributes"]["verb"], "get");
    let reason = r#"RBAC: allowed by RoleBinding "r/g" of Role "r" to User "zed""#;
    assert_eq!(answer["status"], json!({ "allowed": true, "reason": reason }));
    let asked = json!({ "spec": { "resourceAttributes": pods("delete") } });
    assert_eq!(
        ask(zed(), own.clone(), asked).await["status"],
        json!({ "allowed": false })
    );

    let others = format!("{authorization}/subjectaccessreviews");
    let asked = json!({ "spec": { "user": "zed", "resourceAttributes": pods("get") } });
    let answer = ask(Identity::admin(), others, asked).await;
    assert_eq!(answer["status"]["allowed"], true);
    let local = format!("{authorization}/namespaces/g/localsubjectaccessreviews");
    let asked = json!({
        "metadata": { "namespace": "g" },
        "spec": { "groups": ["devs"], "resourceAttributes": pods("get") },
    });
    let answer = ask(Identity::admin(), local, asked).await;
    assert_eq!(answer["status"]["allowed"], false);

    let listed = format!("{authorization}/selfsubjectrulesreviews");
    let answer = ask(zed(), listed, json!({ "spec": { "namespace": "g" } })).await;
    let expected = json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] });
    assert!(
        answer["status"]["resourceRules"]
            .as_array()
            .unwrap()
            .contains(&expected),
        "{answer}"
    );
    assert_eq!(answer["status"]["incomplete"], false);

    let whoami = format!("{}/selfsubjectreviews", group("authentication"));
    let answer = ask(zed(), whoami, json!({})).await;
    assert_eq!(
        answer["status"]["userInfo"],
        json!({ "username": "zed", "groups": ["system:authenticated"] })
    );

    let token = bench
        .ask_as(
            Identity::admin(),
            "POST",
            "/api/v1/namespaces/g/serviceaccounts/default/token",
            &json!({ "spec": {} }),
        )
        .await
        .1;
    let reviews = format!("{}/tokenreviews", group("authentication"));
    let asked = json!({ "spec": { "token": token["status"]["token"] } });
    let answer = ask(Identity::admin(), reviews.clone(), asked).await;
    assert_eq!(answer["status"]["authenticated"], true, "{answer}");
    assert_eq!(
        answer["status"]["user"]["username"],
        "system:serviceaccount:g:default"
    );
    let answer = ask(
        Identity::admin(),
        reviews,
        json!({ "spec": { "token": "guessed" } }),
    )
    .await;
    assert_eq!(
        answer["status"],
        json!({ "error": "invalid bearer token", "user": {} })
    );

    let refused = json!({ "metadata": { "name": "n" }, "spec": {} });
    let (status, answer) = bench.ask_as(zed(), "POST", &own, &refused).await;
    assert_eq!(status.as_u16(), 422);
    let message = answer["message"].as_str().unwrap();
    for part in [
        "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        "metadata: Invalid value",
        "must be empty",
    ] {
        assert!(message.contains(part), "{message}");
    }
}
