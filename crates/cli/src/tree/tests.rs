use super::{Args, tree};
use crate::fixture::{FLEET, Fixture};
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

async fn printed(fixture: &Fixture, line: &str) -> String {
    let words = std::iter::once("tree").chain(line.split_whitespace());
    let args = Line::try_parse_from(words).unwrap().args;
    let mut out = Vec::new();
    match tree(
        (&fixture.connection.client, false),
        &fixture.kinds,
        &args,
        &mut out,
        false,
    )
    .await
    {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(error) => format!("error: {error}\n"),
    }
}

const NESTED: &str = r#"
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: root, namespace: flux-system}
spec: {interval: 1m, prune: true, sourceRef: {kind: GitRepository, name: fleet}}
status:
  observedGeneration: 1
  conditions: [{type: Ready, status: "True", reason: ReconciliationSucceeded, message: applied, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
  inventory:
    entries:
    - {id: flux-system_root_kustomize.toolkit.fluxcd.io_Kustomization, v: v1}
    - {id: flux-system_shop_kustomize.toolkit.fluxcd.io_Kustomization, v: v1}
    - {id: flux-system_settings__ConfigMap, v: v1}
    - {id: default_new_kustomize.toolkit.fluxcd.io_Kustomization, v: v1}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: shop, namespace: flux-system}
spec: {interval: 1m, prune: true, sourceRef: {kind: GitRepository, name: fleet}}
status:
  observedGeneration: 1
  conditions: [{type: Reconciling, status: "True", reason: Progressing, message: waiting for health, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
  inventory:
    entries:
    - {id: _flux-system__Namespace, v: v1}
    - {id: flux-system_gone__ConfigMap, v: v1}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux-system}
"#;

#[tokio::test]
async fn tree_shows_applied_objects() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture.apply(NESTED).await;
    let check = async |line: &str, expected: &str| {
        assert_eq!(printed(&fixture, line).await, expected.trim_start(), "{line}");
    };
    check(
        "kustomization root",
        "
OBJECT                               HEALTH       MESSAGE
Kustomization/flux-system/root       Current
├── Kustomization/flux-system/root   Current
├── Kustomization/flux-system/shop   InProgress   waiting for health
│   ├── Namespace/flux-system        Current
│   └── ConfigMap/flux-system/gone   NotFound     Resource not found
├── ConfigMap/flux-system/settings   Current
└── Kustomization/default/new        InProgress   waiting to be reconciled
",
    )
    .await;
    check(
        "ks/root --compact",
        "
OBJECT                               HEALTH       MESSAGE
Kustomization/flux-system/root       Current
├── Kustomization/flux-system/root   Current
├── Kustomization/flux-system/shop   InProgress   waiting for health
└── Kustomization/default/new        InProgress   waiting to be reconciled
",
    )
    .await;
    check(
        "ks/nobody",
        "error: Kustomization nobody not found in namespace flux-system\n",
    )
    .await;
    check(
        "gitrepo/fleet",
        "error: a GitRepository has no inventory to show; choose a Kustomization or a HelmRelease\n",
    )
    .await;
    let data: serde_json::Value = serde_json::from_str(&printed(&fixture, "ks/root -o json").await).unwrap();
    assert_eq!(data["resources"][1]["resources"][1]["resource"]["Name"], "gone");
    assert_eq!(
        data["resources"][1]["resources"][1]["health"]["status"],
        "NotFound"
    );
}
