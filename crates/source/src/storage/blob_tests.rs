//! Blobs in the store: published, adopted after a restart, served.

use std::fs;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use http::Method;
use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::tests::{open, tree};
use super::{Blob, Place, Publisher, Retention, Storage, Stored};
use crate::limits::Limits;
use crate::pauses::Pauses;
use crate::tree::Tree;

const INDEX: &str = "index-1111.yaml";
const CHART: &str = "podinfo-6.5.4+build.1.tgz";
const LAYER: &str = "2222.tar.gz";
const BYTES_MAX: u64 = 200_000;

fn publisher() -> Publisher {
    Publisher::new(
        Place::new("HelmRepository", "flux-system", "podinfo").unwrap(),
        "1",
    )
}

fn path(file: &str) -> String {
    format!("helmrepository/flux-system/podinfo/{file}")
}

fn publish(storage: &Storage, file: &str, content: &[u8]) -> Result<Stored, String> {
    publish_at(storage, file, "1", content)
}

fn publish_at(storage: &Storage, file: &str, revision: &str, content: &[u8]) -> Result<Stored, String> {
    let blob = Blob {
        file,
        revision,
        bytes_max: BYTES_MAX,
    };
    let published = storage.publish_blob(&publisher(), &blob, content);
    published.map_err(|error| error.to_string())
}

/// Everything in the place's directory, unexpected files included.
fn files(root: &Path) -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(root.join(path("")))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".source")
        .collect();
    files.sort();
    files
}

fn bytes(storage: &Storage, digest: &str) -> Option<Vec<u8>> {
    let mut file = storage.open_blob(&publisher(), digest)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).unwrap();
    assert_eq!((file.size(), file.digest()), (bytes.len() as u64, digest));
    Some(bytes)
}

/// The response: status, type, length and content.
async fn ask(storage: &Storage, method: Method, path: &str) -> String {
    let request = http::Request::builder()
        .method(method)
        .uri(format!("/{path}"))
        .body(axum::body::Body::empty())
        .unwrap();
    let response = storage.router().oneshot(request).await.unwrap();
    let header = |name: &str| {
        let value = response.headers().get(name);
        value.map_or("-", |value| value.to_str().unwrap()).to_owned()
    };
    let head = format!(
        "{} {} {} {}",
        response.status().as_u16(),
        header("content-type"),
        header("content-length"),
        header("etag"),
    );
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{head} {}", String::from_utf8_lossy(&body))
}

/// `tree("1")` with another compression, so other bytes.
fn foreign_archive() -> Vec<u8> {
    let mut own = Vec::new();
    tree("1").write_archive(&mut own, &Limits::default()).unwrap();
    let mut tar = Vec::new();
    flate2::read::GzDecoder::new(&own[..])
        .read_to_end(&mut tar)
        .unwrap();
    let mut packed = Vec::new();
    flate2::read::GzEncoder::new(&tar[..], flate2::Compression::none())
        .read_to_end(&mut packed)
        .unwrap();
    assert_ne!(packed, own);
    packed
}

#[test]
fn blobs_are_stored_byte_for_byte() {
    let check = |file: &str, content: &[u8], media_type: &str| {
        let root = tempfile::tempdir().unwrap();
        let storage = open(root.path());
        let stored = publish(&storage, file, content).unwrap();
        assert_eq!(stored.path, path(file));
        assert_eq!(stored.url, format!("http://source.example:9090/{}", path(file)));
        assert_eq!(stored.media_type.to_string(), media_type, "{file}");
        assert_eq!((stored.size, stored.tree), (content.len() as u64, None), "{file}");
        assert_eq!(fs::read(root.path().join(path(file))).unwrap(), content, "{file}");
        assert_eq!(bytes(&storage, &stored.digest).unwrap(), content, "{file}");
        assert_eq!(files(root.path()), [file]);
    };
    check(INDEX, b"entries: {}\n", "application/yaml");
    check(INDEX, b"", "application/yaml");
    check(CHART, b"a chart", "application/gzip");
    check(LAYER, b"a layer", "application/gzip");
    // more than one buffer, and exactly the limit
    check(
        LAYER,
        &vec![7; usize::try_from(BYTES_MAX).unwrap()],
        "application/gzip",
    );
    let root = tempfile::tempdir().unwrap();
    let stored = publish(&open(root.path()), INDEX, b"abc").unwrap();
    let sha256sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(stored.digest, format!("sha256:{sha256sum}"));
}

