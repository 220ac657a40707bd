//! Comparison of resource quantities, which arrive canonical.

use equate_manifest::schema::quantity::Quantity;
use std::cmp::Ordering;

/// A quantity in units of 10^-9; `None` if it is not one.
pub(crate) fn nano(text: &str) -> Option<i128> {
    Quantity::parse(text).ok().map(|quantity| quantity.nanos())
}

pub(crate) fn compare(a: &str, b: &str) -> Option<Ordering> {
    Some(nano(a)?.cmp(&nano(b)?))
}

pub(crate) fn is_negative(text: &str) -> bool {
    nano(text).is_some_and(|n| n < 0)
}
