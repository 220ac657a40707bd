//! The contents of files, concatenated in one file on disk: an unpacked archive takes memory only for its
//! names.
//!
//! The file is unnamed, so nobody else writes to it, and it is freed with the last tree that reads it.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use equate_git::{BlobHash, BlobId};

use super::{ReadError, TreeError};

/// Bytes of one read and write.
const PART: usize = 64 << 10;

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

    pub(crate) fn reader(&self) -> impl Read + use<> {
        PackedReader(self.clone())
    }
}

/// The part that is not read yet.
struct PackedReader(Packed);

impl Read for PackedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Packed { pack, at, length } = &mut self.0;
        let wanted = buffer.len().min(*length);
        let read = match wanted {
            0 => return Ok(0),
            _ => pack.read_at(&mut buffer[..wanted], *at)?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        *at += read as u64;
        *length -= read;
        Ok(read)
    }
}

/// A content was not added.
#[derive(Debug)]
pub(crate) enum PackError {
    /// It cannot be read.
    Read(io::Error),
    /// The disk.
    Write(io::Error),
}

impl PackError {
    pub(crate) fn at(self, path: &str) -> TreeError {
        let path = path.to_owned();
        match self {
            PackError::Read(source) => ReadError::Packed { path, source }.into(),
            PackError::Write(source) => TreeError::Pack { path, source },
        }
    }
}

#[derive(Debug)]
pub(crate) struct Packing {
    pack: Arc<fs::File>,
    at: u64,
    part: Vec<u8>,
}

impl Packing {
    pub(crate) fn new(pack: fs::File) -> Packing {
        Packing {
            pack: Arc::new(pack),
            at: 0,
            part: Vec::new(),
        }
    }

    /// Adds a content of this many bytes part by part. Its id is `None` if it is crafted to collide with another.
    pub(crate) fn add(
        &mut self,
        mut content: impl Read,
        size: u64,
    ) -> Result<(Packed, Option<BlobId>), PackError> {
        let (mut hash, mut added) = (BlobHash::new(size), 0);
        self.part.resize(PART, 0);
        while added < size {
            let wanted = usize::try_from(size - added).map_or(PART, |left| left.min(PART));
            let part = &mut self.part[..wanted];
            content.read_exact(part).map_err(PackError::Read)?;
            hash.update(part);
            // at its place: what a failure left behind is written over
            self.pack
                .write_all_at(part, self.at + added)
                .map_err(PackError::Write)?;
            added += wanted as u64;
        }
        let packed = Packed {
            pack: Arc::clone(&self.pack),
            at: self.at,
            length: usize::try_from(size).map_err(|_| PackError::Read(io::ErrorKind::FileTooLarge.into()))?,
        };
        self.at += size;
        Ok((packed, hash.id()))
    }
}
