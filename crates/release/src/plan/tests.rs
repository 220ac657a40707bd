use super::{Past, PlanError, Request, plan, plan_hold};
use crate::artifact::{Artifact, Subject, Version};
use crate::fleet::Builds;
use crate::history::{Commit, Entry};
use crate::hold::Hold;
use crate::overlay::Memory;
use crate::record::Intent;
use crate::rules::{Actor, Health};
use equate_kustomize::{ReadError, Stat, Tree};
use jiff::Timestamp;

const NOW: &str = "2026-11-25T12:00:00Z";

fn pod(service: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {service}}}\nspec:\n  containers:\n  - image: {service}:{version}\n"
    )
}

fn tree(rules: &str, versions: &[(&str, &str, &str)]) -> Memory {
    let config = format!(
        "version: 1\nenvironments: [dev, staging, {{prod: [prod-eu, prod-us]}}]\n\
         services: apps/{{environment}}/{{service}}\n{rules}"
    );
    versions.iter().fold(
        Memory::default().with("equate.yaml", config),
        |tree, (environment, service, version)| {
            tree.with(
                &format!("apps/{environment}/{service}/pod.yaml"),
                pod(service, version),
            )
        },
    )
}

fn request(intent: Intent, service: &str, to: &str) -> Request {
    Request {
        intent,
        services: vec![service.to_owned()],
        to: to.to_owned(),
        from: None,
        version: None,
        images: Vec::new(),
        pin: None,
        reason: None,
        by: "Mia <mia@example.org>".to_owned(),
        actor: Actor::Person,
    }
}

fn artifact(service: &str, version: &str) -> Artifact {
    let mut artifact = Artifact::default();
    artifact.set(Subject::Image(service.to_owned()), Version::tag(version));
    artifact
}

fn entry(number: i64, environment: &str, service: &str, before: &str, after: &str) -> Entry {
    Entry {
        commit: Commit {
            id: format!("{number:040}"),
            time: Timestamp::from_second(1_000_000_000 + number).unwrap(),
            author: "Mia".to_owned(),
            email: "mia@example.org".to_owned(),
        },
        environment: environment.to_owned(),
        service: service.to_owned(),
        before: Some(artifact(service, before)),
        after: Some(artifact(service, after)),
    }
}

/// Plans with a history; returns the versions after each step, or the error.
fn planned(tree: &Memory, request: &Request, entries: &[Entry]) -> Result<Vec<String>, PlanError> {
    let of_service = |service: &str| -> Vec<Entry> {
        let found = entries.iter().filter(|entry| entry.service == service);
        found.cloned().collect()
    };
    let past = Past {
        entries: &of_service,
        health: &|_, _| Health::Unknown("no cluster".to_owned()),
        now: NOW.parse().unwrap(),
        builds: &Builds::default(),
    };
    let plan = plan(tree, request, past)?;
    let lines = plan.steps.iter().map(|step| {
        let (before, after) = step.labels();
        let refused: Vec<&str> = step.refusals().map(|verdict| verdict.rule).collect();
        format!("{} {before} -> {after} {}", step.environment, refused.join(","))
    });
    Ok(lines.collect())
}

#[test]
fn trap_01_names_that_begin_alike_do_not_cross() {
    let tree = tree(
        "",
        &[
            ("dev", "master", "1.0"),
            ("dev", "master-foo", "2.0"),
            ("staging", "master", "0.1"),
            ("staging", "master-foo", "0.2"),
            ("dev", "a_b", "3.0"),
            ("staging", "a_b", "0.3"),
        ],
    );
    let promote = |service: &str| planned(&tree, &request(Intent::Promote, service, "staging"), &[]);
    assert_eq!(promote("master").unwrap(), ["staging 0.1 -> 1.0 "]);
    assert_eq!(promote("master-foo").unwrap(), ["staging 0.2 -> 2.0 "]);
    assert_eq!(promote("a_b").unwrap(), ["staging 0.3 -> 3.0 "]);
    assert!(matches!(promote("a/b"), Err(PlanError::Service { .. })));
    assert!(matches!(promote("maste"), Err(PlanError::Service { near: Some(near), .. }) if near == "master"));
}

