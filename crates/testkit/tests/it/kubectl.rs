//! kubectl 1.37 and 1.31 against the embedded API and the real one.
//!
//! Both run the same commands in the same order with an empty discovery cache. Exit code, stdout and
//! stderr must be equal after normalisation, except for the reasons in `tests/ratchet/kubectl.jsonl`.
//! `explain` is compared without descriptions, which the embedded schemas do not have.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use equate_testkit::cluster::Cluster;
use equate_testkit::eventually::eventually;
use equate_testkit::peers::{self, KubectlVersion};
use equate_testkit::replay::compare::{Difference, texts};
use equate_testkit::replay::ratchet::{self, Outcomes};
use regex::Regex;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;
use tokio::time::Instant;

use crate::peer::real_cluster;

const DEPLOYMENT: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: c, image: "nginx:1", ports: [{containerPort: 80}]}
"#;

const BUNDLE: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: front}}
data: {color: blue, size: "3"}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 80}]
---
apiVersion: v1
kind: Secret
metadata: {name: token}
stringData: {key: value}
"#;

const CHANGED: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {tier: front}}
data: {color: red}
"#;

const DEFINITION: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.kubectl.equate.dev}
spec:
  group: kubectl.equate.dev
  scope: Namespaced
  names: {plural: lamps, singular: lamp, kind: Lamp, shortNames: [lp]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    additionalPrinterColumns:
    - {name: Watts, type: integer, jsonPath: .spec.watts}
    - {name: Color, type: string, jsonPath: .spec.color, priority: 1}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            required: [watts]
            properties:
              watts: {type: integer, maximum: 100}
              color: {type: string, default: warm}
          status:
            type: object
            properties: {on: {type: boolean}}
"#;

const LAMP: &str = r#"
apiVersion: kubectl.equate.dev/v1
kind: Lamp
metadata: {name: desk}
spec: {watts: 5}
"#;

const BAD_LAMP: &str = r#"
apiVersion: kubectl.equate.dev/v1
kind: Lamp
metadata: {name: sun}
spec: {watts: 500}
"#;

const UNKNOWN_FIELD: &str = r#"
apiVersion: v1
kind: ConfigMap
metadata: {name: odd}
data: {a: b}
colour: red
"#;

/// The deadline for asynchronous work of a server on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

type Line = (&'static str, &'static str);

const COMMANDS: &[Line] = &[
    ("create -f -", DEPLOYMENT),
    ("create -f -", DEPLOYMENT),
    ("apply -f -", BUNDLE),
    ("apply -f -", BUNDLE),
    ("get deployment", ""),
    ("get deployment web -o wide", ""),
    ("get deployment,service,configmap,secret -l tier=front", ""),
    ("get deploy/web -o yaml", ""),
    ("get deploy/web -o json", ""),
    (
        "get deploy web -o jsonpath={.spec.template.spec.containers[*].image}",
        "",
    ),
    ("get deploy web -o name", ""),
    (
        "get deploy web -o custom-columns=N:.metadata.name,R:.spec.replicas",
        "",
    ),
    ("get configmap settings -o go-template={{.data.color}}", ""),
    ("get configmap -o wide", ""),
    ("get configmap --show-labels", ""),
    ("get configmap -L tier", ""),
    ("get configmap -A -l tier=front", ""),
    ("get configmap -l tier!=front,tier", ""),
    ("get configmap -l tier=none", ""),
    ("get configmap --field-selector metadata.name=settings", ""),
    ("get configmap --field-selector data.x=1", ""),
    ("get configmap settings -o yaml --show-managed-fields", ""),
    ("get configmap --chunk-size=1 -l tier", ""),
    ("get configmap settings nothing", ""),
    ("get nothing", ""),
    ("get nothing.example.com", ""),
    ("get secret token -o jsonpath={.data.key}", ""),
    ("get service web", ""),
    ("get svc -o wide", ""),
    ("get namespaces", ""),
    ("get serviceaccounts", ""),
    ("get pods", ""),
    ("get all", ""),
    ("apply --server-side -f -", CHANGED),
    ("apply --server-side --force-conflicts -f -", CHANGED),
    ("apply --server-side --field-manager=other -f -", CHANGED),
    ("apply --server-side --dry-run=server -f -", CHANGED),
    ("apply --dry-run=server -f -", BUNDLE),
    ("apply --dry-run=client -f -", BUNDLE),
    ("apply -f -", UNKNOWN_FIELD),
    ("apply --validate=warn -f -", UNKNOWN_FIELD),
    ("apply --server-side -f -", UNKNOWN_FIELD),
    ("diff -f -", BUNDLE),
    ("diff --server-side -f -", CHANGED),
    ("label configmap settings team=a", ""),
    ("label configmap settings team=b", ""),
    ("label configmap settings team=b --overwrite", ""),
    ("label configmap settings team-", ""),
    ("label configmap --all all=yes", ""),
    ("annotate deploy web note=hello", ""),
    ("annotate deploy web note-", ""),
    ("patch deploy web -p {\"spec\":{\"replicas\":3}}", ""),
    ("patch deploy web --type=merge -p {\"spec\":{\"replicas\":4}}", ""),
    (
        "patch deploy web --type=json -p [{\"op\":\"replace\",\"path\":\"/spec/replicas\",\"value\":5}]",
        "",
    ),
    (
        "patch deploy web --type=json -p [{\"op\":\"test\",\"path\":\"/spec/replicas\",\"value\":1}]",
        "",
    ),
    (
        "patch deploy web --subresource=status --type=merge -p {\"status\":{\"replicas\":5}}",
        "",
    ),
    ("patch deploy web -p {\"spec\":{\"replicas\":\"x\"}}", ""),
    ("scale deploy web --replicas=1", ""),
    (
        "wait --for=jsonpath={.spec.replicas}=1 deploy/web --timeout=30s",
        "",
    ),
    ("wait --for=condition=Available deploy/web --timeout=3s", ""),
    ("get configmap settings -w --request-timeout=4s", ""),
    (
        "get configmap -w --output-watch-events --request-timeout=4s -l tier=front",
        "",
    ),
    ("apply -f -", DEFINITION),
    (
        "wait --for=condition=Established crd/lamps.kubectl.equate.dev --timeout=30s",
        "",
    ),
    ("get crd lamps.kubectl.equate.dev", ""),
    ("api-resources --api-group=kubectl.equate.dev", ""),
    ("apply -f -", LAMP),
    ("apply -f -", BAD_LAMP),
    ("get lamps", ""),
    ("get lp -o wide", ""),
    ("get lamp desk -o yaml", ""),
    ("patch lamp desk --type=merge -p {\"spec\":{\"watts\":7}}", ""),
    ("patch lamp desk -p {\"spec\":{\"watts\":7}}", ""),
    (
        "patch lamp desk --subresource=status --type=merge -p {\"status\":{\"on\":true}}",
        "",
    ),
    ("explain lamp.spec", ""),
    ("explain deployment", ""),
    ("explain deployment.spec.strategy", ""),
    ("explain pod.spec.containers.ports", ""),
    ("explain configmap --recursive", ""),
    ("explain nothing", ""),
    ("explain deployment.nothing", ""),
    ("api-resources --api-group=apps", ""),
    ("api-resources --api-group=batch -o wide", ""),
    (
        "api-resources --namespaced=false --api-group=rbac.authorization.k8s.io",
        "",
    ),
    ("api-resources --api-group= --verbs=watch", ""),
    ("get --raw /version", ""),
    ("get --raw /api/v1/namespaces/default", ""),
    ("get --raw /apis/apps/v1", ""),
    ("get --raw /nothing", ""),
    ("get configmap --as=alice", ""),
    ("delete lamp desk", ""),
    ("delete crd lamps.kubectl.equate.dev", ""),
    ("delete configmap settings nothing", ""),
    ("delete -f -", DEPLOYMENT),
    ("delete deployment web --ignore-not-found", ""),
    ("delete secret token --cascade=orphan --wait=false", ""),
    ("delete service --all", ""),
    ("delete configmap --dry-run=server -l all=yes", ""),
];

#[derive(Debug, PartialEq, Eq)]
struct Outcome {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

struct Shell<'a> {
    kubectl: &'a Path,
    kubeconfig: &'a Path,
    namespace: &'a str,
    home: &'a Path,
}

impl Shell<'_> {
    async fn run(&self, line: &str, stdin: &str) -> Outcome {
        let mut child = Command::new(self.kubectl)
            .args(["--namespace", self.namespace])
            .args(line.split(' '))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.home)
            .env("TMPDIR", self.home)
            .env("KUBECONFIG", self.kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // a command that does not read closes the pipe, which is no failure
        let _ = input.write_all(stdin.as_bytes()).await;
        drop(input);
        let output = child.wait_with_output().await.unwrap();
        let explain = line.starts_with("explain");
        let text = |bytes: &[u8]| normal(&String::from_utf8_lossy(bytes), explain);
        Outcome {
            code: output.status.code(),
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
        }
    }
}

