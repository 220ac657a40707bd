//! As whom and by which way it is fetched, over real connections on this machine.

use equate_testkit::git::Guard;
use serde_json::json;

use crate::session::Session;

/// A repository that asks for credentials is opened with those of the Secret, and not without.
async fn opened(guard: Guard, data: serde_json::Value) {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve(guard, false).unwrap() else {
        return;
    };
    session.source("app", json!({ "url": server.url() })).await;
    session.says("app", "GitOperationFailed", "credentials").await;
    session.secret("credentials", data).await;
    session
        .change("app", json!({ "secretRef": { "name": "credentials" } }))
        .await;
    session.stored("app", &commit).await;
    session.end().await;
}

#[tokio::test]
async fn spec_secret_ref_name_basic() {
    let guard = Guard::Basic("me".to_owned(), "s3cret".to_owned());
    opened(guard, json!({ "username": "me", "password": "s3cret" })).await;
}

#[tokio::test]
async fn spec_secret_ref_name_bearer_token() {
    opened(
        Guard::Bearer("t0ken".to_owned()),
        json!({ "bearerToken": "t0ken" }),
    )
    .await;
}

#[tokio::test]
async fn spec_secret_ref_name_ca() {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve(Guard::Open, true).unwrap() else {
        return;
    };
    session.source("app", json!({ "url": server.url() })).await;
    session.says("app", "GitOperationFailed", "certificate").await;
    session
        .secret("ca", json!({ "ca.crt": server.certificate().unwrap() }))
        .await;
    session
        .change("app", json!({ "secretRef": { "name": "ca" } }))
        .await;
    session.stored("app", &commit).await;
    session.end().await;
}

#[tokio::test]
async fn spec_secret_ref_name_that_is_not_there() {
    let session = Session::anywhere(&[]).await;
    session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let spec = json!({ "url": "https://127.0.0.1:1/x", "secretRef": { "name": "absent" } });
    session.source("app", spec).await;
    session.says("app", "AuthenticationFailed", "@home/absent").await;
    session.end().await;
}

/// A proxy that is not there: the repository is asked for through it, and not beside it.
#[tokio::test]
async fn spec_proxy_secret_ref_name() {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    session
        .secret("proxy", json!({ "address": "http://127.0.0.1:1" }))
        .await;
    let spec = json!({ "url": server.url(), "proxySecretRef": { "name": "proxy" } });
    session.source("app", spec).await;
    session.says("app", "GitOperationFailed", "no connection").await;
    session.change("app", json!({ "proxySecretRef": null })).await;
    session.stored("app", &commit).await;
    session.end().await;
}

#[tokio::test]
async fn spec_provider_generic() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.source("app", json!({ "provider": "generic" })).await;
    session.stored("app", &commit).await;
    session.end().await;
}

/// Without the Secret of an app nothing is asked for.
#[tokio::test]
async fn spec_provider_github_without_an_app_is_refused() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let spec = json!({ "url": "https://127.0.0.1:1/x", "provider": "github" });
    session.source("app", spec).await;
    session
        .says("app", "InvalidProviderConfiguration", "github app data")
        .await;
    session.end().await;
}
