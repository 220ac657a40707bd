//! A repository made for Flux works unchanged: the manifests of its engine are Equate's own loop.

use equate_api::source::GitRepository;
use equate_controllers::OwnLoop;
use serde_json::json;

use crate::session::{HOME, Options, Session, config_map, inventory};

#[tokio::test]
async fn the_engine_s_own_manifests_are_kept() {
    let components = "apiVersion: v1\nkind: Namespace\nmetadata: { name: second-engine }\n";
    let sync = r#"
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: { name: flux-system, namespace: flux-system }
spec: { interval: 1m, url: "ssh://git@example.org/fleet", secretRef: { name: flux-system } }
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: { name: flux-system, namespace: flux-system }
spec: { interval: 10m, path: ./clusters/dev, prune: true, sourceRef: { kind: GitRepository, name: flux-system } }
"#;
    let files = [
        (
            "clusters/dev/flux-system/kustomization.yaml",
            "resources: [gotk-components.yaml, gotk-sync.yaml]\n",
        ),
        ("clusters/dev/flux-system/gotk-components.yaml", components),
        ("clusters/dev/flux-system/gotk-sync.yaml", sync),
        ("clusters/dev/a.yaml", &*config_map("a", "one")),
    ];
    let root = OwnLoop {
        name: "root".to_owned(),
        namespace: HOME.to_owned(),
        path: "./clusters/dev".to_owned(),
    };
    let options = Options {
        root: Some(root),
        ..Options::default()
    };
    let session = Session::with(&files, options).await;
    let revision = session.commit(&[]);
    session.kustomize("root", "./clusters/dev", json!({})).await;
    let status = session.ready("root", &revision).await;
    assert_eq!(inventory(&status), ["default_a__ConfigMap"]);
    assert!(session.get::<GitRepository>(HOME, "flux-system").await.is_none());
    session.end().await;
}
