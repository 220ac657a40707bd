//! Writes a received pack into a repository.

use std::{io::BufRead, sync::atomic::AtomicBool};

use gix::odb::pack;

use crate::limits::Limits;

/// Enough for a few million objects.
const TABLE_BYTES_MAX: u64 = 512 << 20;

/// Verifies the pack's checksum and every object. Returns the number of objects.
pub(super) fn receive(
    pack: &mut dyn BufRead,
    repository: &gix::Repository,
    limits: &Limits,
    interrupt: &AtomicBool,
) -> gix::Result<u32> {
    // One object with its delta base, or the table of all objects.
    let allocation = limits
        .blob_bytes_max
        .saturating_mul(2)
        .saturating_add(TABLE_BYTES_MAX);
    let allocation = usize::try_from(allocation).unwrap_or(usize::MAX);
    let options = pack::bundle::write::Options {
        alloc_limit_bytes: Some(allocation),
        ..Default::default()
    };
    let written = pack::Bundle::write_to_directory(
        pack,
        Some(&repository.objects.store_ref().path().join("pack")),
        &mut gix::progress::Discard,
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
