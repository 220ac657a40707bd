//! Many HelmReleases of one chart on a real kube-apiserver with its controllers, all on this machine.
//!
//! The chart has the shape that `helm create` makes: a ServiceAccount, a Service, a Deployment without replicas, and
//! values with a test. It is a directory of one GitRepository. For comparison, a bare loop sends the requests that a
//! release needs at least: the record, three patches, and the outcome in the record.

use std::path::Path;
use std::time::{Duration, Instant};

use equate_testkit::git::Repository;
use equate_testkit::real::RealCluster;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use super::ClusterArgs;
use super::cluster::{
    AT_ONCE, HOME, Outcome, bare, controllers, difference, furnish, object, ready_source, requests, wait_for,
};
use super::fleet::app;
use super::process::Process;
use super::session::api;
use super::steps::wait_for_ready;

const KINDS: [&str; 8] = [
    "deployments",
    "gitrepositories",
    "helmcharts",
    "helmreleases",
    "jobs",
    "secrets",
    "serviceaccounts",
    "services",
];
/// About the bytes of such a release's record.
const RECORD_BYTES: usize = 6_000;

pub(super) async fn steps(binary: &Path, args: &ClusterArgs, real: &RealCluster) -> Outcome {
    let client = real.client()?;
    furnish(&client, args.releases).await?;
    bare_loop(&client, args.releases).await?;
    let repository = Repository::init()?;
    let files = chart();
    let changes: Vec<(&str, Option<&str>)> = files.iter().map(|(path, text)| (*path, Some(*text))).collect();
    repository.commit(&changes)?;
    let server = repository.serve_http()?.ok_or("git is not installed")?;
    let folder = tempfile::Builder::new().prefix("equate-bench-").tempdir()?;
    let (mut process, _) = controllers(binary, args, real, folder.path())?;
    ready_source(&client, &server.url(), &mut process).await?;
    let bench = Bench {
        client,
        count: args.releases,
    };
    bench.all(&process).await?;
    bench.one_of_many().await?;
    bench.drift().await?;
    bench.steady(&process, args.steady).await
}

struct Bench {
    client: Client,
    count: usize,
}

impl Bench {
    fn releases(&self) -> Api<DynamicObject> {
        api(&self.client, "helm.toolkit.fluxcd.io", "v2", "HelmRelease", HOME)
    }

    async fn all(&self, process: &Process) -> Outcome {
        let releases = self.releases();
        let before = process.cpu().unwrap_or(f64::NAN);
        let asked = requests(&self.client, &KINDS).await?;
        let begun = Instant::now();
        let ready = wait_for_ready(&releases, self.count, None);
        let created = stream::iter(0..self.count).map(|number| {
            let releases = self.releases();
            async move {
                let release = object(release(&app(number)))?;
                releases.create(&PostParams::default(), &release).await?;
                Outcome::Ok(())
            }
        });
        let created = created.buffer_unordered(AT_ONCE).try_collect::<()>();
        let (ready, created) = futures::join!(ready, created);
        ready?;
        created?;
        println!(
            "{} HelmReleases of 3 objects: all Ready after {:.1} s, {:.1} s of our CPU, peak memory {:.0} MiB",
            self.count,
            begun.elapsed().as_secs_f64(),
            process.cpu().unwrap_or(f64::NAN) - before,
            process.peak_memory().unwrap_or(f64::NAN),
        );
        println!(
            "requests meanwhile, of everybody:{}",
            difference(&asked, &requests(&self.client, &KINDS).await?)
        );
        Ok(())
    }

