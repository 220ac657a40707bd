//! Releases and the real helm, 4.3 and 3.17, on the embedded API. Helm lists, shows, rolls back, upgrades
//! and uninstalls our records; its records survive our reading and writing unchanged.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_helm::cache::Cache;
use equate_helm::capabilities::Capabilities;
use equate_helm::engine;
use equate_helm::release::{
    ApplyMethod, Driver, Info, RecordedChart, Release, Stamp, Status, Summary, from_object, to_object,
};
use equate_helm::{Chart, Limits, listing, render};
use equate_template::Seeded;
use equate_testkit::cluster::Cluster;
use equate_testkit::peers::{self, Clients, KubectlVersion};
use flate2::read::GzDecoder;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

const CHART: [(&str, &str); 8] = [
    (
        "Chart.yaml",
        "apiVersion: v2\nname: small\nversion: 1.2.3+build\nappVersion: '7'\nannotations: {a: '<b>'}\n",
    ),
    (
        "values.yaml",
        "size: 1\ncolor: red\nbad: false\nnested: {list: [1, null, {a: true}]}\n",
    ),
    ("values.schema.json", "{\"type\": \"object\"}\n"),
    ("README.md", "# Small\n"),
    (
        "templates/_names.tpl",
        "{{ define \"name\" }}{{ .Release.Name }}-map{{ end }}\n",
    ),
    (
        "templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ include \"name\" . }}}\n\
         data: {size: {{ .Values.size | quote }}, revision: {{ .Release.Revision | quote }}}\n\
         {{- if .Values.bad }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: Not_A_Name}\n{{- end }}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations:\n    \
         helm.sh/hook: pre-install,pre-upgrade,pre-rollback\n    helm.sh/hook-weight: \"-5\"\n    \
         helm.sh/hook-delete-policy: before-hook-creation\n",
    ),
    ("templates/NOTES.txt", "Have <{{ .Values.size }}> & more.\n"),
];

fn release(chart: &Path, version: u64, status: Status) -> Release {
    let chart = Chart::from_path(chart, &Limits::default()).unwrap();
    let config = json!({"size": version + 1, "share": 0.5})
        .as_object()
        .unwrap()
        .clone();
    let request = render::Request {
        chart: &chart,
        values: &config,
        release: &engine::Release {
            name: "mine".to_owned(),
            namespace: "default".to_owned(),
            revision: i64::try_from(version).unwrap(),
            is_upgrade: version > 1,
        },
        capabilities: &Capabilities::default(),
        skip_schema: false,
        subchart_notes: false,
    };
    let world = Box::new(Seeded::new(b"releases", 1_700_000_000_000_000_000));
    let limits = equate_template::Limits::default();
    let rendered = render::render(request, &Cache::default(), world, limits).unwrap();
    Release {
        name: "mine".to_owned(),
        info: Info {
            first_deployed: Some("2026-01-02T03:04:05.000000006Z".into()),
            last_deployed: Some(format!("2026-01-02T03:04:0{version}Z").into()),
            description: "Upgrade complete".to_owned(),
            status,
            notes: rendered.notes,
            ..Info::default()
        },
        chart: Some(RecordedChart::of(&rendered.chart).unwrap()),
        manifest: listing::manifest(&[], &rendered.sorted.manifests).into(),
        hooks: rendered.sorted.hooks,
        config,
        version,
        namespace: "default".to_owned(),
        apply_method: Some(ApplyMethod::ServerSide),
        labels: [("team".to_owned(), "x".to_owned())].into(),
    }
}

/// The real programs, in a folder with the chart and a clean environment.
struct HelmClient<'c> {
    clients: &'c Clients,
    kubeconfig: &'c Path,
    home: TempDir,
}

