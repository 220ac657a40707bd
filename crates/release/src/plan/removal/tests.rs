use super::plan_undeploy;
use crate::fleet::Builds;
use crate::overlay::Memory;
use crate::plan::{Past, Plan, PlanError, plan_hold};
use crate::rules::Health;

const NOW: &str = "2026-11-25T12:00:00Z";
const CONFIG: &str = "version: 1\nenvironments: [dev, prod]\n";

fn pod(name: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n  containers: [{{image: '{name}:1'}}]\n"
    )
}

fn kustomization(entries: &[&str]) -> String {
    let lines: Vec<String> = entries.iter().map(|entry| format!("- {entry}\n")).collect();
    format!("resources: # all\n# in order\n{}", lines.concat())
}

/// Two services with directories of their own, which each environment's kustomization lists.
fn fleet() -> Memory {
    let mut tree = Memory::default().with(
        "equate.yaml",
        format!("{CONFIG}services: apps/{{environment}}/{{service}}\n"),
    );
    for environment in ["dev", "prod"] {
        let directory = format!("apps/{environment}");
        tree = tree.with(
            &format!("{directory}/kustomization.yaml"),
            kustomization(&["cart", "ledger"]),
        );
        for service in ["cart", "ledger"] {
            tree = tree
                .with(&format!("{directory}/{service}/pod.yaml"), pod(service))
                .with(
                    &format!("{directory}/{service}/kustomization.yaml"),
                    kustomization(&["pod.yaml"]),
                );
        }
    }
    tree
}

fn undeployed(tree: &Memory, service: &str, to: &str) -> Result<Plan, PlanError> {
    let past = Past {
        entries: &|_| Vec::new(),
        health: &|_, _| Health::Healthy,
        now: NOW.parse().unwrap(),
        builds: &Builds::default(),
    };
    let by = "Mia <mia@example.org>";
    plan_undeploy(tree, (service, to), None, by, past)
}

/// The changed files, and the text of those that stay.
fn changed(plan: &Plan) -> Vec<String> {
    let files = plan.files.iter();
    files
        .map(|(path, content)| match content {
            None => format!("- {path}"),
            Some(content) => format!("{path}: {}", String::from_utf8_lossy(content)),
        })
        .collect()
}

#[track_caller]
fn refused(tree: &Memory, service: &str, expected: &str) {
    let error = undeployed(tree, service, "dev").unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn directory_and_its_entry_go() {
    let tree = fleet();
    let plan = undeployed(&tree, "cart", "dev").unwrap();
    assert_eq!(
        changed(&plan),
        [
            "- apps/dev/cart/kustomization.yaml",
            "- apps/dev/cart/pod.yaml",
            "apps/dev/kustomization.yaml: resources: # all\n# in order\n- ledger\n",
        ]
    );
    assert_eq!(plan.record.subject(), "undeploy cart from dev");
    assert!(!plan.is_refused());
    // the service is gone there, and only there
    let after = tree.changed(&plan.files);
    assert!(matches!(
        undeployed(&after, "cart", "dev")
            .unwrap_err()
            .to_string()
            .as_str(),
        "cart is not in dev"
    ));
    assert!(undeployed(&after, "cart", "prod").is_ok());
}

#[test]
fn anything_else_that_would_change_is_named() {
    // another environment uses the directory as its base
    let base = "resources:\n- ../../dev/cart\n";
    let tree = fleet().with("apps/prod/cart/kustomization.yaml", base);
    refused(&tree, "cart", "Pod cart in prod");
    let commented = fleet().with(
        "apps/prod/cart/kustomization.yaml",
        kustomization(&["../../dev/cart"]),
    );
    refused(
        &commented,
        "cart",
        "line 3: the last item of a list with a comment above it",
    );
    // a patch of the parent needs the object
    let patched = format!(
        "{}patches:\n- patch: '{{apiVersion: v1, kind: Pod, metadata: {{name: cart, labels: {{a: b}}}}}}'\n",
        kustomization(&["cart", "ledger"])
    );
    let tree = fleet().with("apps/dev/kustomization.yaml", patched);
    refused(&tree, "cart", "apps/dev, which no longer builds");
    // Flux would fail, and prune nothing
    let flux = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: cart}\nspec:\n  \
                path: ./apps/dev/cart\n";
    let tree = fleet().with("clusters/dev/cart.yaml", flux);
    refused(
        &tree,
        "cart",
        "Kustomization cart (clusters/dev/cart.yaml:5), which applies apps/dev/cart",
    );
    // a file of the service is part of another one
    let shared = fleet().with(
        "apps/dev/ledger/kustomization.yaml",
        "resources: [pod.yaml]\nconfigMapGenerator: [{name: x, files: [../cart/pod.yaml]}]\n",
    );
    assert!(undeployed(&shared, "cart", "dev").is_err());
}

#[test]
fn service_of_a_whole_environment_goes_with_its_entry() {
    let tree = Memory::default()
        .with("equate.yaml", format!("{CONFIG}services: apps/{{environment}}\n"))
        .with("apps/base/cart/kustomization.yaml", kustomization(&["pod.yaml"]))
        .with("apps/base/cart/pod.yaml", pod("cart"))
        .with(
            "apps/dev/kustomization.yaml",
            kustomization(&["../base/cart", "ledger.yaml"]),
        )
        .with(
            "apps/dev/ledger.yaml",
            format!(
                "{}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\n",
                pod("ledger")
            ),
        )
        .with("apps/prod/kustomization.yaml", kustomization(&["../base/cart"]));
    let plan = undeployed(&tree, "cart", "dev").unwrap();
    assert_eq!(
        changed(&plan),
        ["apps/dev/kustomization.yaml: resources: # all\n# in order\n- ledger.yaml\n"]
    );
    let plan = undeployed(&tree, "ledger", "dev").unwrap();
    assert_eq!(
        changed(&plan),
        [
            "apps/dev/kustomization.yaml: resources: # all\n# in order\n- ../base/cart\n",
            "- apps/dev/ledger.yaml",
        ]
    );
    // two services in one file
    let both = tree.with(
        "apps/dev/ledger.yaml",
        format!("{}---\n{}", pod("ledger"), pod("mail")),
    );
    refused(&both, "ledger", "Pod mail");
}

#[test]
fn holds_and_freezes_refuse_and_soaks_do_not() {
    let rules = "rules:\n- to: prod\n  soak: 9d\n  freeze: [{from: 2026-11-01, until: 2026-12-01}]\n- to: dev\n  soak: 9d\n";
    let text = format!("{CONFIG}services: apps/{{environment}}/{{service}}\n{rules}");
    let tree = fleet().with("equate.yaml", text);
    let refusals = |plan: &Plan| -> Vec<String> {
        let refusals = plan.steps[0].refusals();
        refusals
            .map(|verdict| format!("{} {}", verdict.place, verdict.rule))
            .collect()
    };
    assert_eq!(
        refusals(&undeployed(&tree, "cart", "prod").unwrap()),
        ["equate.yaml:7 freeze"]
    );
    assert!(refusals(&undeployed(&tree, "cart", "dev").unwrap()).is_empty());
    let now = NOW.parse().unwrap();
    let held = plan_hold(&tree, ("cart", "dev"), "stay", "Mia <m@example.org>", (now, None)).unwrap();
    let held = undeployed(&tree.changed(&held.files), "cart", "dev").unwrap();
    assert_eq!(refusals(&held), [".equate/holds/dev/cart.yaml:1 hold"]);
}
