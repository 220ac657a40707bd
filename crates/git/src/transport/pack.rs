//! Writes a received pack into a repository.

use std::io::{self, BufRead, Read as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use equate_egress::HeldAnswer;
use gix::odb::pack;
use gix::progress::prodash::messages::MessageLevel;
use gix::progress::{Id, Step, StepShared, Unit};
use gix::{Count, NestedProgress, Progress};

use crate::limits::Limits;

/// The memory of an object in gix's table of all. Measured, and the half more.
const TABLE_BYTES_PER_OBJECT: u64 = 128;
/// A pack begins with its name, the version, and the number of objects.
const HEAD_BYTES: usize = 12;
/// gix's number for the progress by objects of a pack, as they arrive.
const INDEXED: Id = *b"IWIO";

/// Verifies the pack's checksum and every object. Returns the number of objects. gix keeps each object that
/// arrives until it is complete: `held` counts it.
pub(super) fn receive(
    pack: &mut dyn BufRead,
    repository: &gix::Repository,
    limits: &Limits,
    interrupt: &AtomicBool,
    held: &Arc<HeldAnswer>,
) -> gix::Result<u32> {
    let (head, objects) = head(pack).map_err(gix::Error::from_error)?;
    // one object, or the table of all objects
    let table = u64::from(objects).saturating_mul(TABLE_BYTES_PER_OBJECT);
    let allocation = limits.blob_bytes_max.saturating_mul(2).max(table);
    let allocation = usize::try_from(allocation).unwrap_or(usize::MAX);
    let options = pack::bundle::write::Options {
        alloc_limit_bytes: Some(allocation),
        // other fetches need a processor, too
        thread_limit: Some(1),
        ..Default::default()
    };
    let mut progress = Arrivals {
        id: gix::progress::UNKNOWN,
        held: Arc::clone(held),
        step: StepShared::default(),
    };
    let written = pack::Bundle::write_to_directory(
        &mut head.chain(pack),
        Some(&repository.objects.store_ref().path().join("pack")),
        &mut progress,
        interrupt,
        Some(repository.objects.clone()),
        repository.object_hash(),
        options,
    )?;
    if let Some(keep) = written.keep_path {
        // The file protects a pack from garbage collection, which never runs here.
        std::fs::remove_file(keep).map_err(gix::Error::from_error)?;
    }
    Ok(written.index.num_objects)
}

/// The first bytes of a pack, and the number of objects that they announce.
fn head(pack: &mut dyn BufRead) -> io::Result<(io::Cursor<[u8; HEAD_BYTES]>, u32)> {
    let mut head = [0; HEAD_BYTES];
    pack.read_exact(&mut head)?;
    let [.., a, b, c, d] = head;
    Ok((io::Cursor::new(head), u32::from_be_bytes([a, b, c, d])))
}

/// Observes each object that has arrived.
struct Arrivals {
    id: Id,
    held: Arc<HeldAnswer>,
    step: StepShared,
}

impl Count for Arrivals {
    fn set(&self, step: Step) {
        self.step.store(step, Ordering::Relaxed);
    }

    fn step(&self) -> Step {
        self.step.load(Ordering::Relaxed)
    }

    fn inc_by(&self, step: Step) {
        self.step.fetch_add(step, Ordering::Relaxed);
        if self.id == INDEXED {
            self.held.clear();
        }
    }

    fn counter(&self) -> StepShared {
        Arc::clone(&self.step)
    }
}

impl Progress for Arrivals {
    fn init(&mut self, _: Option<Step>, _: Option<Unit>) {}

    fn set_name(&mut self, _: String) {}

    fn name(&self) -> Option<String> {
        None
    }

    fn id(&self) -> Id {
        self.id
    }

    fn message(&self, _: MessageLevel, _: String) {}
}

impl NestedProgress for Arrivals {
    type SubProgress = Self;

    fn add_child(&mut self, name: impl Into<String>) -> Self {
        self.add_child_with_id(name, gix::progress::UNKNOWN)
    }

    fn add_child_with_id(&mut self, _: impl Into<String>, id: Id) -> Self {
        Self {
            id,
            held: Arc::clone(&self.held),
            step: StepShared::default(),
        }
    }
}
