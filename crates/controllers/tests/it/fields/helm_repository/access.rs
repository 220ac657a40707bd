//! Credentials, certificates and registries.

use equate_testkit::registry::{RegistryGuard, RegistryOptions, RegistryServer};
use equate_testkit::web::{WebOptions, WebServer};
use serde_json::{Value, json};

use super::{Charts, KIND, LAYER, chart, pulled, start};
use crate::fields::objects::{index, packed};
use crate::session::{Options, Session};

fn login() -> Option<(String, String)> {
    Some(("me".to_owned(), "s3cret".to_owned()))
}

/// First none, then incomplete ones, then wrong ones, then the right ones.
#[tokio::test]
async fn spec_secret_ref_name() {
    let web = WebOptions {
        login: login(),
        ..WebOptions::default()
    };
    let charts = Charts::with(web, Options::default()).await;
    let revision = charts.publish(&["1.0.0"]);
    charts.source("app", json!({})).await;
    let session = &charts.session;
    session.reports(KIND, "app", "Failed", "401 Unauthorized").await;
    session
        .respec(KIND, "app", json!({ "secretRef": { "name": "login" } }))
        .await;
    let absent = "failed to get authentication secret '@home/login': secrets \"login\" not found";
    session.reports(KIND, "app", "AuthenticationFailed", absent).await;
    session.conceal("login", json!({ "username": "me" })).await;
    session.demand(KIND, "app", "half").await;
    let half = "malformed basic auth - has 'username' but missing 'password'";
    session.reports(KIND, "app", "AuthenticationFailed", half).await;
    let wrong = json!({ "stringData": { "password": "wr0ng" } });
    session.set("Secret", "login", wrong).await;
    session.demand(KIND, "app", "wrong").await;
    session.reports(KIND, "app", "Failed", "401 Unauthorized").await;
    let right = json!({ "stringData": { "password": "s3cret" } });
    session.set("Secret", "login", right).await;
    session.demand(KIND, "app", "right").await;
    charts.stored("app", &revision).await;
    // charts are pulled with it, too
    chart(session, "app", "app").await;
    pulled(session, "app").await;
    session.conceals(KIND, "app", &["wr0ng", "s3cret"]).await;
    charts.session.end().await;
}

#[tokio::test]
async fn spec_cert_secret_ref_name() {
    let web = WebOptions {
        tls: true,
        ..WebOptions::default()
    };
    let charts = Charts::with(web, Options::default()).await;
    let revision = charts.publish(&["1.0.0"]);
    charts.source("app", json!({})).await;
    let session = &charts.session;
    session.reports(KIND, "app", "Failed", "certificate").await;
    session
        .conceal("tls", json!({ "ca.crt": charts.server.certificate().unwrap() }))
        .await;
    session
        .respec(KIND, "app", json!({ "certSecretRef": { "name": "tls" } }))
        .await;
    charts.stored("app", &revision).await;
    chart(session, "app", "app").await;
    pulled(session, "app").await;
    charts.session.end().await;
}

/// A server that requires a client certificate.
#[tokio::test]
async fn spec_cert_secret_ref_name_client_certificate() {
    let web = WebOptions {
        clients: true,
        ..WebOptions::default()
    };
    let charts = Charts::with(web, Options::default()).await;
    let revision = charts.publish(&["1.0.0"]);
    let client = charts.server.client().unwrap().clone();
    let session = &charts.session;
    session
        .conceal("tls", json!({ "tls.crt": client.certificate }))
        .await;
    charts
        .source("app", json!({ "certSecretRef": { "name": "tls" } }))
        .await;
    let half = "must contain either 'ca.crt' or both 'tls.crt' and 'tls.key'";
    session.reports(KIND, "app", "AuthenticationFailed", half).await;
    let whole = json!({ "ca.crt": charts.server.certificate().unwrap(), "tls.key": client.key });
    session.set("Secret", "tls", json!({ "stringData": whole })).await;
    session.demand(KIND, "app", "whole").await;
    charts.stored("app", &revision).await;
    session.conceals(KIND, "app", &["PRIVATE KEY"]).await;
    charts.session.end().await;
}

