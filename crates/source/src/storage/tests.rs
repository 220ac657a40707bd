use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use jiff::{SignedDuration, Timestamp};
use tower::ServiceExt;

use super::record::{Content, Record};
use super::{Blob, MediaType, Place, Publisher, Retention, Share, Storage, StorageError, Stored, place};
use crate::limits::Limits;
use crate::pauses::Pauses;
use crate::tree::{Building, Tree};

const FIRST: &str = "main@sha1:1111111111111111111111111111111111111111";
const SECOND: &str = "main@sha1:2222222222222222222222222222222222222222";
const THIRD: &str = "main@sha1:3333333333333333333333333333333333333333";
const FIRST_PATH: &str = "gitrepository/flux-system/fleet/1111111111111111111111111111111111111111.tar.gz";

pub(super) fn tree(content: &str) -> Tree {
    let limits = Limits::default();
    let mut building = Building::new(&limits);
    building
        .file("app/config.yaml", Bytes::from(content.to_owned()), false)
        .unwrap();
    building.finish()
}

fn fleet() -> Publisher {
    publisher("flux-system", "fleet", "1")
}

fn publisher(namespace: &str, name: &str, uid: &str) -> Publisher {
    Publisher::new(Place::new("GitRepository", namespace, name).unwrap(), uid)
}

pub(super) fn open(root: &Path) -> Storage {
    Storage::open(
        root.to_owned(),
        "http://source.example:9090/",
        Retention::default(),
    )
    .unwrap()
}

fn files(root: &Path) -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(root.join("gitrepository/flux-system/fleet"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != ".source")
        .map(|name| name[..1].to_owned() + &name[40.min(name.len())..])
        .collect();
    files.sort();
    files
}

#[test]
fn artifacts_have_fluxs_paths() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let stored = storage.publish(&fleet(), FIRST, &tree("1")).unwrap();
    assert_eq!(stored.path, FIRST_PATH);
    assert_eq!(stored.url, format!("http://source.example:9090/{FIRST_PATH}"));
    assert_eq!(stored.revision, FIRST);
    let mut expected = Vec::new();
    let archived = tree("1")
        .write_archive(&mut expected, &Limits::default())
        .unwrap();
    assert_eq!(
        (stored.digest.clone(), stored.size),
        (archived.digest, archived.size)
    );
    assert_eq!(fs::read(root.path().join(FIRST_PATH)).unwrap(), expected);
    assert_eq!(
        storage.tree(&fleet(), &stored.digest, &Pauses::none()).unwrap(),
        Some(tree("1"))
    );
    assert_eq!(
        storage.tree(&fleet(), "sha256:00", &Pauses::none()).unwrap(),
        None
    );
    #[cfg(unix)]
    {
        let mode =
            |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
        assert_eq!(mode(&root.path().join(FIRST_PATH)) & 0o777, 0o600);
        assert_eq!(
            mode(root.path().join(FIRST_PATH).parent().unwrap()) & 0o777,
            0o700
        );
    }
}

#[test]
fn publishing_again_writes_only_changes() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let first = storage.publish(&fleet(), FIRST, &tree("1")).unwrap();
    assert_eq!(storage.publish(&fleet(), FIRST, &tree("1")).unwrap(), first);
    let second = storage.publish(&fleet(), SECOND, &tree("1")).unwrap();
    assert_eq!((second.digest, second.size), (first.digest.clone(), first.size));
    assert_eq!(files(root.path()), ["1.tar.gz", "2.tar.gz"]);
    // the same commit with other ignore rules: the same file, another artifact
    let changed = storage.publish(&fleet(), SECOND, &tree("2")).unwrap();
    assert_ne!(changed.digest, first.digest);
    assert_eq!(
        storage.tree(&fleet(), &changed.digest, &Pauses::none()).unwrap(),
        Some(tree("2"))
    );
    assert_eq!(files(root.path()), ["1.tar.gz", "2.tar.gz"]);
    storage.publish(&fleet(), THIRD, &tree("3")).unwrap();
    assert_eq!(files(root.path()), ["2.tar.gz", "3.tar.gz"]);
    assert_eq!(
        storage.tree(&fleet(), &first.digest, &Pauses::none()).unwrap(),
        None
    );
    storage.remove(fleet().place()).unwrap();
    assert_eq!(files(root.path()), [""; 0]);
    assert_eq!(
        storage.tree(&fleet(), &changed.digest, &Pauses::none()).unwrap(),
        None
    );
    storage.remove(fleet().place()).unwrap();
}