    /// Changes the values of one release.
    async fn one_of_many(&self) -> Outcome {
        let name = app(self.count / 2);
        let deployments = api(&self.client, "apps", "v1", "Deployment", &name);
        let asked = requests(&self.client, &KINDS).await?;
        let applied = wait_for(&deployments, "app", |object| {
            object.data.pointer("/spec/template/metadata/annotations/round") == Some(&json!("1"))
        });
        let change = json!({ "spec": { "values": { "round": "1" } } });
        let releases = self.releases();
        let begun = Instant::now();
        let patched = async {
            let params = PatchParams::default();
            releases.patch(&name, &params, &Patch::Merge(&change)).await?;
            Outcome::Ok(())
        };
        let (patched, applied) = futures::join!(patched, applied);
        patched?;
        applied?;
        println!(
            "a change of the values of one: applied after {:.0} ms",
            begun.elapsed().as_secs_f64() * 1000.0
        );
        wait_for(&releases, &name, |release| {
            let history = release.data.pointer("/status/history").and_then(Value::as_array);
            let newest = history.and_then(|history| history.first());
            newest.is_some_and(|newest| newest["version"] == 2 && newest["status"] == "deployed")
        })
        .await?;
        println!(
            "requests meanwhile, of everybody:{}",
            difference(&asked, &requests(&self.client, &KINDS).await?)
        );
        Ok(())
    }

    async fn drift(&self) -> Outcome {
        let mut times = super::Times::default();
        for number in 0..self.count.min(20) {
            let services = api(&self.client, "", "v1", "Service", &app(number));
            let by_hand = json!({ "spec": { "ports": [{ "port": 80, "targetPort": 1 }] } });
            let begun = Instant::now();
            let params = PatchParams::default();
            services
                .patch("app", &params, &Patch::Strategic(&by_hand))
                .await?;
            wait_for(&services, "app", |object| {
                object.data.pointer("/spec/ports/0/targetPort") == Some(&json!("http"))
            })
            .await?;
            times.push(begun.elapsed());
        }
        println!("changed by hand to corrected: {times}");
        Ok(())
    }

    async fn steady(&self, process: &Process, seconds: u64) -> Outcome {
        // the corrections are reported
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = requests(&self.client, &KINDS).await?;
        let cpu = process.cpu().unwrap_or(f64::NAN);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        println!(
            "in {seconds} s of steady state: {:.2} s of our CPU; requests for our kinds and the objects:{}",
            process.cpu().unwrap_or(f64::NAN) - cpu,
            difference(&before, &requests(&self.client, &KINDS).await?),
        );
        Ok(())
    }
}

fn release(name: &str) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "metadata": { "name": name, "namespace": HOME },
        "spec": {
            "interval": "1h",
            "releaseName": "app",
            "targetNamespace": name,
            "storageNamespace": name,
            "driftDetection": { "mode": "enabled" },
            "chart": { "spec": {
                "chart": "./charts/app",
                "sourceRef": { "kind": "GitRepository", "name": "fleet" },
            } },
            "values": { "replicaCount": 0, "round": "0" },
        },
    })
}

