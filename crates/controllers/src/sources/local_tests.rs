//! Files of directories as values, and whole runs of sources that directories stand for.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use equate_api::source::{Bucket, OciRepository};
use equate_egress::{Egress, Substitute};
use equate_helm::repository::catalog::Catalog;
use equate_source::{Limits, Tree};
use kube::CustomResourceExt as _;
use reqwest::Url;
use serde_json::json;

use super::charts::HelmSettings;
use super::local::images;
use super::testing::{Session, chart, index};

const HOME: &str = "https://charts.example.org/stable/";

fn write(root: &Path, files: &[(&str, &[u8])]) {
    for (path, bytes) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

fn place(directory: &Path, below: &str, name: &str) -> Substitute {
    Substitute {
        directory: directory.to_owned(),
        below: below.to_owned(),
        name: name.to_owned(),
    }
}

fn get(directory: &Path, url: &str) -> Result<Vec<u8>, String> {
    let home = Url::parse(HOME).unwrap();
    let place = place(directory, "", "stable");
    let file = super::local::get(&place, &home, url, 1 << 20, &HelmSettings::default());
    file.map_err(|error| error.source().map_or_else(String::new, ToString::to_string))
}

#[test]
fn an_index_is_made_of_the_charts_of_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let packed = chart("app", "1.0.0", &[]);
    write(
        root,
        &[
            ("app-1.0.0.tgz", &packed),
            (
                "app/Chart.yaml",
                b"apiVersion: v2\nname: app\nversion: 1.1.0\nappVersion: v7\n",
            ),
            ("notes/README.md", b"no chart"),
        ],
    );
    let index = get(root, &format!("{HOME}index.yaml")).unwrap();
    assert_eq!(
        get(root, &format!("{HOME}index.yaml")).unwrap(),
        index,
        "byte for byte"
    );
    let text = String::from_utf8(index.clone()).unwrap();
    assert!(text.contains("appVersion: v7"), "{text}");
    let catalog = Catalog::parse(&index, &HelmSettings::default().index()).unwrap();
    let offer = |range: &str| catalog.select("app", range).unwrap().clone();
    assert_eq!(&*offer("1.0.0").digest, super::testing::digest(&packed));
    // a change of the directory is another version
    let newest = offer("").version;
    let (version, digest) = newest.split_once('+').unwrap();
    assert_eq!((version, digest.len()), ("1.1.0", 12));
    assert_eq!(offer("1.1.0").version, newest);
    for offer in [offer("1.0.0"), offer("*")] {
        let file = offer.url.unwrap();
        let bytes = get(root, &format!("{HOME}{file}")).unwrap();
        assert_eq!(super::testing::digest(&bytes), &*offer.digest, "{file}");
    }
    let absent = get(root, &format!("{HOME}other-1.0.0.tgz")).unwrap_err();
    assert!(
        absent.contains("has no other-1.0.0.tgz; put the packed chart there"),
        "{absent}"
    );
    for outside in ["%2e%2e/secret", "..%2fsecret", "%2fetc/passwd"] {
        assert!(get(root, &format!("{HOME}{outside}")).is_err(), "{outside}");
    }
}

#[test]
fn an_index_of_the_directory_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let packed = chart("app", "1.0.0", &[]);
    let elsewhere = "https://files.example.org/releases/app-1.0.0.tgz";
    let own = index(&[("app", "1.0.0", elsewhere, "")]);
    write(
        folder.path(),
        &[("index.yaml", own.as_bytes()), ("app-1.0.0.tgz", &packed)],
    );
    assert_eq!(
        get(folder.path(), &format!("{HOME}index.yaml")),
        Ok(own.into_bytes())
    );
    // nothing is fetched from the host that it names
    assert_eq!(get(folder.path(), elsewhere), Ok(packed));
}