#[test]
fn retention_removes_older_artifacts() {
    let now: Timestamp = "2026-01-02T03:04:05Z".parse().unwrap();
    let check = |ttl: u64, records: usize, ages: &[i64], expected: &[&str]| {
        let all: Vec<Record> = ages
            .iter()
            .map(|age| Record {
                file: format!("{age}"),
                media_type: MediaType::Gzip,
                digest: None,
                fingerprint: None,
                size: 1,
                revision: None,
                updated: now - SignedDuration::from_secs(*age),
                content: Content::Blob(None),
            })
            .collect();
        let retention = Retention {
            ttl: Duration::from_secs(ttl),
            records,
        };
        assert_eq!(retention.garbage(&all, now), expected, "{ttl} {records} {ages:?}");
    };
    check(60, 2, &[], &[]);
    check(60, 2, &[1000], &[]);
    check(60, 2, &[60, 0], &[]);
    check(60, 2, &[61, 0], &["61"]);
    check(60, 2, &[3, 2, 1], &["3"]);
    check(60, 2, &[500, 400, 1], &["500", "400"]);
    check(60, 4, &[61, 60, 0], &["61"]);
    check(60, 0, &[3, 2], &["3"]);
    // after a clock went back, nothing is old
    check(60, 2, &[-10, 0], &[]);
}

#[test]
fn artifacts_survive_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path()).publish(&fleet(), FIRST, &tree("1")).unwrap();
    let half = root.path().join("gitrepository/flux-system/fleet/.writing-abc");
    fs::write(&half, "half").unwrap();

    let storage = open(root.path());
    assert!(!half.exists(), "what a killed process left is removed");
    let by_digest = storage
        .tree(&fleet(), &first.digest, &Pauses::none())
        .unwrap()
        .unwrap();
    assert_eq!(by_digest.read("app/config.yaml").unwrap(), "1");

    let storage = Storage::open(root.path().to_owned(), "http://other", Retention::default()).unwrap();
    let adopted = storage
        .adopt(&fleet(), &first.path, &first.digest, FIRST)
        .unwrap()
        .unwrap();
    assert_eq!(adopted.url, format!("http://other/{FIRST_PATH}"));
    assert_eq!(
        (adopted.digest, adopted.size, adopted.tree),
        (first.digest.clone(), first.size, Some(tree("1")))
    );
    // the adopted artifact is shared: nothing is written
    storage.publish(&fleet(), SECOND, &tree("1")).unwrap();
    assert_eq!(files(root.path()), ["1.tar.gz", "2.tar.gz"]);
}

#[test]
fn a_digest_opens_an_artifact_only_for_its_publisher() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let first = storage.publish(&fleet(), FIRST, &tree("1")).unwrap();
    let others = [
        publisher("team-a", "fleet", "1"),
        publisher("flux-system", "other", "1"),
        publisher("flux-system", "fleet", "2"),
        Publisher::new(Place::new("Bucket", "flux-system", "fleet").unwrap(), "1"),
    ];
    for storage in [storage, open(root.path())] {
        for other in &others {
            assert_eq!(
                storage.tree(other, &first.digest, &Pauses::none()).unwrap(),
                None,
                "{other:?}"
            );
            let adopted = storage.adopt(other, &first.path, &first.digest, FIRST).unwrap();
            assert_eq!(adopted, None, "{other:?}");
        }
        assert_eq!(
            storage.tree(&fleet(), &first.digest, &Pauses::none()).unwrap(),
            Some(tree("1"))
        );
    }
}