#[test]
fn invalid_blobs_are_refused_and_leave_nothing() {
    let check = |file: &str, content: &[u8], expected: &str| {
        let root = tempfile::tempdir().unwrap();
        let refused = publish(&open(root.path()), file, content).unwrap_err();
        assert_eq!(refused, expected);
        assert_eq!(files(root.path()), [""; 0]);
    };
    let name = |file: &str, why: &str| {
        check(file, b"", &format!("cannot store a file named {file:?}: {why}"));
    };
    let characters = "it may contain letters, digits, `-`, `_`, `.`, `+` and `:`";
    name("", "the name is empty");
    name("../index.yaml", characters);
    name("a/b.yaml", characters);
    name("a\\b.yaml", characters);
    name("a b.yaml", characters);
    name("ä.yaml", characters);
    name("a\0.yaml", characters);
    name("..", "it begins with a dot, as the store's own files do");
    name(
        ".writing-1.yaml",
        "it begins with a dot, as the store's own files do",
    );
    name("latest.tar.gz", "the name is reserved for the newest artifact");
    name("index.yaml", "the name is reserved for the newest artifact");
    name("a.zip", "it must end in `.tar.gz`, `.tgz` or `.yaml`");
    name("a.tgz.lock", "it must end in `.tar.gz`, `.tgz` or `.yaml`");
    let long = format!("{}.yaml", "a".repeat(251));
    let shown = &long[..255];
    let why = "the name is longer than 255 bytes";
    check(&long, b"", &format!("cannot store a file named {shown:?}: {why}"));
    let larger = vec![7; usize::try_from(BYTES_MAX).unwrap() + 1];
    let publisher = publisher();
    let place = publisher.place();
    let limit = format!("cannot store {place}/{CHART}: a file larger than 200000 bytes");
    check(CHART, &larger, &limit);
}

/// Some bytes, then a failure.
struct Breaking(bool);

impl Read for Breaking {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        buffer[..3].copy_from_slice(b"abc");
        Ok(3)
    }
}

#[test]
fn a_failed_publish_keeps_published_blobs() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let first = publish(&storage, CHART, b"first").unwrap();
    let blob = Blob {
        file: CHART,
        revision: "2",
        bytes_max: BYTES_MAX,
    };
    let broken = storage
        .publish_blob(&publisher(), &blob, Breaking(false))
        .unwrap_err();
    let shown = format!("cannot read the content of {}", path(CHART));
    assert_eq!(broken.to_string(), shown);
    let small = Blob { bytes_max: 2, ..blob };
    storage
        .publish_blob(&publisher(), &small, &b"abc"[..])
        .unwrap_err();
    assert_eq!(files(root.path()), [CHART]);
    assert_eq!(bytes(&storage, &first.digest).unwrap(), b"first");
}

#[test]
fn publishing_the_same_bytes_again_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let first = publish(&storage, CHART, b"one").unwrap();
    let modified = || {
        fs::metadata(root.path().join(path(CHART)))
            .unwrap()
            .modified()
            .unwrap()
    };
    let before = modified();
    assert_eq!(publish(&storage, CHART, b"one").unwrap(), first);
    // another revision of the same bytes is a new artifact with the same file
    let renamed = publish_at(&storage, CHART, "2", b"one").unwrap();
    assert_eq!(
        (renamed.digest, renamed.revision.as_str()),
        (first.digest.clone(), "2")
    );
    assert_eq!(modified(), before, "nothing is written");
    // other bytes under the same name replace it
    let other = publish(&storage, CHART, b"two").unwrap();
    assert_eq!(bytes(&storage, &other.digest).unwrap(), b"two");
    assert_eq!(bytes(&storage, &first.digest), None);
    // changed bytes are written again
    fs::write(root.path().join(path(CHART)), "damaged").unwrap();
    assert_eq!(publish(&storage, CHART, b"two").unwrap().digest, other.digest);
    assert_eq!(bytes(&storage, &other.digest).unwrap(), b"two");
    assert_eq!(files(root.path()), [CHART]);
}

