//! Tokens for ServiceAccounts: issue, acceptance and expiry.

use equate_apiserver::EmbeddedCluster;
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const TOKEN: &str = "/api/v1/namespaces/default/serviceaccounts/deployer/token";

async fn ask(
    cluster: &EmbeddedCluster,
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
) -> (StatusCode, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .body(axum::body::Body::from(body.to_string()))
        .unwrap();
    let response = cluster.router().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    (head.status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn cluster() -> EmbeddedCluster {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let deployer = json!({ "metadata": { "name": "deployer" } });
    let (status, answer) = ask(
        &cluster,
        cluster.admin_token().expose(),
        "POST",
        ACCOUNTS,
        &deployer,
    )
    .await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    cluster
}

async fn request(cluster: &EmbeddedCluster, spec: Value) -> (StatusCode, Value) {
    let request = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec });
    ask(cluster, cluster.admin_token().expose(), "POST", TOKEN, &request).await
}

async fn who(cluster: &EmbeddedCluster, token: &str) -> String {
    let (status, answer) = ask(cluster, token, "GET", "/api/v1/secrets", &Value::Null).await;
    match status {
        StatusCode::FORBIDDEN => {
            let message = answer["message"].as_str().unwrap();
            message.split('"').nth(1).unwrap().to_owned()
        }
        status => status.as_u16().to_string(),
    }
}

