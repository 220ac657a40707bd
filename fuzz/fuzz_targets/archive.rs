//! No archive makes its reader panic, hang or grow without bound, and a tree that was read can be written
//! and read again.
#![no_main]

use equate_source::{Limits, Tree};
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use std::io::Write as _;

fuzz_target!(|data: &[u8]| {
    let limits = Limits {
        entries_max: 1_000,
        file_bytes_max: 1 << 20,
        tree_bytes_max: 4 << 20,
        archive_bytes_max: 1 << 20,
        ..Limits::default()
    };
    drop(Tree::from_archive(data, &limits));
    // no fuzzer finds the checksum of gzip
    let mut zip = GzEncoder::new(Vec::new(), Compression::fast());
    zip.write_all(data).expect("memory can be written");
    let archive = zip.finish().expect("memory can be written");
    let Ok(tree) = Tree::from_archive(&archive[..], &limits) else {
        return;
    };
    for path in ["", "a", "a/b", "../a", "/etc/passwd"] {
        drop((tree.entry(path), tree.list(path), tree.read(path)));
    }
    let mut again = Vec::new();
    tree.write_archive(&mut again, &limits)
        .expect("a tree within limits is written");
    let read = Tree::from_archive(&again[..], &limits).expect("an archive of ours is read");
    assert_eq!(read.id().0, tree.id().0);
});
