//! A killed process loses no acknowledged write and leaves none half done.
//!
//! The test runs itself as the writing process and kills it. Data handed to the kernel survives that; the
//! store's own tests cover power cuts.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use equate_apiserver::store::{Change, Expect, Key, Options, ResourceId, Store};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const CHILD: &str = "EQUATE_TEST_JOURNAL";
const WRITERS: usize = 4;

fn open(journal: &Path) -> Store {
    Store::open(Options {
        journal: Some(journal.to_owned()),
        ..Options::default()
    })
    .unwrap()
}

fn key(writer: usize, name: &str) -> Key {
    Key::new(
        &ResourceId::new("", "configmaps"),
        format!("writer-{writer}"),
        name,
    )
}

/// A commit that shows when it is incomplete: two objects with equal content, and one that exists when the
/// count is even.
fn changes(writer: usize, count: u64) -> Vec<Change> {
    let twin = |name| Change::Put {
        key: key(writer, name),
        object: json!({"data": {"count": count, "fill": format!("{count} ").repeat(200)}}),
        expect: Expect::Any,
    };
    let even = key(writer, "even");
    let flag = match count {
        1 => None,
        _ if count.is_multiple_of(2) => Some(Change::Put {
            key: even,
            object: json!({}),
            expect: Expect::Absent,
        }),
        _ => Some(Change::Delete {
            key: even,
            expect: Expect::Any,
            last: None,
        }),
    };
    [Some(twin("left")), flag, Some(twin("right"))]
        .into_iter()
        .flatten()
        .collect()
}

fn reached(store: &Store, writer: usize) -> (u64, u64) {
    let snapshot = store.snapshot();
    let twin = |name| {
        snapshot.get(&key(writer, name)).map(|entry| {
            let data = &entry.object()["data"];
            let count = data["count"].as_u64().unwrap();
            assert_eq!(data["fill"], format!("{count} ").repeat(200));
            let stamped = entry
                .object()
                .pointer("/metadata/resourceVersion")
                .and_then(Value::as_str);
            assert_eq!(stamped, Some(entry.revision.to_string().as_str()));
            assert!(entry.revision <= snapshot.revision());
            (count, entry.revision)
        })
    };
    let (Some(left), Some(right)) = (twin("left"), twin("right")) else {
        assert_eq!(
            snapshot.count(&key(writer, "").resource, Some(&format!("writer-{writer}"))),
            0
        );
        return (0, 0);
    };
    assert_eq!(left.0, right.0, "writer {writer} left half a commit");
    assert_eq!(
        snapshot.get(&key(writer, "even")).is_some(),
        left.0.is_multiple_of(2)
    );
    right
}

/// The process that is killed. On its own it does nothing.
#[test]
fn writes_until_killed() {
    let Some(journal) = std::env::var_os(CHILD) else {
        return;
    };
    let store = open(Path::new(&journal));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(store.clone(), writer));
        }
        // by a panic only
        while let Some(ended) = writers.join_next().await {
            ended.unwrap();
        }
    });
}

/// Writes and acknowledges on stdout, for ever.
async fn write(store: Store, writer: usize) {
    let (mut count, _) = reached(&store, writer);
    loop {
        count += 1;
        let entries = store.commit(changes(writer, count)).await.unwrap();
        let revision = entries.last().unwrap().revision;
        let line = format!("ack {writer} {count} {revision}\n");
        // fails when the parent is gone: so should this process
        std::io::stdout().write_all(line.as_bytes()).unwrap();
    }
}

/// Killed however the test ends.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Runs the child until that many commits are acknowledged, and kills it. Returns the last acknowledged
/// count and revision by writer.
fn run(journal: &Path, acknowledged: usize) -> BTreeMap<usize, (u64, u64)> {
    let mut child = Killed(
        Command::new(std::env::current_exe().unwrap())
            .args(["journal::writes_until_killed", "--exact", "--nocapture"])
            .env(CHILD, journal)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let output = child.0.stdout.take().unwrap();
    let mut lines = BufReader::new(output)
        .lines()
        .map(Result::unwrap)
        .filter_map(|line| {
            // the harness prints first on the same line
            let (_, numbers) = line.split_once("ack ")?;
            let numbers: Vec<u64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
            Some((usize::try_from(numbers[0]).unwrap(), (numbers[1], numbers[2])))
        });
    let mut last = BTreeMap::new();
    last.extend(lines.by_ref().take(acknowledged));
    assert_eq!(last.is_empty(), acknowledged == 0, "the child ended by itself");
    drop(child);
    // acknowledged before it died
    last.extend(lines);
    last
}

#[test]
fn killed_process_loses_no_acknowledged_write() {
    let directory = tempfile::tempdir().unwrap();
    let journal = directory.path().join("journal");
    let mut before = 1;
    // chance decides where in a write the signal strikes; the counts only spread it
    for acknowledged in [0, 1, 2, 3, 5, 17, 1, 40, 8, 100, 0, 30] {
        let last = run(&journal, acknowledged);
        let store = open(&journal);
        for (writer, (count, revision)) in last {
            let (found, at) = reached(&store, writer);
            assert!(
                found == count && at == revision || found == count + 1 && at > revision,
                "writer {writer}: acknowledged {count} at {revision}, found {found} at {at}"
            );
        }
        for writer in 0..WRITERS {
            reached(&store, writer);
        }
        assert!(store.revision() >= before);
        before = store.revision();
    }
    assert!(before > 100, "hardly anything was written");
}
