//! Helm itself and this controller work on the same release in turns, on a real cluster: each goes on with what
//! the other recorded. `EQUATE_HELM_CLIENTS` names the programs, as `cargo xtask test-peers` does.

use std::path::{Path, PathBuf};

use equate_api::helm::{HelmRelease, HelmReleaseStatus};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::helm_handover::{CHART, ready, release, stage};
use crate::helm_releases::{change, until};
use crate::session::{DEADLINE, Options, Session};
use equate_testkit::eventually::eventually;

struct Helm<'s> {
    program: PathBuf,
    namespace: &'s str,
    folder: &'s Path,
    /// Helm 4 applies server-side under its own name: it takes the fields of ours only by force.
    force: &'static [&'static str],
}

impl Helm<'_> {
    async fn run(&self, arguments: &[&str]) -> String {
        let output = Command::new(&self.program)
            .args(arguments)
            .args(["--namespace", self.namespace])
            .current_dir(self.folder)
            .env_clear()
            .env("HOME", self.folder)
            .env("KUBECONFIG", std::env::var("EQUATE_TEST_KUBECONFIG").unwrap())
            .output()
            .await
            .unwrap();
        assert!(
            output.status.success(),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Changes a release.
    async fn change(&self, arguments: &[&str]) {
        self.run(&[arguments, self.force].concat()).await;
    }

    /// `1 superseded`, for each revision.
    async fn history(&self, name: &str) -> Vec<String> {
        let printed = self.run(&["history", name, "--output", "json"]).await;
        let all: Vec<Value> = serde_json::from_str(&printed).unwrap();
        let line = |entry: &Value| format!("{} {}", entry["revision"], entry["status"].as_str().unwrap());
        all.iter().map(line).collect()
    }

    async fn is_listed(&self, name: &str) -> bool {
        let printed = self
            .run(&["list", "--deployed", "--failed", "--output", "json"])
            .await;
        let all: Vec<Value> = serde_json::from_str(&printed).unwrap();
        all.iter().any(|release| release["name"] == name)
    }
}

/// Requests a run, and waits until the release is ready again.
async fn reconciled(session: &Session, name: &str, turn: &str) -> HelmReleaseStatus {
    let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": turn } } });
    change(session, name, request).await;
    let what = format!("{turn}: the request is answered");
    until(session, name, &what, |status| {
        status.last_handled_reconcile_at.as_deref() == Some(turn)
    })
    .await;
    ready(session, name).await
}

async fn value(session: &Session, name: &str) -> String {
    let maps: Api<ConfigMap> = Api::namespaced(session.client.clone(), &session.home);
    let map = maps.get(&format!("{name}-map")).await.unwrap();
    map.data.unwrap()["value"].clone()
}

#[tokio::test]
async fn helm_and_this_controller_take_turns() {
    let Some(programs) = std::env::var_os("EQUATE_HELM_CLIENTS") else {
        eprintln!("skipped: EQUATE_HELM_CLIENTS is not set, run `cargo xtask test-peers`");
        return;
    };
    let (mut session, _server) = stage().await;
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in CHART {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    session.engine(Options::default()).await;
    for (number, program) in std::env::split_paths(&programs).enumerate() {
        let mut helm = Helm {
            program,
            namespace: &session.home,
            folder: folder.path(),
            force: &[],
        };
        let version = helm.run(&["version", "--short"]).await;
        eprintln!("with {}", version.trim());
        if version.starts_with("v4.") {
            helm.force = &["--force-conflicts"];
        }
        turns(&session, &helm, &format!("turns-{number}")).await;
    }
    session.end().await;
}

async fn turns(session: &Session, helm: &Helm<'_>, name: &str) {
    release(session, name, &json!({ "values": { "value": "declared" } })).await;
    ready(session, name).await;
    assert_eq!(helm.history(name).await, ["1 deployed"]);

    helm.change(&["upgrade", name, "app", "--set", "value=helms"])
        .await;
    assert_eq!(value(session, name).await, "helms");
    let status = reconciled(session, name, "after-an-upgrade").await;
    assert_eq!(value(session, name).await, "declared");
    assert_eq!(
        helm.history(name).await,
        ["1 superseded", "2 superseded", "3 deployed"]
    );
    assert_eq!(status.history[0].version, 3);

    helm.change(&["rollback", name, "2"]).await;
    assert_eq!(value(session, name).await, "helms");
    reconciled(session, name, "after-a-rollback").await;
    assert_eq!(value(session, name).await, "declared");
    let history = helm.history(name).await;
    assert_eq!(history.last().map(String::as_str), Some("5 deployed"));
    let deployed = history.iter().filter(|line| line.ends_with(" deployed"));
    assert_eq!(deployed.count(), 1, "{history:?}");

    // nothing changed: no revision
    reconciled(session, name, "once-more").await;
    assert_eq!(helm.history(name).await, history);
    let manifest = helm.run(&["get", "manifest", name]).await;
    assert!(manifest.contains("value: declared\n"), "{manifest}");

    helm.run(&["uninstall", name]).await;
    assert!(!helm.is_listed(name).await);
    reconciled(session, name, "after-an-uninstall").await;
    assert_eq!(helm.history(name).await, ["1 deployed"]);
    assert_eq!(value(session, name).await, "declared");

    let releases: Api<HelmRelease> = Api::namespaced(session.client.clone(), &session.home);
    releases.delete(name, &DeleteParams::default()).await.unwrap();
    let gone = async || match releases.get_opt(name).await {
        Ok(None) => Ok(()),
        found => Err(format!("{found:?}")),
    };
    eventually("the HelmRelease is gone", DEADLINE, gone).await;
    assert!(!helm.is_listed(name).await);
}