/// Masks values that differ between servers. Column widths depend on values, so runs of spaces count as
/// one.
fn normal(text: &str, explain: bool) -> String {
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
        (
            r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z| [+-]\d{4})?",
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
        (r"(?m)(^|\s)(\d+[smhd])+(\s|$)", "$1<age>$3"),
        (r"\b[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ ", "<log> "),
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
    if explain {
        let kept = Regex::new(r"^(KIND|GROUP|VERSION|RESOURCE|FIELD|FIELDS|error|Error)|<.*>( -required-)?$")
            .unwrap();
        text = text
            .lines()
            .filter(|line| kept.is_match(line) && !matches!(line.trim(), "<empty>" | "<no description>"))
            .collect::<Vec<_>>()
            .join("\n");
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
    let namespace = format!("kubectl-{}", version.number().replace('.', "-"));
    let (left_home, right_home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for cluster in [expected, actual] {
        make_namespace(cluster, &namespace).await;
    }
    let left = Shell {
        kubectl: &clients.kubectl,
        kubeconfig: expected.kubeconfig(),
        namespace: &namespace,
        home: left_home.path(),
    };
    let right = Shell {
        kubectl: &clients.kubectl,
        kubeconfig: actual.kubeconfig(),
        namespace: &namespace,
        home: right_home.path(),
    };
    for (step, (line, stdin)) in COMMANDS.iter().enumerate() {
        let run = async || tokio::join!(left.run(line, stdin), right.run(line, stdin));
        let (mut expected, mut actual) = run().await;
        let end = Instant::now() + DEADLINE;
        while is_published(line) && expected != actual && Instant::now() < end {
            (expected, actual) = run().await;
        }
        outcomes.note_as(&namespace, step, line, expected.compare(&actual));
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
