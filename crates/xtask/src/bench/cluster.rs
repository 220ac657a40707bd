//! Many Kustomizations on a real kube-apiserver with its controllers, all on this machine.
//!
//! The fleet is that of Flux's own benchmark. Each Kustomization waits, prunes, and has an existing
//! target namespace and three substitutions. It applies a ServiceAccount, a Service, a Deployment without
//! replicas and an Ingress. All are directories of one repository, served over HTTP. For comparison, a
//! bare loop measures the API server with the same patches alone.

use super::process::Process;
use super::session::{Counters, PATIENCE, api, counters, read};
use super::steps::{GROUP, grown, wait_for_ready};
use super::{ClusterArgs, fleet::app, releases};
use equate_testkit::git::Repository;
use equate_testkit::real::{Profile, RealCluster};
use futures::{StreamExt, TryStreamExt, stream};
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams, WatchEvent,
    WatchParams,
};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::error::Error;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const HOME: &str = "flux-system";
/// As in Flux's benchmark, and for the bare loop.
pub(super) const AT_ONCE: usize = 20;

const KINDS: [&str; 6] = [
    "deployments",
    "gitrepositories",
    "ingresses",
    "kustomizations",
    "serviceaccounts",
    "services",
];

pub(super) type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub(super) fn run(binary: &Path, args: &ClusterArgs) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut progress = |line: &str| eprintln!("peers: {line}");
        let real = RealCluster::start(Profile::Full, &mut progress).await?;
        let outcome = match args.helm {
            true => releases::steps(binary, args, &real).await,
            false => steps(binary, args, &real).await,
        };
        real.stop().await?;
        outcome
    })
}

async fn steps(binary: &Path, args: &ClusterArgs, real: &RealCluster) -> Outcome {
    let client = real.client()?;
    let count = args.kustomizations;
    furnish(&client, count).await?;
    bare_loop(&client, count).await?;

    let repository = Repository::init()?;
    let files: Vec<(String, String)> = (0..count).flat_map(|number| files(number, "0")).collect();
    let changes: Vec<(&str, Option<&str>)> = files
        .iter()
        .map(|(path, text)| (&**path, Some(&**text)))
        .collect();
    repository.commit(&changes)?;
    let server = repository.serve_http()?.ok_or("git is not installed")?;

    let folder = tempfile::Builder::new().prefix("equate-bench-").tempdir()?;
    let (mut process, metrics) = controllers(binary, args, real, folder.path())?;
    let bench = Bench {
        client,
        count,
        metrics,
    };
    ready_source(&bench.client, &server.url(), &mut process).await?;
    bench.all(&process).await?;
    bench.one_of_many(&repository).await?;
    bench.drift().await?;
    bench.steady(&process, args.steady).await
}

/// Starts `equate controllers`; returns the address of its metrics, too.
pub(super) fn controllers(
    binary: &Path,
    args: &ClusterArgs,
    real: &RealCluster,
    folder: &Path,
) -> Outcome<(Process, http::Uri)> {
    let metrics = format!("127.0.0.1:{}", free_port()?);
    let mut command = Command::new(binary);
    command
        .args(["controllers", "--log-level", "error"])
        .args(["--storage-addr", "127.0.0.1:0", "--egress-allow=127.0.0.0/8"])
        .args(["--metrics-addr", &metrics, "--health-addr", "127.0.0.1:0"])
        .arg("--kubeconfig")
        .arg(real.kubeconfig_path())
        .arg("--storage-path")
        .arg(folder)
        .args(&args.flags)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    let process = Process::start(&mut command)?;
    Ok((process, format!("http://{metrics}/metrics").parse()?))
}

