//! The example of `docs/write-a-controller.md` as a process: a program that adds one controller for a kind of
//! its own.

use std::path::{Path, PathBuf};

use equate_controllers::kit::lease::name as lease_name;
use equate_testkit::cluster::Cluster;
use equate_testkit::eventually::{established, eventually};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, Config};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::session::{DEADLINE, Process, in_directory, printed};

const NAMESPACE: &str = "default";
const GREETING: &str = "world";

/// The example, which cargo builds with the tests.
fn example() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let example = test
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/write_a_controller");
    assert!(
        example.is_file(),
        "{} is not built: cargo build -p equate-cli --example write_a_controller",
        example.display()
    );
    example
}

struct Place {
    client: Client,
    cluster: Cluster,
    folder: TempDir,
}

impl Place {
    async fn start() -> Self {
        let cluster = Cluster::named("embedded", &mut |_| ()).await.unwrap();
        let place = Self {
            client: cluster.client().unwrap(),
            cluster,
            folder: tempfile::tempdir().unwrap(),
        };
        let printed = in_directory(&example(), place.folder.path(), &["--crd"])
            .output()
            .unwrap();
        let definition: CustomResourceDefinition = serde_json::from_slice(&printed.stdout).unwrap();
        let definitions: Api<CustomResourceDefinition> = Api::all(place.client.clone());
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
        let name = definition.metadata.name.unwrap();
        established(&place.client, &name, DEADLINE).await;
        place
    }

    fn greetings(&self) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("example.equate.dev", "v1", "Greeting");
        let resource = ApiResource::from_gvk_with_plural(&kind, "greetings");
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// Starts the program, which reconciles Greetings once it has their controller's Lease.
    fn run(&self) -> Process {
        let mut command = in_directory(&example(), self.folder.path(), &["controllers", "--kubeconfig"]);
        command.arg(self.cluster.kubeconfig()).args([
            "--controllers=greeting-controller",
            "--enable-leader-election",
            "--namespace=default",
            "--storage-path=data",
            "--storage-addr=127.0.0.1:0",
            "--metrics-addr=127.0.0.1:0",
            "--health-addr=0",
        ]);
        Process::start(&mut command, self.folder.path().join("log"))
    }

    fn run_command(&self, words: &str) -> String {
        let words: Vec<&str> = words.split_whitespace().collect();
        let output = in_directory(&example(), self.folder.path(), &words)
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig())
            .output()
            .unwrap();
        match output.status.success() {
            true => String::from_utf8(output.stdout).unwrap(),
            false => printed(&output),
        }
    }

    async fn greeted(&self, greeting: &str) {
        let look = async || {
            let object = self.greetings().get(GREETING).await;
            let status = object.map_err(|error| error.to_string())?.data["status"].take();
            let ready = status["conditions"][0]["status"] == "True";
            let greeted = ready && status["greeting"] == greeting;
            greeted.then_some(()).ok_or_else(|| status.to_string())
        };
        eventually(&format!("the status has {greeting:?}"), DEADLINE, look).await;
    }
}

async fn metrics_address(process: &Process) -> http::Uri {
    let look = async || {
        let log = process.log();
        let mut lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let found = lines.find(|line| line["msg"] == "listening" && line["what"] == "metrics");
        let address = found.and_then(|line| line["address"].as_str().map(str::to_owned));
        address.ok_or(log)
    };
    let address = eventually("the log has the metrics address", DEADLINE, look).await;
    format!("http://{address}").parse().unwrap()
}