#[test]
fn a_blob_survives_a_restart() {
    let check = |file: &str, content: &[u8]| {
        let root = tempfile::tempdir().unwrap();
        let first = publish(&open(root.path()), file, content).unwrap();
        // files of Flux or of a killed process are not artifacts
        fs::write(root.path().join(path(".writing-abc")), "half").unwrap();
        fs::write(root.path().join(path(&format!("{file}.lock"))), "").unwrap();
        let storage = open(root.path());
        assert_eq!(files(root.path()), [file.to_owned(), format!("{file}.lock")]);
        assert_eq!(bytes(&storage, &first.digest).unwrap(), content, "{file}");
        let storage = open(root.path());
        let adopted = storage.adopt_blob(&publisher(), &first.path, &first.digest, "1");
        let adopted = adopted.unwrap().unwrap();
        assert_eq!(
            (&adopted.digest, adopted.size, adopted.media_type, &adopted.tree),
            (&first.digest, first.size, first.media_type, &None)
        );
        let again = publish(&storage, file, content).unwrap();
        assert_eq!(again, adopted, "{file}: nothing is written");
    };
    check(INDEX, b"entries: {}\n");
    check(CHART, b"no archive, and nobody has to read it");
    check(LAYER, b"no archive either");
}

#[test]
fn damaged_blobs_are_not_adopted() {
    let check = |damage: fn(&Path), asked: &str, digest: Option<&str>| {
        let root = tempfile::tempdir().unwrap();
        let first = publish(&open(root.path()), INDEX, b"entries: {}\n").unwrap();
        damage(&root.path().join(path(INDEX)));
        let storage = open(root.path());
        let digest = digest.unwrap_or(&first.digest);
        let adopted = storage.adopt_blob(&publisher(), asked, digest, "1").unwrap();
        assert_eq!(adopted, None, "{asked} {digest}");
    };
    let whole: fn(&Path) = |_| {};
    check(|path| fs::write(path, "entries: {}").unwrap(), &path(INDEX), None);
    check(|path| fs::remove_file(path).unwrap(), &path(INDEX), None);
    check(whole, &path(INDEX), Some("sha256:00"));
    check(whole, &path("index-2222.yaml"), None);
    check(whole, &path("../../../etc/passwd"), None);
    check(whole, INDEX, None);

    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let first = publish(&storage, INDEX, b"entries: {}\n").unwrap();
    fs::write(root.path().join(path(INDEX)), "entries: {evil: []}").unwrap();
    assert_eq!(bytes(&storage, &first.digest), None);
}

#[test]
fn archive_blobs_have_a_tree() {
    let check = |file: &str, content: &[u8], expected: bool| {
        let root = tempfile::tempdir().unwrap();
        let storage = open(root.path());
        let stored = publish(&storage, file, content).unwrap();
        for storage in [storage, open(root.path())] {
            let found = storage
                .tree(&publisher(), &stored.digest, &Pauses::none())
                .unwrap();
            let in_memory = found.as_ref().map(Tree::bytes_in_memory);
            assert_eq!(in_memory, expected.then_some(0), "{file}");
            let config = found.map(|tree| tree.read("app/config.yaml").unwrap());
            assert_eq!(config.as_deref(), expected.then_some(&b"1"[..]), "{file}");
            assert_eq!(bytes(&storage, &stored.digest).unwrap(), content, "{file}");
        }
    };
    check(LAYER, &foreign_archive(), true);
    check(CHART, &foreign_archive(), true);
    check(CHART, b"no archive", false);
    check(INDEX, b"entries: {}\n", false);
    // its name says that it is not an archive
    check(INDEX, &foreign_archive(), false);
}

