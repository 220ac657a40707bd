mod disk;
mod journal;
mod model;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::*;

fn pods() -> ResourceId {
    ResourceId::new("", "pods")
}

fn put(key: &Key, object: Value, expect: Expect) -> Change {
    Change::Put {
        key: key.clone(),
        object,
        expect,
    }
}

fn delete(key: &Key, expect: Expect) -> Change {
    Change::Delete {
        key: key.clone(),
        expect,
        last: None,
    }
}

/// The store's answer, one line per change.
async fn check_commit(changes: Vec<(&str, Change)>, expected: &[&str]) {
    let store = Store::in_memory();
    let mut seen = Vec::new();
    for (name, change) in changes {
        seen.push(match store.commit(vec![change]).await {
            Ok(entries) => format!("{name}: {}", entries[0].object()),
            Err(error) => format!("{name}: {error}"),
        });
    }
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn change_is_made_when_its_precondition_holds() {
    let a = Key::new(&pods(), "default", "a");
    let last = json!({"metadata": {"finalizers": []}});
    check_commit(
        vec![
            ("put at a revision", put(&a, json!({}), Expect::Revision(1))),
            ("delete", delete(&a, Expect::Any)),
            ("create", put(&a, json!({"spec": 1}), Expect::Absent)),
            ("create again", put(&a, json!({}), Expect::Absent)),
            ("stale", put(&a, json!({}), Expect::Revision(1))),
            (
                "update",
                put(
                    &a,
                    json!({"metadata": {"resourceVersion": "9"}}),
                    Expect::Revision(2),
                ),
            ),
            ("replace", put(&a, json!({"spec": 2}), Expect::Any)),
            ("no object", put(&a, json!([]), Expect::Any)),
            ("no metadata", put(&a, json!({"metadata": 1}), Expect::Any)),
            ("stale delete", delete(&a, Expect::Revision(3))),
            ("delete", delete(&a, Expect::Revision(4))),
            ("put", put(&a, json!({}), Expect::Any)),
            (
                "delete with a last state",
                Change::Delete {
                    key: a.clone(),
                    expect: Expect::Any,
                    last: Some(last),
                },
            ),
        ],
        &[
            "put at a revision: pods default/a does not exist",
            "delete: pods default/a does not exist",
            r#"create: {"metadata":{"resourceVersion":"2"},"spec":1}"#,
            "create again: pods default/a exists",
            "stale: pods default/a is at revision 2, not at the expected revision",
            r#"update: {"metadata":{"resourceVersion":"3"}}"#,
            r#"replace: {"metadata":{"resourceVersion":"4"},"spec":2}"#,
            "no object: the value for pods default/a is not an object with metadata",
            "no metadata: the value for pods default/a is not an object with metadata",
            "stale delete: pods default/a is at revision 4, not at the expected revision",
            r#"delete: {"metadata":{"resourceVersion":"5"},"spec":2}"#,
            r#"put: {"metadata":{"resourceVersion":"6"}}"#,
            r#"delete with a last state: {"metadata":{"finalizers":[],"resourceVersion":"7"}}"#,
        ],
    )
    .await;
}

fn nodes() -> ResourceId {
    ResourceId::new("", "nodes")
}

fn pod(n: usize) -> Key {
    Key::new(&pods(), "default", format!("pod-{n}"))
}

fn node(n: usize) -> Key {
    Key::new(&nodes(), "", format!("node-{n}"))
}

async fn write(store: &Store, key: &Key) -> u64 {
    let entries = store
        .commit(vec![put(key, json!({}), Expect::Any)])
        .await
        .unwrap();
    entries[0].revision
}

fn keeping(history_events: usize) -> Store {
    Store::open(Options {
        history_events,
        ..Options::default()
    })
    .unwrap()
}

fn revisions(events: &[Arc<Event>]) -> Vec<u64> {
    events.iter().map(|event| event.revision).collect()
}

#[tokio::test]
async fn a_commit_is_all_or_nothing() {
    let store = Store::in_memory();
    let mut watch = store.subscribe_all(1).unwrap();
    let error = store
        .commit(vec![
            put(&pod(1), json!({}), Expect::Absent),
            put(&pod(2), json!({}), Expect::Any),
            put(&pod(1), json!({}), Expect::Absent),
        ])
        .await
        .unwrap_err();
    assert_eq!(error.to_string(), "pods default/pod-1 exists");
    assert_eq!(store.revision(), 1);
    assert_eq!(store.snapshot().count(&pods(), None), 0);
    assert!(watch.take().unwrap().is_empty());

    assert!(store.commit(Vec::new()).await.unwrap().is_empty());
    assert_eq!(store.revision(), 1);

    // one revision each, but published together
    let changes = vec![
        put(&pod(1), json!({}), Expect::Absent),
        put(&node(1), json!({}), Expect::Absent),
        delete(&pod(1), Expect::Revision(2)),
    ];
    let entries = store.commit(changes).await.unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.revision).collect::<Vec<_>>(),
        [2, 3, 4]
    );
    assert_eq!(revisions(&watch.next().await.unwrap()), [2, 3, 4]);
}

