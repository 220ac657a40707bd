//! Tags, manifests, indexes, blobs, referrers.

use std::time::Duration;

use equate_egress::{Displaced, Egress};
use equate_registry::oci_spec::image::Descriptor;
use equate_registry::{Limits, Reason, Registries, Version, sha256};
use equate_testkit::registry::{RegistryFault, RegistryOptions, RegistryServer};
use serde_json::json;

use super::{anonymous, limited, open, registries};

const TGZ: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";

#[tokio::test]
async fn an_artifact_is_pulled_with_one_request_for_each_part() {
    let server = RegistryServer::open().unwrap();
    let digest = server.artifact("org/app", "v1", &[(TGZ, b"content")], &[("a", "b")]);
    let registries = registries();
    let remote = open(&registries, &server, "org/app", anonymous());
    let found = remote.resolve(&Version::tag("v1").unwrap()).await.unwrap();
    assert_eq!(found.as_ref(), digest);
    let image = remote.image(&Version::Digest(found)).await.unwrap();
    let annotations = image.manifest.annotations().clone().unwrap();
    assert_eq!(annotations.get("a").map(String::as_str), Some("b"));
    let layer = &image.manifest.layers()[0];
    let mut bytes = Vec::new();
    remote.blob(layer, &mut bytes).await.unwrap();
    assert_eq!(bytes, b"content");
    let asked: Vec<String> = server
        .take()
        .into_iter()
        .map(|asked| format!("{} {}", asked.method, asked.path))
        .collect();
    let layer = layer.digest();
    assert_eq!(
        asked,
        [
            // the registry is on this machine, so it may be served without TLS
            "GET /v2/".to_owned(),
            "HEAD /v2/org/app/manifests/v1".to_owned(),
            format!("GET /v2/org/app/manifests/{digest}"),
            format!("GET /v2/org/app/blobs/{layer}"),
        ]
    );
    let again = open(&registries, &server, "org/app", anonymous());
    again.resolve(&Version::tag("v1").unwrap()).await.unwrap();
    assert_eq!(server.take().len(), 1, "steady state");
}

