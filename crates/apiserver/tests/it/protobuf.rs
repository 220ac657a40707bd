//! Clients that send and prefer protobuf.

use axum::body::Body;
use equate_apiserver::{EmbeddedCluster, Identity};
use equate_manifest::schema::{kubernetes, protobuf};
use futures::StreamExt;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

async fn send(
    cluster: &EmbeddedCluster,
    request: http::request::Builder,
    accept: &str,
    body: Vec<u8>,
) -> (StatusCode, String, Body) {
    let request = request.header(header::ACCEPT, accept);
    let request = request
        .extension(Identity::admin())
        .body(Body::from(body))
        .unwrap();
    let response = cluster.router().oneshot(request).await.unwrap();
    let media = response.headers()[header::CONTENT_TYPE]
        .to_str()
        .unwrap()
        .to_owned();
    (response.status(), media, response.into_body())
}

async fn bytes(body: Body) -> Vec<u8> {
    body.collect().await.unwrap().to_bytes().to_vec()
}

fn lease(name: &str) -> Vec<u8> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "name": name },
        "spec": { "holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-11-23T10:00:00.123456Z" },
    });
    protobuf::encode_object(kubernetes(), &lease).unwrap()
}

#[tokio::test]
async fn leader_election_works_in_protobuf() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let post = || Request::post(LEASES).header(header::CONTENT_TYPE, PROTOBUF);
    let accept = format!("{PROTOBUF},application/json");
    let (status, media, body) = send(&cluster, post(), &accept, lease("one")).await;
    assert_eq!((status, media.as_str()), (StatusCode::CREATED, PROTOBUF));
    let created = protobuf::decode_object(kubernetes(), &bytes(body).await).unwrap();
    assert_eq!(created["spec"]["renewTime"], "2026-11-23T10:00:00.123456Z");

    let get = Request::get(format!("{LEASES}/one"));
    let (_, media, body) = send(&cluster, get, "application/json", Vec::new()).await;
    assert_eq!(media, "application/json");
    let stored: Value = serde_json::from_slice(&bytes(body).await).unwrap();
    assert_eq!(stored, created);

    drop(send(&cluster, post(), PROTOBUF, lease("two")).await);
    let (_, media, body) = send(&cluster, Request::get(LEASES), &accept, Vec::new()).await;
    assert_eq!(media, PROTOBUF);
    let list = protobuf::decode_object(kubernetes(), &bytes(body).await).unwrap();
    assert_eq!(list["kind"], "LeaseList");
    assert_eq!(
        list["metadata"]["resourceVersion"],
        cluster.revision().to_string()
    );
    let names: Vec<&Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["metadata"]["name"])
        .collect();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test]
async fn a_watch_is_framed() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let post = Request::post(LEASES).header(header::CONTENT_TYPE, PROTOBUF);
    drop(send(&cluster, post, PROTOBUF, lease("one")).await);
    let watch = Request::get(format!("{LEASES}?watch=true"));
    let (_, media, body) = send(&cluster, watch, PROTOBUF, Vec::new()).await;
    assert_eq!(media, "application/vnd.kubernetes.protobuf;stream=watch");
    let mut stream = body.into_data_stream();
    let frame = tokio::time::timeout(crate::DEADLINE, stream.next()).await;
    let frame = frame.unwrap().unwrap().unwrap();
    let (length, event) = frame.split_first_chunk::<4>().unwrap();
    assert_eq!(u32::from_be_bytes(*length) as usize, event.len());
    assert!(event.starts_with(b"\x0a\x05ADDED\x12"), "{event:?}");
    let object = event.windows(4).position(|window| window == b"k8s\0").unwrap();
    let object = protobuf::decode_object(kubernetes(), &event[object..]).unwrap();
    assert_eq!(object["kind"], "Lease");
    assert_eq!(object["metadata"]["name"], "one");
}

#[tokio::test]
async fn custom_resources_and_tables_are_json() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let check = async |accept: &str, expected: &str| {
        let get = Request::get("/api/v1/namespaces/default/configmaps");
        let (status, media, _) = send(&cluster, get, accept, Vec::new()).await;
        assert_eq!((status, media.as_str()), (StatusCode::OK, expected), "{accept}");
    };
    let table = "as=Table;v=v1;g=meta.k8s.io";
    check(
        &format!("{PROTOBUF};{table},application/json;{table}"),
        "application/json",
    )
    .await;
    let metadata = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    check(&format!("{PROTOBUF};{metadata},application/json"), PROTOBUF).await;
    let version = send(
        &cluster,
        Request::get("/version"),
        &format!("{PROTOBUF}, */*"),
        Vec::new(),
    )
    .await;
    assert_eq!(version.1, "application/json");
}
