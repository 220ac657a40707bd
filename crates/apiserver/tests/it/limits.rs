//! Limits of the API: the memory of a watch, and bodies that it cannot read.

use axum::Extension;
use axum::body::Body;
use equate_apiserver::{EmbeddedCluster, Identity, Profile};
use futures::StreamExt;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tower::ServiceExt;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// The most that one frame of a watch may hold besides its last event.
const FRAME_MAX: usize = 256 * 1024;

async fn cluster(events: usize) -> EmbeddedCluster {
    let quiet = Profile {
        service_accounts: false,
        root_ca: false,
        ..Profile::default()
    };
    let builder = EmbeddedCluster::builder().controllers(quiet);
    builder
        .history(events, Duration::from_mins(5))
        .build()
        .await
        .unwrap()
}

async fn send(cluster: &EmbeddedCluster, request: http::request::Builder, body: Body) -> (StatusCode, Body) {
    let request = request.extension(Identity::admin()).body(body).unwrap();
    let response = cluster.router().oneshot(request).await.unwrap();
    (response.status(), response.into_body())
}

async fn create(cluster: &EmbeddedCluster, n: usize, bytes: usize) {
    let object = json!({ "metadata": { "name": format!("c{n}") }, "data": { "k": "x".repeat(bytes) } });
    let (status, _) = send(
        cluster,
        Request::post(CONFIG_MAPS),
        Body::from(object.to_string()),
    )
    .await;
    assert_eq!(status, StatusCode::CREATED);
}

async fn watch(cluster: &EmbeddedCluster, query: &str) -> axum::body::BodyDataStream {
    let request = Request::get(format!("{CONFIG_MAPS}?watch=true&{query}"));
    let (status, body) = send(cluster, request, Body::empty()).await;
    assert_eq!(status, StatusCode::OK);
    body.into_data_stream()
}

fn events(frame: &[u8]) -> usize {
    frame.iter().filter(|b| **b == b'\n').count()
}

#[tokio::test]
async fn a_watch_is_sent_in_bounded_frames() {
    const OBJECTS: usize = 60;
    const BYTES: usize = 64 * 1024;
    let cluster = cluster(10_000).await;
    let before = cluster.revision();
    for n in 0..OBJECTS {
        create(&cluster, n, BYTES).await;
    }
    let after_all = format!("resourceVersion={before}");
    let streamed = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    for query in [after_all.as_str(), "", streamed] {
        let mut stream = watch(&cluster, query).await;
        let mut seen = 0;
        while seen < OBJECTS {
            let frame = stream.next().await.unwrap().unwrap();
            seen += events(&frame);
            let most = FRAME_MAX + 2 * BYTES;
            assert!(frame.len() < most, "{query:?}: a frame of {} bytes", frame.len());
        }
        assert_eq!(seen, OBJECTS, "{query:?}");
    }
}

#[tokio::test]
async fn a_watch_that_falls_behind_ends() {
    const HISTORY: usize = 16;
    let cluster = cluster(HISTORY).await;
    let from = format!("resourceVersion={}", cluster.revision());
    let mut keen = watch(&cluster, &from).await;
    let mut stalled = watch(&cluster, &from).await;
    let mut asleep: Vec<_> = Vec::new();
    for _ in 0..100 {
        asleep.push(watch(&cluster, &from).await);
    }
    for n in 0..4 * HISTORY {
        create(&cluster, n, 10).await;
        assert_eq!(events(&keen.next().await.unwrap().unwrap()), 1);
        if n == 0 {
            assert_eq!(events(&stalled.next().await.unwrap().unwrap()), 1);
        }
    }
    assert!(stalled.next().await.is_none(), "it missed events and goes on");
    for mut stream in asleep {
        assert!(stream.next().await.is_none(), "it missed events and goes on");
    }
    // Its position was compacted, which the client learns on resuming.
    let mut again = watch(&cluster, &from).await;
    let event: Value = serde_json::from_slice(&again.next().await.unwrap().unwrap()).unwrap();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
}

/// Over a socket: only the connection buffers for a client that does not read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_watch_client_keeps_no_history() {
    const BYTES: usize = 256 * 1024;
    const EVENTS: usize = 96;
    let cluster = cluster(8).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = cluster.router().layer(Extension(Identity::admin()));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let mut socket = TcpStream::connect(address).await.unwrap();
    let from = cluster.revision();
    let head = format!("GET {CONFIG_MAPS}?watch=true&resourceVersion={from} HTTP/1.1\r\nhost: x\r\n\r\n");
    socket.write_all(head.as_bytes()).await.unwrap();
    // The response has begun, so the watch is established.
    let mut first = [0; 16];
    socket.read_exact(&mut first).await.unwrap();
    assert!(first.starts_with(b"HTTP/1.1 200"));
    for n in 0..EVENTS {
        create(&cluster, n, BYTES).await;
    }
    let mut received = Vec::new();
    let ends = b"0\r\n\r\n";
    let read = async {
        let mut chunk = vec![0; 64 * 1024];
        while !received.ends_with(ends) {
            let n = socket.read(&mut chunk).await.unwrap();
            assert!(n > 0, "the connection broke");
            received.extend_from_slice(&chunk[..n]);
        }
    };
    let read = tokio::time::timeout(crate::DEADLINE, read).await;
    assert!(read.is_ok(), "the watch goes on after {} bytes", received.len());
    assert!(
        received.len() < EVENTS * BYTES / 2,
        "{} bytes waited for a client that did not read",
        received.len()
    );
}

#[tokio::test]
async fn protobuf_bodies_of_unknown_kinds_are_refused_by_name() {
    let cluster = cluster(100).await;
    create(&cluster, 0, 1).await;
    let before = cluster.revision();
    let object = format!("{CONFIG_MAPS}/c0");
    for media in [
        "application/vnd.kubernetes.protobuf",
        "application/vnd.kubernetes.protobuf;type=x",
    ] {
        for (method, path) in [
            ("POST", CONFIG_MAPS),
            ("PUT", object.as_str()),
            ("DELETE", object.as_str()),
            ("DELETE", CONFIG_MAPS),
        ] {
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header("content-type", media);
            let (status, body) = send(&cluster, request, Body::from(&b"k8s\0\n\x05\n\0\x12\x01x"[..])).await;
            let answer = body.collect().await.unwrap().to_bytes();
            let answer: Value = serde_json::from_slice(&answer).unwrap();
            let about = format!("{method} {path}: {answer}");
            assert_eq!(status, StatusCode::UNSUPPORTED_MEDIA_TYPE, "{about}");
            assert_eq!(answer["reason"], "UnsupportedMediaType", "{about}");
            let message = answer["message"].as_str().unwrap();
            assert!(
                message.starts_with("only built-in kinds have a protobuf form, not x"),
                "{about}"
            );
        }
    }
    assert_eq!(cluster.revision(), before, "something was written");
}
