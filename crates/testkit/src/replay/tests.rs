use serde_json::json;

use super::compare::Pairs;
use super::normal::Normaliser;
use super::ratchet::{Entry, Outcomes};
use super::*;

fn answer(body: Value) -> Answer {
    Answer {
        status: 200,
        content_type: "application/json".to_owned(),
        warnings: Vec::new(),
        body,
    }
}

#[track_caller]
fn check_normal(body: Value, normal: &Value) {
    let once = Normaliser::default().answer(answer(body));
    assert_eq!(once.body, *normal);
    assert_eq!(
        Normaliser::default().answer(once.clone()),
        once,
        "normalising again changes it"
    );
}

#[test]
fn ids_versions_and_times_become_tokens_numbered_by_appearance() {
    check_normal(
        json!([
            {"uid": "11111111-1111-1111-1111-111111111111", "resourceVersion": "7", "t": "2026-01-02T03:04:05Z"},
            {"uid": "22222222-1111-1111-1111-111111111111", "resourceVersion": "9", "t": "2026-01-02T03:04:05.123456Z"},
            {"m": "uid 11111111-1111-1111-1111-111111111111 is gone", "resourceVersion": "7"},
        ]),
        &json!([
            {"uid": "<uid:1>", "resourceVersion": "<rv:1>", "t": "<ts>"},
            {"uid": "<uid:2>", "resourceVersion": "<rv:2>", "t": "<ts>"},
            {"m": "uid <uid:1> is gone", "resourceVersion": "<rv:1>"},
        ]),
    );
}

#[test]
fn values_that_differ_between_runs_are_masked() {
    check_normal(
        json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "5", "continue": "eyJ"}, "items": [
            {"metadata": {"name": "kube-root-ca.crt"}},
            {"metadata": {"name": "p-x7b2k", "generateName": "p-"}},
        ]}),
        &json!({"kind": "ConfigMapList", "metadata": {"resourceVersion": "<rv>", "continue": "<continue>"}, "items": [
            {"metadata": {"name": "p-<generated>", "generateName": "p-"}},
        ]}),
    );
    check_normal(
        json!({"spec": {"clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ports": [{"nodePort": 30001}]}}),
        &json!({"spec": {"clusterIP": "<ip>", "clusterIPs": ["<ip>"], "ports": [{"nodePort": "<port>"}]}}),
    );
    check_normal(
        json!({"spec": {"clusterIP": "None"}}),
        &json!({"spec": {"clusterIP": "None"}}),
    );
    check_normal(
        json!({"kind": "Table", "metadata": {}, "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
               "rows": [{"cells": ["5m", "5m3s"]}]}),
        &json!({"kind": "Table", "metadata": {}, "columnDefinitions": [{"name": "Name"}, {"name": "Age"}],
               "rows": [{"cells": ["5m", "<age>"]}]}),
    );
}

#[test]
fn tokens_may_be_renamed_but_not_mixed_up() {
    let mut pairs = Pairs::default();
    let same = |pairs: &mut Pairs, left: &str, right: &str| {
        pairs
            .compare(&answer(json!(left)), &answer(json!(right)))
            .is_empty()
    };
    assert!(same(&mut pairs, "<uid:1>", "<uid:4>"));
    assert!(same(&mut pairs, "a <uid:1> b", "a <uid:4> b"));
    assert!(
        !same(&mut pairs, "<uid:2>", "<uid:4>"),
        "two ids of one side are one of the other"
    );
    assert!(
        !same(&mut pairs, "<uid:1>", "<uid:5>"),
        "one id of one side is two of the other"
    );
    assert!(!same(&mut pairs, "<uid:3>", "<rv:3>"));
    assert!(
        same(&mut pairs, "<uid:2>", "<uid:5>"),
        "a failed comparison leaves no pairs behind"
    );
}

