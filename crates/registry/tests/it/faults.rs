//! Registries that fail, lie, or limit requests.

use std::time::Duration;

use equate_registry::oci_spec::image::Descriptor;
use equate_registry::{Access, Limits, Reason, Remote, Version};
use equate_testkit::registry::{RegistryFault, RegistryOptions, RegistryServer};

use super::{anonymous, limited, open, registries};

const CONTENT: &[u8] = b"0123456789abcdef";

fn with_blob(server: &RegistryServer) -> Descriptor {
    serde_json::from_value(server.blob("text/plain", CONTENT.to_vec())).unwrap()
}

async fn download(remote: &Remote, blob: &Descriptor) -> Result<Vec<u8>, equate_registry::Error> {
    let mut bytes = Vec::new();
    remote.blob(blob, &mut bytes).await.map(|()| bytes)
}

#[tokio::test]
async fn a_broken_download_goes_on() {
    for no_ranges in [false, true] {
        let server = RegistryServer::start(RegistryOptions {
            no_ranges,
            ..RegistryOptions::default()
        })
        .unwrap();
        let blob = with_blob(&server);
        server.fault(RegistryFault::Cut(10), 1);
        let remote = open(&registries(), &server, "app", anonymous());
        assert_eq!(download(&remote, &blob).await.unwrap(), CONTENT);
        let ranges: Vec<_> = server
            .take()
            .into_iter()
            .filter_map(|asked| asked.range)
            .collect();
        assert_eq!(ranges, ["bytes=10-"]);
        // it ends without progress
        server.fault(RegistryFault::Cut(0), usize::MAX);
        let error = download(&remote, &blob).await.unwrap_err();
        assert_eq!(error.reason(), Reason::Unreachable, "{error}");
    }
}

#[tokio::test]
async fn content_of_another_digest_is_refused() {
    let server = RegistryServer::open().unwrap();
    let blob = with_blob(&server);
    server.artifact("app", "v1", &[], &[]);
    let remote = open(&registries(), &server, "app", anonymous());
    server.fault(RegistryFault::Lie, 1);
    let error = download(&remote, &blob).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Digest);
    let mut longer = blob.clone();
    longer.set_size(3);
    let error = download(&remote, &longer).await.unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("it is larger than the 3 bytes of its descriptor"),
        "{error}"
    );
    longer.set_size(30);
    let error = download(&remote, &longer).await.unwrap_err();
    assert!(error.to_string().ends_with("it has 16 bytes, not 30"), "{error}");
    server.fault(RegistryFault::Lie, 1);
    let error = remote.manifest(&Version::tag("v1").unwrap()).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Digest);
    let small = Limits {
        blob_bytes_max: 10,
        manifest_bytes_max: 10,
        ..Limits::default()
    };
    let remote = open(&limited(small), &server, "app", anonymous());
    for error in [
        download(&remote, &blob).await.unwrap_err(),
        remote.manifest(&Version::tag("v1").unwrap()).await.unwrap_err(),
    ] {
        assert_eq!(error.reason(), Reason::TooLarge);
    }
}

#[tokio::test]
async fn a_registry_that_limits_requests_is_asked_later() {
    let server = RegistryServer::open().unwrap();
    server.artifact("app", "v1", &[], &[]);
    let tag = Version::tag("v1").unwrap();
    let registries = registries();
    let remote = open(&registries, &server, "app", anonymous());
    remote.resolve(&tag).await.unwrap();
    server.fault(RegistryFault::Limited(0), 2);
    remote.resolve(&tag).await.unwrap();
    server.take();
    server.fault(RegistryFault::Limited(100), 2);
    let error = remote.resolve(&tag).await.unwrap_err();
    assert_eq!(error.reason(), Reason::Limited);
    assert!(error.after().is_some());
    let asked = server.take().len();
    // nobody of the namespace asks meanwhile, others may
    let error = open(&registries, &server, "app", anonymous())
        .resolve(&tag)
        .await
        .unwrap_err();
    assert_eq!(
        (error.reason(), server.take().len()),
        (Reason::Limited, 0),
        "{asked}"
    );
    let other = Access {
        namespace: "other".to_owned(),
        ..anonymous()
    };
    server.fault(RegistryFault::Limited(0), 0);
    let _ = open(&registries, &server, "app", other).resolve(&tag).await;
    assert!(!server.take().is_empty());
}

#[tokio::test]
async fn failures_and_silence_have_reasons() {
    let server = RegistryServer::open().unwrap();
    server.artifact("app", "v1", &[], &[]);
    let tag = Version::tag("v1").unwrap();
    let registries = registries();
    let remote = open(&registries, &server, "app", anonymous());
    remote.resolve(&tag).await.unwrap();
    server.fault(RegistryFault::Status(503), 2);
    let error = remote.resolve(&tag).await.unwrap_err();
    assert_eq!((error.reason(), error.status()), (Reason::Failed, Some(503)));
    server.fault(RegistryFault::Silence, 1);
    let hasty = Access {
        timeout: Duration::from_millis(200),
        ..anonymous()
    };
    let error = open(&registries, &server, "app", hasty)
        .resolve(&tag)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::Timeout);
    assert!(error.to_string().contains("it took longer than 0.2s"), "{error}");
    let gone = server.authority();
    drop(server);
    let name = equate_registry::Repository::parse(&format!("{gone}/app")).unwrap();
    let error = registries
        .open(name, anonymous())
        .unwrap()
        .resolve(&tag)
        .await
        .unwrap_err();
    assert_eq!(error.reason(), Reason::Unreachable);
}
