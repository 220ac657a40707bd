//! The example of `docs/write-a-controller.md`: a controller for an invented kind.
//!
//! The status of a Greeting greets the name in its spec. This program is `equate` with one more kind; `--crd`
//! prints the CRD that the cluster needs first.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use equate_api::meta::{Condition, Reason};
use equate_controllers::kit::{
    About, Acted, Column, Controller, Failure, Kit, Next, Notice, Reconcilable, Reconciliation, Report,
    Severity, StandardConditions, Stop,
};
use jiff::Timestamp;
use kube::{CustomResource, CustomResourceExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

#[derive(CustomResource, Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "example.equate.dev",
    version = "v1",
    kind = "Greeting",
    status = "GreetingStatus",
    namespaced
)]
struct GreetingSpec {
    name: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
struct GreetingStatus {
    greeting: String,
    #[schemars(schema_with = "equate_api::schema::conditions")]
    conditions: Vec<Condition>,
    observed_generation: Option<i64>,
    last_handled_reconcile_at: Option<String>,
}

equate_controllers::standard_status!(GreetingStatus);

impl Reconcilable for Greeting {
    type Status = GreetingStatus;

    fn status(&self) -> Option<&GreetingStatus> {
        self.status.as_ref()
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(600)
    }
}

/// The controller of Greetings. It uses nothing of the kit.
struct Greetings;

struct Declared {
    name: String,
    generation: i64,
}

impl Controller for Greetings {
    type Object = Greeting;
    type Declared = Declared;
    type Memory = ();
    type Seen = String;
    /// The greeting to write; none if the status has it already.
    type Plan = Option<String>;
    /// The new greeting.
    type Done = Option<String>;

    const ABOUT: &'static About = &About {
        kind: "Greeting",
        plural: "greetings",
        group: "example.equate.dev",
        aliases: &["hello"],
        component: "greeting-controller",
        status_manager: "greeting-controller",
        suspends: false,
        columns: &[Column::new("GREETING", &["/status/greeting"])],
        ..About::DEFAULT
    };

    fn new(_kit: &Arc<Kit>) -> Self {
        Self
    }

    fn declare(object: &Greeting) -> Result<Declared, Failure> {
        match object.spec.name.trim() {
            "" => Err(Failure::stalled(Reason::Failed, "name somebody in spec.name")),
            name => Ok(Declared {
                name: name.to_owned(),
                generation: object.metadata.generation.unwrap_or_default(),
            }),
        }
    }

    async fn observe(&self, run: &mut Reconciliation<'_, Self>, _: &Declared) -> Result<String, Stop> {
        Ok(run.status().greeting)
    }

    fn decide(declared: &Declared, seen: &String, _now: Instant) -> Option<String> {
        let greeting = format!("hello, {}", declared.name);
        (*seen != greeting).then_some(greeting)
    }

    async fn act(
        &self,
        _: &mut Reconciliation<'_, Self>,
        _: &Declared,
        _: String,
        plan: Option<String>,
    ) -> Result<Acted<Option<String>>, Stop> {
        // a greeting is part of the status: the report writes it
        Ok(Acted::Done(plan))
    }

    fn report(
        declared: &Declared,
        before: &GreetingStatus,
        new: Option<String>,
        now: Timestamp,
    ) -> Report<GreetingStatus> {
        let notice = |text: &String| Notice::new(Severity::Normal, Reason::Succeeded.as_str(), text);
        let notices = new.iter().map(notice).collect();
        let mut status = before.clone();
        status.greeting = new.unwrap_or(status.greeting);
        let message = status.greeting.clone();
        StandardConditions::new(&mut status, declared.generation, now).ready(Reason::Succeeded, &message);
        Report {
            status,
            notices,
            next: Next::Interval,
            ended: true,
            failed: false,
        }
    }
}

fn main() -> ExitCode {
    if std::env::args().any(|word| word == "--crd") {
        let printed = serde_json::to_writer_pretty(std::io::stdout(), &Greeting::crd());
        return printed.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS);
    }
    equate_cli::main(equate_controllers::all().with::<Greetings>())
}
