use super::{Args, get};
use crate::fixture::{ALERT, FLEET, Fixture};
use clap::Parser;
use futures::FutureExt;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parsed(line: &str) -> Args {
    let words = std::iter::once("get").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap().args
}

async fn printed(fixture: &Fixture, line: &str) -> String {
    let mut out = Vec::new();
    let end = std::future::pending();
    match get(
        &fixture.connection.client,
        &fixture.kinds,
        &parsed(line),
        &mut out,
        false,
        end,
    )
    .await
    {
        Ok(()) => String::from_utf8(out).unwrap(),
        Err(error) => format!("error: {error}\n"),
    }
}

#[tokio::test]
async fn static_and_unsupported_objects_have_a_status() {
    let fixture = Fixture::start().await;
    let registry = "{apiVersion: source.toolkit.fluxcd.io/v1, kind: HelmRepository, \
                    metadata: {name: charts, namespace: flux-system}, spec: {type: oci, url: 'oci://example.com/charts'}}";
    fixture.apply(registry).await;
    fixture.apply(ALERT).await;
    let row = async |line: &str| -> String {
        let text = printed(&fixture, line).await;
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        row("helmrepo --no-header").await,
        "charts False True static: nothing to reconcile"
    );
    assert_eq!(
        row("alerts --no-header").await,
        "al False Unknown unsupported: Equate has no controller for it yet"
    );
}

/// A release, and an attempt at a first one.
const RELEASES: &str = r#"
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: web, namespace: default}
spec: {interval: 1m, chartRef: {kind: OCIRepository, name: web}}
status:
  observedGeneration: 1
  lastAttemptedRevision: 1.4.0
  conditions: [{type: Ready, status: "True", reason: UpgradeSucceeded, message: Helm upgrade worked, lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
  history:
  - {name: web, namespace: default, version: 2, configDigest: "sha256:a", chartName: shop, chartVersion: 1.4.0, appVersion: "7.2", digest: "sha256:b", firstDeployed: "2026-01-01T00:00:00Z", lastDeployed: "2026-01-01T00:00:00Z", status: deployed}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: new, namespace: default}
spec: {interval: 1m, chartRef: {kind: OCIRepository, name: web}}
status:
  observedGeneration: 1
  lastAttemptedRevision: 2.0.0
  conditions: [{type: Ready, status: "False", reason: InstallFailed, message: "no", lastTransitionTime: "2026-01-01T00:00:00Z", observedGeneration: 1}]
"#;

#[tokio::test]
async fn objects_are_listed_with_their_status() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let check = async |line: &str, expected: &str| {
        assert_eq!(
            printed(&fixture, line).await,
            expected.trim_start(),
            "equate get {line}"
        );
    };
    let apps = "BuildFailed: apps/kustomization.yaml:3:1: no such file look there";
    check(
        "ks",
        &format!(
            "
NAME   REVISION   SUSPENDED   READY   MESSAGE
apps              False       False   {apps}
"
        ),
    )
    .await;
    check(
        "kustomizations -A",
        &format!(
            "
NAMESPACE     NAME   REVISION   SUSPENDED   READY     MESSAGE
default       new               True        Unknown   waiting to be reconciled
flux-system   apps              False       False     {apps}
"
        ),
    )
    .await;
    check(
        "sources git fleet --no-header",
        "
fleet   main@sha1:01234567   False   True   stored artifact for revision 'main@sha1:0123456789012345678901234567890123456789'
",
    )
    .await;
    check(
        "all --status-selector ready=false",
        &format!(
            "
NAME                 REVISION   SUSPENDED   READY   MESSAGE
kustomization/apps              False       False   {apps}
"
        ),
    )
    .await;
    check(
        "hr",
        "
NAME    REVISION   SUSPENDED   READY     MESSAGE                    CHART   APP VERSION
redis              False       Unknown   waiting to be reconciled
",
    )
    .await;
    fixture.apply(RELEASES).await;
    check(
        "hr -n default",
        "
NAME   REVISION   SUSPENDED   READY   MESSAGE               CHART   APP VERSION
new    2.0.0      False       False   InstallFailed: no
web    1.4.0      False       True    Helm upgrade worked   shop    7.2
",
    )
    .await;
    check(
        "all -o name",
        "
gitrepository.source.toolkit.fluxcd.io/fleet
kustomization.kustomize.toolkit.fluxcd.io/apps
helmrelease.helm.toolkit.fluxcd.io/redis
",
    )
    .await;
    check(
        "sources -l team=platform -o name",
        "gitrepository.source.toolkit.fluxcd.io/fleet\n",
    )
    .await;
    check("sources -l team=other", "").await;
    check(
        "ks/apps gitrepo/fleet ks/apps -o name",
        "kustomization.kustomize.toolkit.fluxcd.io/apps\ngitrepository.source.toolkit.fluxcd.io/fleet\n",
    )
    .await;
    check(
        "ks/apps ks/missing",
        "error: Kustomization missing not found in namespace flux-system\n",
    )
    .await;
    check(
        "kustomization.kustomize.toolkit.fluxcd.io/apps -o name",
        "kustomization.kustomize.toolkit.fluxcd.io/apps\n",
    )
    .await;
    check(
        "ks missing",
        "error: Kustomization missing not found in namespace flux-system\n",
    )
    .await;
    check("pods", "error: unknown kind \"pods\"\n").await;
    check(
        "Kustomization/default/new -o name",
        "kustomization.kustomize.toolkit.fluxcd.io/new\n",
    )
    .await;
    let both = printed(&fixture, "Kustomization/default/new gitrepo/fleet --no-header").await;
    let firsts: Vec<&str> = both.split_whitespace().take(2).collect();
    assert_eq!(firsts, ["default", "kustomization/new"], "{both}");
    check(
        "Kustomization/default/new -n flux-system",
        "error: new is in namespace default, and --namespace says flux-system\n",
    )
    .await;
    check(
        "Kustomization/default/new -A",
        "error: new names one object: use --namespace instead of --all-namespaces\n",
    )
    .await;
    check(
        "ks apps -A",
        "error: apps names one object: use --namespace instead of --all-namespaces\n",
    )
    .await;

    let object: serde_json::Value =
        serde_json::from_str(&printed(&fixture, "ks/apps -o json").await).unwrap();
    assert_eq!(object["spec"]["sourceRef"]["name"], "fleet");
    assert_eq!(object["metadata"]["managedFields"], serde_json::Value::Null);
    let list = printed(&fixture, "ks -A -o yaml").await;
    assert!(
        list.contains("\nkind: List\n") && list.contains("\n    name: new\n"),
        "{list}"
    );
    let wide = printed(&fixture, "ks new -n default -o wide").await;
    assert!(
        wide.contains("AGE") && wide.contains("GitRepository/fleet"),
        "{wide}"
    );
}

