//! The journal on a disk that loses power, or fails.
//!
//! Killing a process does not show whether writes were flushed in time: the kernel still has them. This
//! disk loses any part of the unsynced writes, as a power cut does.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use futures::FutureExt;
use proptest::prelude::*;
use redb::StorageBackend;
use serde_json::json;
use tokio::task::JoinSet;

use super::super::journal::Journal;
use super::super::*;
use super::{pods, put};

/// A drive writes sectors atomically.
const SECTOR: usize = 512;

#[derive(Debug, Clone, Default)]
struct Disk(Arc<Mutex<Platter>>);

#[derive(Debug, Default)]
struct Platter {
    cached: Vec<u8>,
    /// The content that surely survives.
    synced: Vec<u8>,
    /// Writes that may survive, in order.
    pending: Vec<(usize, Vec<u8>)>,
    /// Operations until the power fails.
    left: Option<u64>,
    /// Chooses the pending sectors that survive.
    luck: u64,
    after: Option<Vec<u8>>,
    syncs: usize,
}

impl Platter {
    /// Counts an operation; fails once the power is off.
    fn tick(&mut self) -> io::Result<()> {
        if let Some(left) = &mut self.left {
            if *left == 0 {
                let luck = self.luck;
                self.after
                    .get_or_insert_with(|| lose(&self.synced, &self.pending, luck));
                return Err(io::Error::other("no power"));
            }
            *left -= 1;
        }
        Ok(())
    }
}

/// The synced bytes and the surviving sectors.
fn lose(synced: &[u8], pending: &[(usize, Vec<u8>)], mut luck: u64) -> Vec<u8> {
    let mut image = synced.to_vec();
    for (offset, data) in pending {
        for (index, sector) in data.chunks(SECTOR).enumerate() {
            // xorshift: the same seed gives the same choice
            luck ^= luck << 13;
            luck ^= luck >> 7;
            luck ^= luck << 17;
            let start = offset + index * SECTOR;
            let end = start + sector.len();
            if luck.is_multiple_of(2) {
                image[start..end].copy_from_slice(sector);
            }
        }
    }
    image
}

