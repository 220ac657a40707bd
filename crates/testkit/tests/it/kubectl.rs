//! kubectl 1.37 and 1.31 against the embedded API and the real one.
//!
//! Both run the same commands in the same order with an empty discovery cache. Exit code, stdout and
//! stderr must be equal after normalisation, except for the reasons in `tests/ratchet/kubectl.jsonl`.
//! `tests/kubectl` has the commands and the files that they read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_testkit::cluster::Cluster;
use equate_testkit::eventually::eventually;
use equate_testkit::peers::{self, KubectlVersion};
use equate_testkit::replay::compare::{Difference, texts};
use equate_testkit::replay::ratchet::{self, Outcomes};
use regex::Regex;
use tokio::process::Command;
use tokio::time::Instant;

use crate::peer::real_cluster;

/// The deadline for asynchronous work of a server on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// The files of `tests/kubectl`, in the order in which they run: later ones use objects of earlier ones.
const GROUPS: [&str; 13] = [
    "objects", "create", "set", "rollout", "auth", "events", "explain", "patch", "prune", "drain",
    "describe", "more", "security",
];

/// The list may only grow.
const COMMANDS_MIN: usize = 620;

/// A command without `kubectl`; `< FILE` at its end is its standard input.
struct Line {
    command: String,
    input: Option<String>,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kubectl")
}

fn lines(group: &str) -> Vec<Line> {
    let text = std::fs::read_to_string(folder().join(format!("{group}.txt"))).unwrap();
    let line = |line: &str| match line.rsplit_once(" < ") {
        Some((command, input)) => Line {
            command: command.to_owned(),
            input: Some(input.to_owned()),
        },
        None => Line {
            command: line.to_owned(),
            input: None,
        },
    };
    text.lines().map(line).collect()
}

/// The files that commands read, by name; both homes get the same.
fn inputs(namespace: &str) -> BTreeMap<String, String> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder().join("input")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&path).unwrap();
        files.insert(name, text.replace("$NAMESPACE", namespace));
    }
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["web.example.com".to_owned()]).unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    let request = serde_json::json!({
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": { "name": "kubectl-csr" },
        "spec": {
            "request": STANDARD.encode(request),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    });
    files.insert("csr.yaml".to_owned(), request.to_string());
    files.insert("tls.crt".to_owned(), params.self_signed(&key).unwrap().pem());
    files.insert("tls.key".to_owned(), key.serialize_pem());
    files
}

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

struct Shell {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    namespace: String,
    home: PathBuf,
}

impl Shell {
    async fn run(&self, line: &Line) -> Outcome {
        let command = line.command.replace("$NAMESPACE", &self.namespace);
        let stdin = match &line.input {
            Some(name) => Stdio::from(std::fs::File::open(self.home.join(name)).unwrap()),
            None => Stdio::null(),
        };
        let output = Command::new(&self.kubectl)
            .args(["--namespace", &self.namespace])
            .args(command.split(' '))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", &self.home)
            .env("TMPDIR", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("KUBECTL_APPLYSET", "true")
            .current_dir(&self.home)
            .stdin(stdin)
            .output()
            .await
            .unwrap();
        let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes));
        let mut stdout = text(&output.stdout);
        if command.starts_with("describe service ") {
            stdout = without_events(&stdout);
        }
        Outcome {
            code: output.status.code(),
            stdout,
            stderr: in_order(&text(&output.stderr)),
        }
    }
}

/// `kubectl set env --from` names the keys that it renames in no order.
fn in_order(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.iter().any(|line| line.starts_with("Warning: key ")) {
        lines.sort_unstable();
    }
    lines.join("\n")
}

/// Controllers of the real server write Events about Services at any time.
fn without_events(text: &str) -> String {
    let events = Regex::new(r"(?m)^Events:.*\n([ \t]+.*\n?)*").unwrap();
    events.replace_all(text, "Events: <masked>\n").into_owned()
}

/// Masks values that differ between servers. Column widths depend on values, so runs of spaces count as
/// one.
fn normal(text: &str) -> String {
    // `get --raw` prints the server's bytes, whose key order is undefined
    let json = serde_json::from_str::<serde_json::Value>(text)
        .ok()
        .filter(|value| !value.is_string());
    let text = &json.map_or(text.to_owned(), |value| format!("{value:#}"));
    let rules = [
        (
            r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "<uid>",
        ),
        // tokens, before anything in them is masked
        (r"\beyJ[\w-]+\.[\w-]+\.[\w-]+", "<token>"),
        (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "<ts>"),
        (r"\bgenerated-[a-z0-9]{5}\b", "generated-<suffix>"),
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4}( UTC)?)?",
            "<ts>",
        ),
        (r#"("?resourceVersion"?: ?")\d+""#, "$1<rv>\""),
        (
            r#"("(?:gitVersion|gitCommit|goVersion|compiler|platform)": ?")[^"]*""#,
            "$1<build>\"",
        ),
        (r"127\.0\.0\.1:\d+", "127.0.0.1:<port>"),
        (r"\b10\.\d+\.\d+\.\d+\b", "<ip>"),
        (r"/\S*/(LIVE|MERGED)-\d+", "<$1>"),
        (r"(?m)(^|\s)(\d+[smhdy])+([\s)]|$)", "$1<age>$3"),
        (r"(nodePort: |:)3[0-2]\d{3}\b", "$1<node port>"),
        (r"\b[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
        (r"Resource Version: +\d+", "Resource Version: <rv>"),
        // the user of the kubeconfig
        (r"\bkubernetes-admin\b", "admin"),
        (r" +", " "),
        (r"(?m) $", ""),
    ];
    let mut text = text.to_owned();
    for (pattern, replacement) in rules {
        text = Regex::new(pattern)
            .unwrap()
            .replace_all(&text, replacement)
            .into_owned();
    }
    text
}