#[test]
fn trap_02_version_is_found_among_more_than_a_thousand() {
    let tree = tree("", &[("dev", "cart", "1.2000"), ("staging", "cart", "1.0")]);
    let entries: Vec<Entry> = (1..2000)
        .rev()
        .map(|number| {
            let (before, after) = (format!("1.{number}"), format!("1.{}", number + 1));
            entry(number, "dev", "cart", &before, &after)
        })
        .collect();
    let mut request = request(Intent::Promote, "cart", "staging");
    request.version = Some("1.7".to_owned());
    assert_eq!(
        planned(&tree, &request, &entries).unwrap(),
        ["staging 1.0 -> 1.7 "]
    );
    request.version = Some("1.70000".to_owned());
    let error = planned(&tree, &request, &entries).unwrap_err();
    assert_eq!(error.to_string(), "no environment ever had cart 1.70000");
}

#[test]
fn trap_12_automation_does_not_undo_a_rollback() {
    let tree = tree("", &[("dev", "cart", "2.4.1"), ("staging", "cart", "2.4.1")]);
    let entries = [
        entry(3, "staging", "cart", "2.4.0", "2.4.1"),
        entry(2, "staging", "cart", "2.3.9", "2.4.0"),
    ];
    let of_service = |_: &str| entries.to_vec();
    let past = Past {
        entries: &of_service,
        health: &|_, _| Health::Healthy,
        now: NOW.parse().unwrap(),
        builds: &Builds::default(),
    };
    let back = plan(&tree, &request(Intent::Rollback, "cart", "staging"), past).unwrap();
    let mut paths: Vec<&str> = back.files.keys().map(String::as_str).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [".equate/holds/staging/cart.yaml", "apps/staging/cart/pod.yaml"]
    );
    let after = tree.changed(&back.files);
    let promote = |actor: Actor, tree: &Memory| {
        let request = Request {
            actor,
            ..request(Intent::Promote, "cart", "staging")
        };
        planned(tree, &request, &[]).unwrap()
    };
    assert_eq!(
        promote(Actor::Automation, &after),
        ["staging 2.4.0 -> 2.4.1 hold"]
    );
    assert_eq!(promote(Actor::Person, &after), ["staging 2.4.0 -> 2.4.1 "]);
    // a newer version ends the wait
    let newer = after.with("apps/dev/cart/pod.yaml", pod("cart", "2.4.2"));
    assert_eq!(promote(Actor::Automation, &newer), ["staging 2.4.0 -> 2.4.2 "]);
}

#[test]
fn rollback_replaces_a_hold_that_has_expired() {
    let entries = [entry(3, "staging", "cart", "2.4.0", "2.4.1")];
    let of_service = |_: &str| entries.to_vec();
    let path = Hold::path("staging", "cart");
    for (until, is_replaced) in [("2000-01-01T00:00:00Z", true), ("2999-01-01T00:00:00Z", false)] {
        let hold = format!("reason: EU first\nby: Anna <anna@example.org>\nuntil: {until}\n");
        let past = Past {
            entries: &of_service,
            health: &|_, _| Health::Healthy,
            now: NOW.parse().unwrap(),
            builds: &Builds::default(),
        };
        let tree = tree("", &[("staging", "cart", "2.4.1")]).with(&path, hold);
        let back = plan(&tree, &request(Intent::Rollback, "cart", "staging"), past).unwrap();
        assert_eq!(back.files.contains_key(&path), is_replaced, "{until}");
    }
}

#[test]
fn second_rollback_goes_further_back() {
    let tree = tree("", &[("staging", "cart", "2.4.0")]);
    let entries = [
        entry(4, "staging", "cart", "2.4.1", "2.4.0"),
        entry(3, "staging", "cart", "2.4.0", "2.4.1"),
        entry(2, "staging", "cart", "2.3.9", "2.4.0"),
    ];
    let back = |entries: &[Entry]| planned(&tree, &request(Intent::Rollback, "cart", "staging"), entries);
    assert_eq!(back(&entries).unwrap(), ["staging 2.4.0 -> 2.3.9 "]);
    assert_eq!(
        back(&[]).unwrap_err().to_string(),
        "staging had no version of cart before 2.4.0"
    );
}

#[test]
fn sources_of_a_promotion_are_clear() {
    let versions = [
        ("dev", "cart", "3"),
        ("staging", "cart", ">=1.0"),
        ("prod-eu", "cart", "1"),
        ("prod-us", "cart", "2"),
    ];
    let tree = tree("", &versions);
    let error = |request: &Request| planned(&tree, request, &[]).unwrap_err().to_string();
    assert_eq!(
        error(&request(Intent::Promote, "cart", "dev")),
        "no environment comes before dev, so there is nothing to promote"
    );
    assert_eq!(
        error(&request(Intent::Promote, "cart", "nope")),
        "unknown environment \"nope\""
    );
    let from = Request {
        from: Some("prod".to_owned()),
        ..request(Intent::Promote, "cart", "dev")
    };
    assert_eq!(
        error(&from),
        "cart has different versions before dev: prod-eu 1, prod-us 2"
    );
}