async fn scrape(address: &http::Uri) -> String {
    // an HTTP client that is among the dependencies already
    let client = Client::try_from(Config::new(address.clone())).unwrap();
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    client.request_text(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kind_that_a_program_adds_is_a_kind_of_every_command() {
    let place = Place::start().await;
    let greeting = json!({
        "apiVersion": "example.equate.dev/v1",
        "kind": "Greeting",
        "metadata": { "name": GREETING, "namespace": NAMESPACE },
        "spec": { "name": "Mia" },
    });
    let greeting: DynamicObject = serde_json::from_value(greeting).unwrap();
    place
        .greetings()
        .create(&PostParams::default(), &greeting)
        .await
        .unwrap();
    let before = "
NAME    GREETING   SUSPENDED   READY     MESSAGE
world              False       Unknown   waiting to be reconciled
";
    assert_eq!(place.run_command("get greetings -n default"), before.trim_start());

    let process = place.run();
    place.greeted("hello, Mia").await;
    let leases: Api<Lease> = Api::namespaced(place.client.clone(), NAMESPACE);
    let lease = leases.get(&lease_name("greeting-controller", &[])).await.unwrap();
    assert!(lease.spec.unwrap().holder_identity.is_some());

    let after = "
NAME    GREETING     SUSPENDED   READY   MESSAGE
world   hello, Mia   False       True    hello, Mia
";
    for kind in [
        "greetings",
        "greeting",
        "Greeting",
        "hello",
        "greetings world",
        "hello/world",
    ] {
        assert_eq!(
            place.run_command(&format!("get {kind} -n default")),
            after.trim_start(),
            "{kind}"
        );
    }
    let page = include_str!("../../../../docs/write-a-controller.md");
    for line in place.run_command("get greetings -A").lines() {
        assert!(
            page.contains(&format!("\n    {line}\n")),
            "the page does not show {line:?}"
        );
    }
    let all = place.run_command("get all -n default");
    assert!(all.contains("greeting/world   hello, Mia"), "{all}");

    // its interval is ten minutes
    let change = Patch::Merge(json!({ "spec": { "name": "Ada" } }));
    place
        .greetings()
        .patch(GREETING, &PatchParams::default(), &change)
        .await
        .unwrap();
    place.greeted("hello, Ada").await;
    assert_eq!(
        place.run_command("reconcile hello world -n default"),
        "greeting/world is ready: hello, Ada\n"
    );
    let refused = place.run_command("suspend hello world -n default");
    assert!(refused.contains("a Greeting cannot be suspended"), "{refused}");

    events_are_those_of_its_controller(&place).await;
    series_are_those_of_its_kind(&process).await;
    process.terminate();
    let status = process.ended().await;
    assert!(status.success(), "{status}");
}

async fn events_are_those_of_its_controller(place: &Place) {
    let events: Api<Event> = Api::namespaced(place.client.clone(), NAMESPACE);
    let about = ListParams::default().fields("involvedObject.kind=Greeting");
    let look = async || {
        let list = events.list(&about).await.map_err(|error| error.to_string())?;
        let shown = |name: &str| {
            list.items.iter().any(|event| {
                event.reporting_component.as_deref() == Some("greeting-controller")
                    && event.reason.as_deref() == Some("Succeeded")
                    && event.message.as_deref() == Some(&format!("hello, {name}"))
            })
        };
        let all = shown("Mia") && shown("Ada");
        all.then_some(()).ok_or_else(|| format!("{:?}", list.items))
    };
    eventually("an event tells of each greeting", DEADLINE, look).await;
    let listed = place.run_command("events --for greeting/world -n default");
    assert!(listed.contains("Greeting/world   hello, Ada"), "{listed}");
}

async fn series_are_those_of_its_kind(process: &Process) {
    let text = scrape(&metrics_address(process).await).await;
    for series in [
        "gotk_reconcile_duration_seconds_count{kind=\"Greeting\",name=\"world\",namespace=\"default\"} ",
        "controller_runtime_reconcile_total{controller=\"greeting\",result=\"success\"} ",
        "controller_runtime_reconcile_time_seconds_count{controller=\"greeting\"} ",
        "controller_runtime_max_concurrent_reconciles{controller=\"greeting\"} 8",
        "workqueue_work_duration_seconds_count{controller=\"greeting\",name=\"greeting\"} ",
        "workqueue_queue_duration_seconds_count{controller=\"greeting\",name=\"greeting\"} ",
        "workqueue_depth{name=\"greeting\"} 0",
        "leader_election_master_status{name=\"greeting-controller-leader-election\"} 1",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(series)),
            "no {series} in\n{text}"
        );
    }
    assert!(!text.contains("kustomization"), "it does not run here:\n{text}");
}

#[test]
fn unknown_controller_is_refused_with_the_choices() {
    let refused = in_directory(
        &example(),
        Path::new("."),
        &["controllers", "--controllers=greeter"],
    )
    .output()
    .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let text = printed(&refused);
    assert!(
        text.contains("possible values: source-controller, kustomize-controller, helm-controller, source-watcher, greeting-controller"),
        "{text}"
    );
}

#[test]
fn manifests_have_the_account_and_the_rights_of_an_added_controller() {
    let words = [
        "install",
        "--export",
        "--image=greeting:1",
        "--components=greeting-controller",
    ];
    let output = in_directory(&example(), Path::new("."), &words).output().unwrap();
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    let documents: Vec<&str> = text.split("---\n").collect();
    let of = |kind: &str, name: &str| {
        let parts = [format!("\nkind: {kind}\n"), format!("\n  name: {name}\n")];
        let mut found = documents
            .iter()
            .filter(|text| parts.iter().all(|part| text.contains(part)));
        found.next().copied()
    };
    assert!(of("ServiceAccount", "greeting-controller").is_some(), "{text}");
    assert!(
        of("ServiceAccount", "source-controller").is_none(),
        "it does not run"
    );
    let rights = of("ClusterRole", "equate-controllers-flux-system").unwrap();
    let rule = "- apiGroups:\n  - example.equate.dev\n  resources:\n  - '*'\n  verbs:\n  - get\n  - list\n  - watch\n  - patch\n";
    assert!(rights.contains(rule), "{rights}");
    let pod = of("Deployment", "equate").unwrap();
    assert!(pod.contains("serviceAccountName: greeting-controller\n"), "{pod}");
    assert!(!text.contains("cluster-admin"), "{text}");
}