/// Creates the source and waits for its artifact.
pub(super) async fn ready_source(client: &Client, url: &str, process: &mut Process) -> Outcome {
    let sources = api(client, "source.toolkit.fluxcd.io", "v1", "GitRepository", HOME);
    let source = object(json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": { "name": "fleet" },
        "spec": { "url": url, "interval": "1h", "ref": { "branch": "main" } },
    }))?;
    sources.create(&PostParams::default(), &source).await?;
    let begun = Instant::now();
    loop {
        let found = sources.get("fleet").await?;
        if found.data.pointer("/status/artifact").is_some() {
            return Ok(());
        }
        if let Some(status) = process.ended()? {
            return Err(format!("`equate controllers` ended: {status}").into());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("the source is not ready: {}", found.data["status"]).into());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A running `equate controllers` and its cluster.
struct Bench {
    client: Client,
    count: usize,
    metrics: http::Uri,
}

impl Bench {
    async fn all(&self, process: &Process) -> Outcome {
        let kustomizations = self.kustomizations();
        let before = process.cpu().unwrap_or(f64::NAN);
        let asked = requests(&self.client, &KINDS).await?;
        let begun = Instant::now();
        let ready = wait_for_ready(&kustomizations, self.count, None);
        let created = async {
            let all = stream::iter(0..self.count).map(|number| async move {
                let object = kustomization(&app(number))?;
                self.kustomizations()
                    .create(&PostParams::default(), &object)
                    .await?;
                Outcome::Ok(())
            });
            all.buffer_unordered(AT_ONCE).try_collect::<()>().await?;
            Outcome::Ok(begun.elapsed())
        };
        let (ready, created) = futures::join!(ready, created);
        ready?;
        println!(
            "{} Kustomizations of 4 objects: all Ready after {:.1} s (created by then: {:.1} s), {:.1} s of our CPU, \
             peak memory {:.0} MiB",
            self.count,
            begun.elapsed().as_secs_f64(),
            created?.as_secs_f64(),
            process.cpu().unwrap_or(f64::NAN) - before,
            process.peak_memory().unwrap_or(f64::NAN),
        );
        println!(
            "requests meanwhile, of everybody:{}",
            difference(&asked, &requests(&self.client, &KINDS).await?)
        );
        Ok(())
    }

    /// Pushes a change and requests a reconciliation, as a webhook does.
    async fn one_of_many(&self, repository: &Repository) -> Outcome {
        let number = self.count / 2;
        let deployments = api(&self.client, "apps", "v1", "Deployment", &app(number));
        let before = counters(&self.metrics).await.unwrap_or_default();
        let files = files(number, "1");
        let changes: Vec<(&str, Option<&str>)> = files
            .iter()
            .map(|(path, text)| (&**path, Some(&**text)))
            .collect();
        let commit = repository.commit(&changes)?;
        let applied = wait_for(&deployments, "app", |object| {
            object.data.pointer("/spec/template/metadata/annotations/round") == Some(&json!("1"))
        });
        let sources = api(
            &self.client,
            "source.toolkit.fluxcd.io",
            "v1",
            "GitRepository",
            HOME,
        );
        let ask =
            json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": "one of many" } } });
        let begun = Instant::now();
        let patched = async {
            let params = PatchParams::default();
            sources.patch("fleet", &params, &Patch::Merge(&ask)).await?;
            Outcome::Ok(())
        };
        let (patched, applied) = futures::join!(patched, applied);
        patched?;
        applied?;
        let applied = begun.elapsed();
        let revision = format!("main@sha1:{commit}");
        wait_for_ready(&self.kustomizations(), self.count, Some(&revision)).await?;
        let after = counters(&self.metrics).await.unwrap_or_default();
        println!(
            "a commit that touches one of {}: applied {:.0} ms after it was asked for, all at the new revision after \
             {:.0} ms; builds {}",
            self.count,
            applied.as_secs_f64() * 1000.0,
            begun.elapsed().as_secs_f64() * 1000.0,
            grown(&before, &after, "equate_builds_total"),
        );
        Ok(())
    }

    async fn drift(&self) -> Outcome {
        let mut times = super::Times::default();
        for number in 0..self.count.min(20) {
            let services = api(&self.client, "", "v1", "Service", &app(number));
            let by_hand = json!({ "spec": { "ports": [{ "port": 80, "targetPort": 1 }] } });
            let begun = Instant::now();
            services
                .patch("app", &PatchParams::default(), &Patch::Strategic(&by_hand))
                .await?;
            wait_for(&services, "app", |object| {
                object.data.pointer("/spec/ports/0/targetPort") == Some(&json!(8080))
            })
            .await?;
            times.push(begun.elapsed());
        }
        println!("changed by hand to corrected: {times}");
        Ok(())
    }

    async fn steady(&self, process: &Process, seconds: u64) -> Outcome {
        let (before, cpu) = (
            requests(&self.client, &KINDS).await?,
            process.cpu().unwrap_or(f64::NAN),
        );
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let after = requests(&self.client, &KINDS).await?;
        println!(
            "in {seconds} s of steady state: {:.2} s of our CPU; requests for our kinds and the objects:{}",
            process.cpu().unwrap_or(f64::NAN) - cpu,
            difference(&before, &after),
        );
        Ok(())
    }

    fn kustomizations(&self) -> Api<DynamicObject> {
        api(&self.client, GROUP, "v1", "Kustomization", HOME)
    }
}

/// Creates the definitions and the namespaces, and waits for the default objects of each.
pub(super) async fn furnish(client: &Client, count: usize) -> Outcome {
    let definitions = Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk(
            "apiextensions.k8s.io",
            "v1",
            "CustomResourceDefinition",
        )),
    );
    for (_, definition) in equate_api::definitions::generate()? {
        let definition = object(definition)?;
        definitions.create(&PostParams::default(), &definition).await?;
    }
    let namespaces: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Namespace")),
    );
    let names = (0..count).flat_map(|number| [app(number), bare(number)]);
    let names: Vec<String> = names.chain([HOME.to_owned()]).collect();
    let wanted = names.len();
    stream::iter(names)
        .map(|name| {
            let namespaces = namespaces.clone();
            async move {
                let namespace = object(json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name },
                }))?;
                namespaces.create(&PostParams::default(), &namespace).await?;
                Outcome::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    // other default objects of a namespace must not be part of the measurement
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let roots: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let named = ListParams::default().fields("metadata.name=kube-root-ca.crt");
    let begun = Instant::now();
    while roots.list_metadata(&named).await?.items.len() < wanted {
        if begun.elapsed() > PATIENCE {
            return Err(format!("the controllers did not see {wanted} namespaces in {PATIENCE:?}").into());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn bare_loop(client: &Client, count: usize) -> Outcome {
    let params = PatchParams::apply("kustomize-controller").force();
    let mut patches = Vec::new();
    for number in 0..count {
        let namespace = bare(number);
        for mut value in objects(number, "0") {
            value["metadata"]["namespace"] = json!(namespace);
            let text = value
                .to_string()
                .replace("${replicas}", "0")
                .replace("${port}", "8080");
            patches.push((namespace.clone(), text.replace("${host}", &namespace)));
        }
    }
    let (written, begun) = (patches.len(), Instant::now());
    stream::iter(patches)
        .map(|(namespace, text)| {
            let params = &params;
            async move {
                let object: DynamicObject = serde_json::from_str(&text)?;
                let types = object.types.clone().unwrap_or_default();
                let (group, version) = types
                    .api_version
                    .rsplit_once('/')
                    .unwrap_or(("", &types.api_version));
                let api = api(client, group, version, &types.kind, &namespace);
                api.patch("app", params, &Patch::Apply(&object)).await?;
                Outcome::Ok(())
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    println!(
        "a bare loop of the same {written} patches: {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

pub(super) fn bare(number: usize) -> String {
    format!("bare-{number:04}")
}

fn files(number: usize, round: &str) -> [(String, String); 2] {
    let name = app(number);
    let documents: Vec<String> = objects(number, round).iter().map(Value::to_string).collect();
    let kustomization = json!({
        "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": ["objects.yaml"],
    });
    [
        (
            format!("apps/{name}/kustomization.yaml"),
            kustomization.to_string(),
        ),
        (format!("apps/{name}/objects.yaml"), documents.join("\n---\n")),
    ]
}

fn objects(number: usize, round: &str) -> [Value; 4] {
    let name = app(number);
    let labels = json!({ "app.kubernetes.io/name": name });
    [
        json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "app", "labels": labels } }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": { "name": "app", "labels": labels },
            "spec": {
                "selector": labels,
                "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080 }],
            },
        }),
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": { "name": "app", "labels": labels, "annotations": { "port": "at-${port}" } },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels, "annotations": { "round": round } },
                    "spec": {
                        "serviceAccountName": "app",
                        "containers": [{
                            "name": "app",
                            "image": "registry.invalid/app:1",
                            "env": [{ "name": "REPLICAS", "value": "r${replicas}" }],
                            "ports": [{ "name": "http", "containerPort": 8080, "protocol": "TCP" }],
                            "resources": {
                                "requests": { "cpu": "100m", "memory": "64Mi" },
                                "limits": { "memory": "512Mi" },
                            },
                        }],
                    },
                },
            },
        }),
        json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": { "name": "app", "labels": labels },
            "spec": { "rules": [{
                "host": "${host}.example.org",
                "http": { "paths": [{
                    "path": "/",
                    "pathType": "Prefix",
                    "backend": { "service": { "name": "app", "port": { "name": "http" } } },
                }] },
            }] },
        }),
    ]
}

