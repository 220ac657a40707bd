//! Texts exactly as Go programs read and print them, for all crates.

pub mod duration;
mod quote;
pub mod version;

pub use quote::{is_printable, quote, quote_char, quote_into, quote_time};