#[test]
fn blobs_do_not_replace_archives_of_equal_trees() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let foreign = publish(&storage, LAYER, &foreign_archive()).unwrap();
    assert!(
        storage
            .tree(&publisher(), &foreign.digest, &Pauses::none())
            .unwrap()
            .is_some()
    );
    let archived = storage
        .publish(&publisher(), "latest@sha256:2222", &tree("1"))
        .unwrap();
    assert_eq!(archived.path, foreign.path);
    assert_ne!(archived.digest, foreign.digest);
    let mut expected = Vec::new();
    tree("1")
        .write_archive(&mut expected, &Limits::default())
        .unwrap();
    assert_eq!(bytes(&storage, &archived.digest).unwrap(), expected);
    // and back to the layer's bytes
    let again = publish(&storage, LAYER, &foreign_archive()).unwrap();
    assert_eq!((again.digest, again.tree), (foreign.digest, None));
}

#[test]
fn retention_and_removal_are_the_same_for_both_kinds() {
    let root = tempfile::tempdir().unwrap();
    let retention = Retention {
        ttl: Duration::from_secs(3600),
        records: 2,
    };
    let storage = Storage::open(root.path().to_owned(), "http://source.example", retention).unwrap();
    let index = publish(&storage, INDEX, b"entries: {}\n").unwrap();
    let archive = storage.publish(&publisher(), "sha256:3333", &tree("1")).unwrap();
    assert_eq!(files(root.path()), ["3333.tar.gz", INDEX]);
    assert_eq!(storage.newest(publisher().place()), Some(tree("1")));
    publish(&storage, CHART, b"a chart").unwrap();
    assert_eq!(files(root.path()), ["3333.tar.gz", CHART]);
    assert_eq!(
        storage.newest(publisher().place()),
        None,
        "a chart shares nothing"
    );
    assert_eq!(bytes(&storage, &index.digest), None);
    publish_at(&storage, "index-4444.yaml", "4", b"").unwrap();
    assert_eq!(files(root.path()), ["index-4444.yaml", CHART]);
    assert_eq!(
        storage
            .tree(&publisher(), &archive.digest, &Pauses::none())
            .unwrap(),
        None
    );
    assert_eq!(storage.collect(publisher().place()).unwrap(), 0);
    storage.remove(publisher().place()).unwrap();
    assert_eq!(files(root.path()), [""; 0]);
}

#[tokio::test]
async fn only_intact_blobs_are_served_with_their_type() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let index = publish(&storage, INDEX, b"entries: {}\n").unwrap();
    let chart = publish(&storage, CHART, b"a chart").unwrap();
    let yaml = format!("200 application/yaml 12 \"{}\" ", index.digest);
    let gzip = format!("200 application/gzip 7 \"{}\" ", chart.digest);
    let not_found = "404 - 17 - no such artifact\n";
    let get = async |storage: &Storage, file: &str| ask(storage, Method::GET, &path(file)).await;
    assert_eq!(get(&storage, INDEX).await, format!("{yaml}entries: {{}}\n"));
    assert_eq!(ask(&storage, Method::HEAD, &path(INDEX)).await, yaml);
    assert_eq!(get(&storage, CHART).await, format!("{gzip}a chart"));
    assert_eq!(
        get(&storage, "podinfo-6.5.4%2Bbuild.1.tgz").await,
        format!("{gzip}a chart")
    );
    // each type has its newest, like Flux's links
    assert_eq!(
        get(&storage, "index.yaml").await,
        format!("{yaml}entries: {{}}\n")
    );
    assert_eq!(get(&storage, "latest.tar.gz").await, format!("{gzip}a chart"));
    assert_eq!(get(&storage, "index-2222.yaml").await, not_found);

    let storage = open(root.path());
    assert_eq!(
        get(&storage, INDEX).await,
        not_found,
        "not before it is asked for"
    );
    storage
        .adopt_blob(&publisher(), &index.path, &index.digest, "1")
        .unwrap()
        .unwrap();
    assert_eq!(
        get(&storage, "index.yaml").await,
        format!("{yaml}entries: {{}}\n")
    );
    fs::write(root.path().join(path(INDEX)), "entries: {evil: []}").unwrap();
    assert_eq!(get(&storage, INDEX).await, not_found);
    assert_eq!(get(&storage, "index.yaml").await, not_found);
}
