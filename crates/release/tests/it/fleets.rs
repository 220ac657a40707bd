//! After any promotion, every environment but the target builds the same objects, and only lines with
//! versions changed.

use equate_release::config::Config;
use equate_release::fleet::{Builds, Fleet};
use equate_release::overlay::Memory;
use equate_release::plan::{Past, Request, plan, plan_undeploy};
use equate_release::record::Intent;
use equate_release::rules::{Actor, Health};
use proptest::prelude::*;

const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];

/// The way in which an environment sets a version.
#[derive(Debug, Clone, Copy)]
enum Style {
    Entry,
    QuotedEntry,
    FlowEntry,
    NewName,
    Plain,
    Inherited,
    Patch,
}

fn style() -> impl Strategy<Value = Style> {
    prop_oneof![
        Just(Style::Entry),
        Just(Style::QuotedEntry),
        Just(Style::FlowEntry),
        Just(Style::NewName),
        Just(Style::Plain),
        Just(Style::Inherited),
        Just(Style::Patch),
    ]
}

fn version() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]\\.[0-9]{1,2}\\.[0-9]",
        "v[0-9]{1,3}",
        "[0-9]\\.[0-9]{1,2}",
        "[a-f0-9]{7}",
        "[0-9]e[0-9]"
    ]
}

fn deployment(service: &str, version: &str, sidecar: bool) -> String {
    let sidecar = if sidecar {
        "      - {name: proxy, image: \"proxy:1.0\"}\n"
    } else {
        ""
    };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {service}\nspec:\n  template:\n    spec:\n      \
         containers:\n      - name: {service}\n        image: example/{service}:{version} # here\n{sidecar}"
    )
}

fn service(tree: Memory, name: &str, cells: &[(Style, String)], sidecar: bool, base: &str) -> Memory {
    let mut tree = tree
        .with(
            &format!("base/{name}/kustomization.yaml"),
            "resources: [deployment.yaml]\n",
        )
        .with(
            &format!("base/{name}/deployment.yaml"),
            deployment(name, base, sidecar),
        );
    for (environment, (style, version)) in ENVIRONMENTS.iter().zip(cells) {
        let directory = format!("apps/{environment}/{name}");
        let head = format!("# {environment}\nresources: # shared\n  - ../../../base/{name}\n");
        let image = format!("example/{name}");
        let text = match style {
            Style::Entry => format!("{head}images:\n  - name: {image}\n    newTag: \"{version}\" # tag\n"),
            Style::QuotedEntry => format!("{head}images:\n- newTag: '{version}'\n  name: {image}\n"),
            Style::FlowEntry => format!("{head}images: [{{name: {image}, newTag: \"{version}\"}}]\n"),
            Style::NewName => {
                format!("{head}images:\n- name: {image}\n  newName: mirror/{name}\n  newTag: \"{version}\"\n")
            }
            Style::Inherited => format!("{head}labels: []\n"),
            Style::Plain => {
                let path = format!("{directory}/deployment.yaml");
                tree = tree.with(&path, deployment(name, version, sidecar));
                "resources: [deployment.yaml]\n".to_owned()
            }
            Style::Patch => {
                let patch = format!(
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
                     containers:\n      - {{name: {name}, image: 'example/{name}:{version}'}}\n"
                );
                tree = tree.with(&format!("{directory}/patch.yaml"), patch);
                format!("{head}patches: [{{path: patch.yaml}}]\n")
            }
        };
        tree = tree.with(&format!("{directory}/kustomization.yaml"), text);
    }
    tree
}

