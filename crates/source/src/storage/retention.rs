//! The retention of replaced artifacts, as in Flux.

use std::time::Duration;

use jiff::Timestamp;

use super::record::Record;

/// The retention of a place's older artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// The time an older artifact stays for readers that know its address.
    pub ttl: Duration,
    /// The most artifacts, including the newest.
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
    /// Returns the files to remove. `records` are oldest first; the newest always stays.
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
