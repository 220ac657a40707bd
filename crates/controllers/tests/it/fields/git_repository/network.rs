//! The credentials and the route of a fetch, over real connections on this machine.

use equate_api::source::GitRepository;
use equate_testkit::git::{GithubApi, Guard, Proxy, SocksProxy, SshKey};
use k8s_openapi::api::core::v1::{Event, Secret};
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::super::program;
use crate::session::Session;

impl Session {
    /// Requests a run of a GitRepository now.
    async fn ask(&self, name: &str, token: &str) {
        let asked = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": token } } });
        self.merge::<GitRepository>("@home", name, asked).await;
    }

    /// None of these texts is in a GitRepository's status or in an event.
    async fn never_said(&self, name: &str, words: &[&str]) {
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.home);
        let events = events.list(&ListParams::default()).await.unwrap();
        let object = self.look("GitRepository", "@home", name).await;
        let said = format!("{:?} {}", events.items, object["status"]);
        for word in words {
            assert!(!said.contains(word), "{word}: {said}");
        }
    }
}

/// A repository that requires credentials opens with those of the Secret, and not without.
async fn opened(guard: Guard, data: Value) {
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

/// A server that requires a client certificate.
#[tokio::test]
async fn spec_secret_ref_name_client_certificate() {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve(Guard::Certificate, true).unwrap() else {
        return;
    };
    let client = server.client().unwrap();
    let authority = json!({ "ca.crt": server.certificate().unwrap() });
    session.secret("tls", authority).await;
    let spec = json!({ "url": server.url(), "secretRef": { "name": "tls" } });
    session.source("app", spec).await;
    session.says("app", "GitOperationFailed", &server.url()).await;
    let half = json!({ "stringData": { "tls.crt": client.certificate } });
    session.merge::<Secret>("@home", "tls", half).await;
    session.ask("app", "half").await;
    session.says("app", "AuthenticationFailed", "tls.key").await;
    let whole = json!({ "stringData": { "tls.key": client.key } });
    session.merge::<Secret>("@home", "tls", whole).await;
    session.ask("app", "whole").await;
    session.stored("app", &commit).await;
    session.never_said("app", &["PRIVATE KEY"]).await;
    session.end().await;
}

/// A Secret for a host by ssh: first with one wrong entry, then correct.
async fn opened_by_ssh(wrong: Value, right: Value, expected: &str, session: &Session, url: &str) {
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    session.secret("key", wrong).await;
    let spec = json!({ "url": url, "secretRef": { "name": "key" } });
    session.source("app", spec).await;
    session.says("app", "GitOperationFailed", expected).await;
    session
        .merge::<Secret>("@home", "key", json!({ "stringData": right }))
        .await;
    session.ask("app", "right").await;
    session.stored("app", &commit).await;
    session.never_said("app", &["PRIVATE KEY", "open sesame"]).await;
}

/// A host is trusted by its key.
#[tokio::test]
async fn spec_secret_ref_name_ssh() {
    let session = Session::anywhere(&[]).await;
    let Some(server) = session.repository.serve_ssh().unwrap() else {
        return;
    };
    let other = format!("[127.0.0.1]:{} {}\n", server.port(), SshKey::ed25519(9).public());
    let wrong = json!({ "identity": server.identity(), "known_hosts": other });
    let right = json!({ "known_hosts": server.known_hosts() });
    let expected = "line 1 has another ssh-ed25519 key";
    opened_by_ssh(wrong, right, expected, &session, &server.url()).await;
    let asked = server.take();
    assert!(asked.iter().all(|asked| asked.user == "git"), "{asked:?}");
    session.end().await;
}

/// First a key without access, then one with access.
#[tokio::test]
async fn spec_secret_ref_name_ssh_identity() {
    let session = Session::anywhere(&[]).await;
    let Some(server) = session.repository.serve_ssh().unwrap() else {
        return;
    };
    let stranger = SshKey::ed25519(9);
    let wrong = json!({ "identity": stranger.private(), "known_hosts": server.known_hosts() });
    let right = json!({ "identity": server.identity() });
    opened_by_ssh(wrong, right, "key", &session, &server.url()).await;
    session.end().await;
}

#[tokio::test]
async fn spec_secret_ref_name_ssh_password() {
    let session = Session::anywhere(&[]).await;
    let Some(server) = session.repository.serve_ssh().unwrap() else {
        return;
    };
    let key = SshKey::ed25519(7);
    server.authorize(&key);
    let locked = key.locked("open sesame").unwrap();
    let wrong = json!({ "identity": locked, "known_hosts": server.known_hosts(), "password": "open barley" });
    let right = json!({ "password": "open sesame" });
    let expected = "the passphrase does not decrypt it";
    opened_by_ssh(wrong, right, expected, &session, &server.url()).await;
    session.end().await;
}

/// A Secret that is created later is found.
#[tokio::test]
async fn spec_secret_ref_name_that_is_not_there_yet() {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let guard = Guard::Basic("me".to_owned(), "s3cret".to_owned());
    let Some(server) = session.repository.serve(guard, false).unwrap() else {
        return;
    };
    let spec = json!({ "url": server.url(), "secretRef": { "name": "later" } });
    session.source("app", spec).await;
    session.says("app", "AuthenticationFailed", "@home/later").await;
    session
        .secret("later", json!({ "username": "me", "password": "s3cret" }))
        .await;
    session.ask("app", "now").await;
    session.stored("app", &commit).await;
    session.never_said("app", &["s3cret"]).await;
    session.end().await;
}

/// Without the proxy, the repository is not contacted directly.
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

/// A host name that only the proxy resolves, and a proxy with credentials.
#[tokio::test]
async fn spec_proxy_secret_ref_name_credentials() {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    let proxy = Proxy::start(&server, "me", "s3cret").unwrap();
    let url = "http://git.invalid/fleet.git";
    let spec = json!({ "url": url, "proxySecretRef": { "name": "proxy" } });
    session.source("app", spec).await;
    let message = "failed to configure proxy options: failed to get secret '@home/proxy'";
    session.says("app", "AuthenticationFailed", message).await;
    let wrong = json!({ "address": proxy.url(), "username": "me", "password": "wr0ng" });
    session.secret("proxy", wrong).await;
    session.ask("app", "wrong").await;
    session
        .says("app", "GitOperationFailed", "the proxy requires credentials")
        .await;
    let right = json!({ "stringData": { "password": "s3cret" } });
    session.merge::<Secret>("@home", "proxy", right).await;
    session.ask("app", "right").await;
    session.stored("app", &commit).await;
    let heads = proxy.heads();
    let asked = format!("{url}/info/refs");
    assert!(heads.iter().any(|head| head.contains(&asked)), "{heads:?}");
    session.never_said("app", &["s3cret", "wr0ng"]).await;
    session.end().await;
}

/// A host name that only the proxy resolves, over SOCKS.
#[tokio::test]
async fn spec_proxy_secret_ref_name_socks5() {
    let session = Session::anywhere(&[]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve_http().unwrap() else {
        return;
    };
    let proxy = SocksProxy::start(&server, "me", "s3cret").unwrap();
    let wrong = json!({ "address": proxy.url(), "username": "me", "password": "wr0ng" });
    session.secret("proxy", wrong).await;
    let spec = json!({ "url": "http://git.invalid/fleet.git", "proxySecretRef": { "name": "proxy" } });
    session.source("app", spec).await;
    session.says("app", "GitOperationFailed", "no connection").await;
    let right = json!({ "stringData": { "password": "s3cret" } });
    session.merge::<Secret>("@home", "proxy", right).await;
    session.ask("app", "right").await;
    session.stored("app", &commit).await;
    assert!(proxy.asked().iter().all(|place| place == "git.invalid:80"));
    session.never_said("app", &["s3cret", "wr0ng"]).await;
    session.end().await;
}

/// The same for an ssh host, over both.
#[tokio::test]
async fn spec_proxy_secret_ref_name_of_an_ssh_url() {
    let session = Session::anywhere(&[]).await;
    let mut commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve_ssh().unwrap() else {
        return;
    };
    let hosts = server.known_hosts().replace("127.0.0.1", "git.invalid");
    session
        .secret(
            "key",
            json!({ "identity": server.identity(), "known_hosts": hosts }),
        )
        .await;
    let http = Proxy::of_ssh(&server, "me", "s3cret").unwrap();
    let address = json!({ "address": http.url(), "username": "me", "password": "s3cret" });
    session.secret("proxy", address).await;
    let spec = json!({
        "url": server.url().replace("127.0.0.1", "git.invalid"),
        "secretRef": { "name": "key" },
        "proxySecretRef": { "name": "proxy" },
    });
    session.source("app", spec).await;
    session.stored("app", &commit).await;
    let socks = SocksProxy::of_ssh(&server, "me", "s3cret").unwrap();
    let address = json!({ "stringData": { "address": socks.url() } });
    session.merge::<Secret>("@home", "proxy", address).await;
    commit = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.ask("app", "socks").await;
    session.stored("app", &commit).await;
    assert!(!socks.asked().is_empty());
    session.never_said("app", &["s3cret"]).await;
    session.end().await;
}

/// A field that requires a cloud identity stalls the object, and is named.
async fn stalls(spec: Value, field: &str) {
    let session = Session::anywhere(&[]).await;
    session.source("app", spec).await;
    let status = session.says("app", "Unsupported", field).await;
    let conditions = status["conditions"].as_array().unwrap();
    let stalled = conditions.iter().find(|one| one["type"] == "Stalled");
    assert_eq!(stalled.unwrap()["status"], "True", "{status}");
    assert_eq!(status["artifact"], Value::Null);
    session.end().await;
}

#[tokio::test]
async fn spec_provider_aws_is_refused() {
    let url = "https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/fleet";
    stalls(json!({ "url": url, "provider": "aws" }), "spec.provider aws").await;
}

#[tokio::test]
async fn spec_provider_azure_is_refused() {
    let url = "https://dev.azure.com/org/project/_git/fleet";
    stalls(json!({ "url": url, "provider": "azure" }), "spec.provider azure").await;
}

/// The CRD allows it only with a cloud's provider, so the message names that.
#[tokio::test]
async fn spec_service_account_name_is_refused() {
    let spec = json!({
        "url": "https://dev.azure.com/org/project/_git/fleet",
        "provider": "azure",
        "serviceAccountName": "app",
    });
    stalls(spec, "spec.provider azure").await;
}

#[tokio::test]
async fn spec_provider_generic() {
    let session = Session::anywhere(&[("a.yaml", "a: 1\n")]).await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.source("app", json!({ "provider": "generic" })).await;
    session.stored("app", &commit).await;
    session.end().await;
}

/// The app's key requests a token of its installation, once, and the token opens the repository.
#[tokio::test]
async fn spec_provider_github() {
    let session = Session::anywhere(&[]).await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let guard = Guard::Basic("x-access-token".to_owned(), "t0ken".to_owned());
    let Some(server) = session.repository.serve(guard, false).unwrap() else {
        return;
    };
    let file = session.folder().join("app").display().to_string();
    let arguments = [
        "-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f", &file,
    ];
    if program("ssh-keygen", &arguments).is_none() {
        return;
    }
    let key = std::fs::read_to_string(file).unwrap();
    let api = GithubApi::start("t0ken").unwrap();
    let spec = json!({ "url": server.url(), "provider": "github", "secretRef": { "name": "app" } });
    let data = json!({
        "githubAppID": "12", "githubAppInstallationID": "35", "githubAppPrivateKey": key,
        "githubAppBaseURL": api.url(),
    });
    session.secret("app", data).await;
    session.source("app", spec).await;
    let refused = "the GitHub API failed to issue an installation token (HTTP 401): Integration not found";
    session.says("app", "AuthenticationFailed", refused).await;

    let owner = json!({ "githubAppInstallationID": "", "githubAppInstallationOwner": "someone" });
    session
        .merge::<Secret>("@home", "app", json!({ "stringData": owner }))
        .await;
    session.ask("app", "owner").await;
    session.stored("app", &first).await;
    let second = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    session.ask("app", "again").await;
    session.stored("app", &second).await;
    let heads = api.heads();
    let tokens = heads
        .iter()
        .filter(|head| head.contains("installations/34/access_tokens"));
    assert_eq!(tokens.count(), 1, "a token is asked for once: {heads:?}");
    // the app's JWT: three parts, for the app and for two minutes
    let jwt = heads
        .iter()
        .find_map(|head| head.lines().find_map(|line| line.split_once("Bearer ")));
    let parts = jwt.map(|(_, jwt)| jwt.trim().split('.').count());
    assert_eq!(parts, Some(3));
    session.never_said("app", &["t0ken", "PRIVATE KEY", "eyJ"]).await;
    session.end().await;
}

/// Without the Secret of an app, nothing is fetched.
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