#[test]
fn differences_name_the_place_and_both_sides() {
    let expected = answer(json!({"a": {"b": [1, 2]}, "gone": true}));
    let actual = answer(json!({"a": {"b": [1, 3, 4]}, "new": null}));
    let found = Pairs::default().compare(&expected, &actual);
    let places: Vec<String> = found
        .iter()
        .map(|found| format!("{} {} {}", found.at, found.expected, found.actual))
        .collect();
    assert_eq!(
        places,
        [
            "$.a.b[1] 2 3",
            "$.a.b[2] nothing 4",
            "$.gone true nothing",
            "$.new nothing null"
        ]
    );
}

#[test]
fn the_ratchet_complains_in_both_directions() {
    let step = r#"{"desc": "d", "method": "GET", "path": "/"}"#;
    let scenario: Scenario = serde_json::from_str(&format!(
        r#"{{"scenario": "s", "namespace": null, "steps": [{step}, {step}]}}"#
    ))
    .unwrap();
    let different = Pairs::default().compare(&answer(json!(1)), &answer(json!(2)));
    let mut outcomes = Outcomes::default();
    outcomes.note(&scenario, 0, Vec::new());
    outcomes.note(&scenario, 1, different);
    let entry = |step| Entry {
        scenario: "s".to_owned(),
        step,
        reason: "r".to_owned(),
    };

    let judged = outcomes.judge(&[entry(1)], &[]).unwrap();
    assert_eq!(
        (judged.steps, judged.left_out, judged.equal, judged.percent()),
        (2, 0, 1, 50.0)
    );
    let judged = outcomes.judge(&[], &[entry(1)]).unwrap();
    assert_eq!((judged.left_out, judged.equal, judged.percent()), (1, 1, 100.0));
    for (listed, left_out, complaint) in [
        (vec![], vec![], "s 1 (d) differs and is not listed"),
        (vec![entry(0), entry(1)], vec![], "s 0 (d) is equal now"),
        (vec![entry(1), entry(7)], vec![], "no such step"),
        (vec![entry(1)], vec![entry(1)], "is in both lists"),
    ] {
        let error = outcomes.judge(&listed, &left_out).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn bodies_are_sent_verbatim_with_captures() {
    let step: Step = serde_json::from_str(
        r#"{"desc": "d", "method": "POST", "path": "/x/{{ID}}", "body": {"b": 1,  "a": "{{ID}}"}}"#,
    )
    .unwrap();
    let call = step.call(&[("{{ID}}".to_owned(), "7".to_owned())]);
    assert_eq!(call.path, "/x/7");
    assert_eq!(call.body.unwrap(), br#"{"b": 1,  "a": "7"}"#);
    let step: Step =
        serde_json::from_str(r#"{"desc": "d", "method": "POST", "path": "/", "body": "{bad\n"}"#).unwrap();
    assert_eq!(step.call(&[]).body.unwrap(), b"{bad\n");
}

#[test]
fn a_script_is_short_and_its_defaults_are_a_tests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.jsonl");
    std::fs::write(
        &path,
        concat!(
            r#"{"scenario": "s", "namespace": "n"}"#,
            "\n",
            r#"{"desc": "d", "do": "APPLY /api/v1/namespaces/{ns}/configmaps/a", "body": {}, "as": "alice", "capture": {"U": "metadata.uid"}}"#,
            "\n",
        ),
    )
    .unwrap();
    let scenario = load_script(&path).unwrap();
    let step = &scenario.steps[0];
    assert_eq!(
        (step.method.as_str(), step.path.as_str()),
        ("PATCH", "/api/v1/namespaces/n/configmaps/a")
    );
    assert_eq!(step.content_type.as_deref(), Some("application/apply-patch+yaml"));
    assert_eq!(step.token.as_deref(), Some(ALICE_TOKEN_TEXT));
    assert_eq!(
        (scenario.captures[0].step, scenario.captures[0].path.as_str()),
        (0, "metadata.uid")
    );

    std::fs::write(&path, "{\"scenario\": \"s\"}\n{\"desc\": \"d\"}\n").unwrap();
    assert_eq!(
        load_script(&path).unwrap_err().to_string(),
        format!("{}:2 is not a request", path.display())
    );
}

const ALICE_TOKEN_TEXT: &str = crate::real::ALICE_TOKEN;