#[tokio::test]
async fn tags_come_page_by_page() {
    let server = RegistryServer::start(RegistryOptions {
        page: Some(2),
        ..RegistryOptions::default()
    })
    .unwrap();
    for tag in ["a", "b", "c", "d", "e"] {
        server.artifact("app", tag, &[], &[]);
    }
    let registries = registries();
    let remote = open(&registries, &server, "app", anonymous());
    assert_eq!(*remote.tags().await.unwrap(), ["a", "b", "c", "d", "e"]);
    // a link after the last page leads to an empty one
    server.fault(RegistryFault::LinkAfterLast, 10);
    assert_eq!(remote.tags().await.unwrap().len(), 5);
    let unknown = open(&registries, &server, "nothing", anonymous());
    let error = unknown.tags().await.unwrap_err();
    assert_eq!(error.reason(), Reason::NotFound);
    let wanted = "not found (HTTP 404): NAME_UNKNOWN: repository name not known to registry";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[tokio::test]
async fn lists_have_limits() {
    let server = RegistryServer::open().unwrap();
    for tag in ["a", "b", "c"] {
        server.artifact("app", tag, &[], &[]);
    }
    server.fault(RegistryFault::EndlessTags, usize::MAX);
    let check = async |limits: Limits, want: &str| {
        let remote = open(&limited(limits), &server, "app", anonymous());
        let error = remote.tags().await.unwrap_err();
        assert_eq!(error.reason(), Reason::TooLarge);
        assert!(error.to_string().ends_with(want), "{error}");
    };
    let pages = Limits {
        pages_max: 4,
        ..Limits::default()
    };
    check(pages, "its list has more than 4 pages").await;
    let entries = Limits {
        entries_max: 10,
        ..Limits::default()
    };
    check(entries, "it has more than 10 tags").await;
    let bytes = Limits {
        page_bytes_max: 10,
        ..Limits::default()
    };
    check(bytes, "its page of tags is larger than 10 bytes").await;
    let list = Limits {
        list_bytes_max: 100,
        ..Limits::default()
    };
    check(list, "its list is larger than 100 bytes").await;
    let texts = Limits {
        text_bytes_max: 5,
        ..Limits::default()
    };
    check(texts, "it has more than 5 bytes of tags").await;
}

/// A registry with pages of 39 KiB, whose tags need 56 KiB of memory.
fn large() -> RegistryServer {
    let server = RegistryServer::open().unwrap();
    for number in 0..300 {
        server.artifact("app", &format!("{number:0>128}"), &[], &[]);
    }
    server
}

#[tokio::test]
async fn tags_take_the_memory_of_answers_until_they_are_dropped() {
    let server = large();
    let egress = Egress::default();
    let registries = Registries::new(egress.clone(), Limits::default());
    let remote = open(&registries, &server, "app", anonymous());
    // all that is there, so that the largest answer ends with the list's second MiB
    let whole = || {
        let other = egress.memory().hold("other");
        other.add(65 << 20).ok();
        other
    };
    // the tags need less than that, and more with the bodies of their pages
    server.fault(RegistryFault::EndlessTags, 15);
    let other = whole();
    assert_eq!(remote.tags().await.unwrap().len(), 15 * 300);
    assert!(other.add(0).is_ok());
    server.fault(RegistryFault::EndlessTags, 30);
    let tags = remote.tags().await.unwrap();
    assert_eq!((tags.len(), other.add(0)), (30 * 300, Err(Displaced)));
    let another = whole();
    assert_eq!(another.add(0), Err(Displaced));
    drop(tags);
    assert!(whole().add(0).is_ok());
}

#[tokio::test]
async fn a_displaced_list_is_asked_for_again_within_the_time_limit() {
    let server = large();
    let egress = Egress::default();
    let opened = |displaced_pause| {
        let limits = Limits {
            displaced_pause,
            ..Limits::default()
        };
        let registries = Registries::new(egress.clone(), limits);
        open(&registries, &server, "app", anonymous())
    };
    // the list is the largest of its owner, and needs more than is left
    let namespace = anonymous().namespace;
    let many: Vec<_> = (0..320).map(|_| egress.memory().hold(&namespace)).collect();
    for held in &many {
        held.add((1 << 20) + (200 << 10)).ok();
    }
    server.fault(RegistryFault::EndlessTags, usize::MAX);
    let error = opened(Duration::from_secs(3600)).tags().await.unwrap_err();
    assert_eq!(error.reason(), Reason::Displaced, "{error}");
    server.heal();
    // it begins anew, so it lacks the pages that were read
    server.fault(RegistryFault::EndlessTags, 60);
    let tags = opened(Duration::from_millis(1)).tags().await.unwrap();
    assert!((1..60 * 300).contains(&tags.len()), "{}", tags.len());
    assert!(many.iter().all(|held| held.add(0).is_ok()));
}

#[tokio::test]
async fn a_longer_tag_than_the_specification_allows_is_left_out() {
    let server = RegistryServer::open().unwrap();
    let longest = "a".repeat(128);
    server.artifact("app", &longest, &[], &[]);
    server.artifact("app", &"b".repeat(129), &[], &[]);
    let registries = registries();
    let remote = open(&registries, &server, "app", anonymous());
    assert_eq!(*remote.tags().await.unwrap(), [longest]);
}

#[tokio::test]
async fn an_index_leads_to_the_image_of_linux_amd64() {
    let server = RegistryServer::open().unwrap();
    let image = |layer: &str| {
        let config = server.blob("application/vnd.oci.image.config.v1+json", "{}");
        let layer = server.blob(TGZ, layer.to_owned());
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [layer] });
        server.manifest("app", None, &manifest)
    };
    let on = |mut descriptor: serde_json::Value, os: &str, architecture: &str| {
        descriptor["platform"] = json!({ "os": os, "architecture": architecture });
        descriptor
    };
    let index = |tag: &str, manifests: serde_json::Value| {
        let media_type = "application/vnd.oci.image.index.v1+json";
        let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": manifests });
        server.manifest("app", Some(tag), &index)
    };
    let (arm, amd) = (image("arm"), image("amd"));
    let wanted = amd["digest"].as_str().unwrap().to_owned();
    let whole = index(
        "v1",
        json!([
            on(arm.clone(), "linux", "arm64"),
            on(amd.clone(), "linux", "amd64")
        ]),
    );
    index("bare", json!([amd]));
    index("other", json!([on(arm, "linux", "arm64")]));
    let remote = open(&registries(), &server, "app", anonymous());
    for tag in ["v1", "bare"] {
        let image = remote.image(&Version::tag(tag).unwrap()).await.unwrap();
        assert_eq!(image.digest.as_ref(), wanted, "{tag}");
    }
    let digest = remote.resolve(&Version::tag("v1").unwrap()).await.unwrap();
    assert_eq!(digest.as_ref(), whole["digest"].as_str().unwrap());
    let error = remote.image(&Version::tag("other").unwrap()).await.unwrap_err();
    assert!(
        error.to_string().contains("no child with platform linux/amd64"),
        "{error}"
    );
}

