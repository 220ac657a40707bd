//! Attempts to leave a source, a namespace or a name: a tenant's files and specs only reach the tenant's
//! own objects. Tests of rights are in `tenancy`.

use std::path::Path;

use equate_api::kustomize::KustomizationStatus;
use equate_api::meta::{Condition, ConditionType, condition};
use equate_api::source::{GitRepository, OciRepository};
use equate_controllers::Policy;
use equate_testkit::eventually::eventually;
use flate2::Compression;
use flate2::write::GzEncoder;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::CustomResourceExt as _;
use kube::api::{Api, PostParams};
use serde_json::json;
use tar::{EntryType, Header};

use crate::artifact_server::{ArtifactServer, published};
use crate::session::{DEADLINE, Options, Session, document, ready};
use crate::tenancy::{absent, create, kustomize, map, tenant};

/// Content outside that must not leak.
const HIDDEN: &str = "correct horse";

/// A file of the machine that the engine may read. It is a manifest, so a leak would apply it. Also returns
/// the relative path to it from anywhere below the root.
fn outside(session: &Session) -> (String, String) {
    let path = session.folder().join("outside.yaml");
    std::fs::write(&path, session.here(&map("@home-a", "leaked", HIDDEN))).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (
        format!("{}{}", "../".repeat(12), path.trim_start_matches('/')),
        path,
    )
}

/// Waits until a Kustomization is not ready with this message, and was not applied.
async fn refused(session: &Session, name: &str, expected: &str) {
    let passes = |status: &KustomizationStatus| {
        let (ready, message) = ready(status);
        ready == "False" && message.contains(expected)
    };
    let status = session.until(name, expected, passes).await;
    let said = serde_json::to_string(&status).unwrap();
    assert!(!said.contains(HIDDEN), "{said}");
}

#[tokio::test]
async fn a_path_with_dots_stays_inside_the_source() {
    let session = Session::anywhere(&[("app/a.yaml", "{}")]).await;
    tenant(&session, "@home-a").await;
    let (up, path) = outside(&session);
    let folder = Path::new(&up).parent().unwrap().to_str().unwrap();
    let a = map("@home-a", "a", "one");
    let named = [
        (
            "resource",
            format!("resources: [{up}]"),
            "leads out of the source",
        ),
        ("absolute", format!("resources: [{path}]"), "cannot be absolute"),
        (
            "directory",
            format!("resources: [{folder}]"),
            "leads out of the source",
        ),
        (
            "component",
            format!("components: [{folder}]"),
            "leads out of the source",
        ),
        (
            "patch",
            format!("resources: [a.yaml]\npatches: [{{path: {up}}}]"),
            "leads out of the source",
        ),
        (
            "merge",
            format!("resources: [a.yaml]\npatchesStrategicMerge: [{up}]"),
            "leads out of the source",
        ),
        (
            "replacement",
            format!("resources: [a.yaml]\nreplacements: [{{path: {up}}}]"),
            "leads out of the source",
        ),
        (
            "files",
            format!("configMapGenerator: [{{name: leaked, files: [x={up}]}}]"),
            "leads out of the source",
        ),
        (
            "envs",
            format!("configMapGenerator: [{{name: leaked, envs: [{up}]}}]"),
            "leads out of the source",
        ),
        (
            "secret",
            format!("secretGenerator: [{{name: leaked, files: [x={path}]}}]"),
            "cannot be absolute",
        ),
        (
            "transformer",
            format!("resources: [a.yaml]\ntransformers: [{up}]"),
            "leads out of the source",
        ),
        (
            "generator",
            format!("generators: [{up}]"),
            "leads out of the source",
        ),
        (
            "configuration",
            format!("resources: [a.yaml]\nconfigurations: [{up}]"),
            "leads out of the source",
        ),
        (
            "crd",
            format!("resources: [a.yaml]\ncrds: [{up}]"),
            "leads out of the source",
        ),
        (
            "openapi",
            format!("resources: [a.yaml]\nopenapi: {{path: {up}}}"),
            "leads out of the source",
        ),
    ];
    for (name, kustomization, _) in &named {
        let kustomization = format!("namespace: @home-a\n{kustomization}\n");
        session.commit(&[
            (&*format!("{name}/kustomization.yaml"), Some(&*kustomization)),
            (&*format!("{name}/a.yaml"), Some(&*a)),
        ]);
    }
    for (name, _, expected) in &named {
        session
            .kustomize(name, name, json!({ "retryInterval": "2s" }))
            .await;
        refused(&session, name, expected).await;
    }
    // the Kustomization's own fields
    for (name, path, spec, expected) in [
        ("path", folder, json!({}), "kustomization path not found"),
        (
            "components",
            "resource",
            json!({ "components": [folder] }),
            "leads out of the source",
        ),
    ] {
        session.kustomize(name, path, spec).await;
        refused(&session, name, expected).await;
    }
    absent(&session, "@home-a", "leaked").await;
    absent(&session, "@home-a", "a").await;
    session.end().await;
}

