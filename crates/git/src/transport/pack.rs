//! Takes a pack off the wire into a repository.

use std::{io::BufRead, sync::atomic::AtomicBool};

use gix::odb::pack;

use crate::limits::Limits;

/// Room for the table of a few million objects.
const TABLE_BYTES_MAX: u64 = 512 << 20;

/// Writes pack and index; gives the number of objects. The pack's checksum and every object in
/// it are verified on the way.
pub(super) fn receive(
    pack: &mut dyn BufRead,
    repository: &gix::Repository,
    limits: &Limits,
    interrupt: &AtomicBool,
) -> gix::Result<u32> {
    // One object and what it is a delta of, or the table of all objects.
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
        // It says "in use" to a collector of garbage; nobody collects here.
        std::fs::remove_file(keep).map_err(gix::Error::from_error)?;
    }
    Ok(written.index.num_objects)
}
