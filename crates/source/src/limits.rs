//! Limits for trees from outside, shared by git, archives and directories.

use std::fmt;

/// Limits for a tree. A larger tree is refused as a whole, never truncated.
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
    /// Bytes of a compressed archive.
    pub archive_bytes_max: u64,
    /// The most bytes from one compressed byte, after the first MiB.
    pub expansion_max: u64,
    /// Bytes of all files of ignore patterns, with their paths.
    pub ignore_bytes_max: u64,
    /// Patterns of all files of ignore patterns, and of `spec.ignore`.
    pub ignore_patterns_max: usize,
}

impl Default for Limits {
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
            ignore_patterns_max: 10_000,
        }
    }
}

/// The exceeded limit and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitExceeded {
    /// [`Limits::entries_max`].
    Entries(usize),
    /// [`Limits::depth_max`].
    Depth(usize),
    /// [`Limits::path_bytes_max`].
    PathBytes(usize),
    /// [`Limits::file_bytes_max`], or the limit of a blob's publisher.
    FileBytes(u64),
    /// [`Limits::tree_bytes_max`].
    TreeBytes(u64),
    /// [`Limits::archive_bytes_max`].
    ArchiveBytes(u64),
    /// [`Limits::expansion_max`].
    Expansion(u64),
    /// [`Limits::ignore_bytes_max`].
    IgnoreBytes(u64),
    /// [`Limits::ignore_patterns_max`].
    IgnorePatterns(usize),
    /// The extended header of an archive's entry.
    HeaderBytes(u64),
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
            LimitExceeded::IgnoreBytes(max) => {
                write!(
                    f,
                    "more than {max} bytes in all files of ignore patterns together, with their paths"
                )
            }
            LimitExceeded::IgnorePatterns(max) => write!(f, "more than {max} ignore patterns"),
            LimitExceeded::HeaderBytes(max) => write!(f, "an extended header larger than {max} bytes"),
        }
    }
}
