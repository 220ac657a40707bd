use super::logs::{Entry, of_events};
use super::trace::TraceError;
use super::{check, debug, export, logs, stats, trace};
use crate::failure::Failure;
use crate::fixture::{ALERT, FLEET, Fixture};
use crate::kinds::Kinds;
use clap::Parser;
use equate_apply::id::ObjectId;

#[derive(Debug, Parser)]
enum Line {
    Check(check::Args),
    Debug(debug::Args),
    Export(export::Args),
    Logs(logs::Args),
    Stats(stats::Args),
    Trace(trace::Args),
}

async fn printed(fixture: &Fixture, line: &str) -> String {
    let words = std::iter::once("equate").chain(line.split_whitespace());
    let (client, kinds) = (&fixture.connection.client, &fixture.kinds);
    let error = |error: &dyn std::error::Error| format!("error: {error}\n");
    match Line::try_parse_from(words).unwrap() {
        Line::Check(args) => check::check(&fixture.connection, kinds, &args).await.text,
        Line::Debug(args) => debug::debug(client, kinds, &args)
            .await
            .unwrap_or_else(|failure| error(&failure)),
        Line::Export(args) => export::export(client, kinds, &args)
            .await
            .unwrap_or_else(|failure| error(&failure)),
        Line::Logs(args) => {
            let mut out = Vec::new();
            of_events(&fixture.connection, kinds, &args, &mut out)
                .await
                .unwrap();
            String::from_utf8(out).unwrap()
        }
        Line::Stats(args) => stats::stats(client, kinds, &args, false).await.unwrap(),
        Line::Trace(args) => trace::trace(client, kinds, &args)
            .await
            .unwrap_or_else(|failure| error(&failure)),
    }
}

#[tokio::test]
async fn stats_count_objects_by_kind() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let text = printed(&fixture, "stats -A").await;
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        rows[0],
        ["RECONCILERS", "RUNNING", "FAILING", "SUSPENDED", "STORAGE"]
    );
    assert_eq!(rows[1], ["GitRepository", "1", "0", "0", "-"]);
    let kustomizations = rows.iter().find(|row| row[0] == "Kustomization").unwrap();
    assert_eq!(kustomizations[1..], ["1", "1", "1", "-"]);
}

#[tokio::test]
async fn stats_of_up_count_unsupported_objects_apart() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture.apply(ALERT).await;
    let row = async |kinds: &Kinds, kind: &str| -> String {
        let Line::Stats(args) = Line::try_parse_from(["flux", "stats"]).unwrap() else {
            panic!();
        };
        let text = stats::stats(&fixture.connection.client, kinds, &args, false)
            .await
            .unwrap();
        let row = text.lines().find(|line| line.starts_with(kind)).unwrap();
        row.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let in_up = fixture.kinds.in_up(true);
    assert_eq!(
        row(&in_up, "RECONCILERS").await,
        "RECONCILERS RUNNING FAILING SUSPENDED STORAGE UNSUPPORTED"
    );
    assert_eq!(row(&in_up, "Alert").await, "Alert 0 0 0 - 1");
    assert_eq!(row(&in_up, "GitRepository").await, "GitRepository 1 0 0 - 0");
    assert_eq!(row(&fixture.kinds, "Alert").await, "Alert 1 0 0 -");
}

#[test]
fn sizes_have_binary_units() {
    let sizes = [0, 1023, 1024, 1536, 5 << 20, 3 << 30];
    assert_eq!(
        sizes.map(stats::size),
        ["-", "1023 B", "1.0 KiB", "1.5 KiB", "5.0 MiB", "3.0 GiB"]
    );
}

#[tokio::test]
async fn exported_objects_are_as_in_git() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let expected = "---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata:
  labels:
    team: platform
  name: fleet
  namespace: flux-system
spec:
  interval: 1m
";
    let text = printed(&fixture, "export source git fleet").await;
    assert!(text.starts_with(expected), "{text}");
    assert!(!text.contains("status"), "{text}");
    assert_eq!(
        printed(&fixture, "export ks --all -A")
            .await
            .matches("---\n")
            .count(),
        2
    );
    assert_eq!(
        printed(&fixture, "export ks").await,
        "error: missing the name of the Kustomization; name one, or use --all\n"
    );
}