/// The credentials go to another host only if the repository says so.
#[tokio::test]
async fn spec_pass_credentials() {
    let web = WebOptions {
        login: login(),
        ..WebOptions::default()
    };
    let charts = Charts::with(web.clone(), Options::default()).await;
    let files = WebServer::start(web).unwrap();
    files.put("/app.tgz", packed("app", "1.0.0", &[]));
    let url = format!("{}/app.tgz", files.url());
    charts.server.put("/index.yaml", index(&[("app", "1.0.0", &url)]));
    let session = &charts.session;
    session
        .conceal("login", json!({ "username": "me", "password": "s3cret" }))
        .await;
    charts
        .source("app", json!({ "secretRef": { "name": "login" } }))
        .await;
    chart(session, "app", "app").await;
    let message = "failed to authenticate with the Helm repository";
    session
        .reports("HelmChart", "app", "AuthenticationFailed", message)
        .await;
    let requests = files.take();
    assert!(
        requests.iter().all(|request| request == "/app.tgz 401"),
        "{requests:?}"
    );
    session
        .respec(KIND, "app", json!({ "passCredentials": true }))
        .await;
    session.observed(KIND, "app").await;
    session.demand("HelmChart", "app", "passed").await;
    pulled(session, "app").await;
    assert!(files.take().contains(&"/app.tgz 200+".to_owned()));
    charts.session.end().await;
}

/// A session with a registry that has the chart `app`.
async fn registry(options: RegistryOptions) -> (Session, RegistryServer) {
    let session = start(Options::default()).await;
    let server = RegistryServer::start(options).unwrap();
    let bytes = packed("app", "1.0.0", &[]);
    server.artifact("charts/app", "1.0.0", &[(LAYER, &bytes)], &[]);
    (session, server)
}

async fn of_registry(session: &Session, server: &RegistryServer, more: Value) {
    let mut spec = json!({ "type": "oci", "url": format!("{}/charts", server.url()) });
    crate::fields::merge(&mut spec, &more);
    session.declare(KIND, "app", spec).await;
    chart(session, "app", "app").await;
}

/// It is static: no status, and no finalizer.
#[tokio::test]
async fn spec_type_oci() {
    let (session, server) = registry(RegistryOptions::default()).await;
    of_registry(&session, &server, json!({})).await;
    pulled(&session, "app").await;
    let object = session.look(KIND, "@home", "app").await;
    assert_eq!(object["status"]["conditions"], Value::Null);
    assert_eq!(object["metadata"]["finalizers"], Value::Null);
    session.end().await;
}

#[tokio::test]
async fn spec_secret_ref_name_docker() {
    let guard = RegistryGuard::Token("me".to_owned(), "s3cret".to_owned());
    let (session, server) = registry(RegistryOptions {
        guard,
        ..RegistryOptions::default()
    })
    .await;
    of_registry(&session, &server, json!({ "secretRef": { "name": "docker" } })).await;
    let absent = "failed to get authentication secret '@home/docker': secrets \"docker\" not found";
    session
        .reports("HelmChart", "app", "AuthenticationFailed", absent)
        .await;
    let mut auths = serde_json::Map::new();
    auths.insert(
        server.authority(),
        json!({ "username": "me", "password": "s3cret" }),
    );
    let config = json!({ ".dockerconfigjson": json!({ "auths": auths }).to_string() });
    let more = json!({ "type": "kubernetes.io/dockerconfigjson", "stringData": config });
    let secret = crate::fields::manifest("Secret", "docker", more);
    session.create(serde_json::from_str(&secret).unwrap()).await;
    session.demand("HelmChart", "app", "now").await;
    pulled(&session, "app").await;
    session.conceals("HelmChart", "app", &["s3cret"]).await;
    session.end().await;
}

/// Without it, a certificate of nobody is refused.
#[tokio::test]
async fn spec_insecure() {
    let (session, server) = registry(RegistryOptions {
        tls: true,
        ..RegistryOptions::default()
    })
    .await;
    of_registry(&session, &server, json!({})).await;
    session
        .reports("HelmChart", "app", "AuthenticationFailed", "not trusted")
        .await;
    session.respec(KIND, "app", json!({ "insecure": true })).await;
    session.demand("HelmChart", "app", "now").await;
    pulled(&session, "app").await;
    session.end().await;
}

#[tokio::test]
async fn spec_provider_generic() {
    let (session, server) = registry(RegistryOptions::default()).await;
    of_registry(&session, &server, json!({ "provider": "generic" })).await;
    pulled(&session, "app").await;
    session.end().await;
}

async fn refused(provider: &str) {
    let (session, server) = registry(RegistryOptions::default()).await;
    of_registry(&session, &server, json!({ "provider": provider })).await;
    let message = format!("spec.provider {provider} of the HelmRepository is not supported yet");
    session.refuses("HelmChart", "app", &message).await;
    session.end().await;
}

#[tokio::test]
async fn spec_provider_aws_is_refused() {
    refused("aws").await;
}

#[tokio::test]
async fn spec_provider_azure_is_refused() {
    refused("azure").await;
}

#[tokio::test]
async fn spec_provider_gcp_is_refused() {
    refused("gcp").await;
}
