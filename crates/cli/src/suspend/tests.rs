use super::{Resume, Suspend, SuspendError, resume, suspend};
use crate::failure::Failure;
use crate::fixture::{FLEET, Fixture};
use clap::Parser;
use kube::Client;

#[derive(Debug, Parser)]
enum Line {
    Suspend(Suspend),
    Resume(Resume),
}

async fn outcome(client: &Client, fixture: &Fixture, line: &str) -> (String, Result<(), SuspendError>) {
    let mut out = Vec::new();
    let outcome =
        match Line::try_parse_from(std::iter::once("equate").chain(line.split_whitespace())).unwrap() {
            Line::Suspend(args) => suspend(client, &fixture.kinds, &args, &mut out).await,
            Line::Resume(args) => resume((client, false), &fixture.kinds, &args, &mut out).await,
        };
    (String::from_utf8(out).unwrap(), outcome)
}

async fn printed(fixture: &Fixture, line: &str) -> String {
    match outcome(&fixture.connection.client, fixture, line).await {
        (text, Ok(())) => text,
        (text, Err(error)) => format!("{text}error: {error}\n"),
    }
}

#[tokio::test]
async fn objects_are_suspended_and_resumed() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    let check =
        async |line: &str, expected: &str| assert_eq!(printed(&fixture, line).await, expected, "{line}");
    check("suspend ks apps", "kustomization/apps suspended\n").await;
    check("suspend ks/apps", "kustomization/apps is already suspended\n").await;
    check(
        "suspend ks/flux-system/apps",
        "kustomization/apps is already suspended\n",
    )
    .await;
    check("suspend sources git --all", "gitrepository/fleet suspended\n").await;
    check(
        "resume ks --all -A --no-wait",
        "kustomization/new resumed\nkustomization/apps resumed\n",
    )
    .await;
    check("resume ks apps", "kustomization/apps was not suspended\n").await;
    check(
        "resume sources git fleet --timeout 10ms",
        "gitrepository/fleet resumed\n\
         error: GitRepository flux-system/fleet did not finish within 10ms: no controller has answered yet\n",
    )
    .await;
    let second = "{apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, \
                  metadata: {name: second, namespace: flux-system}, \
                  spec: {url: 'https://example.com/second', interval: 1m, suspend: true}}";
    fixture.apply(second).await;
    check("suspend sources git fleet", "gitrepository/fleet suspended\n").await;
    check(
        "resume sources git --all --timeout 10ms",
        "gitrepository/fleet resumed\ngitrepository/second resumed\n\
         error: 2 of 2 gitrepositories are not ready:\n  \
         GitRepository flux-system/fleet did not finish within 10ms: no controller has answered yet\n  \
         GitRepository flux-system/second did not finish within 10ms: no controller has answered yet\n",
    )
    .await;
    check(
        "suspend ks",
        "error: missing the name of the Kustomization; name one, or use --all\n",
    )
    .await;
    check(
        "suspend ks apps --all",
        "error: the name apps and --all exclude each other\n",
    )
    .await;
    check(
        "suspend ag x",
        "error: an ArtifactGenerator cannot be suspended\n",
    )
    .await;
}

/// May change one of two sources.
const OPERATOR: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: operator}
rules:
- {apiGroups: [source.toolkit.fluxcd.io], resources: [gitrepositories], verbs: [get, list, watch]}
- {apiGroups: [source.toolkit.fluxcd.io], resources: [gitrepositories], verbs: [patch], resourceNames: [second]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: operator}
subjects: [{kind: User, name: operator, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: source.toolkit.fluxcd.io/v1
kind: GitRepository
metadata: {name: second, namespace: flux-system}
spec: {url: 'https://example.com/second', interval: 1m, suspend: true}
"#;

#[tokio::test]
async fn resume_goes_on_after_an_object_that_cannot_be_changed() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture.apply(OPERATOR).await;
    printed(&fixture, "suspend sources git fleet").await;
    let client = fixture.client_as("operator").await;
    let line = "resume sources git --all --timeout 10ms";
    let (text, failed) = outcome(&client, &fixture, line).await;
    assert_eq!(text, "gitrepository/second resumed\n");
    let failed = failed.unwrap_err();
    let lines: Vec<String> = failed.to_string().lines().map(str::to_owned).collect();
    assert_eq!(
        (lines.len(), lines[0].as_str()),
        (3, "2 of 2 gitrepositories are not ready:"),
        "{failed}"
    );
    assert!(
        lines[1].starts_with("  could not change GitRepository fleet: ") && lines[1].contains("is forbidden"),
        "{failed}"
    );
    assert_eq!(
        lines[2],
        "  GitRepository flux-system/second did not finish within 10ms: no controller has answered yet"
    );
    assert_eq!(
        failed.hint_with_names().as_deref(),
        Some(
            "increase --timeout, or see the cause with `equate explain gitrepository second -n flux-system`"
        )
    );
}