#[tokio::test]
async fn referrers_come_from_the_api_or_a_tag() {
    let manifest = |server: &RegistryServer, subject: &str, kind: &str, tag: Option<&str>| {
        let config = server.blob(kind, "{}");
        let subject = json!({ "mediaType": TGZ, "digest": subject, "size": 1 });
        let manifest = json!({ "schemaVersion": 2, "config": config, "layers": [], "subject": subject });
        server.manifest("app", tag, &manifest)
    };
    let server = RegistryServer::open().unwrap();
    let subject = server.artifact("app", "v1", &[], &[]);
    let signature = manifest(&server, &subject, "application/sig", None);
    manifest(&server, &subject, "application/sbom", None);
    let remote = open(&registries(), &server, "app", anonymous());
    let digest = remote.resolve(&Version::tag("v1").unwrap()).await.unwrap();
    assert_eq!(remote.referrers(&digest, None).await.unwrap().len(), 2);
    let found = remote.referrers(&digest, Some("application/sig")).await.unwrap();
    let digests: Vec<&str> = found.iter().map(|found| found.digest().as_ref()).collect();
    assert_eq!(digests, [signature["digest"].as_str().unwrap()]);

    let old = RegistryServer::start(RegistryOptions {
        no_referrers: true,
        ..RegistryOptions::default()
    })
    .unwrap();
    let subject = old.artifact("app", "v1", &[], &[]);
    let remote = open(&registries(), &old, "app", anonymous());
    let digest = remote.resolve(&Version::tag("v1").unwrap()).await.unwrap();
    assert!(remote.referrers(&digest, None).await.unwrap().is_empty());
    let mut signature = manifest(&old, &subject, "application/sig", None);
    signature["artifactType"] = json!("application/sig");
    let media_type = "application/vnd.oci.image.index.v1+json";
    let index = json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": [signature] });
    old.manifest("app", Some(&subject.replace(':', "-")), &index);
    let found = remote.referrers(&digest, Some("application/sig")).await.unwrap();
    assert_eq!(found.len(), 1);
}

#[tokio::test]
async fn small_blobs_have_a_limit() {
    let server = RegistryServer::open().unwrap();
    let blob: Descriptor = serde_json::from_value(server.blob("text/plain", "12345")).unwrap();
    let remote = open(&registries(), &server, "app", anonymous());
    assert_eq!(remote.small_blob(&blob, 5).await.unwrap(), b"12345");
    let error = remote.small_blob(&blob, 4).await.unwrap_err();
    assert_eq!(error.reason(), Reason::TooLarge);
    assert_eq!(
        error.to_string(),
        format!(
            "cannot download {}/app@{}: it is larger than 4 bytes",
            server.authority(),
            sha256(b"12345")
        )
    );
}
