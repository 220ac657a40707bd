//! Replay of recorded answers of a real 1.36 server.
//!
//! `tests/ratchet/recorded*.jsonl` lists skipped steps and known differences, each with its reason. The
//! recordings are not in the repository; without them the tests print so and pass.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use equate_testkit::cluster::Cluster;
use equate_testkit::replay::compare::Pairs;
use equate_testkit::replay::normal::Normaliser;
use equate_testkit::replay::ratchet::{self, Outcomes};
use equate_testkit::replay::{self, Scenario};
use equate_testkit::wire::{Answer, Sender};

use crate::peer::real_cluster;

const LEFT_OUT_MAX: usize = 45;

const EQUAL_PERCENT_MIN: f64 = 95.0;

fn recordings() -> Option<Vec<Scenario>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../shared/conformance/kube-apiserver-1.36/k8s-1.36.2-http.jsonl");
    if !path.exists() {
        println!("skipped: the recordings are not beside the checkout");
        return None;
    }
    Some(replay::load(&path).unwrap())
}

fn list(name: &str) -> Vec<ratchet::Entry> {
    ratchet::load(
        &PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/ratchet")
            .join(name),
    )
    .unwrap()
}

async fn replay(sender: &Sender, scenario: &Scenario, outcomes: &mut Outcomes) {
    let judge = RefCell::new(Judge::default());
    let played = replay::play(
        sender,
        scenario,
        |_, step, answer| match step.response.clone() {
            Some(response) => judge
                .borrow()
                .clone()
                .compare(response.into(), answer.clone())
                .is_empty(),
            None => true,
        },
        |exchange| {
            let recorded = exchange.step.response.clone().unwrap().into();
            let differences = judge.borrow_mut().compare(recorded, exchange.answer);
            outcomes.note(scenario, exchange.index, differences);
        },
    );
    played
        .await
        .unwrap_or_else(|error| panic!("{}: {error:?}", scenario.name));
}

/// Both sides of a scenario, each with its own tokens.
#[derive(Default, Clone)]
struct Judge {
    recorded: Normaliser,
    actual: Normaliser,
    pairs: Pairs,
}

impl Judge {
    fn compare(&mut self, recorded: Answer, actual: Answer) -> Vec<replay::compare::Difference> {
        let recorded = self.recorded.answer(recorded);
        let actual = self.actual.answer(actual);
        self.pairs.compare(&recorded, &actual)
    }
}

/// A new server for every scenario, as empty as the recorder's.
#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_api_answers_as_recorded() {
    let Some(scenarios) = recordings() else { return };
    let mut outcomes = Outcomes::default();
    for scenario in &scenarios {
        let cluster = Cluster::named("embedded", &mut |_: &str| {}).await.unwrap();
        replay(&cluster.sender().unwrap(), scenario, &mut outcomes).await;
        cluster.stop().await.unwrap();
    }
    let left_out = list("recorded-left-out.jsonl");
    assert!(left_out.len() <= LEFT_OUT_MAX, "{} are left out", left_out.len());
    let summary = outcomes
        .judge(&list("recorded.jsonl"), &left_out)
        .unwrap_or_else(|report| panic!("{report}"));
    println!("{summary:?}: {:.1} % equal", summary.percent());
    assert!(
        summary.percent() >= EQUAL_PERCENT_MIN,
        "{summary:?}: {:.1} % equal",
        summary.percent()
    );
}

/// The recorded steps that a real server does not repeat: artefacts of the recording.
#[tokio::test(flavor = "multi_thread")]
async fn the_real_server_answers_as_recorded() {
    let Some(scenarios) = recordings() else { return };
    let Some(cluster) = real_cluster().await else {
        return;
    };
    let mut scenarios = scenarios;
    // it lists whole resources, so on a shared server it goes first
    scenarios.sort_by_key(|scenario| scenario.name != "list-watch");
    let mut outcomes = Outcomes::default();
    for scenario in &scenarios {
        replay(&cluster.sender().unwrap(), scenario, &mut outcomes).await;
    }
    let summary = outcomes
        .judge(&list("recorded-real.jsonl"), &[])
        .unwrap_or_else(|report| panic!("{report}"));
    println!("{summary:?}: {:.1} % equal", summary.percent());
    cluster.stop().await.unwrap();
}