fn objects(fleet: &Fleet, at: usize) -> Vec<serde_json::Value> {
    let built = fleet.units[at].state.as_ref().unwrap();
    built.objects.iter().map(|object| object.value.clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_the_target_changes(
        cart in proptest::collection::vec((style(), version()), 3),
        ledger in proptest::collection::vec((style(), version()), 3),
        bases in (version(), version()),
        sidecar in any::<bool>(),
        target in 1_usize..3,
    ) {
        let config_text = "version: 1\nenvironments: [dev, staging, prod]\nservices: apps/{environment}/{service}\n";
        let tree = Memory::default().with("equate.yaml", config_text);
        let tree = service(tree, "cart", &cart, sidecar, &bases.0);
        let tree = service(tree, "ledger", &ledger, sidecar, &bases.1);
        let config = Config::parse("equate.yaml", config_text).unwrap();
        let before = Fleet::build(&tree, &config);
        let request = Request {
            intent: Intent::Promote,
            services: vec!["cart".to_owned()],
            to: ENVIRONMENTS[target].to_owned(),
            from: None,
            version: None,
            images: Vec::new(),
            pin: None,
            reason: None,
            by: "Mia <mia@example.org>".to_owned(),
            actor: Actor::Person,
        };
        let past = Past {
            entries: &|_| Vec::new(),
            health: &|_, _| Health::Healthy,
            now: "2026-11-25T12:00:00Z".parse().unwrap(),
            builds: &Builds::default(),
        };
        let made = plan(&tree, &request, past).unwrap();
        let after_tree = tree.clone().changed(&made.files);
        // the builds of another tip change nothing
        let known = Builds::default();
        let again = Past { builds: &known, ..past };
        prop_assert!(plan(&after_tree, &request, again).unwrap().files.is_empty());
        prop_assert_eq!(&plan(&tree, &request, again).unwrap(), &made);
        let after = Fleet::build(&after_tree, &config);
        prop_assert_eq!(before.units.len(), after.units.len());
        for (at, unit) in before.units.iter().enumerate() {
            let is_target = unit.place.environment == request.to && unit.place.service.as_deref() == Some("cart");
            if !is_target {
                prop_assert_eq!(objects(&before, at), objects(&after, at));
            }
        }
        let label = |fleet: &Fleet, environment: &str| fleet.artifact(environment, "cart").unwrap().label("cart");
        let source = label(&before, ENVIRONMENTS[target - 1]);
        prop_assert_eq!(label(&after, ENVIRONMENTS[target]), source.clone());
        // a file keeps all its lines but those with the version
        for (path, content) in &made.files {
            let new = std::str::from_utf8(content.as_deref().unwrap()).unwrap().to_owned();
            let old = tree.files().get(path).map(|old| std::str::from_utf8(old).unwrap().to_owned()).unwrap();
            let changed = new.lines().filter(|line| !old.lines().any(|other| other == *line));
            let is_version = |line: &&str| line.contains(&source) || line.contains("images:") || line.contains("name: ");
            let others: Vec<&str> = changed.filter(|line| !is_version(line)).collect();
            prop_assert!(others.is_empty(), "{}: {:?}", path, others);
            let removed = old.lines().filter(|line| !new.lines().any(|other| other == *line)).count();
            prop_assert!(removed <= 1, "{}", path);
        }
        // the same request again has nothing to do
        let again = plan(&after_tree, &request, past).unwrap();
        prop_assert!(again.files.is_empty());
    }

    #[test]
    fn undeploy_takes_one_service_from_one_environment(
        cart in proptest::collection::vec((style(), version()), 3),
        ledger in proptest::collection::vec((style(), version()), 3),
        bases in (version(), version()),
        sidecar in any::<bool>(),
        target in 0_usize..3,
    ) {
        let config_text = "version: 1\nenvironments: [dev, staging, prod]\nservices: apps/{environment}/{service}\n";
        let mut tree = Memory::default().with("equate.yaml", config_text);
        for environment in ENVIRONMENTS {
            // a kustomization above the services, which names both
            tree = tree.with(&format!("apps/{environment}/kustomization.yaml"), "resources:\n- cart\n- ledger\n");
        }
        let tree = service(tree, "cart", &cart, sidecar, &bases.0);
        let tree = service(tree, "ledger", &ledger, sidecar, &bases.1);
        let config = Config::parse("equate.yaml", config_text).unwrap();
        let before = Fleet::build(&tree, &config);
        let past = Past {
            entries: &|_| Vec::new(),
            health: &|_, _| Health::Healthy,
            now: "2026-11-25T12:00:00Z".parse().unwrap(),
            builds: &Builds::default(),
        };
        let by = "Mia <mia@example.org>";
        let made = plan_undeploy(&tree, ("cart", ENVIRONMENTS[target]), None, by, past).unwrap();
        let after_tree = tree.clone().changed(&made.files);
        let after = Fleet::build(&after_tree, &config);
        prop_assert_eq!(before.units.len(), after.units.len() + 1);
        for (at, unit) in before.units.iter().enumerate() {
            let is_gone = unit.place.environment == ENVIRONMENTS[target] && unit.place.service.as_deref() == Some("cart");
            let now = after.units.iter().position(|other| other.place == unit.place);
            prop_assert_eq!(now.is_none(), is_gone);
            if let Some(now) = now {
                prop_assert_eq!(objects(&before, at), objects(&after, now));
            }
        }
        let whole = |tree: &Memory, environment: &str| {
            let text = config_text.replace("/{service}", "");
            let config = Config::parse("equate.yaml", &text).unwrap();
            let fleet = Fleet::build(tree, &config);
            let at = fleet.units.iter().position(|unit| unit.place.environment == environment).unwrap();
            objects(&fleet, at).len()
        };
        for (at, environment) in ENVIRONMENTS.iter().enumerate() {
            let lost = usize::from(at == target);
            prop_assert_eq!(whole(&tree, environment), whole(&after_tree, environment) + lost);
        }
    }
}
