use super::{Next, outlook};
use crate::config::Config;
use crate::fleet::{Builds, Fleet};
use crate::overlay::Memory;
use crate::plan::{Past, config, holds, plan_hold};
use crate::rules::Health;

const NOW: &str = "2026-11-25T12:00:00Z";

fn pod(image: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: cart}}\nspec:\n  containers:\n  - image: {image}\n")
}

fn tree(services: &str, rules: &str, versions: &[(&str, &str)]) -> Memory {
    let text = format!(
        "version: 1\nenvironments: [dev, staging, {{prod: [prod-eu, prod-us]}}]\nservices: {services}\n{rules}"
    );
    let tree = Memory::default().with("equate.yaml", text);
    versions.iter().fold(tree, |tree, (environment, version)| {
        let path = format!("apps/{environment}/cart/pod.yaml");
        tree.with(&path, pod(&format!("cart:{version}")))
    })
}

/// The outlook of `cart` in all environments, in one line each.
fn seen(tree: &Memory) -> Vec<String> {
    let config: Config = config(tree).unwrap();
    let fleet = Fleet::build(tree, &config);
    let holds = holds(tree).unwrap();
    let past = Past {
        entries: &|_| Vec::new(),
        health: &|_, _| Health::Unknown("no cluster".to_owned()),
        now: NOW.parse().unwrap(),
        builds: &Builds::default(),
    };
    let environments = config.environments();
    environments
        .map(|environment| {
            let seen = outlook(tree, &config, &fleet, &holds, past, ("cart", environment));
            let current = seen
                .current
                .map_or_else(|| "-".to_owned(), |artifact| artifact.label("cart"));
            let next = match seen.next {
                Next::Nothing => "nothing".to_owned(),
                Next::Same { from } => format!("same as {from}"),
                Next::Versions {
                    from,
                    artifact,
                    verdicts,
                } => {
                    let refused = verdicts.iter().filter(|verdict| verdict.refused);
                    let refused: Vec<String> = refused
                        .map(|verdict| format!("{} {}", verdict.place, verdict.rule))
                        .collect();
                    format!("{} from {from} [{}]", artifact.label("cart"), refused.join(", "))
                }
                Next::Impossible(error) => error.to_string(),
            };
            let held: Vec<String> = seen.holds.iter().map(crate::hold::Hold::consequence).collect();
            format!("{environment} {current}: {next} {}", held.join(", "))
                .trim_end()
                .to_owned()
        })
        .collect()
}

#[test]
fn next_version_comes_from_the_left_and_names_what_refuses_it() {
    let rules = "rules:\n- to: prod\n  soak: 4h\n";
    let tree = tree(
        "apps/{environment}/{service}",
        rules,
        &[("dev", "2"), ("staging", "2"), ("prod-eu", "1"), ("prod-us", "1")],
    );
    let mia = "Mia <mia@example.org>";
    let held = plan_hold(
        &tree,
        ("cart", "prod-us"),
        "EU first",
        mia,
        (NOW.parse().unwrap(), None),
    );
    let tree = tree.changed(&held.unwrap().files);
    assert_eq!(
        seen(&tree),
        [
            "dev 2: nothing",
            "staging 2: same as dev",
            "prod-eu 1: 2 from staging [equate.yaml:6 soak]",
            "prod-us 1: 2 from staging [equate.yaml:6 soak, .equate/holds/prod-us/cart.yaml:1 hold] `promote`, \
             `release` and `rollback` to prod-us are refused, and automation waits",
        ]
    );
}

#[test]
fn impossible_promotions_say_why() {
    let services = "apps/{environment}/{service}";
    let with_oci = |tree: Memory, environment: &str, semver: &str| {
        let text = format!(
            "apiVersion: source.toolkit.fluxcd.io/v1\nkind: OCIRepository\nmetadata: {{name: cart}}\nspec:\n  \
             url: oci://registry.example/cart\n  ref: {{semver: '{semver}'}}\n"
        );
        tree.with(&format!("apps/{environment}/cart/pod.yaml"), text)
    };
    let tree = with_oci(tree(services, "", &[]), "dev", ">=1.0.0");
    let tree = with_oci(tree, "staging", "1.0.0").with("apps/prod-eu/cart/pod.yaml", "{");
    assert_eq!(
        seen(&tree),
        [
            "dev >=1.0.0: nothing",
            "staging 1.0.0: cart in dev is the range >=1.0.0, which is not one version",
            "prod-eu -: prod-eu does not build: BUILD",
            "prod-us -: prod-us has no service cart; add its manifests there first",
        ]
        .map(|line| match line.strip_suffix("BUILD") {
            Some(start) => {
                let found = seen(&tree).remove(2);
                assert!(found.starts_with(start), "{found}");
                found
            }
            None => line.to_owned(),
        })
    );
}

#[test]
fn copied_directories_differ_by_any_file() {
    let services = "{copy: 'apps/{environment}/{service}', keep: [ingress.yaml]}";
    let tree = tree(services, "", &[("dev", "2"), ("staging", "2"), ("prod-eu", "1")]);
    assert_eq!(
        seen(&tree),
        [
            "dev 2: nothing",
            "staging 2: same as dev",
            "prod-eu 1: 2 from staging []",
            // a copy also adds a service
            "prod-us -: 2 from staging []",
        ]
    );
    let tree = tree.with("apps/staging/cart/note.txt", "x");
    assert_eq!(seen(&tree)[1], "staging 2: 2 from dev []");
}