impl StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(locked(&self.0).cached.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let platter = locked(&self.0);
        let start = usize::try_from(offset).unwrap();
        let found = platter.cached.get(start..start + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// The file system journals the length: it survives.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut platter = locked(&self.0);
        platter.tick()?;
        let len = usize::try_from(len).unwrap();
        platter.cached.resize(len, 0);
        platter.synced.resize(len, 0);
        platter.pending.retain_mut(|(start, data)| {
            data.truncate(len.saturating_sub(*start));
            !data.is_empty()
        });
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut platter = locked(&self.0);
        platter.tick()?;
        platter.syncs += 1;
        for (start, data) in std::mem::take(&mut platter.pending) {
            platter.synced[start..start + data.len()].copy_from_slice(&data);
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut platter = locked(&self.0);
        platter.tick()?;
        let start = usize::try_from(offset).unwrap();
        platter.cached[start..start + data.len()].copy_from_slice(data);
        platter.pending.push((start, data.to_vec()));
        Ok(())
    }
}

fn open(disk: &Disk) -> Result<Store, StoreError> {
    let (journal, state) = Journal::on(Path::new("disk"), disk.clone())?;
    let retention = Retention {
        events: 100,
        bytes: usize::MAX,
        age: Duration::from_secs(1),
    };
    Ok(Store::start(Arc::new(state), retention, Some(journal)))
}

fn key(name: &str) -> Key {
    Key::new(&pods(), "default", name)
}

fn twins(count: u64) -> Vec<Change> {
    let object = json!({"count": count, "fill": "x".repeat(700)});
    vec![
        put(&key("left"), object.clone(), Expect::Any),
        put(&key(&format!("only-{count}")), object.clone(), Expect::Absent),
        put(&key("right"), object, Expect::Any),
    ]
}

/// Without a runtime a commit never waits.
fn commit(store: &Store, changes: Vec<Change>) -> Result<Vec<Arc<Entry>>, CommitError> {
    store.commit(changes).now_or_never().unwrap()
}

/// The count that both objects have.
fn reached(store: &Store) -> u64 {
    let snapshot = store.snapshot();
    let count = |name: &str| {
        snapshot
            .get(&key(name))
            .map(|entry| entry.object()["count"].as_u64().unwrap())
    };
    let left = count("left");
    assert_eq!(left, count("right"));
    let left = left.unwrap_or(0);
    for n in 1..=left {
        assert_eq!(count(&format!("only-{n}")), Some(n));
    }
    assert_eq!(snapshot.revision(), 1 + 3 * left);
    assert_eq!(
        snapshot.count(&pods(), None),
        usize::try_from(left).unwrap() + if left > 0 { 2 } else { 0 }
    );
    left
}

/// Writes until the power fails. Returns the last acknowledged count.
fn run(disk: &Disk, until: u64) -> u64 {
    let acknowledged = AtomicU64::new(0);
    if let Ok(store) = open(disk) {
        acknowledged.store(reached(&store), Ordering::SeqCst);
        for count in reached(&store) + 1..=until {
            match commit(&store, twins(count)) {
                Ok(entries) => {
                    assert_eq!(entries.len(), 3);
                    acknowledged.store(count, Ordering::SeqCst);
                }
                Err(CommitError::Journal(_)) => {
                    // the state on disk is unknown: nothing more is written, and reads still work
                    assert!(matches!(commit(&store, twins(count)), Err(CommitError::Closed)));
                    assert_eq!(reached(&store), count - 1);
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    acknowledged.into_inner()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn power_cut_loses_no_acknowledged_commit(
        cuts in proptest::collection::vec((0u64..160, 1u64..), 1..4),
    ) {
        let mut disk = Disk::default();
        // a journal gets its name when it is complete
        assert_eq!(reached(&open(&disk).unwrap()), 0);
        let mut acknowledged = 0;
        for (after, luck) in cuts {
            {
                let mut platter = locked(&disk.0);
                platter.left = Some(after);
                platter.luck = luck;
            }
            let before = acknowledged;
            acknowledged = run(&disk, before + 12).max(before);
            let mut platter = locked(&disk.0);
            let image = platter.after.take();
            let image = image.unwrap_or_else(|| lose(&platter.synced, &platter.pending, luck));
            drop(platter);
            disk = Disk(Arc::new(Mutex::new(Platter {
                cached: image.clone(),
                synced: image,
                ..Platter::default()
            })));
            let found = reached(&open(&disk).unwrap());
            prop_assert!(
                found == acknowledged || found == acknowledged + 1,
                "acknowledged {acknowledged}, found {found}"
            );
            acknowledged = found;
        }
    }
}

/// A runtime whose only blocking thread is busy until the sender is dropped, so that commits have to wait.
fn busy() -> (tokio::runtime::Runtime, mpsc::Sender<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (release, released) = mpsc::channel::<()>();
    runtime.spawn_blocking(move || released.recv().unwrap_err());
    (runtime, release)
}

#[test]
fn commits_that_wait_travel_together() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    let (runtime, release) = busy();
    let answers = runtime.block_on(async {
        let mut commits = JoinSet::new();
        for n in 0..50 {
            let store = store.clone();
            let change = put(&key(&format!("pod-{}", n / 2)), json!({}), Expect::Absent);
            commits.spawn(async move { store.commit(vec![change]).await });
        }
        tokio::task::yield_now().await;
        // reads never show a state that is not durable
        assert_eq!(store.revision(), 1);
        assert_eq!(store.snapshot().count(&pods(), None), 0);
        let before = locked(&disk.0).syncs;
        drop(release);
        let answers = commits.join_all().await;
        let syncs = locked(&disk.0).syncs - before;
        assert!(syncs < 10, "{syncs} flushes for 50 commits");
        answers
    });
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 25);
    assert_eq!(store.revision(), 26);
}

#[test]
fn a_group_fails_as_one() {
    let disk = Disk::default();
    let store = open(&disk).unwrap();
    let (runtime, release) = busy();
    locked(&disk.0).left = Some(0);
    runtime.block_on(async {
        let mut commits = JoinSet::new();
        // the second conflicts with a change that the first never makes
        for _ in 0..2 {
            let store = store.clone();
            let change = put(&key("pod"), json!({}), Expect::Absent);
            commits.spawn(async move { store.commit(vec![change]).await });
        }
        tokio::task::yield_now().await;
        drop(release);
        for answer in commits.join_all().await {
            assert!(matches!(answer, Err(CommitError::Journal(_))), "{answer:?}");
        }
    });
    assert_eq!(store.revision(), 1);
    assert!(matches!(commit(&store, twins(1)), Err(CommitError::Closed)));
}

#[test]
fn runtime_shutdown_fails_commits_but_keeps_the_store() {
    let store = open(&Disk::default()).unwrap();
    let (runtime, release) = busy();
    let handle = runtime.handle().clone();
    runtime.shutdown_background();
    {
        let _inside = handle.enter();
        assert!(matches!(commit(&store, twins(1)), Err(CommitError::Closed)));
    }
    drop(release);
    assert_eq!(reached(&store), 0);
    commit(&store, twins(1)).unwrap();
    assert_eq!(reached(&store), 1);
}