fn kustomization(name: &str) -> Outcome<DynamicObject> {
    object(json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": "Kustomization",
        "metadata": { "name": name },
        "spec": {
            "interval": "1h",
            "path": format!("./apps/{name}"),
            "prune": true,
            "wait": true,
            "timeout": "5m",
            "targetNamespace": name,
            "sourceRef": { "kind": "GitRepository", "name": "fleet" },
            "postBuild": { "substitute": { "replicas": "0", "port": "8080", "host": name } },
        },
    }))
}

pub(super) fn object(value: Value) -> Outcome<DynamicObject> {
    Ok(serde_json::from_value(value)?)
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

pub(super) async fn wait_for(
    objects: &Api<DynamicObject>,
    name: &str,
    passes: impl Fn(&DynamicObject) -> bool,
) -> Outcome {
    let selector = format!("metadata.name={name}");
    let list = objects.list(&ListParams::default().fields(&selector)).await?;
    if list.items.iter().any(&passes) {
        return Ok(());
    }
    let last = list.metadata.resource_version.unwrap_or_default();
    let params = WatchParams::default().fields(&selector);
    let mut events = objects.watch(&params, &last).await?.boxed();
    let found = async {
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event
                && passes(&object)
            {
                return Ok(());
            }
        }
        Err("the watch ended".into())
    };
    let waited = tokio::time::timeout(PATIENCE, found).await;
    waited.map_err(|_elapsed| format!("{name} did not reach the expected state"))?
}