#[test]
fn images_are_charts_or_content() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        &[
            ("charts/app-1.0.0.tgz", &chart("app", "1.0.0", &[])),
            ("charts/app-1.10.0.tgz", &chart("app", "1.10.0", &[])),
            ("charts/app-2-0.1.0.tgz", &chart("app-2", "0.1.0", &[])),
            (
                "charts/web/Chart.yaml",
                b"apiVersion: v2\nname: web\nversion: 0.1.0\n",
            ),
            ("manifests/app/a.yaml", b"a: 1\n"),
        ],
    );
    let tags = |place: Substitute| {
        let images = images(&place, &HelmSettings::default());
        let images = images.map_err(|error| error.to_string())?;
        Ok(images.into_iter().map(|image| image.tag).collect::<Vec<_>>())
    };
    let owned = |tags: &[&str]| Ok::<_, String>(tags.iter().map(|tag| Some((*tag).to_owned())).collect());
    // the repository of a chart is below that of the charts
    assert_eq!(
        tags(place(&root.join("charts"), "app", "app")),
        owned(&["1.0.0", "1.10.0"])
    );
    assert_eq!(
        tags(place(root, "charts/app", "app")),
        owned(&["1.0.0", "1.10.0"])
    );
    assert_eq!(
        tags(place(&root.join("charts"), "", "app")),
        owned(&["1.0.0", "1.10.0"])
    );
    let archive = root.join("charts/app-1.0.0.tgz");
    assert_eq!(tags(place(&archive, "", "app")), owned(&["1.0.0"]));
    // a directory has its own version, and one that changes with it
    let web = tags(place(root, "charts/web", "web")).unwrap();
    let [Some(own), Some(marked)] = web.as_slice() else {
        panic!("{web:?}");
    };
    assert!(own == "0.1.0" && marked.starts_with("0.1.0_"), "{web:?}");
    let absent = tags(place(&root.join("charts"), "db", "db")).unwrap_err();
    assert!(absent.contains("charts has no db; put"), "{absent}");
    let other = tags(place(&root.join("charts/web"), "db", "db")).unwrap_err();
    assert!(other.contains("charts/web has no db; put"), "{other}");
    let content = place(root, "manifests/app", "app");
    assert_eq!(tags(content.clone()), Ok(vec![None]));
    let image = images(&content, &HelmSettings::default()).unwrap().remove(0);
    let tree = Tree::from_archive(&image.content[..], &Limits::default()).unwrap();
    assert_eq!(&tree.read("a.yaml").unwrap()[..], b"a: 1\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sources_are_read_from_directories() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    write(
        root,
        &[
            (
                "charts/app/Chart.yaml",
                b"apiVersion: v2\nname: app\nversion: 1.0.0\n",
            ),
            ("charts/app/values.yaml", b"a: 0\n"),
            ("charts/app/prod.yaml", b"a: 1\n"),
            ("manifests/a.yaml", b"a: 1\n"),
            ("objects/dev/b.yaml", b"b: 1\n"),
        ],
    );
    let egress = [
        ("https://charts.example.org", "charts"),
        ("oci://registry.example.org/charts", "charts"),
        ("oci://registry.example.org/manifests", "manifests"),
        ("https://store.example.org/apps", "objects"),
    ];
    let egress = egress.into_iter().fold(Egress::default(), |egress, (url, path)| {
        egress.instead_of(url, &root.join(path))
    });
    let kinds = [OciRepository::crd(), Bucket::crd()];
    let controllers = ["source-controller"];
    let session = Session::standing_in(HelmSettings::default(), egress, &kinds, &controllers).await;
    // the Secrets are on another machine, and nothing needs them
    let secret = json!({ "name": "absent" });
    let source = |more: serde_json::Value| {
        let mut spec = json!({ "interval": "1h", "secretRef": secret });
        spec.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!({ "spec": spec })
    };
    session
        .create(
            "HelmRepository",
            "http",
            source(json!({ "url": "https://charts.example.org/" })),
        )
        .await;
    let registry = json!({
        "interval": "1h", "url": "oci://registry.example.org/charts", "type": "oci", "provider": "aws",
    });
    session
        .create("HelmRepository", "oci", json!({ "spec": registry }))
        .await;
    for name in ["http", "oci"] {
        let spec = json!({
            "interval": "1h", "chart": "app", "version": "1.0.0",
            "sourceRef": { "kind": "HelmRepository", "name": name },
        });
        session.create("HelmChart", name, json!({ "spec": spec })).await;
        let mut spec = spec;
        spec["valuesFiles"] = json!(["prod.yaml"]);
        let name = format!("{name}-values");
        session.create("HelmChart", &name, json!({ "spec": spec })).await;
    }
    let manifests = json!({ "url": "oci://registry.example.org/manifests", "ref": { "semver": ">=1.0.0" } });
    session
        .create("OCIRepository", "manifests", source(manifests))
        .await;
    let tagged = json!({ "url": "oci://registry.example.org/manifests", "ref": { "tag": "v1" } });
    session.create("OCIRepository", "tagged", source(tagged)).await;
    let packed = json!({
        "url": "oci://registry.example.org/charts/app", "ref": { "semver": "1.x" },
        "layerSelector": { "operation": "copy", "mediaType": "application/vnd.cncf.helm.chart.content.v1.tar+gzip" },
    });
    session.create("OCIRepository", "app", source(packed)).await;
    let bucket =
        json!({ "provider": "gcp", "endpoint": "store.example.org", "bucketName": "apps", "prefix": "dev/" });
    session.create("Bucket", "apps", source(bucket)).await;

    let pulled = "pulled 'app' chart with version '1.0.0+";
    let first = session
        .ready("HelmChart", "http", "ChartPullSucceeded", pulled)
        .await;
    session
        .ready("HelmChart", "oci", "ChartPullSucceeded", pulled)
        .await;
    // the digest of the files stays beside the generation
    let packaged = "packaged 'app' chart with version '1.0.0+";
    let mut merged = Vec::new();
    for name in ["http-values", "oci-values"] {
        let status = session
            .ready("HelmChart", name, "ChartPackageSucceeded", packaged)
            .await;
        let revision = status["artifact"]["revision"].as_str().unwrap();
        assert!(
            revision.len() > "1.0.0+.1".len() && revision.ends_with(".1"),
            "{revision}"
        );
        assert_eq!(values(&session.bytes(&status)), json!({ "a": 1.0 }));
        merged.push((name, status));
    }
    let stored = "stored artifact for digest 'latest@sha256:";
    session
        .ready("OCIRepository", "manifests", "Succeeded", stored)
        .await;
    let stored = "stored artifact for digest 'v1@sha256:";
    let tagged = session
        .ready("OCIRepository", "tagged", "Succeeded", stored)
        .await;
    let tree = Tree::from_archive(&session.bytes(&tagged)[..], &Limits::default()).unwrap();
    assert_eq!(&tree.read("a.yaml").unwrap()[..], b"a: 1\n");
    let stored = "stored artifact for digest '1.0.0_";
    let app = session.ready("OCIRepository", "app", "Succeeded", stored).await;
    assert_eq!(session.bytes(&app), session.bytes(&first));
    let objects = session
        .ready("Bucket", "apps", "Succeeded", "stored artifact")
        .await;
    let tree = Tree::from_archive(&session.bytes(&objects)[..], &Limits::default()).unwrap();
    assert_eq!(&tree.read("dev/b.yaml").unwrap()[..], b"b: 1\n");

    // each source follows its files, and the chart its repository
    write(
        root,
        &[
            ("charts/app/values.yaml", b"a: 2\n"),
            ("manifests/a.yaml", b"a: 2\n"),
            ("objects/dev/b.yaml", b"b: 2\n"),
        ],
    );
    for (kind, name, before) in [
        ("OCIRepository", "tagged", &tagged),
        ("OCIRepository", "app", &app),
        ("Bucket", "apps", &objects),
        ("HelmChart", "http", &first),
        ("HelmChart", "oci", &first),
    ] {
        let revision = &before["artifact"]["revision"];
        let reason = if kind == "HelmChart" {
            "ChartPullSucceeded"
        } else {
            "Succeeded"
        };
        session
            .until(kind, name, reason, "", |status| {
                status["artifact"]["revision"] != *revision
            })
            .await;
    }

    // a changed values file is a new version, too
    let changed = async |name: &str, before: &serde_json::Value| {
        let revision = &before["artifact"]["revision"];
        let is_new = |status: &serde_json::Value| status["artifact"]["revision"] != *revision;
        let reason = "ChartPackageSucceeded";
        session.until("HelmChart", name, reason, "", is_new).await
    };
    for (name, before) in &mut merged {
        *before = changed(name, before).await;
    }
    write(root, &[("charts/app/prod.yaml", b"a: 3\n")]);
    for (name, before) in &merged {
        let status = changed(name, before).await;
        assert_eq!(values(&session.bytes(&status)), json!({ "a": 3.0 }));
    }

    // a directory has no signatures, and nothing pretends that it has
    let key = json!({ "verify": { "provider": "cosign", "secretRef": { "name": "keys" } } });
    session
        .create("Secret", "keys", json!({ "stringData": { "cosign.pub": KEY } }))
        .await;
    session
        .patch("OCIRepository", "app", json!({ "spec": key }))
        .await;
    let why = "has no signatures; remove spec.verify";
    session
        .ready("OCIRepository", "app", "VerificationError", why)
        .await;
    session.stop().await;
}

/// The values of a packed chart.
fn values(archive: &[u8]) -> serde_json::Value {
    let chart = equate_helm::Chart::from_archive(archive, &equate_helm::Limits::default());
    serde_json::Value::Object((*chart.unwrap().values).clone())
}

const KEY: &str = "-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE6TQTeaUmsZda2f8t5ubJPrGaMs9m
Ou+/PuEI9uFqcyAST8TGKVAA3Fcj6RTbG8ECWYGb8PfZMLn7dyGC9nYKWw==
-----END PUBLIC KEY-----
";
