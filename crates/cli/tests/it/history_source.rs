//! `equate history diff --source`: the source commits of images, from the labels in their registry.

use crate::promote::{CONFIG, commit, equate};
use crate::session::printed;
use equate_testkit::git::Repository;
use equate_testkit::registry::RegistryServer;
use serde_json::{Value, json};

const OLD: &str = "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d";
const NEW: &str = "5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80";
const SOURCE: &str = "https://git.example/checkout";

/// Stores an image with labels.
fn image(registry: &RegistryServer, tag: &str, repository: &str, labels: &Value) {
    let config = json!({"architecture": "amd64", "os": "linux", "config": {"Labels": labels}});
    let media_type = "application/vnd.oci.image.config.v1+json";
    let config = registry.blob(media_type, config.to_string().into_bytes());
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [],
    });
    registry.manifest(repository, Some(tag), &manifest);
}

fn deployment(name: &str, image: &str) -> String {
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
         containers:\n      - {{name: app, image: \"{image}\"}}\n"
    )
}

#[test]
fn source_commits_come_from_the_registry() {
    let registry = RegistryServer::open().unwrap();
    let labels = |commit: &str| json!({"org.opencontainers.image.revision": commit, "org.opencontainers.image.source": SOURCE});
    image(&registry, "2.4.0", "shop/checkout", &labels(OLD));
    image(&registry, "2.4.1", "shop/checkout", &labels(NEW));
    for tag in ["2.4.0", "2.4.1"] {
        image(&registry, tag, "shop/cart", &json!({"maintainer": "Mia"}));
    }
    let host = registry.authority();
    let mut files = vec![("equate.yaml".to_owned(), CONFIG.to_owned())];
    for (environment, tag) in [("dev", "2.4.1"), ("staging", "2.4.0")] {
        // the registry has no ledger
        for service in ["cart", "checkout", "ledger"] {
            let path = format!("apps/{environment}/{service}/deployment.yaml");
            files.push((path, deployment(service, &format!("{host}/shop/{service}:{tag}"))));
        }
    }
    let repository = Repository::init().unwrap();
    commit(&repository, &files);

    let output = equate(&repository, &["history", "diff", "staging", "dev", "--source"]);
    assert!(output.status.success(), "{}", printed(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    let expected = [
        "SERVICE STAGING DEV".to_owned(),
        "cart 2.4.0 2.4.1".to_owned(),
        "checkout 2.4.0 2.4.1".to_owned(),
        "ledger 2.4.0 2.4.1".to_owned(),
        String::new(),
        "SERVICE IMAGE COMMITS SOURCE".to_owned(),
        format!("checkout {host}/shop/checkout 1a2b3c4..5d6e7f8 {SOURCE}"),
    ];
    assert_eq!(lines, expected);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), 2, "{errors}");
    assert!(
        errors.contains(
            "unknown source commits of cart: its image has no label org.opencontainers.image.revision\n"
        ),
        "{errors}"
    );
    assert!(errors.contains("unknown source commits of ledger: "), "{errors}");

    let output = equate(
        &repository,
        &["history", "diff", "staging", "dev", "--source", "-o", "json"],
    );
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    let after = &value["services"][1]["source"][0]["after"];
    assert_eq!(after["revision"], NEW);
    assert_eq!(after["source"], SOURCE);
    assert_eq!(after["image"], format!("{host}/shop/checkout:2.4.1"));

    // without the option, nobody is asked
    registry.take();
    let output = equate(&repository, &["history", "diff", "staging", "dev"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 4);
    assert!(registry.take().is_empty());
}
