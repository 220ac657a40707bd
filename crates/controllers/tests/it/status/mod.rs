//! Compares statuses and events of Flux's own controllers with Equate's: conditions, reasons, messages,
//! history, inventory, artifacts and events.
//!
//! A scenario is a YAML document in `tests/status/scenarios`: steps that commit, write and request runs,
//! with an expected end for each. The result is a text, with variable parts [masked](mask). The golden file
//! (`tests/status/NAME.txt`) holds both sides: equal lines, `-` for lines of Flux's controllers when they
//! were recorded, `+` for Equate's lines. The test compares Equate's side; each permanent difference has
//! its row in `docs/compatibility.d/loop.md`.
//!
//! `EQUATE_STATUS=bless` rewrites Equate's side. `EQUATE_STATUS=upstream` records the other one on the cluster
//! of `EQUATE_TEST_KUBECONFIG`. There Flux's controllers run already; for the scenarios `sources_*`, the test
//! starts the source-controller that `EQUATE_SOURCE_CONTROLLER` names, as `cargo xtask baseline sources` does.

mod mask;
mod pages;
mod script;
mod sources_ground;

use std::collections::BTreeSet;
use std::time::Duration;

use equate_api::helm::HelmRelease;
use equate_api::source::HelmChart;
use equate_testkit::git::{Fault, Guard, HttpServer, Repository};
use futures::stream::{self, StreamExt};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams};
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt as _};
use serde_json::{Value, json};

use self::mask::Mask;
use self::pages::Page;
use self::script::{Object, Scenario, Step, Until};
use self::sources_ground::Ground;
use crate::session::{Options, Session, real};
use crate::source_controller::SourceController;

