//! How long an artifact stays after a newer one took its place, as Flux lets go of them.

use std::time::Duration;

use jiff::Timestamp;

use super::record::Record;

/// What is kept of a place besides its newest artifact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long an older artifact stays for those who read its address a moment ago.
    pub ttl: Duration,
    /// How many artifacts stay at most, the newest among them.
    pub records: usize,
}

impl Default for Retention {
    /// Flux's `--artifact-retention-ttl` and `--artifact-retention-records`.
    fn default() -> Retention {
        Retention {
            ttl: Duration::from_secs(60),
            records: 2,
        }
    }
}

impl Retention {
    /// The files to remove of `records`, oldest first; the newest always stays.
    pub(super) fn garbage(&self, records: &[Record], now: Timestamp) -> Vec<String> {
        let Some((_, older)) = records.split_last() else {
            return Vec::new();
        };
        let surplus = records.len().saturating_sub(self.records.max(1));
        older
            .iter()
            .enumerate()
            .filter(|(at, record)| *at < surplus || self.is_expired(record, now))
            .map(|(_, record)| record.file.clone())
            .collect()
    }

    fn is_expired(&self, record: &Record, now: Timestamp) -> bool {
        Duration::try_from(now.duration_since(record.updated)).is_ok_and(|age| age > self.ttl)
    }
}
