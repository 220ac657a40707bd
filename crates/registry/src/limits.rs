//! Limits on the answers of a registry.

use std::time::Duration;

/// Limits on the answers of a registry. A larger answer is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a manifest or index. The specification requires registries to accept 4 MiB.
    pub manifest_bytes_max: u64,
    /// Bytes of a blob.
    pub blob_bytes_max: u64,
    /// Bytes of one page of tags or referrers.
    pub page_bytes_max: u64,
    /// Bytes of all pages of one list.
    pub list_bytes_max: u64,
    /// Bytes of all tags of one list, or of the texts of all referrers. 100,000 of the longest tags are smaller.
    pub text_bytes_max: usize,
    /// Pages of one list.
    pub pages_max: usize,
    /// Entries of one list.
    pub entries_max: usize,
    /// Bytes of the answer of a token server.
    pub token_bytes_max: u64,
    /// The longest wait for a registry that limits requests; a longer one is an error.
    pub wait_max: Duration,
    /// The first pause before a displaced list is asked for again.
    pub displaced_pause: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            manifest_bytes_max: 4 << 20,
            blob_bytes_max: 512 << 20,
            page_bytes_max: 4 << 20,
            list_bytes_max: 128 << 20,
            text_bytes_max: 16 << 20,
            pages_max: 1000,
            entries_max: 100_000,
            token_bytes_max: 256 << 10,
            wait_max: Duration::from_secs(10),
            displaced_pause: Duration::from_millis(500),
        }
    }
}