#[test]
fn a_later_source_of_the_same_name_replaces_all_artifacts() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path()).publish(&fleet(), FIRST, &tree("1")).unwrap();
    let later = publisher("flux-system", "fleet", "2");
    for storage in [open(root.path()), open(root.path())] {
        let second = storage.publish(&later, SECOND, &tree("2")).unwrap();
        assert_eq!(files(root.path()), ["2.tar.gz"]);
        assert_eq!(
            storage.tree(&later, &second.digest, &Pauses::none()).unwrap(),
            Some(tree("2"))
        );
        assert_eq!(
            storage.tree(&fleet(), &first.digest, &Pauses::none()).unwrap(),
            None
        );
    }
}

#[test]
fn a_store_without_bindings_is_bound_by_its_sources() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path()).publish(&fleet(), FIRST, &tree("1")).unwrap();
    let binding = root.path().join("gitrepository/flux-system/fleet/.source");
    fs::remove_file(&binding).unwrap();
    let storage = open(root.path());
    assert_eq!(
        storage
            .tree(&publisher("team-a", "fleet", "1"), &first.digest, &Pauses::none())
            .unwrap(),
        None
    );
    assert_eq!(
        storage.tree(&fleet(), &first.digest, &Pauses::none()).unwrap(),
        Some(tree("1"))
    );
    let adopted = storage.adopt(&fleet(), &first.path, &first.digest, FIRST);
    assert!(adopted.unwrap().is_some());
    let later = publisher("flux-system", "fleet", "2");
    for storage in [storage, open(root.path())] {
        assert_eq!(
            storage.tree(&later, &first.digest, &Pauses::none()).unwrap(),
            None
        );
    }
    fs::write(&binding, "v9 1").unwrap();
    assert_eq!(
        open(root.path())
            .tree(&fleet(), &first.digest, &Pauses::none())
            .unwrap(),
        None
    );
}

#[test]
fn damaged_artifacts_are_not_adopted() {
    let check = |damage: fn(&Path), path: &str, digest: Option<&str>| {
        let root = tempfile::tempdir().unwrap();
        let first = open(root.path()).publish(&fleet(), FIRST, &tree("1")).unwrap();
        damage(&root.path().join(FIRST_PATH));
        let storage = open(root.path());
        let digest = digest.unwrap_or(&first.digest);
        assert!(
            storage.adopt(&fleet(), path, digest, FIRST).unwrap().is_none(),
            "{path} {digest}"
        );
        assert_eq!(storage.newest(fleet().place()), None);
    };
    let whole: fn(&Path) = |_| {};
    check(|path| fs::write(path, "no archive").unwrap(), FIRST_PATH, None);
    check(
        |path| fs::write(path, &fs::read(path).unwrap()[..50]).unwrap(),
        FIRST_PATH,
        None,
    );
    check(|path| fs::remove_file(path).unwrap(), FIRST_PATH, None);
    check(whole, FIRST_PATH, Some("sha256:00"));
    check(whole, &FIRST_PATH.replace("1.tar", "2.tar"), None);
    check(whole, &FIRST_PATH.replace("fleet", "other"), None);
    check(whole, "gitrepository/flux-system/fleet/../../../etc/passwd", None);
    check(whole, "", None);
}