#[tokio::test]
async fn cluster_without_crds_is_an_error() {
    let fixture = Fixture::bare().await;
    assert_eq!(
        printed(&fixture, "ks").await,
        "error: the cluster does not serve kustomizations\n"
    );
    assert_eq!(
        printed(&fixture, "ks/apps").await,
        "error: the cluster does not serve kustomizations\n"
    );
    assert_eq!(
        printed(&fixture, "all").await,
        "error: the cluster serves none of Flux's kinds\n"
    );
}

#[tokio::test]
async fn watch_prints_changes() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let args = parsed("sources git --watch");
    let (done, end) = tokio::sync::oneshot::channel::<()>();
    let (lines, mut seen) = tokio::sync::mpsc::unbounded_channel::<String>();
    let mut out = Lines(lines);
    let watch = get(
        &fixture.connection.client,
        &fixture.kinds,
        &args,
        &mut out,
        false,
        end.map(drop),
    );
    let change = async {
        let first = seen.recv().await.unwrap();
        assert!(
            first.starts_with("NAME    REVISION             SUSPENDED   READY   MESSAGE\nfleet   main@"),
            "{first}"
        );
        fixture
            .apply(
                &FLEET
                    .split("status:")
                    .next()
                    .unwrap()
                    .replace("interval: 1m", "interval: 1m, suspend: true"),
            )
            .await;
        let second = seen.recv().await.unwrap();
        assert!(
            second.starts_with("fleet   main@sha1:01234567   True        True    stored"),
            "{second}"
        );
        done.send(()).unwrap();
    };
    let both = futures::future::join(watch, change);
    let (watched, ()) = tokio::time::timeout(std::time::Duration::from_secs(120), both)
        .await
        .unwrap();
    watched.unwrap();
}

/// Sends written text immediately.
struct Lines(tokio::sync::mpsc::UnboundedSender<String>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let text = String::from_utf8_lossy(bytes).into_owned();
        self.0.send(text).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
