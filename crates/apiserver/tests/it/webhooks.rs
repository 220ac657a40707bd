//! Admission webhooks by URL, against a server in this process.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_apiserver::EmbeddedCluster;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::ServiceExt as _;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// A webhook server on a free port, and the questions that it got.
struct Hooks {
    url: String,
    bundle: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Hooks {
    async fn start(answer: fn(&Value) -> Value) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!(
            "https://localhost:{}/admit",
            listener.local_addr().unwrap().port()
        );
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let router = Router::new().fallback(move |request: Request<Body>| async move {
            assert_eq!(request.uri().path(), "/admit");
            let bytes = request.into_body().collect().await.unwrap().to_bytes();
            let review: Value = serde_json::from_slice(&bytes).unwrap();
            let question = review["request"].clone();
            let mut response = answer(&question);
            response["uid"] = question["uid"].clone();
            seen.lock().unwrap().push(question);
            json!({ "apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response })
                .to_string()
        });
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (acceptor, router) = (acceptor.clone(), router.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let service = TowerToHyperService::new(router);
                    let builder = auto::Builder::new(TokioExecutor::new());
                    builder.serve_connection(TokioIo::new(stream), service).await.ok();
                });
            }
        });
        Self {
            url,
            bundle: STANDARD.encode(made.cert.pem()),
            asked,
        }
    }

    fn client(&self) -> Value {
        json!({ "url": self.url, "caBundle": self.bundle })
    }
}

pub(crate) async fn ask(
    cluster: &EmbeddedCluster,
    method: &str,
    path: &str,
    body: &Value,
) -> (StatusCode, Value, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(
            "authorization",
            format!("Bearer {}", cluster.admin_token().expose()),
        )
        .header("content-type", "application/json")
        .body(Body::from(body.to_string()))
        .unwrap();
    let (head, body) = cluster.router().oneshot(request).await.unwrap().into_parts();
    let warning = head.headers.get(header::WARNING);
    let warning = warning
        .map(|value| value.to_str().unwrap().to_owned())
        .unwrap_or_default();
    let bytes = body.collect().await.unwrap().to_bytes();
    (
        head.status,
        serde_json::from_slice(&bytes).unwrap_or_default(),
        warning,
    )
}

fn config_map(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "data": { "a": "b" } })
}

/// Creates a configuration with one webhook for ConfigMaps; the answer's warning.
async fn configure(cluster: &EmbeddedCluster, kind: &str, client: Value, more: Value) -> String {
    let mut webhook = json!({
        "name": "hook.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": client,
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
            "operations": ["CREATE", "UPDATE", "DELETE"],
        }],
    });
    for (key, value) in more.as_object().unwrap() {
        webhook[key] = value.clone();
    }
    let body = json!({ "metadata": { "name": "hooks" }, "webhooks": [webhook] });
    let path = format!("{GROUP}/{kind}webhookconfigurations");
    let (status, answer, warning) = ask(cluster, "POST", &path, &body).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    warning
}

#[tokio::test]
async fn validating_webhook_denies_and_warns() {
    let hooks = Hooks::start(|question| match question["name"].as_str() {
        Some("bad") => json!({ "allowed": false, "status": { "code": 403, "message": "bad name" } }),
        _ => json!({ "allowed": true, "warnings": ["watch out"] }),
    })
    .await;
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let conditions =
        json!({ "matchConditions": [{ "name": "seen", "expression": "request.name != 'unseen'" }] });
    let warning = configure(&cluster, "validating", hooks.client(), conditions).await;
    assert_eq!(warning, "");
    assert!(cluster.skipped_webhooks().is_empty());
    let (status, answer, _) = ask(&cluster, "POST", CONFIG_MAPS, &config_map("bad")).await;
    assert_eq!(status, StatusCode::FORBIDDEN, "{answer}");
    assert_eq!(
        answer["message"],
        "admission webhook \"hook.example.com\" denied the request: bad name"
    );
    let (status, answer, warning) = ask(&cluster, "POST", CONFIG_MAPS, &config_map("good")).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(warning, "299 - \"watch out\"");
    let (status, _, warning) = ask(&cluster, "POST", CONFIG_MAPS, &config_map("unseen")).await;
    assert_eq!((status, warning.as_str()), (StatusCode::CREATED, ""));
    let (status, ..) = ask(&cluster, "DELETE", &format!("{CONFIG_MAPS}/good"), &json!({})).await;
    assert_eq!(status, StatusCode::OK);
    let asked = hooks.asked.lock().unwrap();
    // controllers create ConfigMaps too
    let asked: Vec<&Value> = asked
        .iter()
        .filter(|one| one["name"] != "kube-root-ca.crt")
        .collect();
    let operations: Vec<&str> = asked.iter().filter_map(|one| one["operation"].as_str()).collect();
    assert_eq!(operations, ["CREATE", "CREATE", "DELETE"]);
    assert_eq!(asked[0]["object"]["data"], json!({ "a": "b" }));
    assert_eq!(asked[0]["userInfo"]["username"], "kubernetes-admin");
    assert_eq!(asked[2]["oldObject"]["metadata"]["name"], "good");
    assert_eq!(asked[2]["object"], Value::Null);
}

#[tokio::test]
async fn mutating_webhook_changes_the_object() {
    let hooks = Hooks::start(|_| {
        let patch = r#"[{"op":"add","path":"/metadata/labels","value":{"made":"so"}}]"#;
        json!({ "allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch) })
    })
    .await;
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    configure(&cluster, "mutating", hooks.client(), json!({})).await;
    let (status, answer, _) = ask(&cluster, "POST", CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(status, StatusCode::CREATED, "{answer}");
    assert_eq!(answer["metadata"]["labels"], json!({ "made": "so" }));
}

#[tokio::test]
async fn unreachable_webhook_counts_by_its_failure_policy() {
    let free = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let client = json!({ "url": format!("https://127.0.0.1:{}/", free.local_addr().unwrap().port()) });
    drop(free);
    for (policy, expected) in [("Fail", 500), ("Ignore", 201)] {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        configure(
            &cluster,
            "validating",
            client.clone(),
            json!({ "failurePolicy": policy }),
        )
        .await;
        let (status, answer, _) = ask(&cluster, "POST", CONFIG_MAPS, &config_map("a")).await;
        assert_eq!(status.as_u16(), expected, "{answer}");
        if policy == "Fail" {
            let message = answer["message"].as_str().unwrap();
            let prefix = "Internal error occurred: failed calling webhook \"hook.example.com\": failed to call webhook: ";
            assert!(message.starts_with(prefix), "{message}");
        }
    }
}

#[tokio::test]
async fn webhook_elsewhere_is_skipped_and_named() {
    let service = json!({ "service": { "namespace": "kyverno", "name": "svc" } });
    let remote = json!({ "url": "https://hooks.example.com/admit" });
    for (client, why) in [
        (
            service,
            "this server runs no container for the Service kyverno/svc",
        ),
        (
            remote,
            "https://hooks.example.com/admit is not on the machine of this server",
        ),
    ] {
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let warning = configure(&cluster, "validating", client, json!({})).await;
        assert_eq!(
            warning,
            format!("299 - \"webhook hook.example.com is skipped: {why}\"")
        );
        let skipped = cluster.skipped_webhooks();
        assert_eq!(
            skipped,
            [("ValidatingWebhookConfiguration/hooks".to_owned(), 1)].into()
        );
        let (status, answer, _) = ask(&cluster, "POST", CONFIG_MAPS, &config_map("a")).await;
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }
}