#[tokio::test]
async fn trace_leads_from_an_object_to_its_source() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture
        .apply(
            "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: flux-system, labels: {\
             kustomize.toolkit.fluxcd.io/name: apps, kustomize.toolkit.fluxcd.io/namespace: flux-system}}}",
        )
        .await;
    let expected = "Object:          ConfigMap/settings
Namespace:       flux-system
Status:          Managed by Flux
---
Kustomization:   apps
Namespace:       flux-system
Status:          Last reconciliation failed at 2026-01-01 00:00:00 +0000 UTC
Message:         apps/kustomization.yaml:3:1: no such file
look there
---
GitRepository:   fleet
Namespace:       flux-system
URL:             https://example.com/fleet
Revision:        main@sha1:0123456789012345678901234567890123456789
Status:          Last reconciled at 2026-01-01 00:00:00 +0000 UTC
Message:         stored artifact for revision 'main@sha1:0123456789012345678901234567890123456789'
";
    assert_eq!(
        printed(&fixture, "trace cm/settings -n flux-system").await,
        expected
    );
    assert_eq!(
        printed(&fixture, "trace ns flux-system").await,
        "error: Namespace/flux-system is not managed by Flux: it has no labels of a Kustomization or HelmRelease\n"
    );
    let id = ObjectId::new("", "ConfigMap", "shop", "settings");
    assert_eq!(
        TraceError::NotManaged(id).hint_with_names().as_deref(),
        Some("see its owners with `equate explain configmap settings -n shop`")
    );
}

#[tokio::test]
async fn check_reports_missing_controllers_and_kinds() {
    let fixture = Fixture::start().await;
    let text = printed(&fixture, "check").await;
    assert!(
        text.starts_with("► checking prerequisites\n✔ Kubernetes 1."),
        "{text}"
    );
    assert!(
        text.contains(
            "✗ no controllers found in namespace flux-system with the label app.kubernetes.io/part-of=flux\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("✔ kustomizations.kustomize.toolkit.fluxcd.io/v1\n"),
        "{text}"
    );
    let text = printed(&fixture, "check --pre").await;
    assert!(text.ends_with("✔ prerequisites checks passed\n"), "{text}");
    let bare = Fixture::bare().await;
    let text = printed(&bare, "check").await;
    assert!(
        text.contains("✗ kustomizations.kustomize.toolkit.fluxcd.io is not installed\n"),
        "{text}"
    );
}

#[test]
fn old_clusters_fail_the_check() {
    assert!(check::judge("v1.32.9", "1", "32").is_err());
    assert_eq!(
        check::judge("v1.33.1-eks-1", "1", "33+"),
        Ok("Kubernetes 1.33.1-eks-1 >=1.33.0-0".to_owned())
    );
}

#[test]
fn log_lines_are_selected_and_formatted() {
    let line = r#"{"level":"error","ts":"2026-01-01T00:00:00.000Z","msg":"Reconciler error","controllerKind":"Kustomization","name":"apps","namespace":"flux-system","error":"no\u001b such file"}"#;
    let check = |options: &str, expected: Option<&str>| {
        let words = ["equate", "logs"].into_iter().chain(options.split_whitespace());
        let Line::Logs(args) = Line::try_parse_from(words).unwrap() else {
            panic!("{options}");
        };
        assert_eq!(Entry::format(line, &args).as_deref(), expected, "{options}");
    };
    let text = Some(
        "2026-01-01T00:00:00.000Z error Kustomization/apps.flux-system - Reconciler error no  such file",
    );
    check("", text);
    check("--kind kustomization --name apps --level error", text);
    check("-A", text);
    check("-n shop", None);
    check("--level info", None);
    check("--name other", None);
}

#[tokio::test]
async fn logs_of_up_are_its_events() {
    let fixture = Fixture::start().await;
    fixture
        .apply(
            "{apiVersion: v1, kind: Event, metadata: {name: b, namespace: flux-system}, type: Warning, reason: BuildFailed, \
             message: no such file, lastTimestamp: \"2020-01-02T00:00:00Z\", involvedObject: {kind: Kustomization, \
             apiVersion: kustomize.toolkit.fluxcd.io/v1, name: apps, namespace: flux-system}}",
        )
        .await;
    let expected = "2020-01-02T00:00:00Z error Kustomization/apps.flux-system - no such file\n";
    assert_eq!(printed(&fixture, "logs").await, expected);
    assert_eq!(printed(&fixture, "logs --since 1h").await, "");
    assert_eq!(printed(&fixture, "logs --tail 0").await, "");
}

/// Objects and answers of flux2's own tests (`cmd/flux/testdata/debug_*`).
const DEBUGGED: &str = r#"
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: test-values-inline, namespace: flux-system}
spec:
  chartRef: {kind: OCIRepository, name: podinfo}
  interval: 5m0s
  values: {image: {repository: stefanprodan/podinfo, tag: 5.0.0}}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: test-values-from, namespace: flux-system}
