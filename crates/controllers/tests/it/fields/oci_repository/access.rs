//! Credentials, certificates, proxies.

use equate_testkit::git::Proxy;
use equate_testkit::registry::{RegistryGuard, RegistryOptions};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{Api, ListParams};
use serde_json::json;

use super::Registry;
use crate::session::Options;

fn token() -> RegistryGuard {
    RegistryGuard::Token("me".to_owned(), "s3cret".to_owned())
}

impl Registry {
    /// None of these texts is in the status or in an event.
    async fn never_said(&self, name: &str, words: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.session.client.clone(), &self.session.home);
        let events = events.list(&ListParams::default()).await.unwrap();
        let object = self.session.look("OCIRepository", "@home", name).await;
        let said = format!("{:?} {}", events.items, object["status"]);
        for word in words {
            assert!(!said.contains(word), "{word}: {said}");
        }
    }
}

/// First none, then wrong ones, then the right ones.
#[tokio::test]
async fn spec_secret_ref_name() {
    for guard in [
        token(),
        RegistryGuard::Basic("me".to_owned(), "s3cret".to_owned()),
    ] {
        let registry = Registry::guarded(guard).await;
        let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
        registry.source("app", json!({})).await;
        registry
            .says("app", "OCIArtifactPullFailed", "requires credentials")
            .await;
        let spec = json!({ "secretRef": { "name": "credentials" } });
        registry.change("app", spec).await;
        let absent = "failed to get credential: failed to get secret '@home/credentials': \
                      secrets \"credentials\" not found";
        registry.says("app", "AuthenticationFailed", absent).await;
        registry.docker_secret("credentials", "me", "wr0ng").await;
        registry.ask("app", "wrong").await;
        registry.says("app", "OCIArtifactPullFailed", "credentials").await;
        registry.never_said("app", &["wr0ng"]).await;
        registry.docker_secret("right", "me", "s3cret").await;
        registry
            .change("app", json!({ "secretRef": { "name": "right" } }))
            .await;
        registry.stored("app", &digest).await;
        registry.never_said("app", &["s3cret"]).await;
        registry.session.end().await;
    }
}

/// The pull secrets of a ServiceAccount.
#[tokio::test]
async fn spec_service_account_name() {
    let registry = Registry::guarded(token()).await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry
        .source("app", json!({ "serviceAccountName": "puller" }))
        .await;
    let absent = "serviceaccount '@home/puller' not found";
    registry.says("app", "AuthenticationFailed", absent).await;
    let more = json!({ "imagePullSecrets": [{ "name": "pull" }] });
    let account = super::super::manifest("ServiceAccount", "puller", more);
    registry
        .session
        .create(serde_json::from_str(&account).unwrap())
        .await;
    registry.ask("app", "account").await;
    let absent = "failed to get image pull secret for serviceaccount '@home/puller': \
                  secret '@home/pull' not found";
    registry.says("app", "AuthenticationFailed", absent).await;
    registry.docker_secret("pull", "me", "s3cret").await;
    registry.ask("app", "secret").await;
    registry.stored("app", &digest).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_cert_secret_ref_name() {
    let registry = Registry::guarded(RegistryGuard::Certificate).await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({})).await;
    registry.says("app", "OCIArtifactPullFailed", "certificate").await;
    let client = registry.server.client().unwrap().clone();
    let half = json!({ "ca.crt": registry.server.certificate().unwrap(), "tls.crt": client.certificate });
    registry.secret("tls", half).await;
    registry
        .change("app", json!({ "certSecretRef": { "name": "tls" } }))
        .await;
    let missing = "secret '@home/tls' contains 'tls.crt' but missing 'tls.key'";
    registry.says("app", "AuthenticationFailed", missing).await;
    let whole = json!({ "stringData": { "tls.key": client.key } });
    registry.session.merge::<Secret>("@home", "tls", whole).await;
    registry.ask("app", "whole").await;
    registry.stored("app", &digest).await;
    registry.never_said("app", &["PRIVATE KEY"]).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_proxy_secret_ref_name() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    let proxy = Proxy::to(&registry.server.authority(), "p", "q").unwrap();
    registry.secret("proxy", json!({ "address": "ftp://p" })).await;
    registry
        .source("app", json!({ "proxySecretRef": { "name": "proxy" } }))
        .await;
    let wrong = "failed to get proxy address: secret '@home/proxy': proxy URL must use one of the supported";
    registry.says("app", "AuthenticationFailed", wrong).await;
    let right = json!({ "stringData": { "address": proxy.url(), "username": "p", "password": "q" } });
    registry.session.merge::<Secret>("@home", "proxy", right).await;
    registry.ask("app", "right").await;
    registry.stored("app", &digest).await;
    assert!(!proxy.heads().is_empty());
    registry.session.end().await;
}

/// Without it, a certificate of nobody is refused.
#[tokio::test]
async fn spec_insecure() {
    let options = RegistryOptions {
        tls: true,
        ..RegistryOptions::default()
    };
    let registry = Registry::with(options, Options::default()).await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({})).await;
    registry.says("app", "OCIArtifactPullFailed", "not trusted").await;
    registry.change("app", json!({ "insecure": true })).await;
    registry.stored("app", &digest).await;
    registry.session.end().await;
}

#[tokio::test]
async fn spec_provider_generic() {
    let registry = Registry::open().await;
    let digest = registry.push("v1", &[("a.yaml", "a: 1\n")]);
    registry.source("app", json!({ "provider": "generic" })).await;
    registry.stored("app", &digest).await;
    for provider in ["aws", "azure", "gcp"] {
        registry.change("app", json!({ "provider": provider })).await;
        let text = format!("spec.provider {provider} is not supported yet");
        registry.says("app", "Unsupported", &text).await;
    }
    registry.session.end().await;
}
