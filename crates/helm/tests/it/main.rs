//! Comparisons with recorded answers of the real helm.

#![expect(clippy::unwrap_used, clippy::panic, reason = "tests, also their helpers")]

mod asked;
mod golden;
mod hostile;
mod listings;
mod repository;
