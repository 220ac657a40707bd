use super::{Builder, Commit, Entry, Growth, History, key, spells};
use crate::artifact::{Artifact, Subject, Version};
use crate::config::Config;
use crate::fleet::{Fleet, Unit};
use crate::overlay::Memory;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};
use proptest::{collection, prop_assert, prop_assert_eq, sample};
use std::collections::{BTreeMap, BTreeSet};

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
    }
}

fn manifest(image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: cart}}\nspec:\n  containers: [{{image: \"{image}\"}}]\n"
    )
}

/// The history of trees, from the oldest to the newest.
fn grown(config: &Config, trees: &[Memory], whole: bool) -> History {
    let mut growth = Growth::new(History::default(), config);
    growth.begin(&trees[0], &commit(0), whole);
    advance(&mut growth, trees, 1);
    growth.finish()
}

/// Adds the trees from a number on.
fn advance(growth: &mut Growth<'_>, trees: &[Memory], from: usize) {
    for at in from..trees.len() {
        growth.advance(&trees[at - 1], &trees[at], &commit(at));
    }
}

fn shown(entry: &Entry) -> String {
    let label = |artifact: &Option<Artifact>| match artifact {
        Some(artifact) => artifact.label(&entry.service),
        None => "none".to_owned(),
    };
    let (before, after) = (label(&entry.before), label(&entry.after));
    let (commit, environment) = (&entry.commit.id, &entry.environment);
    match entry.service.as_str() {
        "cart" => format!("{commit} {environment} {before} -> {after}"),
        service => format!("{commit} {environment} {service} {before} -> {after}"),
    }
}

/// Trees from the oldest to the newest; returns the entries from the newest to the oldest.
fn history(trees: &[Memory], whole: bool) -> Vec<String> {
    let history = grown(&config(), trees, whole);
    history.entries(|_| true).map(|entry| shown(&entry)).collect()
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
    // at the end of a history, the commit that broke it took the version away
    assert_eq!(
        history(&trees[..3], true),
        ["c1 dev 1 -> none", "c0 dev none -> 1"]
    );
    // and before a shallow clone begins, there may have been any version
    assert_eq!(history(&trees[1..], false), ["c4 dev 1 -> 2"]);
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

#[test]
fn damaged_and_foreign_bytes_are_no_history() {
    let config = config();
    let tree = |image: &str| Memory::default().with("apps/dev/cart/pod.yaml", manifest(image));
    let history = grown(&config, &[tree("cart:1"), tree("cart:2")], true);
    let key = key(&config);
    let bytes = history.encode(&key);
    assert_eq!(History::decode(&bytes, &key), Some(history));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        assert_eq!(History::decode(&damaged, &key), None, "byte {at}");
        assert_eq!(History::decode(&bytes[..at], &key), None, "cut at {at}");
    }
    let other = "version: 1\nenvironments: [dev, test]\nservices: apps/{environment}/{service}\n";
    let other = Config::parse("equate.yaml", other).unwrap();
    assert_eq!(History::decode(&bytes, &super::key(&other)), None);
}

/// Entries by building every directory of every tree.
fn slow(config: &Config, trees: &[Memory], whole: bool) -> BTreeSet<String> {
    let environments: Vec<&str> = config.environments().collect();
    let places: BTreeSet<_> = trees
        .iter()
        .flat_map(|tree| config.services.pattern().places(tree, &environments))
        .collect();
    let mut entries = BTreeSet::new();
    for place in places {
        let mut last: Option<BTreeMap<String, Artifact>> = whole.then(BTreeMap::new);
        let mut broken: Option<usize> = None;
        let mut add = |at: usize, before: &BTreeMap<String, Artifact>, after: &BTreeMap<String, Artifact>| {
            let services: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
            for service in services {
                let (before, after) = (before.get(service).cloned(), after.get(service).cloned());
                if before != after {
                    entries.insert(shown(&Entry {
                        commit: commit(at),
                        environment: place.environment.clone(),
                        service: service.clone(),
                        before,
                        after,
                    }));
                }
            }
        };
        for (at, tree) in trees.iter().enumerate() {
            let services = match crate::config::is_directory(tree, &place.directory) {
                false => Some(BTreeMap::new()),
                true => Unit::build(tree, config, place.clone()).state.ok().map(|built| {
                    let names = built.services.keys();
                    let named = names.map(|name| (name.clone(), built.artifact(name)));
                    named.filter(|(_, artifact)| !artifact.is_empty()).collect()
                }),
            };
            let Some(services) = services else {
                broken.get_or_insert(at);
                continue;
            };
            broken = None;
            if let Some(last) = &last {
                add(at, last, &services);
            }
            last = Some(services);
        }
        if let (Some(at), Some(last)) = (broken, &last) {
            add(at, last, &BTreeMap::new());
        }
    }
    entries
}

/// Files of two layouts: services with a shared base, and texts that do not build.
fn change() -> impl Strategy<Value = (String, Option<String>)> {
    let directory = sample::select(vec![
        "apps/dev/cart",
        "apps/prod/cart",
        "apps/dev/.cart",
        "apps/dev/ledger",
        "base",
        "apps/dev",
        "docs",
    ]);
    let content = prop_oneof![
        3 => (0..3).prop_map(|tag| ("pod.yaml", Some(manifest(&format!("cart:{tag}"))))),
        1 => Just(("pod.yaml", Some("{".to_owned()))),
        2 => Just(("pod.yaml", None)),
        2 => sample::select(vec!["pod.yaml", "../../../base", "../base", "cart", "gone.yaml"])
            .prop_map(|from| ("kustomization.yaml", Some(format!("resources: [{from}]\n")))),
        1 => Just(("kustomization.yaml", None)),
    ];
    (directory, content).prop_map(|(directory, (name, text))| (format!("{directory}/{name}"), text))
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(200))]

    #[test]
    fn each_way_to_a_history_is_the_same(
        changes in collection::vec(collection::vec(change(), 0..3), 1..12),
        whole in any::<bool>(),
        stop in any::<sample::Index>(),
        with_services in any::<bool>(),
    ) {
        let mut trees = vec![Memory::default().with("README.md", "x").with("base/pod.yaml", manifest("cart:0"))];
        for change in changes {
            let files = change.into_iter().map(|(path, text)| (path, text.map(Into::into)));
            let next = trees[trees.len() - 1].clone().changed(&files.collect());
            trees.push(next);
        }
        let config = match with_services {
            true => config(),
            false => {
                let text = "version: 1\nenvironments: [dev, prod]\nservices: apps/{environment}\n";
                Config::parse("equate.yaml", text).unwrap()
            }
        };
        let history = grown(&config, &trees, whole);
        let entries: Vec<Entry> = history.entries(|_| true).collect();
        let found: BTreeSet<String> = entries.iter().map(shown).collect();
        prop_assert_eq!(found.len(), entries.len());
        prop_assert_eq!(found, slow(&config, &trees, whole));
        prop_assert!(entries.is_sorted_by(|new, old| new.commit.time >= old.commit.time));

        // from nothing, or stored on the way
        let stop = stop.index(trees.len()) + 1;
        let key = key(&config);
        let stored = grown(&config, &trees[..stop], whole).encode(&key);
        let mut growth = Growth::new(History::decode(&stored, &key).unwrap(), &config);
        advance(&mut growth, &trees, stop);
        prop_assert_eq!(&growth.finish(), &history);

        // with builds that were made ahead, from the newest commit to the oldest
        let mut builder = Builder::new(&config);
        let mut built: Vec<_> = (1..trees.len())
            .rev()
            .map(|at| builder.changed(&trees[at - 1], &trees[at]))
            .collect();
        let environments: Vec<&str> = config.environments().collect();
        let first = config.services.pattern().places(&trees[0], &environments);
        let mut growth = Growth::new(History::default(), &config);
        growth.expect(builder.all(&trees[0], first));
        growth.begin(&trees[0], &commit(0), whole);
        for at in 1..trees.len() {
            growth.expect(built.pop().unwrap());
            growth.advance(&trees[at - 1], &trees[at], &commit(at));
        }
        prop_assert_eq!(&growth.finish(), &history);

        // the newest tree as it is built
        let tip = &trees[trees.len() - 1];
        let (built, known) = (Fleet::build(tip, &config), Fleet::of_history(tip, &config, &history));
        prop_assert_eq!(built.services(), known.services());
        for service in built.services() {
            for environment in config.environments() {
                prop_assert_eq!(built.artifact(environment, service), known.artifact(environment, service));
                prop_assert_eq!(built.fault(environment, service), known.fault(environment, service));
            }
        }
    }
}