/// Long enough for a controller that retries after some seconds.
const PATIENCE: Duration = Duration::from_secs(100);
/// After it, a recorded step counts as settled.
const SETTLED: Duration = Duration::from_millis(2500);
const AT_ONCE: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Compare,
    Bless,
    Upstream,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statuses_and_events_are_flux_s() {
    run(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statuses_and_events_of_sources_are_flux_s() {
    run(true).await;
}

async fn run(is_about_sources: bool) {
    let mode = match std::env::var("EQUATE_STATUS").as_deref() {
        Err(_) | Ok("") => Mode::Compare,
        Ok("bless") => Mode::Bless,
        Ok("upstream") => Mode::Upstream,
        Ok(other) => panic!("EQUATE_STATUS is {other:?}; there are `bless` and `upstream`"),
    };
    if Repository::init().unwrap().serve_http().unwrap().is_none() {
        return;
    }
    let session = match mode {
        Mode::Upstream => None,
        Mode::Compare | Mode::Bless => {
            let kinds = match is_about_sources {
                true => sources_ground::kinds(),
                false => vec![HelmChart::crd(), HelmRelease::crd()],
            };
            let options = Options {
                kinds,
                ..Options::default()
            };
            Some(Session::anywhere_with(&[], options).await)
        }
    };
    let (client, labels) = match &session {
        Some(session) => (session.client.clone(), session.labels()),
        None => (real().await, json!({})),
    };
    let theirs = match (mode, is_about_sources) {
        (Mode::Upstream, true) => Some(SourceController::of_all(&client).await),
        _ => None,
    };
    define_widgets(&client).await;
    let only = std::env::var("EQUATE_STATUS_ONLY").unwrap_or_default();
    let scenarios = script::all()
        .into_iter()
        .filter(|scenario| scenario.is_about_sources == is_about_sources)
        .filter(|scenario| scenario.name.contains(&only));
    let wrong: Vec<String> = stream::iter(scenarios)
        .map(async |scenario| {
            let name = scenario.name.clone();
            let stage = Stage::new(mode, client.clone(), labels.clone(), scenario).await;
            match tokio::spawn(stage.play()).await {
                Ok(wrong) => wrong,
                Err(broke) => Some(format!("{name}: {broke}")),
            }
        })
        .buffer_unordered(AT_ONCE)
        .filter_map(async |wrong| wrong)
        .collect()
        .await;
    if let Some(theirs) = theirs {
        theirs.stop().await;
    }
    if let Some(session) = session {
        session.end().await;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A kind whose health is in its status.
async fn define_widgets(client: &Client) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.test" },
        "spec": {
            "group": "example.test",
            "scope": "Namespaced",
            "names": { "kind": "Widget", "plural": "widgets", "singular": "widget", "listKind": "WidgetList" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    });
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let definition = serde_json::from_value(definition).unwrap();
    match api.create(&PostParams::default(), &definition).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {}
        created => drop(created.unwrap()),
    }
}

/// One scenario with its repository and namespace.
struct Stage {
    mode: Mode,
    client: Client,
    labels: Value,
    scenario: Scenario,
    repository: Repository,
    server: Option<HttpServer>,
    /// The servers beyond git.
    ground: Option<Ground>,
    mask: Mask,
    reported: BTreeSet<String>,
    requests: usize,
}

impl Stage {
    async fn new(mode: Mode, client: Client, labels: Value, scenario: Scenario) -> Self {
        let namespace = Namespace {
            metadata: ObjectMeta {
                name: Some(scenario.name.clone()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        Api::all(client.clone())
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
        let repository = Repository::init().unwrap();
        let guard = match &scenario.password {
            Some(password) => Guard::Basic("git".to_owned(), password.clone()),
            None => Guard::Open,
        };
        let server = repository.serve(guard, false).unwrap();
        let url = server.as_ref().map(HttpServer::url).unwrap_or_default();
        let ground = scenario
            .is_about_sources
            .then(|| Ground::open(scenario.password.as_deref()));
        Self {
            mode,
            client,
            labels,
            ground,
            mask: Mask::new(&url),
            scenario,
            repository,
            server,
            reported: BTreeSet::new(),
            requests: 0,
        }
    }

    /// Runs the scenario; returns the error, if any.
    async fn play(mut self) -> Option<String> {
        let path = self.scenario.page();
        let mut page = Page::read(&path);
        let (mut said, mut wrong) = (Vec::new(), String::new());
        for step in self.scenario.steps.clone() {
            self.carry_out(&step).await;
            let reached = self.reach(&step).await;
            let expected = page.ours(&step.name);
            let text = match (reached, self.mode) {
                (Err(last), _) => vec![format!("not reached: {last}")],
                (Ok(()), Mode::Compare) => self.see(&step, Some(&expected)).await,
                (Ok(()), _) => {
                    tokio::time::sleep(SETTLED).await;
                    self.see(&step, None).await
                }
            };
            if self.mode == Mode::Compare && text != expected {
                wrong.push_str(&pages::difference(&step.name, &expected, &text));
            }
            said.push((step.name.clone(), text));
        }
        match self.mode {
            Mode::Compare => {}
            Mode::Bless => page.write(&path, None, Some(&said)),
            Mode::Upstream => page.write(&path, Some(&said), None),
        }
        let name = &self.scenario.name;
        (!wrong.is_empty()).then(|| format!("{name}: ours (+) is not what its page says (-):\n{wrong}"))
    }

    async fn carry_out(&mut self, step: &Step) {
        if let Some(fault) = step.fault {
            let fault = if fault == 0 {
                Fault::None
            } else {
                Fault::Status(fault)
            };
            self.server.as_ref().unwrap().set(fault);
        }
        if step.chart || !step.commit.is_empty() {
            let chart = step.chart.then(script::chart).unwrap_or_default();
            let files: Vec<(&str, Option<&str>)> = chart
                .iter()
                .map(|(path, text)| (&**path, Some(&**text)))
                .chain(step.commit.iter().map(|(path, text)| (&**path, text.as_deref())))
                .collect();
            let id = {
                let message = step.message.as_ref().unwrap_or(&step.name);
                self.repository.commit_to(&step.branch, message, &files).unwrap()
            };
            self.mask.commit(&id);
            if let Some(tag) = &step.tag {
                self.repository.tag(tag, &id).unwrap();
            }
        }
        if let Some(ground) = &mut self.ground {
            ground.serve(&step.serve);
        }
        for object in &step.objects {
            self.put(object).await;
        }
        for (of, status) in &step.status {
            let patch = Patch::Merge(json!({ "status": status }));
            let api = self.api(&of.kind);
            api.patch_status(&of.name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
        for of in &step.delete {
            self.api(&of.kind)
                .delete(&of.name, &DeleteParams::background())
                .await
                .unwrap();
        }
    }

    /// Creates an object, or merges it into the existing one.
    async fn put(&self, object: &Object) {
        let mut places = self.ground.as_ref().map(Ground::places).unwrap_or_default();
        places.push(("@url".to_owned(), self.server.as_ref().unwrap().url()));
        let full = |new| {
            let mut object = object.in_full(new, &self.scenario.name, &places);
            for (name, value) in self.labels.as_object().into_iter().flatten() {
                object["metadata"]["labels"][name] = value.clone();
            }
            object
        };
        let name = full(true)["metadata"]["name"].as_str().unwrap().to_owned();
        let api = self.api(full(true)["kind"].as_str().unwrap());
        let params = PatchParams {
            field_manager: Some("somebody".to_owned()),
            ..PatchParams::default()
        };
        match api.get_opt(&name).await.unwrap() {
            Some(_) => drop(
                api.patch(&name, &params, &Patch::Merge(full(false)))
                    .await
                    .unwrap(),
            ),
            None => {
                let object = serde_json::from_value(script::without_nulls(full(true))).unwrap();
                api.create(&PostParams::default(), &object).await.unwrap();
            }
        }
    }

    /// Requests a run of each awaited object, one after the other, and waits.
    async fn reach(&mut self, step: &Step) -> Result<(), String> {
        for until in &step.until {
            let mut token = step.requested(&until.of);
            if step.ask && until.is_ours() {
                self.requests += 1;
                token = Some(format!("request-{}", self.requests));
                let annotation = json!({ "reconcile.fluxcd.io/requestedAt": token });
                let patch = json!({ "metadata": { "annotations": annotation } });
                self.api(&until.of.kind)
                    .patch(&until.of.name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .map_err(|error| error.to_string())?;
            }
            self.reached(until, token.as_deref()).await?;
        }
        Ok(())
    }

    async fn reached(&self, until: &Until, token: Option<&str>) -> Result<(), String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        let api = self.api(&until.of.kind);
        loop {
            let object = api
                .get_opt(&until.of.name)
                .await
                .map_err(|error| error.to_string())?;
            let object = object.map_or(Value::Null, |object| serde_json::to_value(object).unwrap());
            let answered = token.is_none_or(|token| object["status"]["lastHandledReconcileAt"] == token);
            if answered && until.holds(&object) {
                return Ok(());
            }
            if tokio::time::Instant::now() > end {
                return Err(format!(
                    "{until:?} with {token:?}: {}",
                    self.mask.text(&object["status"].to_string())
                ));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The observed state, once it is as expected or the time is over.
    async fn see(&mut self, step: &Step, expected: Option<&[String]>) -> Vec<String> {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            let (text, events) = self.look(step).await;
            let settled = expected.is_none_or(|expected| *expected == text);
            if settled || tokio::time::Instant::now() > end {
                self.reported.extend(events);
                return text;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn look(&self, step: &Step) -> (Vec<String>, Vec<String>) {
        let mut text = Vec::new();
        for until in step
            .until
            .iter()
            .filter(|until| !step.hidden && self.scenario.shows(&until.of.kind))
        {
            text.push(until.of.to_string());
            let object = self.api(&until.of.kind).get_opt(&until.of.name).await.unwrap();
            match object {
                Some(object) if until.is_ours() => {
                    text.extend(self.mask.object(&serde_json::to_value(object).unwrap()));
                }
                Some(_) => text.push("  there".to_owned()),
                None => text.push("  gone".to_owned()),
            }
        }
        let events: Api<Event> = Api::namespaced(self.client.clone(), &self.scenario.name);
        let mut events = events.list(&ListParams::default()).await.unwrap().items;
        // their names end with the time of their creation
        events.sort_by_key(|event| {
            let name = event.metadata.name.as_deref().unwrap_or_default();
            let time = name
                .rsplit_once('.')
                .map(|(_, time)| (time.len(), time.to_owned()));
            // events of two objects have no order
            let about = &event.involved_object;
            (about.kind.clone(), about.name.clone(), time)
        });
        let mut reported: Vec<String> = Vec::new();
        for event in &events {
            let kind = event.involved_object.kind.as_deref().unwrap_or_default();
            let shown = script::has_status(kind) && self.scenario.shows(kind);
            let line = self.mask.event(event);
            // Flux reports each run without a change; how many there are depends on the time
            let is_idle = self.mode == Mode::Upstream && event.reason.as_deref() == Some("ArtifactUpToDate");
            let shown = shown && !(is_idle && self.scenario.is_about_sources);
            if shown && !reported.contains(&line) && !self.reported.contains(&line) {
                reported.push(line);
            }
        }
        text.extend(reported.iter().flat_map(|event| event.lines().map(str::to_owned)));
        (text, reported)
    }

    fn api(&self, kind: &str) -> Api<DynamicObject> {
        let version = script::api_version(kind);
        let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        if script::is_cluster_scoped(kind) {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), &self.scenario.name, &resource)
    }
}
