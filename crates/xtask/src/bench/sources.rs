//! Many OCIRepositories and many HelmCharts of one large index, with `equate api` as the cluster.
//!
//! The registry and the chart repository are on loopback, and count their requests.

use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use equate_testkit::registry::{RegistryOptions, RegistryServer};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

use super::SourcesArgs;
use super::process::Process;
use super::session::{PATIENCE, api};
use crate::hostile::archive;

const SOURCE: &str = "source.toolkit.fluxcd.io";
const HOME: &str = "sources";
const AT_ONCE: usize = 20;
const MIB: usize = 1 << 20;
/// The validator of the index: an unchanged one is answered with 304.
const ETAG: &str = "\"one\"";
const HEAD_BYTES_MAX: usize = 64 << 10;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

pub(super) fn run(binary: &Path, args: &SourcesArgs) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    runtime.block_on(steps(binary, args))
}

async fn steps(binary: &Path, args: &SourcesArgs) -> Outcome {
    Bench::start(binary, args).await?.alone(args).await?;
    let bench = Bench::start(binary, args).await?;
    let registry = RegistryServer::start(RegistryOptions::default())?;
    bench.registry(args, &registry).await?;
    bench.charts(args).await
}

fn quiet(binary: &Path) -> Command {
    let mut command = Command::new(binary);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit());
    command
}