#[test]
fn ranges_are_promoted_only_with_a_pin() {
    let release = |version: &str| {
        format!(
            "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: podinfo}}\nspec:\n  chart:\n\
             \x20   spec:\n      chart: podinfo\n      version: \"{version}\"\n"
        )
    };
    let tree = tree("", &[])
        .with("apps/dev/podinfo/release.yaml", release(">=1.0.0"))
        .with("apps/staging/podinfo/release.yaml", release("6.5.0"));
    let mut request = request(Intent::Promote, "podinfo", "staging");
    assert_eq!(
        planned(&tree, &request, &[]).unwrap_err().to_string(),
        "podinfo in dev is the range >=1.0.0, which is not one version"
    );
    request.pin = Some("6.6.0".to_owned());
    assert_eq!(
        planned(&tree, &request, &[]).unwrap(),
        ["staging 6.5.0 -> 6.6.0 "]
    );
}

#[test]
fn soak_counts_from_the_arrival_of_the_version() {
    let versions = [
        ("staging", "cart", "2"),
        ("prod-eu", "cart", "1"),
        ("prod-us", "cart", "1"),
    ];
    let tree = tree("rules:\n- {to: prod, soak: 4h}\n", &versions);
    let promote = |entries: &[Entry]| planned(&tree, &request(Intent::Promote, "cart", "prod-eu"), entries);
    // the same version was there before, and left
    let early = entry(1, "staging", "cart", "1", "2");
    let mut late = entry(2, "staging", "cart", "1", "2");
    assert_eq!(
        promote(std::slice::from_ref(&early)).unwrap(),
        ["prod-eu 1 -> 2 "]
    );
    late.commit.time = "2026-11-25T11:59:00Z".parse().unwrap();
    assert_eq!(promote(&[late, early]).unwrap(), ["prod-eu 1 -> 2 soak"]);
    assert_eq!(promote(&[]).unwrap(), ["prod-eu 1 -> 2 soak"]);
}

#[test]
fn several_services_change_together() {
    let versions = [
        ("dev", "cart", "2"),
        ("dev", "ledger", "2"),
        ("staging", "cart", "1"),
        ("staging", "ledger", "1"),
    ];
    let tree = tree("", &versions);
    let mut both = request(Intent::Promote, "cart", "staging");
    both.services.push("ledger".to_owned());
    assert_eq!(
        planned(&tree, &both, &[]).unwrap(),
        ["staging 1 -> 2 ", "staging 1 -> 2 "]
    );
    both.services.push("absent".to_owned());
    assert!(planned(&tree, &both, &[]).is_err());
}

#[test]
fn hold_is_a_file() {
    let tree = tree("", &[("prod-eu", "cart", "1"), ("prod-us", "cart", "1")]);
    let plan = plan_hold(
        &tree,
        ("cart", "prod"),
        "EU first",
        "Mia <m@example.org>",
        (NOW.parse().unwrap(), None),
    );
    let plan = plan.unwrap();
    assert_eq!(plan.files.len(), 2);
    assert_eq!(plan.record.subject(), "hold cart in prod-eu, prod-us");
}

/// A tree of a clone that lacks a directory.
struct Lacking(Memory, &'static str);

impl Tree for Lacking {
    fn stat(&self, path: &str) -> Option<Stat> {
        self.0.stat(path)
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        self.0.list(dir).filter(|_| dir != self.1)
    }

    fn read(&self, path: &str) -> Result<bytes::Bytes, ReadError> {
        self.0.read(path)
    }
}

#[test]
fn a_directory_of_holds_that_cannot_be_read_is_an_error() {
    let tree = Memory::default().with(".equate/holds/prod-eu/checkout.yaml", "reason: x\nby: Mia\n");
    assert_eq!(super::holds(&tree).unwrap().len(), 1);
    for directory in [".equate", ".equate/holds", ".equate/holds/prod-eu"] {
        let error = super::holds(&Lacking(tree.clone(), directory)).unwrap_err();
        assert!(error.to_string().starts_with(&format!("{directory}:")), "{error}");
    }
}
