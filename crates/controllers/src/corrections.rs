//! Limits how often drift is corrected: at once first, then with growing delays.
//!
//! Another controller that writes the same field would be fought for ever, at the speed of two watches.
//! So an object that drifts again soon after its correction waits longer each time, and its
//! Kustomization names the writer. Pure.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use equate_apply::difference::{Difference, Shown};
use equate_apply::id::ObjectId;
use tokio::time::Instant;

/// The number of corrections of one object without a delay.
const FREE: u32 = 3;
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// An object starts afresh after this time without drift, counted from the end of its delay.
const CALM: Duration = Duration::from_secs(60);

/// The corrections of one Kustomization's objects.
#[derive(Debug, Default)]
pub struct Corrections {
    objects: HashMap<ObjectId, Correction>,
}

#[derive(Debug)]
struct Correction {
    /// The number of corrections without calm in between.
    streak: u32,
    last: Instant,
    /// The last other writer of the object, at its correction.
    writer: Option<String>,
}

impl Correction {
    fn wait(&self) -> Duration {
        match self.streak.checked_sub(FREE) {
            None => Duration::ZERO,
            Some(over) => FIRST.saturating_mul(1 << over.min(20)).min(LONGEST),
        }
    }

    fn calm(&self, now: Instant) -> bool {
        now >= self.last + self.wait() + CALM
    }
}

impl Corrections {
    /// The earliest time to correct an object; not in the future if at once.
    pub fn due(&self, id: &ObjectId, now: Instant) -> Instant {
        match self.objects.get(id) {
            Some(correction) if !correction.calm(now) => correction.last + correction.wait(),
            _ => now,
        }
    }

    /// Notes a correction.
    pub fn corrected(&mut self, id: &ObjectId, writer: Option<String>, now: Instant) {
        let correction = self.objects.entry(id.clone()).or_insert(Correction {
            streak: 0,
            last: now,
            writer: None,
        });
        if correction.calm(now) {
            correction.streak = 0;
        }
        correction.streak = correction.streak.saturating_add(1);
        correction.last = now;
        correction.writer = writer.or(correction.writer.take());
    }

    /// Objects that must not be corrected yet, with their writers.
    pub fn backing_off(&self, now: Instant) -> BTreeMap<ObjectId, Option<String>> {
        let waiting = self.objects.iter().filter(|(id, _)| self.due(id, now) > now);
        waiting
            .map(|(id, correction)| (id.clone(), correction.writer.clone()))
            .collect()
    }

    /// The status message about objects that keep drifting; `None` if all are calm.
    pub fn message(&self, now: Instant) -> Option<String> {
        let mut repeating: Vec<(&ObjectId, &Correction)> = self
            .objects
            .iter()
            .filter(|(_, correction)| correction.streak > FREE && !correction.calm(now))
            .collect();
        repeating.sort_by_key(|(id, _)| *id);
        let lines: Vec<String> = repeating
            .into_iter()
            .map(|(id, correction)| match &correction.writer {
                Some(writer) => format!("{id} is changed again and again by field manager \"{writer}\""),
                None => format!("{id} is changed or deleted again and again"),
            })
            .collect();
        (!lines.is_empty()).then(|| {
            format!(
                "{}; corrections wait longer each time. Leave the field to one of the two: remove it from git, \
                 or stop the other writer",
                lines.join(", ")
            )
        })
    }

    /// When [`Corrections::message`] may change by time alone: when the last object becomes calm.
    pub fn calm_at(&self, now: Instant) -> Option<Instant> {
        let restless = self.objects.values().filter(|c| c.streak > FREE && !c.calm(now));
        restless.map(|c| c.last + c.wait() + CALM).max()
    }

    /// Forgets calm objects, and those that do not pass.
    pub fn retain(&mut self, now: Instant, mut passes: impl FnMut(&ObjectId) -> bool) {
        self.objects
            .retain(|id, correction| !correction.calm(now) && passes(id));
    }
}

/// Fields and characters of a value that an event names.
const FIELDS_MAX: usize = 5;
const VALUE_CHARS_MAX: usize = 80;

