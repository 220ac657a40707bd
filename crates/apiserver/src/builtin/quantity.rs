//! Comparing resource quantities, which arrive canonical.

use equate_manifest::schema::quantity::Quantity;
use std::cmp::Ordering;

/// A quantity in units of 10^-9; `None` for what is not a quantity.
pub(crate) fn nano(text: &str) -> Option<i128> {
    Quantity::parse(text).ok().map(|quantity| quantity.nanos())
}

/// How two quantities compare; `None` where one is not a quantity.
pub(crate) fn compare(a: &str, b: &str) -> Option<Ordering> {
    Some(nano(a)?.cmp(&nano(b)?))
}

/// Whether a quantity is below zero.
pub(crate) fn is_negative(text: &str) -> bool {
    nano(text).is_some_and(|n| n < 0)
}
