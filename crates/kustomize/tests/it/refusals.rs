//! Inputs that kustomize's own cases refuse are refused here for the same reason and at the right place.
//!
//! `refusals.txt` has a line per case: the kind of fault, the place, and words of the message. A word also
//! occurs in kustomize's message unless it has a plus.

use crate::vectors;
use std::collections::BTreeSet;

const TABLE: &str = include_str!("refusals.txt");

struct Refusal<'t> {
    id: &'t str,
    kind: &'t str,
    place: &'t str,
    nouns: Vec<&'t str>,
}

fn table() -> Vec<Refusal<'static>> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut columns = line.split(" | ").map(str::trim);
            let mut next = || columns.next().unwrap_or_default();
            let (id, kind, place) = (next(), next(), next());
            Refusal {
                id,
                kind,
                place,
                nouns: columns.collect(),
            }
        })
        .collect()
}

fn kind(fault: &impl std::fmt::Debug) -> String {
    let text = format!("{fault:?}");
    let end = text.find(|c: char| !c.is_ascii_alphanumeric());
    text[..end.unwrap_or(text.len())].to_owned()
}

#[test]
fn every_refusal_has_its_kind_place_and_nouns() {
    let mut cases = Vec::new();
    for file in vectors::FILES {
        let Some(found) = vectors::cases(file) else {
            println!("{file} is not here: nothing compared");
            return;
        };
        cases.extend(found.into_iter().filter(|case| case["expect"] == "error"));
    }
    let table = table();
    let listed: BTreeSet<&str> = table.iter().map(|refusal| refusal.id).collect();
    let known: BTreeSet<&str> = cases.iter().filter_map(|case| case["id"].as_str()).collect();
    assert_eq!(listed, known);
    assert_eq!(table.len(), known.len(), "a case is listed twice");

    let mut wrong = Vec::new();
    for refusal in &table {
        let case = cases.iter().find(|case| case["id"] == refusal.id).unwrap();
        let Err(error) = vectors::built(case) else {
            wrong.push(format!("{} builds", refusal.id));
            continue;
        };
        let found = (
            kind(&error.fault),
            error.place.to_string(),
            error.fault.to_string(),
        );
        let real = case["oracle_error"].as_str().unwrap().replace("<ROOT>/", "");
        let mut complaints = Vec::new();
        if found.0 != refusal.kind {
            complaints.push(format!("is a {}, not a {}", found.0, refusal.kind));
        }
        if found.1 != refusal.place {
            complaints.push(format!("is at {}, not at {}", found.1, refusal.place));
        }
        if refusal.nouns.is_empty() {
            complaints.push("has no nouns".to_owned());
        }
        for noun in &refusal.nouns {
            let (ours_alone, noun) = match noun.strip_prefix('+') {
                Some(noun) => (true, noun),
                None => (false, *noun),
            };
            if !found.2.contains(noun) {
                complaints.push(format!("does not name {noun:?}"));
            }
            if real.contains(noun) == ours_alone {
                complaints.push(format!("{noun:?} in the real tool's message: {}", !ours_alone));
            }
        }
        if !complaints.is_empty() {
            let (id, place, text) = (refusal.id, &found.1, &found.2);
            wrong.push(format!(
                "{id} | {} | {place} | {text}\n    {}\n    real: {real}",
                found.0,
                complaints.join("\n    ")
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