spec:
  chartRef: {kind: OCIRepository, name: podinfo}
  interval: 5m0s
  values: {image: {repository: stefanprodan/podinfo, tag: 5.0.0}}
  valuesFrom:
  - {kind: ConfigMap, name: test}
  - {kind: Secret, name: test, valuesKey: secrets.yaml}
  - {kind: Secret, name: test, valuesKey: flatValue, targetPath: aFlatValue}
  - {kind: ConfigMap, name: none, optional: true}
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: test-missing, namespace: flux-system}
spec:
  chartRef: {kind: OCIRepository, name: podinfo}
  interval: 5m0s
  valuesFrom: [{kind: Secret, name: none}]
---
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata: {name: test-with-history, namespace: flux-system}
spec: {chartRef: {kind: OCIRepository, name: podinfo}, interval: 5m0s}
status:
  observedGeneration: 1
  history:
  - {name: test-with-history, namespace: flux-system, version: 1, configDigest: "sha256:abc123", chartName: podinfo, chartVersion: 6.0.0, appVersion: 6.0.0, deleted: "2024-01-01T10:00:00Z", digest: "sha256:def456", firstDeployed: "2024-01-01T09:00:00Z", lastDeployed: "2024-01-01T10:00:00Z", status: superseded}
  - {name: test-with-history, namespace: flux-system, version: 2, configDigest: "sha256:xyz789", chartName: podinfo, chartVersion: 6.1.0, appVersion: 6.1.0, digest: "sha256:ghi012", firstDeployed: "2024-01-01T11:00:00Z", lastDeployed: "2024-01-01T11:00:00Z", status: deployed}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: test, namespace: flux-system}
spec:
  sourceRef: {kind: GitRepository, name: test}
  interval: 1m
  prune: true
  postBuild:
    substitute: {TEST_OVERRIDE: in-line, TEST_INLINE: in-line}
    substituteFrom: [{kind: ConfigMap, name: test}, {kind: Secret, name: test}]
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: test-from, namespace: flux-system}
spec:
  sourceRef: {kind: GitRepository, name: test}
  interval: 1m
  prune: true
  postBuild: {substituteFrom: [{kind: ConfigMap, name: test}, {kind: Secret, name: test}]}
---
apiVersion: kustomize.toolkit.fluxcd.io/v1
kind: Kustomization
metadata: {name: test-with-history, namespace: flux-system}
spec: {sourceRef: {kind: GitRepository, name: test}, interval: 1m, prune: true}
status:
  observedGeneration: 1
  history:
  - {digest: "sha256:def456", firstReconciled: "2024-01-01T09:00:00Z", lastReconciled: "2024-01-01T10:00:00Z", lastReconciledDuration: 300ms, lastReconciledStatus: success, metadata: {originRevision: abc123}, totalReconciliations: 1}
  - {digest: "sha256:ghi012", firstReconciled: "2024-02-01T09:00:00Z", lastReconciled: "2024-02-01T10:00:00Z", lastReconciledDuration: 500ms, lastReconciledStatus: failure, metadata: {originRevision: xyz789}, totalReconciliations: 10}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: test, namespace: flux-system}
data: {TEST_OVERRIDE: cm, TEST_CM: cm, values.yaml: "cm: test\noverride: cm\n"}
---
apiVersion: v1
kind: Secret
metadata: {name: test, namespace: flux-system}
stringData: {TEST_OVERRIDE: secret, TEST_SECRET: secret, secrets.yaml: "secret: test\noverride: secret\n", flatValue: some-flat-value}
"#;

