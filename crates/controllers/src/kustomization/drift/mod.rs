//! What counts as drift and as healthy, and how often drift is corrected.

pub mod correction_backoff;
pub(crate) mod rules;
