//! JSON equality with a budget.
//!
//! Enumerations, patterns and `uniqueItems` cost what they compare, and the number of schemas does not
//! bound that: ten schemas may hold a million values each. [`Work`] counts comparisons.

use super::number::Decimal;
use serde_json::{Number, Value};
use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash as _, Hasher, RandomState};

/// The budget: values, and texts in pieces of [`PIECE`] bytes. Each costs some fifty nanoseconds.
pub(super) const WORK_MAX: usize = 10_000_000;
const PIECE: usize = 64;

pub(super) struct Work(Cell<Option<usize>>);

impl Work {
    pub(super) fn new() -> Self {
        Self(Cell::new(Some(WORK_MAX)))
    }

    /// Spends on values. Returns whether to go on.
    pub(super) fn spend(&self, count: usize) -> bool {
        self.0.set(self.0.get().and_then(|left| left.checked_sub(count)));
        !self.is_done()
    }

    /// Spends on a text, read `times` as slowly as a copy.
    pub(super) fn read(&self, text: &str, times: usize) -> bool {
        self.spend((text.len() / PIECE).saturating_mul(times).saturating_add(times))
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.get().is_none()
    }
}

/// Whether two values are equal; false once the budget is spent.
pub(super) fn equal(left: &Value, right: &Value, work: &Work) -> bool {
    if !work.spend(1) {
        return false;
    }
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => equal_numbers(left, right),
        (Value::String(left), Value::String(right)) => left == right && work.read(left, 1),
        (Value::Array(left), Value::Array(right)) => {
            let mut pairs = left.iter().zip(right);
            left.len() == right.len() && pairs.all(|(left, right)| equal(left, right, work))
        }
        (Value::Object(left), Value::Object(right)) => {
            work.spend(left.len().min(right.len()));
            let mut left_entries = left.iter();
            let mut same = |(key, value): (&String, &Value)| {
                right.get(key).is_some_and(|other| equal(value, other, work))
            };
            left.len() == right.len() && left_entries.all(&mut same)
        }
        (left, right) => left == right,
    }
}

fn equal_numbers(left: &Number, right: &Number) -> bool {
    // below this every whole number is an exact float
    const EXACT_MAX: u64 = 1 << 53;
    let is_exact = |number: &Number| match number.as_i64() {
        Some(whole) => whole.unsigned_abs() <= EXACT_MAX,
        None => number.is_f64(),
    };
    match (left.as_i64(), right.as_i64()) {
        (Some(left), Some(right)) => left == right,
        _ if is_exact(left) && is_exact(right) => left.as_f64() == right.as_f64(),
        _ => Decimal::new(left).order(Decimal::new(right)) == Ordering::Equal,
    }
}

/// The first two equal items, the later one as early as possible. A keyed hash keeps the comparisons few
/// for hostile input.
pub(super) fn equal_items(items: &[Value], work: &Work) -> Option<(usize, usize)> {
    let state = RandomState::new();
    let mut seen: HashMap<u64, Vec<usize>> = HashMap::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let mut hasher = state.build_hasher();
        hash(item, &mut hasher, work);
        let same = seen.entry(hasher.finish()).or_default();
        let is_equal = |first: &&usize| items.get(**first).is_some_and(|first| equal(first, item, work));
        if let Some(first) = same.iter().find(is_equal) {
            return Some((*first, index));
        }
        if work.is_done() {
            return None;
        }
        same.push(index);
    }
    None
}

/// Equal values have equal hashes.
fn hash(value: &Value, hasher: &mut impl Hasher, work: &Work) {
    if !work.spend(1) {
        return;
    }
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(flag) => (1_u8, flag).hash(hasher),
        Value::Number(number) => (2_u8, Decimal::new(number).shortest()).hash(hasher),
        Value::String(text) => {
            work.read(text, 1);
            (3_u8, text).hash(hasher);
        }
        Value::Array(items) => {
            (4_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| hash(item, hasher, work));
        }
        Value::Object(map) => {
            (5_u8, map.len()).hash(hasher);
            for (key, value) in map {
                key.hash(hasher);
                hash(value, hasher, work);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{WORK_MAX, Work, equal, equal_items};
    use serde_json::{Value, json};

    #[test]
    fn values_are_equal_as_json() {
        for (left, right, is) in [
            (json!(1), json!(1.0), true),
            (json!(0.1), json!(1e-1), true),
            (json!(0.0), json!(-0.0), true),
            (json!(u64::MAX), json!(18_446_744_073_709_551_615.0), false),
            (json!(1e300), json!(1e300), true),
            (json!("1"), json!(1), false),
            (json!(null), json!(false), false),
            (json!([1, "a"]), json!([1.0, "a"]), true),
            (json!([1]), json!([1, 1]), false),
            (json!({"a": 1, "b": [2]}), json!({"b": [2.0], "a": 1.0}), true),
            (json!({"a": 1}), json!({"b": 1}), false),
            (json!({}), json!([]), false),
        ] {
            assert_eq!(equal(&left, &right, &Work::new()), is, "{left} {right}");
            let both = [json!("other"), left, right];
            assert_eq!(equal_items(&both, &Work::new()), is.then_some((1, 2)), "{both:?}");
        }
    }

    #[test]
    fn many_items_cost_what_they_are() {
        let work = Work::new();
        let items: Vec<Value> = (0..10_000).map(|n| json!({ "a": n })).collect();
        assert_eq!(equal_items(&items, &work), None);
        assert!(work.spend(WORK_MAX - 20_000));
        assert!(!work.spend(1));
    }
}