impl<'c> HelmClient<'c> {
    fn new(clients: &'c Clients, kubeconfig: &'c Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in CHART {
            let path = home.path().join("small").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self {
            clients,
            kubeconfig,
            home,
        }
    }

    async fn run(&self, program: &Path, arguments: &str, input: &str) -> Result<String, String> {
        let mut child = Command::new(program)
            .args(arguments.split(' '))
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("KUBECONFIG", self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(input.as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    async fn helm(&self, arguments: &str) -> String {
        let output = self.run(&self.clients.helm, arguments, "").await;
        output.unwrap_or_else(|error| panic!("helm {arguments}: {error}"))
    }

    async fn helm_fails(&self, arguments: &str) -> String {
        let output = self.run(&self.clients.helm, arguments, "").await;
        match output {
            Err(said) => said,
            Ok(printed) => panic!("helm {arguments}: {printed}"),
        }
    }

    async fn helm_json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.helm(&format!("{arguments} -o json")).await).unwrap()
    }

    async fn kubectl(&self, arguments: &str, input: &str) -> String {
        let output = self.run(&self.clients.kubectl, arguments, input).await;
        output.unwrap_or_else(|error| panic!("kubectl {arguments}: {error}"))
    }

    async fn kubectl_json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("{arguments} -o json"), "").await).unwrap()
    }

    async fn records(&self, namespace: &str) -> BTreeMap<(String, u64), Value> {
        let list = self
            .kubectl_json(&format!("get secret -l owner=helm -n {namespace}"))
            .await;
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|object| {
                let summary = Summary::of(object).unwrap();
                ((summary.name, summary.version), object.clone())
            })
            .collect()
    }

    async fn shown(&self, name: &str) -> Vec<String> {
        let mut all = vec![self.helm(&format!("history {name} -o json")).await];
        for revision in self
            .helm_json(&format!("history {name}"))
            .await
            .as_array()
            .unwrap()
        {
            let revision = &revision["revision"];
            for what in ["get all", "get metadata"] {
                all.push(self.helm(&format!("{what} {name} --revision {revision}")).await);
            }
        }
        all
    }
}

/// Runs with both helms, each with its own cluster; skipped unless real peers are enabled.
async fn with_each_helm(check: impl AsyncFn(&HelmClient<'_>)) {
    if let Err(skip) = peers::wanted() {
        println!("{}", skip.0);
        return;
    }
    for version in KubectlVersion::ALL {
        let mut progress = |line: &str| eprintln!("peers: {line}");
        let clients = match peers::available(peers::kubectl(version, &mut progress)).unwrap() {
            Ok(clients) => clients,
            Err(skip) => {
                println!("{}", skip.0);
                return;
            }
        };
        let cluster = Cluster::named("embedded", &mut progress).await.unwrap();
        let client = HelmClient::new(&clients, cluster.kubeconfig());
        println!("with {}", client.helm("version --short").await.trim());
        check(&client).await;
        cluster.stop().await.unwrap();
    }
}

#[tokio::test]
async fn helm_goes_on_with_what_equate_recorded() {
    with_each_helm(async |client| {
        let chart = client.home.path().join("small");
        let first = release(&chart, 1, Status::Superseded);
        let second = release(&chart, 2, Status::Deployed);
        for release in [&first, &second] {
            let object = to_object(release, Driver::Secret, "default", Stamp::Created(1_700_000_000));
            client.kubectl("create -f -", &object.unwrap().to_string()).await;
        }
        let apply = "apply --server-side --field-manager=helm -f -";
        client.kubectl(apply, &second.manifest).await;
        is_shown(client, &second).await;
        is_what_helm_records(client, &first).await;
        is_rolled_back(client, &first).await;

        client.helm("upgrade mine small --set size=9").await;
        assert_eq!(live_size(client).await, "9");
        client.helm("uninstall mine --keep-history").await;
        let records = client.records("default").await;
        let last = from_object(&records[&("mine".to_owned(), 4)]).unwrap();
        assert_eq!(last.info.status, Status::Uninstalled);
        assert!(last.info.deleted.is_some());
        let gone = client
            .kubectl("get configmap mine-map --ignore-not-found", "")
            .await;
        assert_eq!(gone, "");
    })
    .await;
}

async fn is_shown(client: &HelmClient<'_>, second: &Release) {
    let listed = &client.helm_json("list").await[0];
    let keys = ["name", "namespace", "revision", "status", "chart", "app_version"];
    assert_eq!(
        keys.map(|key| listed[key].clone()),
        ["mine", "default", "2", "deployed", "small-1.2.3+build", "7"].map(Value::from)
    );
    let history = client.helm_json("history mine").await;
    let statuses: Vec<_> = history
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["status"])
        .collect();
    assert_eq!(statuses, ["superseded", "deployed"]);
    let status = client.helm_json("status mine").await;
    assert_eq!(status["info"]["notes"], "Have <3> & more.\n");
    assert_eq!(
        client.helm_json("get values mine").await,
        json!({"size": 3, "share": 0.5})
    );
    assert_eq!(
        client.helm_json("get values mine --all --revision 1").await,
        json!({"size": 2, "share": 0.5, "color": "red", "bad": false, "nested": {"list": [1, null, {"a": true}]}})
    );
    let manifest = client.helm("get manifest mine").await;
    assert_eq!(manifest.trim_end(), second.manifest.trim_end());
    let notes = client.helm("get notes mine").await;
    assert!(notes.contains("Have <3> & more."), "{notes}");
    let hooks = client.helm("get hooks mine").await;
    assert!(hooks.contains("# Source: small/templates/hook.yaml\n"), "{hooks}");
    let all = client.helm("get all mine").await;
    assert!(all.contains("CHART: small") && all.contains("size: 3"), "{all}");
}