#[tokio::test]
async fn token_authenticates_for_its_audience_only() {
    let (one, other) = (cluster().await, cluster().await);
    let trusting = EmbeddedCluster::builder().trusting(&one).build().await.unwrap();
    let (status, given) = request(&one, json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{given}");
    assert_eq!(given["spec"]["expirationSeconds"], 3600);
    assert_eq!(
        given["spec"]["audiences"],
        json!(["https://kubernetes.default.svc"])
    );
    let token = given["status"]["token"].as_str().unwrap();
    let deployer = "system:serviceaccount:default:deployer";
    assert_eq!(who(&one, token).await, deployer);
    assert_eq!(who(&trusting, token).await, deployer);
    assert_eq!(who(&other, token).await, "401");
    // for another audience
    let (_, given) = request(&one, json!({ "audiences": ["vault"] })).await;
    assert_eq!(who(&one, given["status"]["token"].as_str().unwrap()).await, "401");
    // an account of the same name but another uid
    let admin = one.admin_token().expose();
    ask(
        &one,
        admin,
        "DELETE",
        &format!("{ACCOUNTS}/deployer"),
        &Value::Null,
    )
    .await;
    assert_eq!(who(&one, token).await, "401");
    ask(
        &one,
        admin,
        "POST",
        ACCOUNTS,
        &json!({ "metadata": { "name": "deployer" } }),
    )
    .await;
    assert_eq!(who(&one, token).await, "401");
}

#[tokio::test]
async fn refused_token_requests_name_the_cause() {
    let cluster = cluster().await;
    let check = async |spec: Value, code: u16, expected: &str| {
        let (status, answer) = request(&cluster, spec).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(status.as_u16(), code, "{answer}");
        assert!(message.contains(expected), "{message}");
    };
    let short = "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes";
    check(json!({ "expirationSeconds": 599 }), 422, short).await;
    let bound = |kind: &str, version: &str| json!({ "boundObjectRef": { "kind": kind, "apiVersion": version, "name": "a" } });
    check(bound("Pod", "v1"), 404, "pods \"a\" not found").await;
    let why = "cannot bind token to object of type /v1, Kind=ConfigMap";
    check(bound("ConfigMap", "v1"), 400, why).await;
    let why = "cannot bind token to object of type apps/v1, Kind=Pod";
    check(bound("Pod", "apps/v1"), 400, why).await;
    let (status, answer) = ask(
        &cluster,
        cluster.admin_token().expose(),
        "POST",
        &TOKEN.replace("deployer", "nobody"),
        &json!({ "spec": {} }),
    )
    .await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    let (_, given) = request(&cluster, json!({})).await;
    let token = given["status"]["token"].as_str().unwrap().to_owned();
    let (status, answer) = ask(&cluster, &token, "POST", TOKEN, &json!({ "spec": {} })).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert!(
        answer["message"]
            .as_str()
            .unwrap()
            .contains("serviceaccounts/token"),
        "{answer}"
    );
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn bound_token_ends_with_its_object() {
    let cluster = cluster().await;
    let admin = cluster.admin_token().expose();
    let pod = |account: &str| {
        json!({
            "metadata": { "name": account },
            "spec": { "serviceAccountName": account, "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] },
        })
    };
    let account = json!({ "metadata": { "name": "other" } });
    ask(&cluster, admin, "POST", ACCOUNTS, &account).await;
    for account in ["deployer", "other"] {
        let (status, answer) = ask(&cluster, admin, "POST", PODS, &pod(account)).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
    let of = |name: &str, uid: &str| json!({ "boundObjectRef": { "kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid } });
    let (status, answer) = request(&cluster, of("other", "")).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
    let (status, answer) = request(&cluster, of("deployer", "other")).await;
    assert_eq!(status, StatusCode::CONFLICT, "{answer}");
    let (status, given) = request(&cluster, of("deployer", "")).await;
    assert_eq!(status, StatusCode::CREATED, "{given}");
    let token = given["status"]["token"].as_str().unwrap();
    let review = json!({ "spec": { "token": token } });
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let (_, answer) = ask(&cluster, admin, "POST", path, &review).await;
    let user = &answer["status"]["user"];
    assert_eq!(user["username"], "system:serviceaccount:default:deployer");
    let extra = &user["extra"];
    assert_eq!(
        extra["authentication.kubernetes.io/pod-name"],
        json!(["deployer"])
    );
    assert_eq!(extra["authentication.kubernetes.io/node-name"], json!(["n"]));
    let now = json!({ "gracePeriodSeconds": 0 });
    ask(&cluster, admin, "DELETE", &format!("{PODS}/deployer"), &now).await;
    assert_eq!(who(&cluster, token).await, "401");
}

/// An OIDC client checks a token with what the server publishes.
#[tokio::test]
async fn issuer_is_discoverable() {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let cluster = cluster().await;
    let (_, given) = request(&cluster, json!({ "audiences": ["vault"] })).await;
    let token = given["status"]["token"].as_str().unwrap();
    // every ServiceAccount may read the keys
    let (_, reader) = request(&cluster, json!({})).await;
    let reader = reader["status"]["token"].as_str().unwrap();
    let (status, found) = ask(
        &cluster,
        reader,
        "GET",
        "/.well-known/openid-configuration",
        &Value::Null,
    )
    .await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_eq!(found["issuer"], "https://kubernetes.default.svc");
    assert!(found["jwks_uri"].as_str().unwrap().ends_with("/openid/v1/jwks"));
    let (_, keys) = ask(&cluster, reader, "GET", "/openid/v1/jwks", &Value::Null).await;
    let part = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    let header: Value = serde_json::from_slice(&part(parts[0])).unwrap();
    let claims: Value = serde_json::from_slice(&part(parts[1])).unwrap();
    assert_eq!(claims["iss"], found["issuer"]);
    assert_eq!(claims["sub"], "system:serviceaccount:default:deployer");
    assert_eq!(claims["aud"], json!(["vault"]));
    let key = &keys["keys"][0];
    assert_eq!((&header["kid"], &header["alg"]), (&key["kid"], &key["alg"]));
    let point = [
        vec![4],
        part(key["x"].as_str().unwrap()),
        part(key["y"].as_str().unwrap()),
    ]
    .concat();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point)
        .verify(format!("{}.{}", parts[0], parts[1]).as_bytes(), &part(parts[2]))
        .unwrap();
}