#[tokio::test]
async fn lists_are_in_the_byte_order_of_the_path() {
    let store = Store::in_memory();
    for (namespace, name) in [
        ("a", "x"),
        ("a-b", "x"),
        ("a", "x.y"),
        ("a", "x-y"),
        ("a0", "x"),
        ("b", "a"),
    ] {
        write(&store, &Key::new(&pods(), namespace, name)).await;
    }
    let snapshot = store.snapshot();
    let check = |namespace, start: &str, expected: &[&str]| {
        let listed: Vec<_> = snapshot
            .list_from(&pods(), namespace, start)
            .map(|(path, _)| path.as_str())
            .collect();
        assert_eq!(listed, expected, "{namespace:?} from {start:?}");
    };
    check(None, "", &["a-b/x", "a/x", "a/x-y", "a/x.y", "a0/x", "b/a"]);
    check(Some(""), "", &["a-b/x", "a/x", "a/x-y", "a/x.y", "a0/x", "b/a"]);
    check(Some("a"), "", &["a/x", "a/x-y", "a/x.y"]);
    check(Some("c"), "", &[]);
    check(None, "a/x", &["a/x", "a/x-y", "a/x.y", "a0/x", "b/a"]);
    check(None, "a/x\0", &["a/x-y", "a/x.y", "a0/x", "b/a"]);
    check(Some("a"), "a/x-y\0", &["a/x.y"]);
    // a token of one namespace used in another
    check(Some("a"), "b/a\0", &[]);
    check(Some("b"), "a/x\0", &["b/a"]);
    check(None, "c", &[]);
    let path = snapshot.list(&pods(), None).next().unwrap().0;
    assert_eq!((path.namespace(), path.name()), ("a-b", "x"));
    assert_eq!(
        (node(1).path().namespace(), node(1).path().name()),
        ("", "node-1")
    );
}

#[tokio::test(start_paused = true)]
async fn watch_wakes_for_its_resource_only() {
    let store = Store::in_memory();
    let mut watch = store.subscribe(&pods(), 1).unwrap();
    let waiting = tokio::spawn(async move {
        let events = watch.next().await.unwrap();
        (revisions(&events), watch.revision())
    });
    assert_eq!(write(&store, &node(1)).await, 2);
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    assert_eq!(write(&store, &pod(1)).await, 3);
    assert_eq!(waiting.await.unwrap(), (vec![3], 3));

    // a bookmark's revision advances with other resources, but never past a waiting event
    let mut watch = store.subscribe(&pods(), 3).unwrap();
    write(&store, &node(1)).await;
    assert_eq!(watch.revision(), 4);
    write(&store, &pod(1)).await;
    write(&store, &node(1)).await;
    assert_eq!(watch.revision(), 3);
    assert_eq!(revisions(&watch.next().await.unwrap()), [5]);
    assert_eq!(watch.revision(), 6);
}

#[tokio::test]
async fn a_dropped_wait_loses_no_event() {
    let store = Store::in_memory();
    let mut watch = store.subscribe(&pods(), 1).unwrap();
    for expected in 2..50 {
        tokio::select! {
            biased;
            events = watch.next() => panic!("{events:?}"),
            () = tokio::task::yield_now() => {}
        }
        assert_eq!(write(&store, &pod(1)).await, expected);
        assert_eq!(revisions(&watch.next().await.unwrap()), [expected]);
    }
}

#[tokio::test]
async fn events_arrive_in_order_and_in_batches() {
    let store = Store::in_memory();
    let mut changes = Vec::new();
    for n in 0..700 {
        changes.push(put(&pod(n), json!({}), Expect::Any));
        changes.push(put(&node(n), json!({}), Expect::Any));
    }
    store.commit(changes).await.unwrap();
    for (mut watch, expected) in [
        (store.subscribe_all(1).unwrap(), (2..=1401).collect::<Vec<_>>()),
        (
            store.subscribe(&pods(), 1).unwrap(),
            (2..=1401).step_by(2).collect(),
        ),
    ] {
        let mut seen = Vec::new();
        while seen.len() < expected.len() {
            let events = watch.next().await.unwrap();
            assert!(events.len() <= 512);
            seen.extend(revisions(&events));
        }
        assert_eq!(seen, expected);
    }
}