async fn connect(kubeconfig: &Path, process: &mut Process) -> Outcome<Client> {
    let begun = Instant::now();
    while !kubeconfig.is_file() {
        if let Some(status) = process.ended()? {
            return Err(format!("`equate api` ended: {status}").into());
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("no {} in {PATIENCE:?}", kubeconfig.display()).into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}

fn whole(client: &Client, group: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
    Api::all_with(client.clone(), &resource)
}

async fn furnish(client: &Client) -> Outcome {
    let definitions = whole(client, "apiextensions.k8s.io", "CustomResourceDefinition");
    for (_, definition) in equate_api::definitions::generate()? {
        let definition: DynamicObject = serde_json::from_value(definition)?;
        definitions.create(&PostParams::default(), &definition).await?;
    }
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": HOME } });
    let namespaces = whole(client, "", "Namespace");
    namespaces
        .create(&PostParams::default(), &serde_json::from_value(namespace)?)
        .await?;
    Ok(())
}

struct Bench {
    client: Client,
    controllers: Process,
    interval: String,
    // last: the others use them
    _cluster: Process,
    _folder: tempfile::TempDir,
}

impl Bench {
    /// An empty cluster with controllers.
    async fn start(binary: &Path, args: &SourcesArgs) -> Outcome<Self> {
        let folder = tempfile::Builder::new().prefix("equate-bench-").tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = quiet(binary);
        command
            .args(["api", "--port", "0", "--kubeconfig"])
            .arg(&kubeconfig);
        let mut cluster = Process::start(&mut command)?;
        let client = connect(&kubeconfig, &mut cluster).await?;
        furnish(&client).await?;
        let mut command = quiet(binary);
        command
            .args(["controllers", "--log-level", "error"])
            .args(["--storage-addr", "127.0.0.1:0", "--health-addr", "127.0.0.1:0"])
            .args([
                "--metrics-addr",
                "127.0.0.1:0",
                "--egress-allow=127.0.0.0/8,::1/128",
            ])
            .arg(format!("--helm-index-max-size={}", 2 * args.index_mib * MIB))
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--storage-path")
            .arg(folder.path().join("data"));
        Ok(Bench {
            client,
            controllers: Process::start(&mut command)?,
            interval: format!("{}s", args.interval),
            _cluster: cluster,
            _folder: folder,
        })
    }

    /// One chart of a large index, in a process that has served nothing else.
    async fn alone(&self, args: &SourcesArgs) -> Outcome {
        let server = ChartServer::start(args.index_mib * MIB, args.charts)?;
        let url = format!("http://{}", server.address);
        let source = json!({ "kind": "HelmRepository", "name": "r0" });
        let spec = json!({ "chart": "c0", "version": "1.0.0", "sourceRef": source });
        let chart = self.object("HelmChart", 0, spec);
        println!("one chart of an index of {:.1} MiB:", server.counts.index_mib());
        let repository = self.object("HelmRepository", 0, json!({ "url": url }));
        self.controllers.reset_peak()?;
        self.create(repository).await?;
        self.create(chart).await?;
        self.ready("HelmChart", 1).await?;
        println!(
            "all Ready after {} requests, peak memory {:.0} MiB, then {:.0} MiB",
            server.counts.take(),
            self.controllers.peak_memory().unwrap_or(f64::NAN),
            self.controllers.memory().unwrap_or(f64::NAN),
        );
        Ok(())
    }

    async fn registry(&self, args: &SourcesArgs, registry: &RegistryServer) -> Outcome {
        let layer = archive::of(&[("a.yaml", "a: 1\n")])?;
        let media_type = "application/vnd.cncf.flux.content.v1.tar+gzip";
        registry.artifact("apps/a", "1.0.0", &[(media_type, &layer)], &[]);
        registry.take();
        let all = (0..args.repositories)
            .map(|number| {
                let url = format!("oci://{}/apps/a", registry.authority());
                self.object(
                    "OCIRepository",
                    number,
                    json!({ "url": url, "insecure": true, "ref": { "tag": "1.0.0" } }),
                )
            })
            .collect();
        let requests = || registry.take().len();
        self.measure("OCIRepository", all, &requests, args.steady).await
    }

    async fn charts(&self, args: &SourcesArgs) -> Outcome {
        let server = ChartServer::start(args.index_mib * MIB, args.charts)?;
        let url = format!("http://{}", server.address);
        let repository = self.object("HelmRepository", 0, json!({ "url": url }));
        self.create(repository).await?;
        let all = (0..args.charts)
            .map(|number| {
                let source = json!({ "kind": "HelmRepository", "name": "r0" });
                let spec = json!({ "chart": format!("c{number}"), "version": "1.0.0", "sourceRef": source });
                self.object("HelmChart", number, spec)
            })
            .collect();
        let requests = || server.counts.take();
        println!("an index of {:.1} MiB:", server.counts.index_mib());
        self.measure("HelmChart", all, &requests, args.steady).await
    }

    fn object(&self, kind: &str, number: usize, mut spec: Value) -> Value {
        spec["interval"] = json!(self.interval);
        json!({
            "apiVersion": format!("{SOURCE}/v1"), "kind": kind,
            "metadata": { "name": format!("r{number}"), "namespace": HOME }, "spec": spec,
        })
    }

    async fn create(&self, object: Value) -> Outcome {
        let object: DynamicObject = serde_json::from_value(object)?;
        let kind = object
            .types
            .as_ref()
            .map(|types| types.kind.clone())
            .unwrap_or_default();
        let kinds = api(&self.client, SOURCE, "v1", &kind, HOME);
        kinds.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Creates the objects and waits until all are ready; then looks at the steady state.
    async fn measure(
        &self,
        kind: &str,
        objects: Vec<Value>,
        requests: &dyn Fn() -> usize,
        steady: u64,
    ) -> Outcome {
        let count = objects.len();
        self.controllers.reset_peak()?;
        let cpu = self.controllers.cpu().unwrap_or(f64::NAN);
        let begun = Instant::now();
        stream::iter(objects)
            .map(|object| self.create(object))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        self.ready(kind, count).await?;
        println!(
            "{count} {kind} objects: all Ready after {:.1} s, {} requests, {:.1} s of our CPU, peak memory {:.0} MiB",
            begun.elapsed().as_secs_f64(),
            requests(),
            self.controllers.cpu().unwrap_or(f64::NAN) - cpu,
            self.controllers.peak_memory().unwrap_or(f64::NAN),
        );
        let cpu = self.controllers.cpu().unwrap_or(f64::NAN);
        tokio::time::sleep(Duration::from_secs(steady)).await;
        println!(
            "in {steady} s of steady state with an interval of {}: {} requests, {:.2} s of our CPU, {:.0} MiB",
            self.interval,
            requests(),
            self.controllers.cpu().unwrap_or(f64::NAN) - cpu,
            self.controllers.memory().unwrap_or(f64::NAN),
        );
        Ok(())
    }

    async fn ready(&self, kind: &str, count: usize) -> Outcome {
        let kinds = api(&self.client, SOURCE, "v1", kind, HOME);
        let begun = Instant::now();
        loop {
            let all = kinds.list(&ListParams::default()).await?.items;
            let is_ready = |object: &&DynamicObject| {
                let conditions = object
                    .data
                    .pointer("/status/conditions")
                    .and_then(Value::as_array);
                let mut conditions = conditions.into_iter().flatten();
                conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
            };
            if all.iter().filter(is_ready).count() == count {
                return Ok(());
            }
            if begun.elapsed() > PATIENCE {
                let waiting = all.iter().find(|object| !is_ready(object));
                let status = waiting.map(|object| object.data["status"].to_string());
                return Err(format!("not all {kind} objects are ready: {status:?}").into());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A chart repository; its thread ends with the process.
struct ChartServer {
    address: SocketAddr,
    counts: Arc<Counts>,
}

struct Counts {
    index: String,
    indexes: AtomicUsize,
    unchanged: AtomicUsize,
    packages: AtomicUsize,
}

impl Counts {
    #[expect(clippy::cast_precision_loss, reason = "a size that is shown")]
    fn index_mib(&self) -> f64 {
        self.index.len() as f64 / MIB as f64
    }

    /// All requests since the last call, which are also printed by kind.
    fn take(&self) -> usize {
        let [indexes, unchanged, packages] =
            [&self.indexes, &self.unchanged, &self.packages].map(|count| count.swap(0, Ordering::Relaxed));
        println!(
            "requests: {indexes} of the index, {unchanged} answered as unchanged, {packages} of packages"
        );
        indexes + unchanged + packages
    }
}

impl ChartServer {
    fn start(bytes: usize, charts: usize) -> Outcome<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let counts = Arc::new(Counts {
            index: index(bytes, charts)?,
            indexes: AtomicUsize::new(0),
            unchanged: AtomicUsize::new(0),
            packages: AtomicUsize::new(0),
        });
        let shared = Arc::clone(&counts);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let counts = Arc::clone(&shared);
                // a client that goes away ends its connection
                std::thread::spawn(move || serve(stream, &counts).ok());
            }
        });
        Ok(Self { address, counts })
    }
}

/// About the bytes of a version, as in the indexes of public repositories.
const ENTRY_BYTES: usize = 1_220;

/// An index of about this size, with these charts of many versions.
fn index(bytes: usize, charts: usize) -> Result<String, std::fmt::Error> {
    let mut index = "apiVersion: v1\nentries:\n".to_owned();
    let text = "A chart of the benchmark with a description of the usual length. ".repeat(4);
    let rest = (0..6)
        .map(|number| format!("    - https://example.org/source/{number}/{}\n", "a".repeat(80)))
        .collect::<String>();
    let versions = bytes / charts.max(1) / ENTRY_BYTES;
    for chart in 0..charts {
        writeln!(index, "  c{chart}:")?;
        for version in 0..versions.max(1) {
            write!(
                index,
                "  - apiVersion: v2\n    name: c{chart}\n    version: 1.0.{version}\n    description: {text}\n    \
                 created: \"2026-01-01T00:00:00Z\"\n    icon: https://example.org/{}\n    type: application\n    sources:\n{rest}    \
                 urls:\n    - c{chart}-1.0.{version}.tgz\n",
                "0".repeat(64)
            )?;
        }
    }
    Ok(index)
}

fn serve(mut stream: TcpStream, counts: &Counts) -> io::Result<()> {
    let mut unread = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            let mut buffer = [0; 4096];
            let read = stream.read(&mut buffer)?;
            if read == 0 || unread.len() > HEAD_BYTES_MAX {
                return Ok(());
            }
            unread.extend_from_slice(&buffer[..read]);
        };
        let head = String::from_utf8_lossy(&unread[..end]).into_owned();
        unread.drain(..end);
        let path = head.split_whitespace().nth(1).unwrap_or_default();
        if !path.ends_with(".tgz") {
            let known = head
                .to_ascii_lowercase()
                .contains(&format!("if-none-match: {ETAG}"));
            if known {
                counts.unchanged.fetch_add(1, Ordering::Relaxed);
                stream.write_all(format!("HTTP/1.1 304 X\r\nETag: {ETAG}\r\n\r\n").as_bytes())?;
            } else {
                counts.indexes.fetch_add(1, Ordering::Relaxed);
                answer(&mut stream, "text/yaml", counts.index.as_bytes())?;
            }
            continue;
        }
        counts.packages.fetch_add(1, Ordering::Relaxed);
        let name = path.trim_start_matches('/').split('-').next().unwrap_or_default();
        let chart = format!("apiVersion: v2\nname: {name}\nversion: 1.0.0\n");
        let file = format!("{name}/Chart.yaml");
        answer(&mut stream, "application/gzip", &archive::of(&[(&file, &chart)])?)?;
    }
}

fn answer(stream: &mut TcpStream, kind: &str, body: &[u8]) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nETag: {ETAG}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)
}
