use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;

/// Answers each request with the next status; returns the received bodies.
async fn receiver(answers: &[u16]) -> (String, mpsc::UnboundedReceiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/events", listener.local_addr().unwrap());
    let (send, received) = mpsc::unbounded_channel();
    let answers = answers.to_vec();
    tokio::spawn(async move {
        for status in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut text = Vec::new();
            let body = loop {
                let mut chunk = [0; 4096];
                let count = stream.read(&mut chunk).await.unwrap();
                text.extend_from_slice(&chunk[..count]);
                let head = String::from_utf8_lossy(&text).to_lowercase();
                let length = head
                    .split("content-length: ")
                    .nth(1)
                    .and_then(|rest| rest.split("\r\n").next());
                let length: usize = length.map_or(0, |length| length.parse().unwrap());
                let begin = head.find("\r\n\r\n").map(|place| place + 4);
                if let Some(begin) = begin.filter(|begin| text.len() >= begin + length) {
                    assert!(head.starts_with("post /events "), "{head}");
                    break serde_json::from_slice(&text[begin..]).unwrap();
                }
            };
            send.send(body).unwrap();
            let answer = format!("HTTP/1.1 {status} OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (address, received)
}

fn tenant() -> Tenant {
    Tenant::Namespace("flux-system".into())
}

fn event(message: &str) -> Event {
    Event {
        about: ObjectReference {
            kind: Some("Kustomization".to_owned()),
            namespace: Some("flux-system".to_owned()),
            name: Some("apps".to_owned()),
            uid: Some("1-2".to_owned()),
            api_version: Some("kustomize.toolkit.fluxcd.io/v1".to_owned()),
            resource_version: Some("7".to_owned()),
            ..ObjectReference::default()
        },
        controller: "kustomize-controller",
        severity: Severity::Warning,
        reason: "BuildFailed".to_owned(),
        message: message.to_owned(),
        metadata: BTreeMap::new(),
        carried: BTreeMap::new(),
    }
}

#[tokio::test]
async fn an_event_has_the_shape_of_flux() {
    drop(rustls::crypto::ring::default_provider().install_default());
    // one that was posted lately is not posted again
    let (address, mut received) = receiver(&[202, 429]).await;
    let notifier = Notifier::start(&address, "pod-1").unwrap();
    let revision = BTreeMap::from([(
        "kustomize.toolkit.fluxcd.io/revision".to_owned(),
        "main@sha1:1".to_owned(),
    )]);
    notifier.publish(&tenant(), &event("no"), Some(revision));
    let mut body = received.recv().await.unwrap();
    let timestamp: Timestamp = body["timestamp"].as_str().unwrap().parse().unwrap();
    assert!(timestamp <= Timestamp::now());
    body["timestamp"] = "".into();
    assert_eq!(
        body,
        json!({
            "involvedObject": {
                "kind": "Kustomization", "namespace": "flux-system", "name": "apps", "uid": "1-2",
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "resourceVersion": "7",
            },
            "severity": "error",
            "timestamp": "",
            "message": "no",
            "reason": "BuildFailed",
            "metadata": { "kustomize.toolkit.fluxcd.io/revision": "main@sha1:1" },
            "reportingController": "kustomize-controller",
            "reportingInstance": "pod-1",
        })
    );
    notifier.publish(&tenant(), &event("again"), None);
    assert_eq!(received.recv().await.unwrap()["message"], "again");
    assert!(received.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn server_errors_are_retried_and_refusals_are_not() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let (address, mut received) = receiver(&[500, 202, 400, 202]).await;
    let notifier = Notifier::start(&address, "pod-1").unwrap();
    for message in ["one", "two", "three"] {
        notifier.publish(&tenant(), &event(message), None);
    }
    for expected in ["one", "one", "two", "three"] {
        assert_eq!(received.recv().await.unwrap()["message"], expected);
    }
}

#[tokio::test]
async fn invalid_addresses_are_rejected() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let check = |address: &str, expected: &str| {
        let error = Notifier::start(address, "me").unwrap_err().to_string();
        assert!(error.contains(expected), "{address}: {error}");
    };
    check("notification controller", "is not the address");
    check("ftp://a/", "not an http or https URL");
    check("/events", "not an http or https URL");
}
