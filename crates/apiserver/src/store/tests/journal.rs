//! Opening journals: valid, foreign and damaged ones.

use std::fs;
use std::path::Path;

use redb::{Database, TableDefinition};
use serde_json::json;

use super::super::journal::{META, OBJECTS};
use super::super::*;
use super::{delete, pod, pods, put};

fn open(path: &Path) -> Result<Store, StoreError> {
    Store::open(Options {
        journal: Some(path.to_owned()),
        ..Options::default()
    })
}

async fn write(path: &Path) {
    let store = open(path).unwrap();
    for n in 0..4 {
        store
            .commit(vec![put(
                &pod(n),
                json!({"spec": n, "fill": "x".repeat(3000)}),
                Expect::Absent,
            )])
            .await
            .unwrap();
    }
    store.commit(vec![delete(&pod(3), Expect::Any)]).await.unwrap();
    store
        .commit(vec![put(&pod(1), json!({"spec": "new"}), Expect::Any)])
        .await
        .unwrap();
}

fn shown(store: &Store) -> Vec<String> {
    let snapshot = store.snapshot();
    let objects = snapshot.list(&pods(), None);
    let objects =
        objects.map(|(path, entry)| format!("{path} {} {}", entry.revision, entry.object()["spec"]));
    std::iter::once(format!("revision {}", snapshot.revision()))
        .chain(objects)
        .collect()
}

const WRITTEN: [&str; 4] = [
    "revision 7",
    "default/pod-0 2 0",
    r#"default/pod-1 7 "new""#,
    "default/pod-2 4 2",
];

#[tokio::test(start_paused = true)]
async fn a_journal_keeps_objects_and_revisions_but_no_history() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    write(&path).await;
    let store = open(&path).unwrap();
    assert_eq!(shown(&store), WRITTEN);
    assert_eq!(store.snapshot_at(6).unwrap_err(), AtError::Expired { oldest: 7 });
    assert_eq!(
        store.subscribe(&pods(), 6).unwrap_err(),
        AtError::Expired { oldest: 7 }
    );
    let mut watch = store.subscribe(&pods(), 7).unwrap();
    store
        .commit(vec![delete(&pod(0), Expect::Revision(2))])
        .await
        .unwrap();
    let events = watch.next().await.unwrap();
    assert_eq!((events[0].revision, events[0].kind), (8, EventKind::Deleted));
    // one from before the start
    assert_eq!(events[0].previous.as_ref().unwrap().revision, 2);

    let fork = store.fork();
    fork.commit(vec![delete(&pod(1), Expect::Any)]).await.unwrap();
    drop((store, watch));
    assert_eq!(open(&path).unwrap().revision(), 8);
}

#[cfg(unix)]
#[tokio::test]
async fn journal_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    write(&path).await;
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

/// The error for a file, without its path.
async fn check_refused(what: &str, spoil: impl AsyncFnOnce(&Path), expected: &str) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    spoil(&path).await;
    let found = match open(&path) {
        Ok(store) => format!("opened: {:?}", shown(&store)),
        Err(error) => error.to_string().replace(path.to_str().unwrap(), "FILE"),
    };
    assert!(found.starts_with(expected), "{what}: {found}");
}