#[test]
fn unsafe_directory_names_are_refused() {
    let check = |kind: &str, namespace: &str, name: &str, expected: &str| {
        let shown = Place::new(kind, namespace, name)
            .map_or_else(|error| error.to_string(), |place| place.to_string());
        assert_eq!(shown, expected);
    };
    check(
        "GitRepository",
        "flux-system",
        "a.b-c",
        "gitrepository/flux-system/a.b-c",
    );
    check(
        "GitRepository",
        "..",
        "a",
        r#"namespace ".." cannot be a directory of the store"#,
    );
    check(
        "GitRepository",
        "",
        "a",
        r#"namespace "" cannot be a directory of the store"#,
    );
    check(
        "GitRepository",
        "a",
        "b/../../c",
        r#"name "b/../../c" cannot be a directory of the store"#,
    );
    check(
        "../x",
        "a",
        "b",
        r#"kind "../x" cannot be a directory of the store"#,
    );
    check(
        "GitRepository",
        "a",
        "B",
        r#"name "B" cannot be a directory of the store"#,
    );
    for (revision, file) in [
        ("main@sha1:abc", Some("abc.tar.gz")),
        ("refs/pull/1/head@sha1:abc", Some("abc.tar.gz")),
        ("sha256:abc", Some("abc.tar.gz")),
        ("sha1:../abc", None),
        ("sha1:", None),
        ("main", None),
        ("sha256:latest", None),
    ] {
        assert_eq!(place::file_name(revision).as_deref(), file, "{revision}");
    }
}

#[test]
fn disk_failures_have_their_own_errors() {
    let check = |code: std::io::ErrorKind, expected: &str| {
        let error = StorageError::of("write", Path::new("a/b"), code.into());
        assert_eq!(error.to_string(), expected);
    };
    use std::io::ErrorKind::{Other, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let full = "no space left to write a/b: free some, or place the store elsewhere";
    let denied = "no permission to write a/b: the store's directory must belong to this user";
    check(StorageFull, full);
    check(QuotaExceeded, full);
    check(PermissionDenied, denied);
    check(ReadOnlyFilesystem, denied);
    check(Other, "cannot write a/b");
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("gitrepository"), "a file in the way").unwrap();
    let failed = open(root.path())
        .publish(&fleet(), FIRST, &tree("1"))
        .unwrap_err();
    assert!(failed.to_string().starts_with("cannot make "), "{failed}");
}

#[test]
fn an_artifact_that_cannot_be_unpacked_now_is_kept() {
    let root = tempfile::tempdir().unwrap();
    let first = open(root.path()).publish(&fleet(), FIRST, &tree("1")).unwrap();
    let mut storage = open(root.path());
    Arc::get_mut(&mut storage.shared).unwrap().scratch = root.path().join("gone");
    let adopt = |storage: &Storage| storage.adopt(&fleet(), &first.path, &first.digest, FIRST);
    let failed = adopt(&storage).unwrap_err().to_string();
    assert!(failed.starts_with("cannot write to "), "{failed}");
    assert_eq!(files(root.path()), ["1.tar.gz"]);
    let unread = storage.tree(&fleet(), &first.digest, &Pauses::none());
    assert_eq!(unread.unwrap_err().to_string(), failed);
    let adopted = adopt(&open(root.path())).unwrap();
    assert_eq!(adopted.unwrap().tree, Some(tree("1")));
}

#[test]
fn unpacked_files_count_in_the_part_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let share = || Share {
        bytes_max: Some(1 << 20),
        exempt: BTreeSet::new(),
    };
    let open = || {
        let root = folder.path().to_owned();
        Storage::open_shared(root, "http://h", Retention::default(), share()).unwrap()
    };
    let storage = open();
    let large = tree(&"1".repeat(1 << 20));
    let first = storage.publish(&fleet(), FIRST, &large).unwrap();
    assert!(first.size < 1 << 14, "{}", first.size);
    let other = publisher("flux-system", "other", "1");
    storage.publish(&other, FIRST, &tree("2")).unwrap();
    // after a restart, its files are unpacked
    let storage = open();
    storage
        .tree(&fleet(), &first.digest, &Pauses::none())
        .unwrap()
        .unwrap();
    let refused = storage.publish(&other, SECOND, &tree("3")).unwrap_err();
    assert!(matches!(refused, StorageError::Share { .. }), "{refused}");
}

