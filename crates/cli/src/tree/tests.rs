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
└── Kustomization/default/new        Unknown      suspended
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
└── Kustomization/default/new        Unknown      suspended
",
    )
    .await;
    let nested = "ks/flux-system/root --compact";
    assert_eq!(
        printed(&fixture, nested).await,
        printed(&fixture, "ks/root --compact").await
    );
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

#[tokio::test]
async fn health_of_flux_objects_is_that_of_the_view() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let registry = "{apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmRepository, \
                    metadata: {name: charts, namespace: flux-system}, spec: {type: oci, url: 'oci://example.com/charts'}}";
    fixture.apply(registry).await;
    let entries = "- {id: flux-system_charts_source.toolkit.fluxcd.io_HelmRepository, v: v1}";
    let root = NESTED.replace("- {id: flux-system_settings__ConfigMap, v: v1}", entries);
    fixture.apply(&root.replace("_shop_", "_apps_")).await;
    let text = printed(&fixture, "ks root").await;
    let rows: Vec<String> = text
        .lines()
        .map(|line| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" "))
        .collect();
    let apps = "Kustomization/flux-system/apps Failed BuildFailed: apps/kustomization.yaml:3:1: no such file look there";
    assert!(rows.iter().any(|row| row == apps), "{text}");
    assert!(
        rows.iter()
            .any(|row| row == "HelmRepository/flux-system/charts Current"),
        "{text}"
    );
}

const RELEASE: &str = r#"
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: flux-system}
spec: {interval: 1m, chartRef: {kind: OCIRepository, name: web}}
status:
  observedGeneration: 1
  storageNamespace: flux-system
  conditions: [{type: Ready, status: "False", reason: UpgradeFailed, message: broken, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
  history:
  - {name: web, namespace: flux-system, version: 2, configDigest: "sha256:a", chartName: shop, chartVersion: 1.4.0, appVersion: "7.2", digest: "sha256:b", firstDeployed: "2026-01-01T00:00:00Z", lastDeployed: "2026-01-01T00:00:00Z", status: failed}
  INVENTORY
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: flux-system}
"#;

#[tokio::test]
async fn tree_shows_the_chart_and_the_objects_of_a_release() {
    let fixture = Fixture::start().await;
    fixture.apply(&RELEASE.replace("INVENTORY", "")).await;
    let message = "chart shop@1.4.0, app version 7.2; UpgradeFailed: broken";
    assert_eq!(
        printed(&fixture, "hr web").await,
        format!(
            "OBJECT                        HEALTH   MESSAGE\n\
             HelmRelease/flux-system/web   Failed   {message}; its objects are not known: \
             Secret/flux-system/sh.helm.release.v1.web.v2 does not exist\n"
        )
    );
    let manifest = "---\n# Source: shop/templates/a.yaml\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n\
                    ---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n";
    let record = serde_json::json!({
        "name": "web", "namespace": "flux-system", "version": 2, "info": { "status": "failed" }, "manifest": manifest,
    });
    fixture.store(record, None).await;
    let objects = "├── ConfigMap/flux-system/settings   Current\n└── Namespace/shop                   NotFound   Resource not found\n";
    assert_eq!(
        printed(&fixture, "hr web").await,
        format!(
            "OBJECT                               HEALTH     MESSAGE\n\
             HelmRelease/flux-system/web          Failed     {message}\n{objects}"
        )
    );
    let inventory = "inventory: {entries: [{id: flux-system_settings__ConfigMap, v: v1}]}";
    fixture.apply(&RELEASE.replace("INVENTORY", inventory)).await;
    assert_eq!(
        printed(&fixture, "helmrelease/web").await,
        format!(
            "OBJECT                               HEALTH    MESSAGE\n\
             HelmRelease/flux-system/web          Failed    {message}\n\
             └── ConfigMap/flux-system/settings   Current\n"
        )
    );
    let data: serde_json::Value = serde_json::from_str(&printed(&fixture, "hr/web -o json").await).unwrap();
    assert_eq!(
        data["chart"],
        serde_json::json!({ "name": "shop", "version": "1.4.0", "appVersion": "7.2" })
    );
}