#[tokio::test]
async fn large_events_arrive_in_small_batches() {
    const SIZE: usize = 100 << 10;
    let store = Store::in_memory();
    let big = || json!({ "data": "x".repeat(SIZE) });
    for n in 0..5 {
        store
            .commit(vec![put(&pod(n), big(), Expect::Any)])
            .await
            .unwrap();
    }
    let huge = json!({ "data": "x".repeat(10 * SIZE) });
    store.commit(vec![put(&pod(5), huge, Expect::Any)]).await.unwrap();
    for mut watch in [
        store.subscribe_all(1).unwrap(),
        store.subscribe(&pods(), 1).unwrap(),
    ] {
        // a single event may exceed a batch; two small ones fit, three do not
        for expected in [vec![2, 3], vec![4, 5], vec![6], vec![7]] {
            assert_eq!(revisions(&watch.next().await.unwrap()), expected);
        }
        assert!(watch.take().unwrap().is_empty());
    }
}

#[tokio::test]
async fn small_event_does_not_overtake_a_large_one() {
    const SIZE: usize = 100 << 10;
    let store = Store::in_memory();
    // The third does not fit into a batch with the first two; the node alone would.
    for n in 0..3 {
        let big = json!({ "data": "x".repeat(SIZE) });
        store.commit(vec![put(&pod(n), big, Expect::Any)]).await.unwrap();
    }
    write(&store, &node(0)).await;
    let mut watch = store.subscribe_all(1).unwrap();
    for expected in [vec![2, 3], vec![4, 5]] {
        assert_eq!(revisions(&watch.next().await.unwrap()), expected);
    }
    assert!(watch.take().unwrap().is_empty());
}

#[tokio::test]
async fn lagging_subscription_fails_and_keeps_no_history() {
    let store = keeping(10);
    write(&store, &pod(0)).await;
    let first = {
        let snapshot = store.snapshot();
        Arc::downgrade(snapshot.get(&pod(0)).unwrap())
    };
    let mut slow: Vec<_> = (0..500).map(|_| store.subscribe(&pods(), 1).unwrap()).collect();
    let mut quick = store.subscribe(&pods(), 2).unwrap();
    let mut elsewhere = store.subscribe(&nodes(), 2).unwrap();
    for n in 0..12 {
        write(&store, &pod(n % 2)).await;
        assert_eq!(quick.next().await.unwrap().len(), 1);
    }
    assert!(
        first.upgrade().is_none(),
        "a watcher that does not read keeps events alive"
    );
    for watch in &mut slow {
        let lagged = Lagged { seen: 1, trimmed: 4 };
        assert_eq!(watch.next().await.unwrap_err(), lagged);
        assert_eq!(watch.next().await.unwrap_err(), lagged);
        assert_eq!(watch.revision(), 1);
    }
    assert!(elsewhere.take().unwrap().is_empty());

    assert_eq!(
        store.subscribe(&pods(), 3).unwrap_err(),
        AtError::Expired { oldest: 4 }
    );
    assert_eq!(store.snapshot_at(3).unwrap_err(), AtError::Expired { oldest: 4 });
    assert_eq!(
        store.snapshot_of(&pods(), 3).unwrap_err(),
        AtError::Expired { oldest: 4 }
    );
    assert_eq!(store.subscribe(&pods(), 4).unwrap().take().unwrap().len(), 10);
    assert_eq!(store.snapshot_of(&nodes(), 2).unwrap().revision(), 2);
    assert_eq!(
        store.subscribe(&pods(), 15).unwrap_err(),
        AtError::Future { current: 14 }
    );
    assert_eq!(
        store.snapshot_at(15).unwrap_err(),
        AtError::Future { current: 14 }
    );
    assert_eq!(store.snapshot_at(0).unwrap_err(), AtError::Expired { oldest: 4 });
}