#[tokio::test]
async fn debug_prints_the_answers_of_flux() {
    let fixture = Fixture::start().await;
    fixture.apply(DEBUGGED).await;
    let check = async |line: &str, expected: &str| {
        assert_eq!(printed(&fixture, line).await, expected.trim_start(), "{line}");
    };
    check(
        "debug helmrelease test-values-inline --show-status",
        "
# Status documentation: https://fluxcd.io/flux/components/helm/helmreleases/#helmrelease-status
observedGeneration: -1
",
    )
    .await;
    check(
        "debug hr test-values-inline --show-values",
        "
image:
  repository: stefanprodan/podinfo
  tag: 5.0.0
",
    )
    .await;
    check(
        "debug helmrelease test-values-from --show-values",
        "
aFlatValue: some-flat-value
cm: test
image:
  repository: stefanprodan/podinfo
  tag: 5.0.0
override: secret
secret: test
",
    )
    .await;
    check(
        "debug helmrelease test-with-history --show-history",
        r#"
# History documentation: https://fluxcd.io/flux/components/helm/helmreleases/#history
- appVersion: 6.0.0
  chartName: podinfo
  chartVersion: 6.0.0
  configDigest: sha256:abc123
  deleted: "2024-01-01T10:00:00Z"
  digest: sha256:def456
  firstDeployed: "2024-01-01T09:00:00Z"
  lastDeployed: "2024-01-01T10:00:00Z"
  name: test-with-history
  namespace: flux-system
  status: superseded
  version: 1
- appVersion: 6.1.0
  chartName: podinfo
  chartVersion: 6.1.0
  configDigest: sha256:xyz789
  deleted: null
  digest: sha256:ghi012
  firstDeployed: "2024-01-01T11:00:00Z"
  lastDeployed: "2024-01-01T11:00:00Z"
  name: test-with-history
  namespace: flux-system
  status: deployed
  version: 2
"#,
    )
    .await;
    check(
        "debug helmrelease test-values-inline --show-history",
        "
# History documentation: https://fluxcd.io/flux/components/helm/helmreleases/#history
[]
",
    )
    .await;
    check(
        "debug ks test --show-status",
        "
# Status documentation: https://fluxcd.io/flux/components/kustomize/kustomizations/#kustomization-status
observedGeneration: -1
",
    )
    .await;
    check(
        "debug ks test --show-vars",
        "
TEST_CM=cm
TEST_INLINE=in-line
TEST_OVERRIDE=in-line
TEST_SECRET=secret
flatValue=some-flat-value
secrets.yaml=secret: testoverride: secret
values.yaml=cm: testoverride: cm
",
    )
    .await;
    check(
        "debug kustomization test-from --show-vars",
        "
TEST_CM=cm
TEST_OVERRIDE=secret
TEST_SECRET=secret
flatValue=some-flat-value
secrets.yaml=secret: testoverride: secret
values.yaml=cm: testoverride: cm
",
    )
    .await;
    check(
        "debug kustomization test-with-history --show-history",
        r#"
# History documentation: https://fluxcd.io/flux/components/kustomize/kustomizations/#history
- digest: sha256:def456
  firstReconciled: "2024-01-01T09:00:00Z"
  lastReconciled: "2024-01-01T10:00:00Z"
  lastReconciledDuration: 300ms
  lastReconciledStatus: success
  metadata:
    originRevision: abc123
  totalReconciliations: 1
- digest: sha256:ghi012
  firstReconciled: "2024-02-01T09:00:00Z"
  lastReconciled: "2024-02-01T10:00:00Z"
  lastReconciledDuration: 500ms
  lastReconciledStatus: failure
  metadata:
    originRevision: xyz789
  totalReconciliations: 10
"#,
    )
    .await;
    check(
        "debug kustomization test --show-history",
        "
# History documentation: https://fluxcd.io/flux/components/kustomize/kustomizations/#history
[]
",
    )
    .await;
    check(
        "debug kustomization test-with-history --show-vars",
        "error: Kustomization flux-system/test-with-history has no spec.postBuild: no variables are substituted\n",
    )
    .await;
    check(
        "debug helmrelease test-missing --show-values",
        "error: could not compose the values of HelmRelease flux-system/test-missing\n",
    )
    .await;
    check(
        "debug helmrelease none --show-values",
        "error: HelmRelease none not found in namespace flux-system\n",
    )
    .await;
}

#[test]
fn debug_prints_one_thing() {
    let check = |line: &str, expected: bool| {
        let parsed = Line::try_parse_from(line.split_whitespace());
        assert_eq!(parsed.is_ok(), expected, "{line}");
    };
    check("equate debug hr web", false);
    check("equate debug hr web --show-values", true);
    check("equate debug hr web --show-values --show-status", false);
    check("equate debug hr web --show-vars", false);
    check("equate debug ks apps --show-vars", true);
    check("equate debug ks apps --show-values", false);
}