fn alter(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

#[tokio::test]
async fn foreign_files_are_refused_by_name() {
    check_refused(
        "text",
        async |path| fs::write(path, "apiVersion: v1\n").unwrap(),
        "FILE is not an Equate journal",
    )
    .await;
    check_refused(
        "a long text",
        async |path| fs::write(path, "apiVersion: v1\n".repeat(10_000)).unwrap(),
        "FILE is not an Equate journal",
    )
    .await;
    check_refused(
        "another program's database",
        async |path| {
            alter(path, |transaction| {
                let theirs: TableDefinition<'_, u64, u64> = TableDefinition::new("theirs");
                transaction.open_table(theirs).unwrap().insert(1, 1).unwrap();
            });
        },
        "FILE is not an Equate journal",
    )
    .await;
    check_refused(
        "a meta table of other types",
        async |path| {
            alter(path, |transaction| {
                let theirs: TableDefinition<'_, u64, u64> = TableDefinition::new("meta");
                transaction.open_table(theirs).unwrap().insert(1, 1).unwrap();
            });
        },
        "FILE is not an Equate journal",
    )
    .await;
    check_refused(
        "a newer format",
        async |path| {
            write(path).await;
            alter(path, |transaction| {
                transaction.open_table(META).unwrap().insert("format", 2).unwrap();
            });
        },
        "journal FILE has format 2, but this Equate reads only up to 1; use a newer Equate",
    )
    .await;
    check_refused(
        "no such directory",
        async |path| fs::remove_dir(path.parent().unwrap()).unwrap(),
        "cannot open the journal FILE",
    )
    .await;
    check_refused(
        "an empty file",
        async |path| fs::write(path, "").unwrap(),
        r#"opened: ["revision 1"]"#,
    )
    .await;
}

type Spoil<'a> = &'a dyn Fn(&redb::WriteTransaction);

#[tokio::test]
async fn inconsistent_journals_are_refused_by_name() {
    let row = ("", "pods", "default", "pod-0");
    let cases: [(&str, Spoil<'_>, &str); 6] = [
        (
            "a revision behind its objects",
            &|transaction| {
                transaction
                    .open_table(META)
                    .unwrap()
                    .insert("revision", 3)
                    .unwrap();
            },
            "journal FILE is damaged: pods default/pod-1 is at revision 7, the journal at 3",
        ),
        (
            "no revision",
            &|transaction| {
                transaction.open_table(META).unwrap().remove("revision").unwrap();
            },
            "journal FILE is damaged: it has no revision",
        ),
        (
            "half an object",
            &|transaction| {
                let mut table = transaction.open_table(OBJECTS).unwrap();
                table.insert(row, (2, br#"{"metadata":"#.as_slice())).unwrap();
            },
            "journal FILE is damaged: pods default/pod-0 is not JSON: EOF",
        ),
        (
            "another revision's object",
            &|transaction| {
                let mut table = transaction.open_table(OBJECTS).unwrap();
                let object = br#"{"metadata":{"resourceVersion":"5"}}"#;
                table.insert(row, (2, object.as_slice())).unwrap();
            },
            "journal FILE is damaged: pods default/pod-0 is not the object of revision 2",
        ),
        (
            "no objects",
            &|transaction| {
                transaction.delete_table(OBJECTS).unwrap();
            },
            "journal FILE is damaged: it has no table objects",
        ),
        (
            "a format that never was",
            &|transaction| {
                transaction.open_table(META).unwrap().insert("format", 0).unwrap();
            },
            "journal FILE is damaged: there is no journal format 0",
        ),
    ];
    for (what, change, expected) in cases {
        let spoil = async |path: &Path| {
            write(path).await;
            alter(path, change);
        };
        check_refused(what, spoil, expected).await;
    }
}

#[tokio::test]
async fn journal_is_opened_by_one_store() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let store = open(&path).unwrap();
    assert!(matches!(open(&path), Err(StoreError::InUse { .. })));
    let watch = store.subscribe_all(1).unwrap();
    drop(store);
    assert!(matches!(open(&path), Err(StoreError::InUse { .. })));
    drop(watch);
    assert_eq!(open(&path).unwrap().revision(), 1);
}

/// Changes a byte at many places: the store reports it or the byte did not matter.
#[tokio::test]
async fn damage_is_noticed_or_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    write(&path).await;
    let good = fs::read(&path).unwrap();
    let spoiled = directory.path().join("spoiled");
    let mut noticed = 0;
    let mut check = |what: String, bytes: &[u8]| {
        fs::write(&spoiled, bytes).unwrap();
        match open(&spoiled) {
            Ok(store) => assert_eq!(shown(&store), WRITTEN, "{what}"),
            Err(StoreError::Corrupt { .. } | StoreError::Foreign { .. } | StoreError::Database { .. }) => {
                noticed += 1;
            }
            Err(error) => panic!("{what}: {error}"),
        }
    };
    // used pages are in the front; a prime step hits all parts of them
    for at in (0..good.len().min(150_000)).step_by(1009) {
        let mut bytes = good.clone();
        bytes[at] ^= 0xff;
        check(format!("byte {at}"), &bytes);
    }
    for part in 1..8 {
        let length = good.len() * part / 8;
        check(format!("cut at {length}"), &good[..length]);
    }
    assert!(noticed > 0);
}