async fn is_what_helm_records(client: &HelmClient<'_>, ours: &Release) {
    client.kubectl("create namespace other", "").await;
    client
        .helm("install mine small -n other --set-json size=2 --set-json share=0.5 --labels team=x")
        .await;
    let records = client.records("other").await;
    let helms = from_object(&records[&("mine".to_owned(), 1)]).unwrap();
    let common = |release: &Release| {
        let mut record = serde_json::to_value(release).unwrap();
        record["info"] = json!({ "notes": record["info"]["notes"] });
        // helm 3 trims manifests
        let trimmed = |text: &Value| Value::from(text.as_str().unwrap().trim_end());
        record["manifest"] = trimmed(&record["manifest"]);
        for hook in record["hooks"].as_array_mut().unwrap() {
            hook["last_run"] = Value::Null;
            hook["manifest"] = trimmed(&hook["manifest"]);
        }
        // helm 3 does not know the fields of 4
        let record = record.as_object_mut().unwrap();
        record.retain(|key, _| !["namespace", "apply_method"].contains(&key.as_str()));
        let chart = record["chart"].as_object_mut().unwrap();
        chart.retain(|key, _| !["modtime", "schemamodtime"].contains(&key.as_str()));
        for files in ["templates", "files"] {
            for file in chart[files].as_array_mut().unwrap() {
                file.as_object_mut().unwrap().remove("modtime");
            }
        }
        (record.clone(), release.labels.clone())
    };
    // Go writes 1.0 as 1
    let object = to_object(ours, Driver::Secret, "default", Stamp::Created(1));
    let ours = from_object(&object.unwrap()).unwrap();
    assert_eq!(common(&ours), common(&helms));
}

async fn is_rolled_back(client: &HelmClient<'_>, first: &Release) {
    assert_eq!(live_size(client).await, "3");
    client.helm("rollback mine 1").await;
    assert_eq!(live_size(client).await, "2");
    let records = client.records("default").await;
    let releases: Vec<Release> = records
        .values()
        .map(|object| from_object(object).unwrap())
        .collect();
    let seen: Vec<_> = releases
        .iter()
        .map(|release| (release.version, release.info.status.as_str()))
        .collect();
    assert_eq!(seen, [(1, "superseded"), (2, "superseded"), (3, "deployed")]);
    let third = &releases[2];
    assert_eq!(third.info.description, "Rollback to 1");
    assert_eq!((&third.manifest, &third.config), (&first.manifest, &first.config));
    assert_eq!(third.labels, first.labels);
    // helm 3 has no such times
    let chart = |release: &Release| RecordedChart {
        schema_modified: None,
        ..release.chart.clone().unwrap()
    };
    assert!(chart(third) == chart(&releases[0]), "{}", third.version);
    assert_eq!(third.hooks[0].last_run.phase.as_str(), "Succeeded");
    records.values().for_each(is_written_as_it_was);
}