#[tokio::test]
async fn a_symbolic_link_in_a_repository_stays_inside_the_source() {
    let session = Session::anywhere(&[("whole/a.yaml", &*map("@home-a", "a", "one"))]).await;
    tenant(&session, "@home-a").await;
    let (up, path) = outside(&session);
    let folder = Path::new(&path).parent().unwrap().to_str().unwrap();
    let links = [
        ("absolute", "leaked.yaml", &*path),
        ("climbing", "leaked.yaml", &*up),
        ("directory", "more", folder),
    ];
    for (name, link, target) in links {
        let kustomization = match name {
            "directory" => "resources: [more/outside.yaml]\n",
            _ => "resources: [leaked.yaml]\n",
        };
        session.commit(&[(&*format!("{name}/kustomization.yaml"), Some(kustomization))]);
        session
            .repository
            .link(&format!("{name}/{link}"), target)
            .unwrap();
    }
    // a directory without a kustomization is searched for manifests
    session.repository.link("bare/leaked.yaml", &path).unwrap();
    session.repository.link("bare/more", folder).unwrap();
    for (name, _, _) in links {
        session.kustomize(name, name, json!({})).await;
        // the artifact leaves it out
        refused(&session, name, "no such file or directory").await;
    }
    session.kustomize("bare", "bare", json!({})).await;
    session.ready("bare", &session.commit(&[])).await;
    session.kustomize("whole", "whole", json!({})).await;
    session.value("@home-a", "a", Some("one")).await;
    absent(&session, "@home-a", "leaked").await;
    session.end().await;
}