/// The API server's request counts for these resources, by verb and resource.
pub(super) async fn requests(client: &Client, kinds: &[&str]) -> Outcome<Counters> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let page = read(&client.request_text(request).await?);
    let mut sums = Counters::new();
    for (name, value) in page {
        let Some(labels) = name.strip_prefix("apiserver_request_total{") else {
            continue;
        };
        let label = |of: &str| {
            let rest = labels.split(&format!("{of}=\"")).nth(1)?;
            rest.split('"').next()
        };
        let (Some(verb), Some(kind)) = (label("verb"), label("resource")) else {
            continue;
        };
        if kinds.contains(&kind) && verb != "WATCH" {
            let part = label("subresource").filter(|part| !part.is_empty());
            let part = part.map_or_else(String::new, |part| format!("/{part}"));
            *sums.entry(format!("{verb} {kind}{part}")).or_default() += value;
        }
    }
    Ok(sums)
}

/// The increase: a line each, or that there was none.
pub(super) fn difference(before: &Counters, after: &Counters) -> String {
    let lines = after.keys().map(|name| (name, grown(before, after, name)));
    let lines: Vec<String> = lines
        .filter(|(_, count)| *count > 0.0)
        .map(|(name, count)| format!("\n  {name} {count}"))
        .collect();
    match lines.is_empty() {
        true => " none".to_owned(),
        false => lines.concat(),
    }
}
