//! What a tree from outside may cost: one place, so that every way in (git, archive, directory) holds to
//! the same numbers and names the one that was hit.

use std::fmt;

/// How large a tree may be. A tree that is larger is refused as a whole; nothing is cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Files and directories in a tree.
    pub entries_max: usize,
    /// Directories above a file.
    pub depth_max: usize,
    /// Bytes of one path.
    pub path_bytes_max: usize,
    /// Bytes of one file.
    pub file_bytes_max: u64,
    /// Bytes of all files.
    pub tree_bytes_max: u64,
    /// Bytes of an archive as it is read, compressed.
    pub archive_bytes_max: u64,
    /// How many bytes one compressed byte may become, once more than a MiB came out of it.
    pub expansion_max: u64,
    /// Bytes of one file of ignore patterns.
    pub ignore_bytes_max: u64,
}

impl Default for Limits {
    /// Room for the largest fleets known, and little enough that one tree cannot take a machine down.
    fn default() -> Limits {
        Limits {
            entries_max: 500_000,
            depth_max: 128,
            path_bytes_max: 4096,
            file_bytes_max: 100 << 20,
            tree_bytes_max: 1 << 30,
            archive_bytes_max: 512 << 20,
            expansion_max: 1000,
            ignore_bytes_max: 1 << 20,
        }
    }
}

/// Which limit was hit, and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitExceeded {
    /// [`Limits::entries_max`].
    Entries(usize),
    /// [`Limits::depth_max`].
    Depth(usize),
    /// [`Limits::path_bytes_max`].
    PathBytes(usize),
    /// [`Limits::file_bytes_max`], or what a blob's publisher allows.
    FileBytes(u64),
    /// [`Limits::tree_bytes_max`].
    TreeBytes(u64),
    /// [`Limits::archive_bytes_max`].
    ArchiveBytes(u64),
    /// [`Limits::expansion_max`].
    Expansion(u64),
    /// [`Limits::ignore_bytes_max`].
    IgnoreBytes(u64),
}

impl fmt::Display for LimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LimitExceeded::Entries(max) => write!(f, "more than {max} files and directories"),
            LimitExceeded::Depth(max) => write!(f, "more than {max} directories deep"),
            LimitExceeded::PathBytes(max) => write!(f, "a path longer than {max} bytes"),
            LimitExceeded::FileBytes(max) => write!(f, "a file larger than {max} bytes"),
            LimitExceeded::TreeBytes(max) => write!(f, "more than {max} bytes in all files together"),
            LimitExceeded::ArchiveBytes(max) => write!(f, "an archive larger than {max} bytes"),
            LimitExceeded::Expansion(max) => write!(f, "an archive that expands more than {max} times"),
            LimitExceeded::IgnoreBytes(max) => write!(f, "a file of ignore patterns larger than {max} bytes"),
        }
    }
}