async fn live_size(client: &HelmClient<'_>) -> String {
    let map = client.kubectl_json("get configmap mine-map").await;
    map["data"]["size"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn equate_keeps_what_helm_recorded() {
    with_each_helm(async |client| {
        client.helm("install one small --labels team=x").await;
        client
            .helm("upgrade one small --set-json nested={\"a\":1e3} --description larger")
            .await;
        let told = client.helm_fails("upgrade one small --set bad=true").await;
        assert!(told.contains("Not_A_Name"), "{told}");
        client.helm("rollback one 1").await;
        client.helm_fails("install two small --set bad=true").await;
        client.helm("install three small").await;
        client.helm("uninstall three --keep-history").await;

        let records = client.records("default").await;
        let seen: Vec<_> = records
            .iter()
            .map(|((name, version), object)| {
                let status = from_object(object).unwrap().info.status;
                format!("{name} {version} {status}")
            })
            .collect();
        assert_eq!(
            seen,
            [
                "one 1 superseded",
                "one 2 superseded",
                "one 3 failed",
                "one 4 deployed",
                "three 1 uninstalled",
                "two 1 failed"
            ]
        );
        let names = ["one", "two", "three"];
        let mut before = Vec::new();
        for name in names {
            before.push(client.shown(name).await);
        }
        for object in records.values() {
            is_written_as_it_was(object);
            client.kubectl("replace -f -", &again(object).to_string()).await;
        }
        for (name, before) in names.iter().zip(before) {
            assert_eq!(client.shown(name).await, before);
        }
        client.helm("rollback one 2").await;
        client.helm("rollback three 1").await;
        client.helm("upgrade two small --reset-values").await;
        let listed = client.helm_json("list").await;
        let statuses: Vec<_> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|release| (&release["name"], &release["status"]))
            .map(|(name, status)| format!("{name} {status}"))
            .collect();
        assert_eq!(
            statuses,
            names_of(["one", "three", "two"]),
            "what helm does with records that were written again"
        );
    })
    .await;
}

fn names_of(names: [&str; 3]) -> [String; 3] {
    names.map(|name| format!("\"{name}\" \"deployed\""))
}

/// An object with a record that was read and encoded again.
fn again(object: &Value) -> Value {
    let release = from_object(object).unwrap();
    let metadata = &object["metadata"];
    let seconds = |label: &str| metadata["labels"][label].as_str()?.parse().ok();
    let stamp = match seconds("createdAt") {
        Some(seconds) => Stamp::Created(seconds),
        None => Stamp::Modified(seconds("modifiedAt").unwrap()),
    };
    let namespace = metadata["namespace"].as_str().unwrap();
    to_object(&release, Driver::Secret, namespace, stamp).unwrap()
}

/// A record that is read and written again has the same content.
fn is_written_as_it_was(object: &Value) {
    let again = again(object);
    for part in ["name", "namespace"] {
        assert_eq!(again["metadata"][part], object["metadata"][part]);
    }
    assert_eq!(labels(&again), labels(object));
    assert_eq!(again["type"], object["type"]);
    assert_eq!(plain(&again), plain(object));
}

/// An object's labels without stamps: helm keeps both stamps of a record written before it was
/// superseded.
fn labels(object: &Value) -> Map<String, Value> {
    let mut labels = object["metadata"]["labels"].as_object().unwrap().clone();
    labels.retain(|label, _| !["createdAt", "modifiedAt"].contains(&label.as_str()));
    labels
}

fn plain(object: &Value) -> Value {
    let data = STANDARD
        .decode(object["data"]["release"].as_str().unwrap())
        .unwrap();
    let compressed = STANDARD.decode(data).unwrap();
    let mut text = String::new();
    GzDecoder::new(compressed.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    // Helm 3 writes missing times as empty texts; Helm 4 omits them
    let is_said = |value: &Value| *value != "";
    let info = record["info"].as_object_mut().unwrap();
    info.retain(|_, value| is_said(value));
    for hook in record["hooks"].as_array_mut().unwrap() {
        let run = hook["last_run"].as_object_mut().unwrap();
        run.retain(|key, value| key == "phase" || is_said(value));
    }
    record
}
