//! Promotions over generated fleets.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod fleets;
