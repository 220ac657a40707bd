//! Contents of files one behind the other in a file on disk: an archive that was unpacked takes memory for
//! its names, not for its bytes.
//!
//! The file has no name any more when it is filled: nobody else writes to it, and it goes with the last
//! tree that reads it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;

/// Where the bytes of one file are.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pack: Arc<fs::File>,
    at: u64,
    length: usize,
}

impl Packed {
    pub(crate) fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.length];
        self.pack.read_exact_at(&mut bytes, self.at)?;
        Ok(bytes.into())
    }
}

/// A file that is being filled.
#[derive(Debug)]
pub(crate) struct Packing {
    pack: Arc<fs::File>,
    at: u64,
}

impl Packing {
    /// Fills an empty file.
    pub(crate) fn new(pack: fs::File) -> Packing {
        Packing {
            pack: Arc::new(pack),
            at: 0,
        }
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) -> io::Result<Packed> {
        (&*self.pack).write_all(bytes)?;
        let packed = Packed {
            pack: Arc::clone(&self.pack),
            at: self.at,
            length: bytes.len(),
        };
        self.at += bytes.len() as u64;
        Ok(packed)
    }
}
