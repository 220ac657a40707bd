//! The contents of files, concatenated in one file on disk: an unpacked archive takes memory only for its
//! names.
//!
//! The file is unnamed, so nobody else writes to it, and it is freed with the last tree that reads it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;

#[derive(Clone, Debug)]
pub(crate) struct Packed {
    pack: Arc<fs::File>,
    at: u64,
    length: usize,
}

impl Packed {
    pub(crate) fn bytes(&self) -> u64 {
        self.length as u64
    }

    pub(crate) fn read(&self) -> io::Result<Bytes> {
        let mut bytes = vec![0; self.length];
        self.pack.read_exact_at(&mut bytes, self.at)?;
        Ok(bytes.into())
    }
}

#[derive(Debug)]
pub(crate) struct Packing {
    pack: Arc<fs::File>,
    at: u64,
}

impl Packing {
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