/// The files of the chart.
fn chart() -> [(&'static str, &'static str); 6] {
    [
        (
            "charts/app/Chart.yaml",
            "apiVersion: v2\nname: app\ndescription: A chart of the benchmark\ntype: application\nversion: 0.1.0\n\
             appVersion: \"1.16.0\"\n",
        ),
        (
            "charts/app/values.yaml",
            "replicaCount: 1\nround: \"0\"\nimage:\n  repository: registry.invalid/app\n  tag: \"\"\n\
             serviceAccount:\n  create: true\nservice:\n  type: ClusterIP\n  port: 80\nresources: {}\n\
             nodeSelector: {}\ntolerations: []\naffinity: {}\n",
        ),
        (
            "charts/app/templates/_names.tpl",
            "{{- define \"app.labels\" -}}\nhelm.sh/chart: {{ printf \"%s-%s\" .Chart.Name .Chart.Version | quote }}\n\
             {{ include \"app.selector\" . }}\napp.kubernetes.io/version: {{ .Chart.AppVersion | quote }}\n\
             app.kubernetes.io/managed-by: {{ .Release.Service }}\n{{- end }}\n\
             {{- define \"app.selector\" -}}\napp.kubernetes.io/name: {{ .Chart.Name }}\n\
             app.kubernetes.io/instance: {{ .Release.Name }}\n{{- end }}\n",
        ),
        (
            "charts/app/templates/account.yaml",
            "{{- if .Values.serviceAccount.create }}\napiVersion: v1\nkind: ServiceAccount\nmetadata:\n  \
             name: {{ .Release.Name }}\n  labels:\n    {{- include \"app.labels\" . | nindent 4 }}\n{{- end }}\n",
        ),
        (
            "charts/app/templates/service.yaml",
            "apiVersion: v1\nkind: Service\nmetadata:\n  name: {{ .Release.Name }}\n  labels:\n    \
             {{- include \"app.labels\" . | nindent 4 }}\nspec:\n  type: {{ .Values.service.type }}\n  ports:\n  \
             - port: {{ .Values.service.port }}\n    targetPort: http\n    protocol: TCP\n    name: http\n  selector:\n    \
             {{- include \"app.selector\" . | nindent 4 }}\n",
        ),
        (
            "charts/app/templates/deployment.yaml",
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {{ .Release.Name }}\n  labels:\n    \
             {{- include \"app.labels\" . | nindent 4 }}\nspec:\n  replicas: {{ .Values.replicaCount }}\n  selector:\n    \
             matchLabels:\n      {{- include \"app.selector\" . | nindent 6 }}\n  template:\n    metadata:\n      \
             annotations:\n        round: {{ .Values.round | quote }}\n      labels:\n        \
             {{- include \"app.labels\" . | nindent 8 }}\n    spec:\n      serviceAccountName: {{ .Release.Name }}\n      \
             containers:\n      - name: {{ .Chart.Name }}\n        image: \"{{ .Values.image.repository }}:{{ \
             .Values.image.tag | default .Chart.AppVersion }}\"\n        ports:\n        - name: http\n          \
             containerPort: 80\n          protocol: TCP\n        {{- with .Values.resources }}\n        resources:\n          \
             {{- toYaml . | nindent 10 }}\n        {{- end }}\n",
        ),
    ]
}

async fn bare_loop(client: &Client, count: usize) -> Outcome {
    let begun = Instant::now();
    stream::iter(0..count)
        .map(|number| bare_release(client, bare(number)))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    println!(
        "a bare loop of {count} times the record, 3 patches and the outcome: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

async fn bare_release(client: &Client, namespace: String) -> Outcome {
    let labels = json!({ "app.kubernetes.io/name": "app", "app.kubernetes.io/instance": "app" });
    let metadata = json!({ "name": "app", "namespace": namespace, "labels": labels });
    let record = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
        "metadata": { "name": "sh.helm.release.v1.app.v1", "namespace": namespace },
        "stringData": { "release": "a".repeat(RECORD_BYTES) },
    });
    let secrets = api(client, "", "v1", "Secret", &namespace);
    let stored = secrets.create(&PostParams::default(), &object(record)?).await?;
    let params = PatchParams::apply("helm-controller").force();
    for (group, kind, spec) in [
        ("", "ServiceAccount", Value::Null),
        (
            "",
            "Service",
            json!({ "selector": labels, "ports": [{ "name": "http", "port": 80, "targetPort": "http" }] }),
        ),
        (
            "apps",
            "Deployment",
            json!({
                "replicas": 0, "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "serviceAccountName": "app",
                        "containers": [{
                            "name": "app", "image": "registry.invalid/app:1",
                            "ports": [{ "name": "http", "containerPort": 80 }],
                        }],
                    },
                },
            }),
        ),
    ] {
        let version = if group.is_empty() { "v1" } else { "apps/v1" };
        let mut value = json!({ "apiVersion": version, "kind": kind, "metadata": metadata });
        if !spec.is_null() {
            value["spec"] = spec;
        }
        let kinds = api(client, group, "v1", kind, &namespace);
        kinds
            .patch("app", &params, &Patch::Apply(&object(value)?))
            .await?;
    }
    let name = stored.metadata.name.clone().unwrap_or_default();
    let labelled = json!({ "metadata": { "labels": { "status": "deployed" } } });
    secrets
        .patch(&name, &PatchParams::default(), &Patch::Merge(&labelled))
        .await?;
    Ok(())
}