/// A failed publish keeps the published artifacts.
#[cfg(target_os = "linux")]
#[test]
fn a_failed_publish_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let storage = open(root.path());
    let first = storage.publish(&fleet(), FIRST, &tree("1")).unwrap();
    // a directory in the place of the next archive
    let next = root
        .path()
        .join("gitrepository/flux-system/fleet")
        .join(format!("{}.tar.gz", "2".repeat(40)));
    fs::create_dir(&next).unwrap();
    storage.publish(&fleet(), SECOND, &tree("2")).unwrap_err();
    assert_eq!(files(root.path()), ["1.tar.gz", "2.tar.gz"]);
    assert_eq!(
        storage.tree(&fleet(), &first.digest, &Pauses::none()).unwrap(),
        Some(tree("1"))
    );
    assert_eq!(storage.newest(fleet().place()), Some(tree("1")));
}

async fn ask(storage: &Storage, method: Method, path: &str) -> (u16, Option<String>, Vec<u8>) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .body(Body::empty())
        .unwrap();
    let response = storage.router().oneshot(request).await.unwrap();
    let length = response
        .headers()
        .get("content-length")
        .map(|value| value.to_str().unwrap().to_owned());
    let status = response.status().as_u16();
    (
        status,
        length,
        response.into_body().collect().await.unwrap().to_bytes().to_vec(),
    )
}

#[tokio::test]
async fn only_intact_artifacts_are_served() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("secret"), "secret").unwrap();
    let storage = open(root.path());
    let stored = storage.publish(&fleet(), FIRST, &tree("1")).unwrap();
    let bytes = fs::read(root.path().join(FIRST_PATH)).unwrap();
    let length = Some(bytes.len().to_string());
    let url = format!("/{FIRST_PATH}");
    assert_eq!(
        ask(&storage, Method::GET, &url).await,
        (200, length.clone(), bytes.clone())
    );
    assert_eq!(
        ask(&storage, Method::HEAD, &url).await,
        (200, length.clone(), Vec::new())
    );
    let latest = "/gitrepository/flux-system/fleet/latest.tar.gz";
    assert_eq!(
        ask(&storage, Method::GET, latest).await,
        (200, length.clone(), bytes.clone())
    );
    assert_eq!(ask(&storage, Method::POST, &url).await.0, 405);
    for absent in [
        "/",
        "/secret",
        "/gitrepository",
        "/gitrepository/",
        "/gitrepository/flux-system/fleet",
        "/gitrepository/flux-system/fleet/",
        "/gitrepository/flux-system/fleet/2.tar.gz",
        "/gitrepository/flux-system/other/latest.tar.gz",
        "/GitRepository/flux-system/fleet/latest.tar.gz",
        "/gitrepository/flux-system/fleet/..%2f..%2f..%2fsecret",
        "/gitrepository/flux-system/../../secret",
        "/..%2f/x/y/secret",
    ] {
        assert_eq!(ask(&storage, Method::GET, absent).await.0, 404, "{absent}");
    }

    // after a restart nothing is served before its digest is requested
    let storage = open(root.path());
    assert_eq!(ask(&storage, Method::GET, &url).await.0, 404);
    storage
        .adopt(&fleet(), &stored.path, &stored.digest, FIRST)
        .unwrap()
        .unwrap();
    assert_eq!(
        ask(&storage, Method::GET, &url).await,
        (200, length, bytes.clone())
    );

    let mut damaged = bytes.clone();
    damaged.push(0);
    fs::write(root.path().join(FIRST_PATH), &damaged).unwrap();
    assert_eq!(ask(&storage, Method::GET, &url).await.0, 404);
    fs::write(root.path().join(FIRST_PATH), &bytes).unwrap();
    assert_eq!(ask(&storage, Method::GET, &url).await.0, 200);
}