/// Creates a namespace and waits for its default objects, which commands list too.
async fn make_namespace(cluster: &Cluster, name: &str) {
    let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let request = http::Request::post("/api/v1/namespaces")
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body.to_string().into_bytes())
        .unwrap();
    let client = cluster.client().unwrap();
    client.request_text(request).await.unwrap();
    for awaited in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{name}/{awaited}");
        let get = async || {
            let request = http::Request::get(&path).body(Vec::new()).unwrap();
            client.request_text(request).await
        };
        eventually(awaited, DEADLINE, get).await;
    }
}

/// Whether a command reads what a server publishes some time after a new kind is established: its
/// resource list and schema.
fn is_published(line: &str) -> bool {
    line.starts_with("api-resources --api-group=kubectl") || line.starts_with("explain lamp")
}

impl Outcome {
    fn compare(&self, actual: &Outcome) -> Vec<Difference> {
        let code = |outcome: &Outcome| format!("{:?}", outcome.code);
        [
            texts("exit code", &code(self), &code(actual)),
            texts("stdout", &self.stdout, &actual.stdout),
            texts("stderr", &self.stderr, &actual.stderr),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

async fn compare(version: KubectlVersion, expected: &Cluster, actual: &Cluster, outcomes: &mut Outcomes) {
    let clients = peers::kubectl(version, &mut |line: &str| println!("peers: {line}")).unwrap();
    let main = format!("kubectl-{}", version.number().replace('.', "-"));
    // controllers of the real server write Events about Services at any time
    let quiet = format!("{main}-events");
    let (left_home, right_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for cluster in [expected, actual] {
        make_namespace(cluster, &main).await;
        make_namespace(cluster, &quiet).await;
    }
    // the older client differs in few requests: the first group has them
    let groups = match version {
        KubectlVersion::V1_37 => &GROUPS[..],
        KubectlVersion::V1_31 => &GROUPS[..1],
    };
    for group in groups {
        let scenario = format!("{main} {group}");
        let namespace = if *group == "events" { &quiet } else { &main };
        let shell = |cluster: &'_ Cluster, home: &'_ Path| Shell {
            kubectl: clients.kubectl.clone(),
            kubeconfig: cluster.kubeconfig().to_owned(),
            namespace: namespace.clone(),
            home: home.to_owned(),
        };
        let (left, right) = (
            shell(expected, left_home.path()),
            shell(actual, right_home.path()),
        );
        let files = inputs(namespace);
        for home in [&left_home, &right_home] {
            for (name, text) in &files {
                std::fs::write(home.path().join(name), text).unwrap();
            }
        }
        for (step, line) in lines(group).iter().enumerate() {
            let run = async || tokio::join!(left.run(line), right.run(line));
            let (mut expected, mut actual) = run().await;
            let end = Instant::now() + DEADLINE;
            while is_published(&line.command) && expected != actual && Instant::now() < end {
                (expected, actual) = run().await;
            }
            outcomes.note_as(&scenario, step, &line.command, expected.compare(&actual));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn kubectl_cannot_tell_them_apart() {
    let Some(real) = real_cluster().await else { return };
    let embedded = Cluster::named("embedded", &mut |_: &str| {}).await.unwrap();
    let mut outcomes = Outcomes::default();
    for version in KubectlVersion::ALL {
        compare(version, &real, &embedded, &mut outcomes).await;
    }
    let list = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ratchet/kubectl.jsonl");
    let summary = outcomes
        .judge(&ratchet::load(&list).unwrap(), &[])
        .unwrap_or_else(|report| panic!("{report}"));
    println!("{summary:?}: {:.1} % equal", summary.percent());
    embedded.stop().await.unwrap();
    real.stop().await.unwrap();
}

#[test]
fn events_of_services_are_masked() {
    let described = [
        "Name: a\nEvents: <none>\n\nName: b\nEvents: <none>\n",
        "Name: a\nEvents:\n Type Reason\n ---- ------\n Warning Repair\n\nName: b\nEvents: <none>\n",
    ];
    for text in described {
        let masked = "Name: a\nEvents: <masked>\n\nName: b\nEvents: <masked>\n";
        assert_eq!(without_events(text), masked);
    }
}

#[test]
fn kubectl_commands_name_files_that_exist() {
    let mut commands = 0;
    let mut made = inputs("n");
    for line in GROUPS.iter().flat_map(|group| lines(group)) {
        commands += 1;
        if let Some(input) = &line.input {
            assert!(made.contains_key(input), "{} < {input}", line.command);
        }
    }
    assert!(commands >= COMMANDS_MIN, "{commands} commands are left");
    // those that are made here are no manifests of a person
    for name in ["csr.yaml", "tls.crt", "tls.key"] {
        assert!(made.remove(name).is_some());
    }
}
