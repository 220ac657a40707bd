//! Gives the memory of a table back after a peak.

use std::collections::HashMap;
use std::hash::Hash;

/// A smaller table is not worth a copy.
const CAPACITY_MIN: usize = 256;

/// Shrinks a table that is less than an eighth full. For each removed entry the cost is constant on average.
pub(crate) fn shrink<K: Eq + Hash, V>(table: &mut HashMap<K, V>) {
    if table.capacity() > CAPACITY_MIN.max(8 * table.len()) {
        table.shrink_to(2 * table.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_after_a_peak_is_small() {
        let mut table: HashMap<usize, usize> = (0..10_000).map(|number| (number, number)).collect();
        let mut shrinks = 0;
        for number in 10..10_000 {
            let before = table.capacity();
            table.remove(&number);
            shrink(&mut table);
            shrinks += usize::from(2 * table.capacity() < before);
        }
        assert_eq!(table.len(), 10);
        assert!(table.capacity() <= CAPACITY_MIN, "{}", table.capacity());
        assert!((1..=4).contains(&shrinks), "{shrinks}");
    }
}
