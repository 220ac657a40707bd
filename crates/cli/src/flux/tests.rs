use super::logs::{Entry, of_events};
use super::{check, export, logs, stats, trace};
use crate::fixture::{FLEET, Fixture};
use clap::Parser;

#[derive(Debug, Parser)]
enum Line {
    Check(check::Args),
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
