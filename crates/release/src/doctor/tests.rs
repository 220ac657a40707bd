use super::{Severity, examine};
use crate::config::Config;
use crate::fleet::Fleet;
use crate::overlay::Memory;

const CONFIG: &str = "version: 1\nenvironments: [dev, prod]\nservices: apps/{environment}/{service}\n";

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{image: '{name}:1'}}]\n"
    )
}

/// A repository that nothing is wrong with.
fn fleet() -> Memory {
    ["dev", "prod"]
        .iter()
        .fold(Memory::default(), |tree, environment| {
            tree.with(&format!("apps/{environment}/cart/pod.yaml"), pod("cart"))
        })
}

#[track_caller]
fn check(tree: &Memory, rules: &str, expected: &[&str]) {
    let config = Config::parse("equate.yaml", &format!("{CONFIG}{rules}")).unwrap();
    let fleet = Fleet::build(tree, &config);
    let found = examine(tree, &config, &fleet, "2026-11-25T12:00:00Z".parse().unwrap());
    let lines: Vec<String> = found
        .iter()
        .map(|finding| {
            let mark = if finding.severity == Severity::Error {
                "!"
            } else {
                "?"
            };
            format!("{mark} {} {}; {}", finding.place, finding.problem, finding.action)
        })
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn healthy_repository_has_no_findings() {
    check(
        &fleet(),
        "rules:\n- {to: prod, services: [cart], soak: 4h}\n",
        &[],
    );
}

#[test]
fn missing_services_and_broken_environments_are_named() {
    let tree = fleet()
        .with("apps/dev/ledger/pod.yaml", pod("ledger"))
        .with("apps/prod/mail/kustomization.yaml", "resources: [absent.yaml]\n");
    let config = Config::parse("equate.yaml", CONFIG).unwrap();
    let fleet = Fleet::build(&tree, &config);
    let found = examine(&tree, &config, &fleet, jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(
        (found[0].severity, found[0].place.as_str()),
        (Severity::Error, "apps/prod/mail")
    );
    assert!(found[0].problem.starts_with("does not build: ") && found[0].problem.contains("absent.yaml"));
    assert_eq!(found[1].place, "apps/prod/ledger");
    assert_eq!(found[1].problem, "ledger is in dev, and not in prod");
}

#[test]
fn ranges_and_shared_versions_are_named() {
    let oci = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {name: cart}\nspec:\n  \
               url: oci://registry.example/cart\n  ref: {semver: '>=1.0.0'}\n";
    let overlay = "resources: [../../../base]\n";
    let tree = Memory::default()
        .with("base/kustomization.yaml", "resources: [pod.yaml]\n")
        .with("base/pod.yaml", pod("cart"))
        .with("apps/dev/cart/kustomization.yaml", overlay)
        .with("apps/prod/cart/kustomization.yaml", overlay)
        .with("apps/dev/chart/oci.yaml", oci)
        .with("apps/prod/chart/oci.yaml", oci.replace(">=1.0.0", "1.2.3"));
    check(
        &tree,
        "",
        &[
            "? apps/dev/chart/oci.yaml:6 oci registry.example/cart of chart in dev is the range >=1.0.0; promote it with \
             --pin, or set one version",
            "? base/pod.yaml:5 a shared file sets image cart of cart for dev, prod; `promote` adds an entry of `images` \
             to the environment's kustomization",
        ],
    );
}

#[test]
fn holds_without_effect_are_named() {
    let text = "reason: x\nby: Mia <mia@example.org>\n";
    let tree = fleet()
        .with(
            ".equate/holds/dev/cart.yaml",
            format!("{text}until: 2026-11-25T12:00:00Z\n"),
        )
        .with(".equate/holds/dev/carts.yaml", text)
        .with(".equate/holds/prd/cart.yaml", text)
        .with(".equate/holds/prod/cart.yml", text)
        .with(".equate/holds/prod/cart.yaml", "reason: x\nuntill: y\n");
    check(
        &tree,
        "",
        &[
            "! .equate/holds/prod/cart.yaml:2 the hold cannot be read: unknown field \"untill\"; did you mean `until`?",
            "! .equate/holds/prod/cart.yml the hold does not count: its path names no environment and service; move it \
             to .equate/holds/ENVIRONMENT/SERVICE.yaml",
            "? .equate/holds/dev/cart.yaml:1 the hold ended at 2026-11-25T12:00:00Z and counts no more; run `equate \
             unhold cart --env dev`",
            "? .equate/holds/dev/carts.yaml:1 the hold is for carts, which is not in dev; did you mean cart? otherwise \
             remove .equate/holds/dev/carts.yaml",
            "? .equate/holds/prd/cart.yaml:1 the hold is for the unknown environment prd; did you mean prod? otherwise \
             remove .equate/holds/prd/cart.yaml",
        ],
    );
}

#[test]
fn rules_that_match_nothing_are_named() {
    check(
        &fleet(),
        "rules:\n- {to: prod, services: [carts], soak: 4h}\n- {to: dev, healthy: true}\n- to: prod\n",
        &[
            "? equate.yaml:5 the rule is for carts, and no environment has it; did you mean cart?",
            "? equate.yaml:6 the rule matches nothing: no environment comes before dev; name the environments that \
             versions come to",
            "? equate.yaml:7 the rule demands nothing; add soak, healthy or freeze, or remove it",
        ],
    );
}