#[tokio::test]
async fn large_objects_have_less_history() {
    let store = Store::open(Options {
        history_bytes: 100_000,
        ..Options::default()
    })
    .unwrap();
    let large = |bytes| put(&pod(1), json!({"data": "x".repeat(bytes)}), Expect::Any);
    let mut watch = store.subscribe(&pods(), 1).unwrap();
    for (bytes, kept) in [
        (30_000, 1),
        (30_000, 2),
        (30_000, 3),
        (30_000, 3),
        // a single event may be too large, but up-to-date subscriptions must see it
        (200_000, 1),
        (10, 1),
        (10, 2),
    ] {
        store.commit(vec![large(bytes)]).await.unwrap();
        assert_eq!(watch.next().await.unwrap().len(), 1);
        let oldest = store.revision() - kept;
        store.subscribe(&pods(), oldest).unwrap();
        if oldest > 1 {
            assert_eq!(
                store.subscribe(&pods(), oldest - 1).unwrap_err(),
                AtError::Expired { oldest }
            );
        }
    }
}

#[tokio::test]
async fn only_the_newest_events_keep_trees() {
    let store = Store::in_memory();
    for n in 0..6 {
        store
            .commit(vec![put(&pod(1), json!({ "n": n }), Expect::Any)])
            .await
            .unwrap();
    }
    for n in 2..4 {
        store
            .commit(vec![put(&pod(n), json!({ "n": n }), Expect::Any)])
            .await
            .unwrap();
    }
    let events = store.subscribe(&pods(), 1).unwrap().take().unwrap();
    let packed: Vec<bool> = events.iter().map(|event| event.entry.is_packed()).collect();
    assert_eq!(packed, [true, true, true, true, true, false, false, false]);
    let before = events.iter().filter_map(|event| event.previous.as_ref());
    assert_eq!(before.filter(|entry| !entry.is_packed()).count(), 1);
    // a reader of the object does not unpack the history
    for n in 4..8 {
        store
            .commit(vec![put(&pod(n), json!({ "n": n }), Expect::Any)])
            .await
            .unwrap();
    }
    let snapshot = store.snapshot();
    let stored = snapshot.get(&pod(1)).unwrap();
    assert!(stored.is_packed());
    assert_eq!(stored.object()["n"], 5);
    assert!(!stored.is_packed());
    let events = store.subscribe(&pods(), 1).unwrap().take().unwrap();
    assert!(events[5].entry.is_packed());
    assert_eq!(events[5].entry.object(), stored.object());
}

#[tokio::test]
async fn compaction_keeps_up_to_date_watches() {
    let store = Store::in_memory();
    let mut late = store.subscribe(&pods(), 1).unwrap();
    let mut quiet = store.subscribe(&nodes(), 1).unwrap();
    for _ in 0..4 {
        write(&store, &pod(1)).await;
    }
    let mut current = store.subscribe(&pods(), 4).unwrap();
    let kept = store.snapshot_at(2).unwrap();
    store.compact(4);
    assert_eq!(store.snapshot_at(3).unwrap_err(), AtError::Expired { oldest: 4 });
    assert_eq!(
        store.subscribe(&nodes(), 3).unwrap_err(),
        AtError::Expired { oldest: 4 }
    );
    assert_eq!(store.snapshot_at(4).unwrap().revision(), 4);
    assert_eq!(revisions(&current.take().unwrap()), [5]);
    assert!(quiet.take().unwrap().is_empty());
    assert_eq!(late.take().unwrap_err(), Lagged { seen: 1, trimmed: 4 });
    assert_eq!(kept.get(&pod(1)).unwrap().revision, 2);
    // compaction affects neither future revisions nor ones already compacted
    store.compact(1_000);
    store.compact(1);
    assert_eq!(store.snapshot_at(4).unwrap_err(), AtError::Expired { oldest: 5 });
    assert_eq!(write(&store, &pod(1)).await, 6);
    assert_eq!(store.snapshot_at(5).unwrap().get(&pod(1)).unwrap().revision, 5);
}