#[test]
fn a_namespace_has_a_part_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let share = Share {
        bytes_max: Some(1),
        exempt: ["flux-system".to_owned()].into(),
    };
    let root = folder.path().to_owned();
    let storage = Storage::open_shared(root, "http://h", Retention::default(), share).unwrap();
    let publish = |namespace: &str, name: &str, revision: &str, content: &str| {
        let published = storage.publish(&publisher(namespace, name, "1"), revision, &tree(content));
        published
            .map(|stored| stored.size)
            .map_err(|error| error.to_string())
    };
    publish("team-a", "one", FIRST, "first").unwrap();
    let refused = publish("team-a", "two", FIRST, "second").unwrap_err();
    assert!(
        refused.starts_with("cannot store gitrepository/team-a/two: the artifacts of namespace team-a and their unpacked files have"),
        "{refused}"
    );
    publish("team-b", "two", FIRST, "second").unwrap();
    for name in ["one", "two"] {
        publish("flux-system", name, FIRST, name).unwrap();
    }
    // what is stored needs no space
    publish("team-a", "one", FIRST, "first").unwrap();
    let place = Place::new("GitRepository", "team-a", "one").unwrap();
    storage.remove(&place).unwrap();
    publish("team-a", "two", FIRST, "second").unwrap();
}

type Work = fn(&Storage, &Pauses<'_>) -> Result<Stored, StorageError>;

const WORKS: [Work; 2] = [
    |storage, pauses| storage.publish_pausing(&fleet(), FIRST, &tree("1"), pauses),
    |storage, pauses| {
        let blob = Blob {
            file: "a.tgz",
            revision: "1",
            bytes_max: 1 << 20,
        };
        storage.publish_blob_pausing(&fleet(), &blob, &[7; 200_000][..], pauses)
    },
];

/// Removes the artifacts right after the work was told to go on, for each of its questions.
#[test]
fn stale_work_stores_nothing() {
    let check = |work: Work, question: usize, is_used_again: bool| {
        let root = tempfile::tempdir().unwrap();
        let storage = open(root.path());
        let later = publisher("flux-system", "fleet", "2");
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            if asked.get() == question {
                storage.remove(fleet().place()).unwrap();
                if is_used_again {
                    storage.publish(&later, FIRST, &tree("2")).unwrap();
                }
            }
            asked.get() <= question
        };
        let done = work(&storage, &Pauses::new(&go_on));
        if asked.get() < question {
            done.unwrap();
            return false;
        }
        assert!(
            matches!(done, Err(StorageError::Stopped(_))),
            "{question}: {done:?}"
        );
        let place = storage.places().get(fleet().place()).cloned();
        assert_eq!(
            place.and_then(|kept| kept.uid).as_deref(),
            is_used_again.then_some("2")
        );
        let expected: &[&str] = if is_used_again { &["1.tar.gz"] } else { &[] };
        assert_eq!(files(root.path()), expected);
        let directory = root.path().join("gitrepository/flux-system/fleet");
        assert_eq!(directory.exists(), is_used_again);
        let mut left = fs::read_dir(root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        assert!(left.all(|name| name == "gitrepository"));
        true
    };
    for work in WORKS {
        for is_used_again in [false, true] {
            let questions = (1..).take_while(|question| check(work, *question, is_used_again));
            assert!(questions.count() >= 2);
        }
    }
}

#[test]
fn removal_during_work_is_an_error() {
    for work in WORKS {
        let root = tempfile::tempdir().unwrap();
        let storage = open(root.path());
        let asked = Cell::new(0);
        let go_on = || {
            asked.set(asked.get() + 1);
            if asked.get() == 2 {
                storage.remove(fleet().place()).unwrap();
            }
            true
        };
        let done = work(&storage, &Pauses::new(&go_on)).map_err(|error| error.to_string());
        let why = "cannot store gitrepository/flux-system/fleet: its artifacts were removed meanwhile, as of a deleted \
                   source";
        assert_eq!(done, Err(why.to_owned()));
        assert!(!root.path().join("gitrepository/flux-system/fleet").exists());
    }
}