/// An archive that no correct writer makes.
fn archive(entries: &[(EntryType, &str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        let linked = matches!(kind, EntryType::Symlink | EntryType::Link);
        let bytes = if linked { &b""[..] } else { content.as_bytes() };
        header.set_size(bytes.len() as u64);
        if linked {
            header.set_link_name(content).unwrap();
        }
        header.set_cksum();
        tar.append(&header, bytes).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

#[tokio::test]
async fn a_link_or_a_path_in_an_archive_stays_inside_the_source() {
    let options = Options {
        http_retries: Some(0),
        // the sources are of another process
        selector: Some("!far".to_owned()),
        ..Options::default()
    };
    let session = Session::anywhere_with(&[], options).await;
    session.define(OciRepository::crd()).await;
    tenant(&session, "@home-a").await;
    let (up, path) = outside(&session);
    let server = ArtifactServer::start().await;
    let a = session.here(&map("@home-a", "a", "one"));
    let manifest = (EntryType::Regular, "app/a.yaml", &*a);
    let victim = session.folder().join("victim.yaml");
    let climbing = format!(
        "{}{}",
        "../".repeat(8),
        victim.to_str().unwrap().trim_start_matches('/')
    );
    let listed = (
        EntryType::Regular,
        "app/kustomization.yaml",
        "resources: [a.yaml, leaked.yaml]\n",
    );
    let check = async |name: &str, entries: &[(EntryType, &str, &str)], expected: &str| {
        let object = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
            "metadata": { "name": name, "namespace": session.home, "labels": { "far": "yes" } },
            "spec": { "url": "oci://registry.invalid/app", "interval": "10m" },
        });
        let sources: Api<OciRepository> = Api::namespaced(session.client.clone(), &session.home);
        let served = async || {
            let object: OciRepository = serde_json::from_value(object.clone()).unwrap();
            sources.create(&PostParams::default(), &object).await
        };
        eventually("OCIRepositories are served", DEADLINE, served).await;
        let revision = format!("latest@sha256:{}", "1".repeat(64));
        let artifact = server.publish_bytes(name, &revision, archive(entries));
        published::<OciRepository>(&session, name, &artifact).await;
        let spec = json!({ "sourceRef": { "kind": "OCIRepository", "name": name } });
        session.kustomize(name, "app", spec).await;
        refused(&session, name, expected).await;
        absent(&session, "@home-a", "leaked").await;
        absent(&session, "@home-a", "a").await;
        assert!(!victim.exists(), "{name} wrote outside");
    };
    check(
        "absolute-link",
        &[manifest, listed, (EntryType::Symlink, "app/leaked.yaml", &*path)],
        "leaked.yaml",
    )
    .await;
    check(
        "climbing-link",
        &[manifest, listed, (EntryType::Symlink, "app/leaked.yaml", &*up)],
        "leaked.yaml",
    )
    .await;
    // a directory that is a link, and a file through it
    let folder = session.folder().to_str().unwrap();
    let through = [
        listed,
        (EntryType::Symlink, "app/more", folder),
        (EntryType::Regular, "app/more/victim.yaml", &*a),
    ];
    check("through-a-link", &through, "").await;
    check(
        "hard-link",
        &[manifest, listed, (EntryType::Link, "app/leaked.yaml", &*path)],
        "is a hard link",
    )
    .await;
    check(
        "climbing",
        &[manifest, (EntryType::Regular, &*climbing, &*a)],
        "archive entry",
    )
    .await;
    let absolute = victim.to_str().unwrap();
    check(
        "absolute",
        &[manifest, (EntryType::Regular, absolute, &*a)],
        "archive entry",
    )
    .await;
    check(
        "device",
        &[manifest, (EntryType::Char, "app/null", "")],
        "archive entry",
    )
    .await;
    session.end().await;
}

#[tokio::test]
async fn a_remote_base_is_refused_by_name_with_any_flag() {
    let base = map("@home-a", "leaked", HIDDEN);
    for no_remote_bases in [false, true] {
        let policy = Policy {
            no_remote_bases,
            ..Policy::default()
        };
        let options = Options {
            policy,
            ..Options::default()
        };
        let session = Session::anywhere_with(&[("app/a.yaml", "{}")], options).await;
        tenant(&session, "@home-a").await;
        let (_, path) = outside(&session);
        let server = ArtifactServer::start().await;
        server.publish_bytes("base.yaml", "", session.here(&base).into_bytes());
        let there = server.url("base.yaml");
        let repository = session.repository.path().to_str().unwrap().to_owned();
        let remote = [
            ("http", "resources", there.clone()),
            (
                "https",
                "resources",
                "https://git.invalid/org/base//deploy?ref=v1".to_owned(),
            ),
            (
                "short",
                "resources",
                "github.com/org/base//deploy?ref=v1".to_owned(),
            ),
            ("scp", "resources", "git@git.invalid:org/base//deploy".to_owned()),
            ("ssh", "resources", "ssh://git@git.invalid/org/base".to_owned()),
            (
                "forced",
                "resources",
                "git::https://git.invalid/org/base".to_owned(),
            ),
            ("file", "resources", format!("file://{repository}//app")),
            (
                "component",
                "components",
                "https://git.invalid/org/base//deploy?ref=v1".to_owned(),
            ),
            ("crd", "crds", there.clone()),
            ("transformer", "transformers", there.clone()),
        ];
        for (name, field, url) in &remote {
            let kustomization = format!("namespace: @home-a\nresources: [a.yaml]\n{field}: [\"{url}\"]\n");
            let kustomization = match *field {
                "resources" => kustomization.replacen("resources: [a.yaml]\n", "", 1),
                _ => kustomization,
            };
            session.commit(&[
                (&*format!("{name}/kustomization.yaml"), Some(&*kustomization)),
                (&*format!("{name}/a.yaml"), Some(&*map("@home-a", "a", "one"))),
            ]);
            session
                .kustomize(name, name, json!({ "retryInterval": "1h" }))
                .await;
            refused(&session, name, "remote bases are refused here").await;
        }
        // a path that looks like a URL is a path
        let generator = format!("configMapGenerator: [{{name: leaked, files: [\"x={there}\"]}}]\n");
        session.commit(&[("files/kustomization.yaml", Some(&*generator))]);
        session
            .kustomize("files", "files", json!({ "retryInterval": "1h" }))
            .await;
        refused(&session, "files", "").await;
        assert_eq!(server.asked("base.yaml"), 0);
        absent(&session, "@home-a", "leaked").await;
        assert!(Path::new(&path).exists());
        session.end().await;
    }
}

/// Names that would change the URL path.
const NO_NAMES: [&str; 5] = [
    "../../@home-platform/secrets/theirs",
    "..",
    "theirs/status",
    "theirs?watch=true",
    "theirs%2f",
];

#[tokio::test]
async fn a_reference_with_a_path_in_its_name_reads_nothing() {
    let files = [("app/a.yaml", &*map("@home-a", "a", "${key}"))];
    let session = Session::anywhere_with(&files, Options::with_tokens()).await;
    tenant(&session, "@home-a").await;
    session.namespace("@home-platform").await;
    let theirs = json!({ "metadata": { "name": "theirs" }, "stringData": { "key": HIDDEN, "value": "{}" } });
    create::<Secret>(&session, "@home-platform", theirs).await;
    let public = json!({ "metadata": { "name": "theirs" }, "data": { "key": HIDDEN } });
    create::<ConfigMap>(&session, "@home-platform", public).await;
    let revision = session.commit(&[]);
    for (number, name) in NO_NAMES.into_iter().enumerate() {
        let from = |kind: &str| json!({ "postBuild": { "substituteFrom": [{ "kind": kind, "name": name, "optional": true }] } });
        let decryption = json!({ "decryption": { "provider": "sops", "secretRef": { "name": name } } });
        for (field, spec, kind) in [
            ("secret", from("Secret"), "Secret"),
            ("map", from("ConfigMap"), "ConfigMap"),
            ("key", decryption, "Secret"),
            (
                "clusters",
                json!({ "kubeConfig": { "configMapRef": { "name": name } } }),
                "ConfigMap",
            ),
            (
                "kubeconfig",
                json!({ "kubeConfig": { "secretRef": { "name": name } } }),
                "Secret",
            ),
        ] {
            let own = format!("{field}-{number}");
            session.kustomize(&own, "app", spec).await;
            refused(
                &session,
                &own,
                &format!("that is not a name that a {kind} can have"),
            )
            .await;
        }
        // names that are looked up in memory, and are in no URL
        let source = json!({ "sourceRef": { "kind": "GitRepository", "name": name } });
        let other = json!({ "dependsOn": [{ "name": name }] });
        for (field, spec) in [("source", source), ("other", other)] {
            let own = format!("{field}-{number}");
            session.kustomize(&own, "app", spec).await;
            refused(&session, &own, "not found").await;
        }
    }
    absent(&session, "@home-a", "a").await;
    let all = session
        .kustomizations()
        .list(&kube::api::ListParams::default())
        .await
        .unwrap();
    for one in all.items {
        let applied = one.status.and_then(|status| status.last_applied_revision);
        assert_ne!(applied.as_deref(), Some(&*revision), "{:?}", one.metadata.name);
    }
    session.end().await;
}

#[tokio::test]
async fn a_git_repository_with_a_path_in_a_name_reads_nothing() {
    let session = Session::anywhere(&[]).await;
    session.namespace("@home-platform").await;
    let theirs = json!({
        "metadata": { "name": "theirs" },
        "stringData": { "username": "platform", "password": HIDDEN, "address": "http://127.0.0.1:1" },
    });
    create::<Secret>(&session, "@home-platform", theirs).await;
    for (number, name) in NO_NAMES.into_iter().enumerate() {
        for (field, spec, expected) in [
            (
                "secret",
                json!({ "secretRef": { "name": name } }),
                "not a name that a Secret can have",
            ),
            (
                "proxy",
                json!({ "proxySecretRef": { "name": name } }),
                "not a name that a Secret can have",
            ),
            (
                "include",
                json!({ "include": [{ "repository": { "name": name } }] }),
                "GitRepository.source.toolkit.fluxcd.io",
            ),
        ] {
            let mut all = json!({ "url": "https://127.0.0.1:1/platform", "interval": "10m" });
            all.as_object_mut()
                .unwrap()
                .extend(spec.as_object().unwrap().clone());
            let own = format!("{field}-{number}");
            let metadata = json!({ "name": own, "labels": session.labels() });
            let object = json!({ "metadata": metadata, "spec": all });
            create::<GitRepository>(&session, "@home", object).await;
            let sources: Api<GitRepository> = Api::namespaced(session.client.clone(), &session.home);
            let look = async || {
                let status = sources.get(&own).await.unwrap().status.unwrap_or_default();
                let message = |condition: &Condition| condition.message.clone();
                let said = condition(&status.conditions, ConditionType::Ready)
                    .map(message)
                    .unwrap_or_default();
                match said.contains(expected) && !said.contains(HIDDEN) {
                    true => Ok(()),
                    false => Err(said),
                }
            };
            eventually(&format!("{own} is refused"), DEADLINE, look).await;
        }
    }
    session.end().await;
}

#[tokio::test]
async fn an_object_with_a_path_in_its_name_reaches_no_other_object() {
    let named = |name: &str, namespace: &str| {
        document(&json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": namespace }, "data": { "value": "mine" },
        }))
    };
    let session = Session::anywhere(&[("app/a.yaml", "{}")]).await;
    tenant(&session, "@home-a").await;
    session.namespace("@home-platform").await;
    let theirs = json!({ "metadata": { "name": "theirs" }, "data": { "value": "theirs" } });
    create::<ConfigMap>(&session, "@home-platform", theirs).await;
    let ways: [(&str, &str, &str, &str); 4] = [
        (
            "climbing",
            "../../@home-platform/configmaps/theirs",
            "@home-a",
            "invalid resource name",
        ),
        (
            "escaped",
            "..%2f..%2f@home-platform%2fconfigmaps%2ftheirs",
            "@home-a",
            "invalid resource name",
        ),
        (
            "query",
            "theirs?fieldManager=other",
            "@home-a",
            "theirs?fieldManager=other",
        ),
        ("namespace", "theirs", "@home-a/../platform", "invalid namespace"),
    ];
    for (path, name, namespace, expected) in ways {
        session.commit(&[(&*format!("{path}/a.yaml"), Some(&*named(name, namespace)))]);
        // with all rights, and with the tenant's
        session.kustomize(path, path, json!({})).await;
        refused(&session, path, expected).await;
    }
    session.commit(&[("app/a.yaml", Some(&*named(ways[0].1, "@home-a")))]);
    kustomize(&session, "@home-a", "app", json!({})).await;
    refused(&session, "@home-a/app", "invalid resource name").await;
    session.value("@home-platform", "theirs", Some("theirs")).await;
    // health checks do not find it there either
    let checks = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "namespace": "x/../../namespaces/@home-platform",
    }]);
    session.commit(&[("checks/a.yaml", Some(&*map("@home-a", "own", "one")))]);
    let spec = json!({ "healthChecks": checks, "timeout": "2s", "retryInterval": "1s" });
    session.kustomize("checks", "checks", spec).await;
    let message = session.fails("checks", "HealthCheckFailed").await;
    assert!(message.contains("theirs status: 'NotFound'"), "{message}");
    session.end().await;
}