#[tokio::test(start_paused = true)]
async fn history_ages_in_virtual_time() {
    let store = Store::in_memory();
    write(&store, &pod(1)).await;
    tokio::time::advance(Duration::from_secs(200)).await;
    write(&store, &pod(1)).await;
    tokio::time::advance(Duration::from_secs(200)).await;
    assert_eq!(store.subscribe(&pods(), 1).unwrap().take().unwrap().len(), 2);
    write(&store, &pod(1)).await;
    assert_eq!(
        store.subscribe(&pods(), 1).unwrap_err(),
        AtError::Expired { oldest: 2 }
    );
    assert_eq!(
        revisions(&store.subscribe(&pods(), 2).unwrap().take().unwrap()),
        [3, 4]
    );
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_revision() {
    let store = Store::in_memory();
    let start = Instant::now();
    assert!(store.wait_for(1, Duration::ZERO).await);
    assert!(!store.wait_for(2, Duration::from_secs(3)).await);
    assert_eq!(start.elapsed(), Duration::from_secs(3));
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { store.wait_for(3, Duration::from_secs(3)).await }
    });
    for _ in 0..2 {
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        write(&store, &pod(1)).await;
    }
    assert!(waiting.await.unwrap());
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test]
async fn fork_is_independent() {
    let store = Store::in_memory();
    write(&store, &pod(1)).await;
    let fork = store.fork();
    let mut here = store.subscribe_all(2).unwrap();
    let mut there = fork.subscribe_all(2).unwrap();
    fork.commit(vec![delete(&pod(1), Expect::Any)]).await.unwrap();
    write(&fork, &node(1)).await;
    fork.compact(4);
    assert!(here.take().unwrap().is_empty());
    assert_eq!((store.revision(), fork.revision()), (2, 4));
    assert_eq!(write(&store, &pod(2)).await, 3);
    assert_eq!(store.snapshot().count(&pods(), None), 2);
    assert_eq!(fork.snapshot().count(&pods(), None), 0);
    // the history before the fork belongs to both
    assert_eq!(store.snapshot_at(1).unwrap().count(&pods(), None), 0);
    assert_eq!(there.take().unwrap_err(), Lagged { seen: 2, trimmed: 4 });
}

/// Many tasks increment one counter by compare and swap, while others watch.
async fn check_race(store: Store) {
    const TASKS: u64 = 8;
    const ROUNDS: u64 = 25;
    let counter = Key::new(&nodes(), "", "counter");
    let count = |entry: &Entry| entry.object()["count"].as_u64().unwrap();
    let start = json!({"count": 0});
    store
        .commit(vec![put(&counter, start, Expect::Absent)])
        .await
        .unwrap();

    let mut watchers = JoinSet::new();
    for _ in 0..4 {
        let mut watch = store.subscribe(&nodes(), 2).unwrap();
        watchers.spawn(async move {
            let mut counts = Vec::new();
            while counts.len() < usize::try_from(TASKS * ROUNDS).unwrap() {
                counts.extend(
                    watch
                        .next()
                        .await
                        .unwrap()
                        .iter()
                        .map(|event| count(&event.entry)),
                );
            }
            counts
        });
    }
    let mut writers = JoinSet::new();
    for task in 0..TASKS {
        let (store, counter) = (store.clone(), counter.clone());
        writers.spawn(async move {
            for _ in 0..ROUNDS {
                loop {
                    let snapshot = store.snapshot();
                    let entry = snapshot.get(&counter).unwrap();
                    let next = json!({"count": count(entry) + 1, "by": task});
                    match store
                        .commit(vec![put(&counter, next, Expect::Revision(entry.revision))])
                        .await
                    {
                        // an acknowledged write is visible to the next reader
                        Ok(entries) => {
                            assert!(store.snapshot().revision() >= entries[0].revision);
                            break;
                        }
                        Err(CommitError::Conflict { current, .. }) => assert!(current > entry.revision),
                        Err(error) => panic!("{error}"),
                    }
                    tokio::task::yield_now().await;
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    let snapshot = store.snapshot();
    assert_eq!(count(snapshot.get(&counter).unwrap()), TASKS * ROUNDS);
    assert_eq!(snapshot.revision(), 2 + TASKS * ROUNDS);
    while let Some(counts) = watchers.join_next().await {
        assert_eq!(counts.unwrap(), (1..=TASKS * ROUNDS).collect::<Vec<_>>());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compare_and_swap_loses_no_update() {
    check_race(Store::in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn compare_and_swap_loses_no_update_with_a_journal() {
    let directory = tempfile::tempdir().unwrap();
    let journal = Some(directory.path().join("journal"));
    let options = Options {
        journal,
        ..Options::default()
    };
    check_race(Store::open(options).unwrap()).await;
}

#[test]
fn commit_works_without_a_runtime() {
    let store = Store::in_memory();
    let done = store
        .commit(vec![put(&pod(1), json!({}), Expect::Absent)])
        .now_or_never();
    assert_eq!(done.unwrap().unwrap()[0].revision, 2);
    assert_eq!(store.fork().snapshot().count(&pods(), None), 1);
    assert_eq!(store.subscribe_all(1).unwrap().take().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn pages_end_with_the_age_of_the_history() {
    let store = Store::in_memory();
    assert!(!store.page_expired(7));
    tokio::time::advance(Duration::from_mins(4)).await;
    assert!(!store.page_expired(7));
    assert!(!store.page_expired(9), "a later list has its own time");
    tokio::time::advance(Duration::from_mins(2)).await;
    assert!(store.page_expired(7));
    assert!(!store.page_expired(9));
}
