//! Writing to a repository.

use bytes::Bytes;
use equate_registry::{Reason, Version, sha256};
use equate_testkit::registry::{RegistryGuard, RegistryOptions, RegistryServer};
use serde_json::json;

use super::{anonymous, named, open, registries};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

#[tokio::test]
async fn blobs_then_the_manifest_are_pushed() {
    let server = RegistryServer::start(RegistryOptions {
        guard: RegistryGuard::Token("me".to_owned(), "secret".to_owned()),
        ..RegistryOptions::default()
    })
    .unwrap();
    let remote = open(&registries(), &server, "org/app", named("me", "secret"));
    let layer = remote.push_blob(Bytes::from_static(b"layer")).await.unwrap();
    assert_eq!(layer.as_ref(), sha256(b"layer"));
    let descriptor =
        |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "digest": sha256(bytes), "size": bytes.len() });
    let manifest = json!({
        "schemaVersion": 2,
        "config": descriptor("application/json", b"{}"),
        "layers": [descriptor("text/plain", b"layer")],
    });
    let bytes = Bytes::from(manifest.to_string());
    let tag = Version::tag("v1").unwrap();
    let error = remote
        .push_manifest(&tag, MANIFEST, bytes.clone())
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::NotFound, "the configuration is missing");
    remote.push_blob(Bytes::from_static(b"{}")).await.unwrap();
    let digest = remote.push_manifest(&tag, MANIFEST, bytes.clone()).await.unwrap();
    assert_eq!(digest.as_ref(), sha256(&bytes));
    assert_eq!(server.stored_manifest("org/app", "v1"), Some(bytes));
    assert_eq!(
        server.stored_blob(layer.as_ref()).as_deref(),
        Some(b"layer".as_slice())
    );
    server.take();
    remote.push_blob(Bytes::from_static(b"layer")).await.unwrap();
    let asked: Vec<String> = server.take().into_iter().map(|asked| asked.method).collect();
    assert_eq!(asked, ["HEAD"], "a blob that is there is not sent again");
}

#[tokio::test]
async fn a_push_needs_credentials() {
    let server = RegistryServer::start(RegistryOptions {
        guard: RegistryGuard::Token("me".to_owned(), "secret".to_owned()),
        ..RegistryOptions::default()
    })
    .unwrap();
    let remote = open(&registries(), &server, "public/app", anonymous());
    let error = remote.push_blob(Bytes::from_static(b"layer")).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Authentication);
    assert_eq!(server.stored_blob(&sha256(b"layer")), None);
}
