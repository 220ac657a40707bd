use super::{Args, events, one_line, order, seen};
use crate::fixture::{FLEET, Fixture};
use clap::Parser;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use serde_json::json;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

const EVENTS: &str = r#"
{apiVersion: v1, kind: Event, metadata: {name: a, namespace: flux-system}, type: Normal, reason: NewArtifact, message: stored,
 involvedObject: {apiVersion: source.toolkit.fluxcd.io/v1, kind: GitRepository, name: fleet, namespace: flux-system},
 firstTimestamp: "2020-01-01T00:00:00Z", lastTimestamp: "2020-01-01T00:00:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: b, namespace: flux-system}, type: Warning, reason: BuildFailed, message: "no such file",
 involvedObject: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: apps, namespace: flux-system},
 firstTimestamp: "2020-01-02T00:00:00Z", lastTimestamp: "2020-01-02T00:00:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: c, namespace: flux-system}, type: Normal, reason: Killing, message: "no",
 involvedObject: {apiVersion: v1, kind: Pod, name: web, namespace: flux-system},
 firstTimestamp: "2020-01-03T00:00:00Z", lastTimestamp: "2020-01-03T00:00:00Z"}
---
{apiVersion: v1, kind: Event, metadata: {name: d, namespace: default}, type: Normal, reason: Suspended, message: suspended,
 involvedObject: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: new, namespace: default},
 firstTimestamp: "2020-01-04T00:00:00Z", lastTimestamp: "2020-01-04T00:00:00Z"}
"#;

#[tokio::test]
async fn events_are_listed() {
    let fixture = Fixture::start().await;
    fixture.apply(FLEET).await;
    fixture.apply(EVENTS).await;
    let check = async |line: &str, expected: &[&str]| {
        let words = std::iter::once("events").chain(line.split_whitespace());
        let args = Line::try_parse_from(words).unwrap().args;
        let mut out = Vec::new();
        let printed = match events(
            &fixture.connection.client,
            &fixture.kinds,
            &args,
            &mut out,
            false,
            std::future::pending(),
        )
        .await
        {
            Ok(()) => String::from_utf8(out).unwrap(),
            Err(error) => format!("error: {error}"),
        };
        // ages grow, and the columns with them
        let lines: Vec<String> = printed
            .lines()
            .map(|line| {
                line.split_whitespace()
                    .filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()))
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(lines, expected, "{line}");
    };
    let (fleet, apps) = (
        "Normal NewArtifact GitRepository/fleet stored",
        "Warning BuildFailed Kustomization/apps no such file",
    );
    let header = "LAST SEEN TYPE REASON OBJECT MESSAGE";
    check("", &[header, fleet, apps]).await;
    check("--for Kustomization/apps", &[header, fleet, apps]).await;
    check("--for gitrepo/fleet --no-header", &[fleet]).await;
    check(
        "--for ks/new -n default",
        &[header, fleet, "Normal Suspended Kustomization/new suspended"],
    )
    .await;
    check(
        "--for ks/default/new --no-header",
        &[fleet, "Normal Suspended Kustomization/new suspended"],
    )
    .await;
    check("--types warning", &[header, apps]).await;
    check(
        "-A --no-header",
        &[
            &format!("flux-system {fleet}"),
            &format!("flux-system {apps}"),
            "default Normal Suspended Kustomization/new suspended",
        ],
    )
    .await;
    check(
        "--for ks/absent -o json",
        &[
            "{",
            "\"apiVersion\": \"v1\",",
            "\"items\": [],",
            "\"kind\": \"List\",",
            "\"metadata\": {}",
            "}",
        ],
    )
    .await;
    check("--for ks", &["error: --for expects KIND/NAME, got \"ks\""]).await;
}

#[test]
fn lines_of_a_message_are_a_list() {
    let lines = "ConfigMap/n/a created\nConfigMap/n/b configured:\n  corrected .data.k\n";
    let expected = "ConfigMap/n/a created; ConfigMap/n/b configured: corrected .data.k";
    assert_eq!(one_line(lines), expected);
}

#[test]
fn repeated_events_have_a_count() {
    let check = |event: serde_json::Value, expected: &str| {
        let event: Event = serde_json::from_value(event).unwrap();
        assert_eq!(
            seen(&event, "2026-01-01T01:00:00Z".parse::<Timestamp>().unwrap()),
            expected
        );
    };
    let base = json!({ "metadata": {}, "involvedObject": {}, "lastTimestamp": "2026-01-01T00:59:30Z" });
    check(base.clone(), "30s");
    let mut many = base;
    many["count"] = json!(3);
    many["firstTimestamp"] = json!("2026-01-01T00:50:00Z");
    check(many, "30s (x3 over 10m)");
    check(json!({ "metadata": {}, "involvedObject": {} }), "unknown");
}

#[test]
fn events_of_one_second_are_in_the_order_of_their_writes() {
    let event = |name: &str, version: &str, times: serde_json::Value| {
        let mut event =
            json!({ "metadata": { "name": name, "resourceVersion": version }, "involvedObject": {} });
        event
            .as_object_mut()
            .unwrap()
            .extend(times.as_object().unwrap().clone());
        serde_json::from_value::<Event>(event).unwrap()
    };
    let last = |time: &str| json!({ "lastTimestamp": time });
    let mut all = vec![
        event("third", "10", last("2026-01-01T00:00:01Z")),
        event(
            "second",
            "9",
            json!({ "eventTime": "2026-01-01T00:00:01.900000Z" }),
        ),
        event("fourth", "2", last("2026-01-01T00:00:02Z")),
        event("first", "8", last("2026-01-01T00:00:01Z")),
    ];
    all.sort_by_key(order);
    let names: Vec<String> = all.into_iter().filter_map(|event| event.metadata.name).collect();
    assert_eq!(names, ["first", "second", "third", "fourth"]);
}
