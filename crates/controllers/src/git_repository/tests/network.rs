//! `spec.proxySecretRef` and `spec.provider: github`, over real connections on this machine.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use equate_testkit::git::Guard;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::run::Session;

type Heads = Arc<Mutex<Vec<String>>>;

/// A request's head, and what came along behind it.
fn head(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            return Some((String::from_utf8_lossy(&bytes).into_owned(), rest));
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
        }
    }
}

/// Listens on a port of its own, each connection in a thread; the heads of the requests it saw.
fn listen(answer: impl Fn(TcpStream, String, Vec<u8>) + Send + Sync + 'static) -> (String, Heads) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heads = Heads::default();
    let (noted, answer) = (Arc::clone(&heads), Arc::new(answer));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (noted, answer) = (Arc::clone(&noted), Arc::clone(&answer));
            std::thread::spawn(move || {
                let mut stream = stream;
                if let Some((text, rest)) = head(&mut stream) {
                    noted.lock().unwrap().push(text.clone());
                    answer(stream, text, rest);
                }
            });
        }
    });
    (address, heads)
}

fn say(stream: &mut TcpStream, status: &str, body: &str) {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).ok();
    stream.shutdown(Shutdown::Both).ok();
}

async fn secret(session: &Session, name: &str, data: Value) {
    let secret: Secret = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "stringData": data,
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(session.cluster.client(), "flux-system");
    if secrets.get_opt(name).await.unwrap().is_none() {
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    } else {
        let patch = Patch::Merge(json!({ "stringData": data }));
        secrets
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let token = ASKED.fetch_add(1, Ordering::Relaxed).to_string();
    let asked = json!({ "reconcile.fluxcd.io/requestedAt": token });
    let object = session.api().get_opt("fleet").await.unwrap();
    if object.is_some() {
        session
            .patch(json!({ "metadata": { "annotations": asked } }))
            .await;
    }
}

async fn never_said(session: &Session, words: &[&str]) {
    let said = format!(
        "{:?} {:?}",
        session.events().await,
        session.api().get("fleet").await.unwrap().status
    );
    for word in words {
        assert!(!said.contains(word), "{word}: {said}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_proxy_secret_ref() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let session = Session::start().await;
    let commit = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let Some(server) = session.repository.serve(Guard::Open, false).unwrap() else {
        return;
    };
    let real = server.url();
    let port = real
        .rsplit(':')
        .next()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    let upstream = format!("localhost:{port}");
    let (proxy, heads) = listen(move |mut client, text, rest| {
        // me:s3cret
        if !text.contains("Basic bWU6czNjcmV0") && !text.contains("basic bWU6czNjcmV0") {
            return say(&mut client, "407 Proxy Authentication Required", "");
        }
        let mut server = TcpStream::connect(&upstream).unwrap();
        server.write_all(text.as_bytes()).unwrap();
        server.write_all(&rest).unwrap();
        let (mut back, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut client, &mut server).ok());
        std::io::copy(&mut back, &mut to).ok();
        to.shutdown(Shutdown::Both).ok();
    });
    let _running = session.run();
    // a name that only the proxy knows
    let url = "http://git.invalid/fleet.git";
    session
        .create(json!({
            "url": url, "ref": { "branch": "main" }, "interval": "1h", "proxySecretRef": { "name": "proxy" },
        }))
        .await;
    let message = "failed to configure proxy options: failed to get secret 'flux-system/proxy'";
    session.ready("AuthenticationFailed", message).await;
    let address = format!("http://{proxy}");
    secret(
        &session,
        "proxy",
        json!({ "address": address, "username": "me", "password": "wr0ng" }),
    )
    .await;
    session
        .ready("GitOperationFailed", "the proxy wants credentials")
        .await;
    secret(&session, "proxy", json!({ "password": "s3cret" })).await;
    session.artifact_of(&commit).await;
    let seen = heads.lock().unwrap().clone();
    assert!(
        seen.iter()
            .any(|head| head.contains("http://git.invalid/fleet.git/info/refs")),
        "{seen:?}"
    );
    never_said(&session, &["s3cret", "wr0ng"]).await;

    session
        .patch(json!({ "spec": { "url": "ssh://git@git.invalid/fleet", "secretRef": { "name": "key" } } }))
        .await;
    secret(&session, "key", json!({ "identity": "I", "known_hosts": "H" })).await;
    session
        .ready("URLInvalid", "cannot be reached through a proxy")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_provider_github() {
    rustls::crypto::ring::default_provider().install_default().ok();
    let session = Session::start().await;
    let first = session.repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let guard = Guard::Basic("x-access-token".to_owned(), "t0ken".to_owned());
    let Some(server) = session.repository.serve(guard, false).unwrap() else {
        return;
    };
    let key = session.folder.path().join("app");
    let arguments = [
        "-q",
        "-t",
        "rsa",
        "-b",
        "2048",
        "-m",
        "PEM",
        "-N",
        "",
        "-f",
        key.to_str().unwrap(),
    ];
    let Ok(made) = Command::new("ssh-keygen").args(arguments).status() else {
        println!("skipped: ssh-keygen is not installed");
        return;
    };
    assert!(made.success());
    let key = std::fs::read_to_string(key).unwrap();
    let (api, heads) = listen(|mut stream, text, _| {
        let line = text.lines().next().unwrap_or_default();
        match line {
            "GET /api/v3/orgs/someone/installation HTTP/1.1" => say(&mut stream, "404 Not Found", "{}"),
            "GET /api/v3/users/someone/installation HTTP/1.1" => say(&mut stream, "200 OK", r#"{"id":34}"#),
            "POST /api/v3/app/installations/34/access_tokens HTTP/1.1" => say(
                &mut stream,
                "201 Created",
                r#"{"token":"t0ken","expires_at":"2099-01-01T00:00:00Z"}"#,
            ),
            _ => say(
                &mut stream,
                "401 Unauthorized",
                r#"{"message":"Integration not found"}"#,
            ),
        }
    });
    let running = session.run();
    session
        .create(json!({
            "url": server.url(), "ref": { "branch": "main" }, "interval": "1h", "provider": "github",
        }))
        .await;
    let missing = "secretRef with github app data must be specified when provider is set to github";
    session.ready("InvalidProviderConfiguration", missing).await;
    let data = json!({
        "githubAppID": "12", "githubAppInstallationID": "35", "githubAppPrivateKey": key,
        "githubAppBaseURL": format!("http://{api}/api/v3"),
    });
    secret(&session, "app", data).await;
    session
        .patch(json!({ "spec": { "secretRef": { "name": "app" } } }))
        .await;
    let refused =
        "the GitHub API does not give a token of the installation (HTTP 401): Integration not found";
    session.ready("AuthenticationFailed", refused).await;

    let owner = json!({ "githubAppInstallationID": "", "githubAppInstallationOwner": "someone" });
    secret(&session, "app", owner).await;
    session.artifact_of(&first).await;
    let second = session.repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    running.once_more().await;
    session.artifact_of(&second).await;
    let seen = heads.lock().unwrap().clone();
    let tokens = seen
        .iter()
        .filter(|head| head.contains("installations/34/access_tokens"))
        .count();
    assert_eq!(tokens, 1, "a token is asked for once: {seen:?}");
    // its own word: three parts, for the app and for two minutes
    let jwt = seen
        .iter()
        .find_map(|head| head.lines().find_map(|line| line.split_once("Bearer ")));
    let parts = jwt.map(|(_, jwt)| jwt.trim().split('.').count());
    assert_eq!(parts, Some(3));
    never_said(&session, &["t0ken", "PRIVATE KEY", "eyJ"]).await;
}
