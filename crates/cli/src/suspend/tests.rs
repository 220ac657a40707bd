use super::{Resume, Suspend, resume, suspend};
use crate::fixture::{FLEET, Fixture};
use clap::Parser;

#[derive(Debug, Parser)]
enum Line {
    Suspend(Suspend),
    Resume(Resume),
}

async fn printed(fixture: &Fixture, line: &str) -> String {
    let mut out = Vec::new();
    let client = &fixture.connection.client;
    let outcome =
        match Line::try_parse_from(std::iter::once("equate").chain(line.split_whitespace())).unwrap() {
            Line::Suspend(args) => suspend(client, &fixture.kinds, &args, &mut out).await,
            Line::Resume(args) => resume((client, false), &fixture.kinds, &args, &mut out).await,
        };
    let text = String::from_utf8(out).unwrap();
    match outcome {
        Ok(()) => text,
        Err(error) => format!("{text}error: {error}\n"),
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
