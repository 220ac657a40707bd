use super::{Commit, Entry, Step, spells, walk};
use crate::artifact::{Artifact, Subject, Version};
use crate::config::Config;
use crate::overlay::Memory;
use std::ops::ControlFlow;

fn config() -> Config {
    let text = "version: 1\nenvironments: [dev, prod]\nservices: apps/{environment}/{service}\n";
    Config::parse("equate.yaml", text).unwrap()
}

fn commit(number: usize) -> Commit {
    Commit {
        id: format!("c{number}"),
        time: jiff::Timestamp::from_second(1_000_000 + number as i64).unwrap(),
        author: "Mia".to_owned(),
        email: "mia@example.org".to_owned(),
        message: format!("change {number}\n"),
    }
}

fn manifest(image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: cart}}\nspec:\n  containers: [{{image: \"{image}\"}}]\n"
    )
}

/// Trees from the oldest to the newest; returns the entries from the newest to the oldest.
fn history(trees: &[Memory], whole: bool) -> Vec<String> {
    let config = config();
    let tip = trees.last().unwrap();
    let environments: Vec<&str> = config.environments().collect();
    let mut places = config.services.pattern().places(tip, &environments);
    places.extend(config.services.pattern().places(&trees[0], &environments));
    places.sort();
    places.dedup();
    let steps = (0..trees.len()).rev().map(|at| {
        let changed = match at.checked_sub(1) {
            None => trees[at].files().keys().cloned().collect(),
            Some(before) => {
                let (new, old) = (trees[at].files(), trees[before].files());
                let paths = new.keys().chain(old.keys());
                let mut paths: Vec<String> = paths
                    .filter(|path| new.get(*path) != old.get(*path))
                    .cloned()
                    .collect();
                paths.sort();
                paths.dedup();
                paths
            }
        };
        Step {
            commit: commit(at),
            tree: Box::new(trees[at].clone()),
            changed,
            is_root: at == 0 && whole,
        }
    });
    let mut found = Vec::new();
    walk(&config, &places, steps, |entry| {
        let label = |artifact: &Option<Artifact>| match artifact {
            Some(artifact) => artifact.label("cart"),
            None => "none".to_owned(),
        };
        let (before, after) = (label(&entry.before), label(&entry.after));
        found.push(format!(
            "{} {} {before} -> {after}",
            entry.commit.id, entry.environment
        ));
        ControlFlow::Continue(())
    });
    found
}

#[test]
fn commits_by_hand_count() {
    let empty = Memory::default().with("README.md", "x");
    let first = empty.clone().with("apps/dev/cart/pod.yaml", manifest("cart:1"));
    let same = first.clone().with("apps/dev/cart/note.txt", "x");
    let second = same.clone().with("apps/dev/cart/pod.yaml", manifest("cart:2"));
    let prod = second.clone().with("apps/prod/cart/pod.yaml", manifest("cart:2"));
    let gone = prod
        .clone()
        .changed(&[("apps/dev/cart/pod.yaml".to_owned(), None)].into());
    let trees = [empty, first, same, second, prod, gone];
    let whole = [
        "c5 dev 2 -> none",
        "c4 prod none -> 2",
        "c3 dev 1 -> 2",
        "c1 dev none -> 1",
    ];
    assert_eq!(history(&trees, true), whole);
    // a shallow clone knows nothing about its oldest commit
    let shallow = ["c4 dev 2 -> none", "c3 prod none -> 2", "c2 dev 1 -> 2"];
    assert_eq!(history(&trees[1..], false), shallow);
}

#[test]
fn commits_that_do_not_build_hide_nothing() {
    let tree = |text: &str| Memory::default().with("apps/dev/cart/pod.yaml", text.to_owned());
    let broken = tree("{");
    let trees = [
        tree(&manifest("cart:1")),
        broken.clone(),
        broken.with("x", "y"),
        tree(&manifest("cart:1")),
        tree("["),
        tree(&manifest("cart:2")),
    ];
    assert_eq!(history(&trees, true), ["c5 dev 1 -> 2", "c0 dev none -> 1"]);
}

#[test]
fn change_of_a_base_counts_in_each_environment() {
    let tree = |image: &str| {
        let overlay = "resources: [../../../base]\n";
        Memory::default()
            .with("base/kustomization.yaml", "resources: [pod.yaml]\n")
            .with("base/pod.yaml", manifest(image))
            .with("apps/dev/cart/kustomization.yaml", overlay)
            .with("apps/prod/cart/kustomization.yaml", overlay)
    };
    assert_eq!(
        history(&[tree("cart:1"), tree("cart:2")], false),
        ["c1 dev 1 -> 2", "c1 prod 1 -> 2"]
    );
}

#[test]
fn spells_end_with_the_next_change_of_their_environment() {
    let artifact = |tag: &str| {
        let mut artifact = Artifact::default();
        artifact.set(Subject::Image("cart".to_owned()), Version::tag(tag));
        artifact
    };
    let entry = |number, environment: &str, after: Option<&str>| Entry {
        commit: commit(number),
        environment: environment.to_owned(),
        service: "cart".to_owned(),
        before: None,
        after: after.map(artifact),
    };
    let entries = [
        entry(5, "dev", Some("2")),
        entry(4, "prod", None),
        entry(3, "prod", Some("2")),
        entry(2, "dev", Some("3")),
        entry(1, "dev", Some("2")),
    ];
    let found: Vec<String> = spells(&entries, &artifact("2"))
        .iter()
        .map(|spell| {
            let until = spell.until.as_ref().map_or("now", |commit| &commit.id);
            format!("{} {} to {until}", spell.environment, spell.since.id)
        })
        .collect();
    assert_eq!(found, ["dev c5 to now", "prod c3 to c4", "dev c1 to c2"]);
}
