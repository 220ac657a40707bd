//! Our own requests, sent to the embedded and the real API in the same run.
//!
//! The scripts are `scenarios/*.jsonl`; `tests/ratchet/live.jsonl` lists the allowed differences, each
//! with its reason.

use std::path::{Path, PathBuf};

use equate_testkit::cluster::Cluster;
use equate_testkit::replay::compare::Pairs;
use equate_testkit::replay::normal::Normaliser;
use equate_testkit::replay::ratchet::{self, Outcomes};
use equate_testkit::replay::{self, Scenario};
use equate_testkit::wire::{Answer, Sender};

use crate::peer::real_cluster;

const REQUESTS_MIN: usize = 150;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn scenarios() -> Vec<Scenario> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder("scenarios"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| replay::load_script(file).unwrap())
        .collect()
}

async fn answers(sender: &Sender, scenario: &Scenario) -> Vec<Answer> {
    let mut normaliser = Normaliser::default();
    let mut answers = Vec::new();
    let played = replay::play(
        sender,
        scenario,
        |_, _, _| true,
        |exchange| answers.push(normaliser.answer(exchange.answer)),
    );
    if let Err(error) = played.await {
        println!("{}: {error:?}", scenario.name);
    }
    answers
}

/// Compares step by step; steps after an aborted script differ.
fn compare(scenario: &Scenario, expected: &[Answer], actual: &[Answer], outcomes: &mut Outcomes) {
    let mut pairs = Pairs::default();
    assert_eq!(
        expected.len(),
        scenario.steps.len(),
        "{}: the real server broke it off",
        scenario.name
    );
    for (step, expected) in expected.iter().enumerate() {
        let missing = Answer {
            status: 0,
            content_type: String::new(),
            warnings: Vec::new(),
            body: "not reached".into(),
        };
        let actual = actual.get(step).unwrap_or(&missing);
        outcomes.note(scenario, step, pairs.compare(expected, actual));
    }
}

#[test]
fn the_scripts_can_be_read_and_hold_enough() {
    let requests: usize = scenarios().iter().map(|scenario| scenario.steps.len()).sum();
    assert!(requests >= REQUESTS_MIN, "{requests}");
}

#[tokio::test(flavor = "multi_thread")]
async fn both_answer_alike() {
    let Some(real) = real_cluster().await else { return };
    let mut silent = |_: &str| {};
    let embedded = Cluster::named("embedded", &mut silent).await.unwrap();
    let (expected, actual) = (real.sender().unwrap(), embedded.sender().unwrap());
    let mut outcomes = Outcomes::default();
    for scenario in &scenarios() {
        let (expected, actual) = tokio::join!(answers(&expected, scenario), answers(&actual, scenario));
        compare(scenario, &expected, &actual, &mut outcomes);
    }
    let listed = ratchet::load(&folder("tests/ratchet/live.jsonl")).unwrap();
    let summary = outcomes
        .judge(&listed, &[])
        .unwrap_or_else(|report| panic!("{report}"));
    println!("{summary:?}: {:.1} % equal", summary.percent());
    embedded.stop().await.unwrap();
    real.stop().await.unwrap();
}