/// The text of an event about a correction: `corrected .spec.replicas 7 -> 2, written by kubectl`.
pub(crate) fn describe(fields: &[Difference], writer: Option<&str>) -> Option<String> {
    let value = |shown: &Option<Shown>| match shown {
        None => "(removed)".to_owned(),
        Some(shown) => {
            let text = shown.to_string();
            match text.chars().nth(VALUE_CHARS_MAX) {
                Some(_) => text.chars().take(VALUE_CHARS_MAX).chain("...".chars()).collect(),
                None => text,
            }
        }
    };
    let named = fields.iter().take(FIELDS_MAX);
    let named = named.map(|one| format!("{} {} -> {}", one.path, value(&one.before), value(&one.after)));
    let mut named: Vec<String> = named.collect();
    match fields.len().saturating_sub(FIELDS_MAX) {
        0 => {}
        1 => named.push("1 more field".to_owned()),
        more => named.push(format!("{more} more fields")),
    }
    let writer = writer.map_or_else(String::new, |writer| format!(", written by {writer}"));
    (!named.is_empty()).then(|| format!("corrected {}{writer}", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn correction_names_fields_values_and_the_writer() {
        let field = |path: &str, before: Option<Value>, after: Value| Difference {
            path: path.to_owned(),
            before: before.map(Shown::Value),
            after: Some(Shown::Value(after)),
        };
        let check = |fields: &[Difference], writer: Option<&str>, expected: Option<&str>| {
            assert_eq!(describe(fields, writer).as_deref(), expected);
        };
        check(&[], Some("kubectl"), None);
        let replicas = field(".spec.replicas", Some(json!(7)), json!(2));
        check(
            &[replicas.clone(), field(".data.a", None, json!("b"))],
            Some("kubectl"),
            Some("corrected .spec.replicas 7 -> 2, .data.a (removed) -> \"b\", written by kubectl"),
        );
        let masked = Difference {
            path: ".data.key".to_owned(),
            before: Some(Shown::Masked),
            after: Some(Shown::Masked),
        };
        check(&[masked], None, Some("corrected .data.key *** -> ***"));
        let many = vec![replicas; 7];
        let said = describe(&many, None).unwrap();
        assert!(said.ends_with("7 -> 2, 2 more fields"), "{said}");
    }

    /// Corrects as soon as allowed, with drift following at once; returns the delays in seconds.
    fn waits(corrections: &mut Corrections, times: usize, now: &mut Instant) -> Vec<u64> {
        let id = ObjectId::new("", "ConfigMap", "default", "a");
        let mut waits = Vec::new();
        for _ in 0..times {
            let due = corrections.due(&id, *now);
            waits.push(due.saturating_duration_since(*now).as_secs());
            *now = due.max(*now);
            corrections.corrected(&id, Some("other".to_owned()), *now);
        }
        waits
    }

    #[test]
    fn first_corrections_are_immediate_and_later_ones_wait_longer() {
        let (mut corrections, mut now) = (Corrections::default(), Instant::now());
        assert_eq!(waits(&mut corrections, 3, &mut now), [0, 0, 0]);
        assert_eq!(corrections.message(now), None);
        assert_eq!(
            waits(&mut corrections, 12, &mut now),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]
        );
        let said = corrections.message(now).unwrap();
        assert!(
            said.starts_with("ConfigMap/default/a is changed again and again by field manager \"other\"; "),
            "{said}"
        );
        let waiting = corrections.backing_off(now);
        assert_eq!(
            waiting.into_values().collect::<Vec<_>>(),
            [Some("other".to_owned())]
        );
    }

    #[test]
    fn calm_resets_the_delay() {
        let (mut corrections, mut now) = (Corrections::default(), Instant::now());
        waits(&mut corrections, 5, &mut now);
        let calm = corrections.calm_at(now).unwrap();
        assert_eq!(calm - now, Duration::from_secs(4 + 60));
        assert!(corrections.message(calm - Duration::from_secs(1)).is_some());
        assert_eq!(corrections.message(calm), None);
        assert_eq!(corrections.calm_at(calm), None);
        now = calm;
        assert_eq!(waits(&mut corrections, 4, &mut now), [0, 0, 0, 1]);
        corrections.retain(now, |_| false);
        assert!(corrections.objects.is_empty());
    }
}
