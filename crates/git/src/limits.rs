//! Limits on everything that a remote sends.

/// Limits for one mirror and one tree. Exceeding one is an error that states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Refs a remote may list in one answer.
    pub refs_max: usize,
    /// Bytes of one answer to a listing of refs.
    pub listing_bytes_max: u64,
    /// Bytes of one fetched pack.
    pub pack_bytes_max: u64,
    /// Files, links and submodules in one tree, and its directories.
    pub entries_max: usize,
    /// Bytes of all paths of one tree that are listed.
    pub listed_bytes_max: u64,
    /// Bytes of one blob that is read.
    pub blob_bytes_max: u64,
    /// Bytes of all blobs of one tree together.
    pub tree_bytes_max: u64,
    /// Bytes of one path.
    pub path_bytes_max: usize,
    /// Directories above a file.
    pub depth_max: usize,
    /// Packs a mirror may gather before it is fetched afresh: each fetch adds one, and every
    /// lookup asks all of them.
    pub packs_max: usize,
    /// Bytes of a mirror's packs before a fetch. A larger one is fetched afresh.
    pub mirror_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            refs_max: 200_000,
            listing_bytes_max: 24 << 20,
            pack_bytes_max: 1 << 30,
            entries_max: 200_000,
            listed_bytes_max: 64 << 20,
            blob_bytes_max: 64 << 20,
            tree_bytes_max: 2 << 30,
            path_bytes_max: 4096,
            depth_max: 128,
            packs_max: 64,
            mirror_bytes_max: 2 << 30,
        }
    }
}
