//! `cargo xtask baseline records`: release records made by real helms.
//!
//! helm 4 and helm 3 run a small chart through its life on the embedded API; their objects go to
//! `crates/helm/tests/golden/records.jsonl`. Times are those of the run: nothing is compared.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use equate_testkit::cluster::Cluster;
use equate_testkit::peers::{self, KubectlVersion};
use serde_json::{Value, json};

const RECORDS: &str = "../helm/tests/golden/records.jsonl";

const CHART: [(&str, &str); 7] = [
    (
        "Chart.yaml",
        "apiVersion: v2\nname: small\nversion: 1.2.3+build\nappVersion: '7'\nannotations: {a: '<b>'}\n\
         maintainers: [{name: M, email: m@example.com}]\n",
    ),
    (
        "values.yaml",
        "size: 1\nshare: 0.5\nname: \"a\\tb\"\nnested: {list: [1, null, {a: true}]}\n",
    ),
    ("values.schema.json", "{\"type\": \"object\"}\n"),
    ("README.md", "# Small\n"),
    (
        "templates/map.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\n\
         data: {size: {{ .Values.size | quote }}, revision: {{ .Release.Revision | quote }}}\n",
    ),
    (
        "templates/hook.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-hook\n  annotations:\n    \
         helm.sh/hook: pre-install,pre-upgrade\n    helm.sh/hook-weight: \"-5\"\n    \
         helm.sh/hook-delete-policy: before-hook-creation\n    \
         helm.sh/hook-output-log-policy: hook-failed\n",
    ),
    ("templates/NOTES.txt", "Size {{ .Values.size }} & more.\n"),
];

/// The life of a release: arguments after its name and the chart.
const LIFE: [&[&str]; 5] = [
    &["install", "one", "CHART", "--set", "size=2", "--labels", "team=x"],
    &[
        "upgrade",
        "one",
        "CHART",
        "--set-json",
        "nested={\"a\":1e3}",
        "--description",
        "larger",
    ],
    &["rollback", "one", "1"],
    &["install", "two", "CHART"],
    &["uninstall", "two", "--keep-history"],
];

pub(crate) fn run() -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut lines = String::new();
    for (version, driver) in [
        (KubectlVersion::V1_37, "secret"),
        (KubectlVersion::V1_31, "secret"),
        (KubectlVersion::V1_37, "configmap"),
    ] {
        let clients = peers::kubectl(version, &mut |line| eprintln!("peers: {line}"))?;
        let cluster = runtime.block_on(Cluster::named("embedded", &mut |_| {}))?;
        let left = live(&clients, cluster.kubeconfig(), driver);
        runtime.block_on(cluster.stop())?;
        for object in left? {
            lines.push_str(&serde_json::to_string(&object)?);
            lines.push('\n');
        }
    }
    Ok(fs::write(
        Path::new(env!("CARGO_MANIFEST_DIR")).join(RECORDS),
        lines,
    )?)
}

fn live(clients: &peers::Clients, kubeconfig: &Path, driver: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let chart = folder.path().join("small");
    for (name, text) in CHART {
        let path = chart.join(name);
        fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
        fs::write(path, text)?;
    }
    let run = |program: &Path, arguments: &[&str]| -> Result<Vec<u8>, Box<dyn Error>> {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(folder.path())
            .env_clear()
            .env("HOME", folder.path())
            .env("HELM_DRIVER", driver)
            .env("KUBECONFIG", kubeconfig)
            .output()?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(format!("{arguments:?}: {}", String::from_utf8_lossy(&output.stderr)).into()),
        }
    };
    for step in LIFE {
        let arguments: Vec<&str> = step
            .iter()
            .map(|argument| if *argument == "CHART" { "small" } else { argument })
            .collect();
        run(&clients.helm, &arguments)?;
    }
    let list = run(
        &clients.kubectl,
        &["get", driver, "-l", "owner=helm", "-o", "json"],
    )?;
    let list: Value = serde_json::from_slice(&list)?;
    let objects = list["items"].as_array().ok_or("kubectl lists nothing")?;
    Ok(objects.iter().map(record).collect())
}

fn record(object: &Value) -> Value {
    let metadata = &object["metadata"];
    let mut record = json!({
        "apiVersion": object["apiVersion"],
        "kind": object["kind"],
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": metadata["labels"],
        },
        "data": object["data"],
    });
    if let Some(kind) = object.get("type") {
        record["type"] = kind.clone();
    }
    record
}
