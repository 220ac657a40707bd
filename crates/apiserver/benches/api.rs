//! The cost of the API through its router, in-process and in memory: `cargo bench -p equate-apiserver
//! --bench api`. The results are in `docs/performance.md`.

#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a benchmark says what went wrong by panicking"
)]

use axum::body::Body;
use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use equate_apiserver::{EmbeddedCluster, Identity, Profile};
use futures::StreamExt;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::json;
use std::cell::LazyCell;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tower::ServiceExt;

/// The allocator of the binary.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Builds one cluster, prints the nanoseconds it took, and exits.
const START_ONCE: &str = "--start-once";
/// Runs that many applies, each changing an image. Measure the CPU with `time`.
const APPLIES: &str = "--applies";
/// Opens that many watches that nobody reads, creates 10,000 objects, and prints the peak memory.
const UNREAD: &str = "--unread-watches";
/// Creates that many Deployments of three replicas and waits until all are available. Prints the time, the
/// CPU time and the number of writes.
const WORKLOADS: &str = "--workloads";

fn request(method: Method, path: &str, content_type: &str, body: Vec<u8>) -> Request<Body> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(Body::from(body))
        .unwrap();
    request.extensions_mut().insert(Identity::admin());
    request
}

async fn send(cluster: &EmbeddedCluster, request: Request<Body>) -> (StatusCode, usize) {
    let response = cluster.router().oneshot(request).await.unwrap();
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (status, bytes.len())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// Without controllers, whose writes would add to the result.
async fn cluster() -> EmbeddedCluster {
    let quiet = Profile {
        service_accounts: false,
        root_ca: false,
        ..Profile::default()
    };
    EmbeddedCluster::builder()
        .controllers(quiet)
        .build()
        .await
        .unwrap()
}

fn config_map(n: usize) -> Vec<u8> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("c{n:05}"), "labels": { "app": "web", "n": n.to_string() } },
        "data": { "a": "1", "b": "two", "config.yaml": "key: value\nother: thing\n" },
    });
    object.to_string().into_bytes()
}

fn deployment(name: &str, image: &str) -> Vec<u8> {
    let container = |name: &str| {
        json!({
            "name": name, "image": image,
            "ports": [{ "containerPort": 8080, "name": "http" }],
            "env": [{ "name": "A", "value": "1" }, { "name": "B", "value": "2" }],
            "resources": { "requests": { "cpu": "100m", "memory": "128Mi" }, "limits": { "memory": "256Mi" } },
            "readinessProbe": { "httpGet": { "path": "/ready", "port": "http" } },
        })
    };
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": { "labels": { "app": name } },
                "spec": { "containers": [container("a"), container("b"), container("c")] },
            },
        },
    });
    object.to_string().into_bytes()
}

async fn apply(cluster: &EmbeddedCluster, name: &str, image: &str) {
    let path = format!("/apis/apps/v1/namespaces/default/deployments/{name}?fieldManager=bench");
    let request = request(
        Method::PATCH,
        &path,
        "application/apply-patch+yaml",
        deployment(name, image),
    );
    let (status, _) = send(cluster, request).await;
    assert!(status.is_success(), "{status}");
}

fn start(c: &mut Criterion) {
    let runtime = runtime();
    c.bench_function("start an empty cluster", |b| {
        b.to_async(&runtime).iter(cluster);
    });
    // The tables of built-in kinds are parsed once per process; the first cluster pays for it.
    let mut group = c.benchmark_group("first of its process");
    group.sample_size(20);
    group.bench_function("start an empty cluster", |b| {
        let program = std::env::current_exe().unwrap();
        b.iter_custom(|times| {
            (0..times)
                .map(|_| {
                    let output = Command::new(&program).arg(START_ONCE).output().unwrap();
                    let text = String::from_utf8(output.stdout).unwrap();
                    Duration::from_nanos(text.trim().parse().unwrap())
                })
                .sum()
        });
    });
    group.finish();
}

#[expect(clippy::print_stdout, reason = "the parent reads it")]
fn start_once() {
    let runtime = runtime();
    let begun = Instant::now();
    let cluster = runtime.block_on(cluster());
    println!("{}", begun.elapsed().as_nanos());
    drop(cluster);
}

fn list(c: &mut Criterion) {
    let runtime = runtime();
    // Created by the first benchmark that needs it, so that filtered runs do not wait.
    let cluster = LazyCell::new(|| {
        runtime.block_on(async {
            let cluster = cluster().await;
            for n in 0..10_000 {
                let request = request(Method::POST, CONFIG_MAPS, "application/json", config_map(n));
                assert_eq!(send(&cluster, request).await.0, StatusCode::CREATED);
            }
            cluster
        })
    });
    let mut group = c.benchmark_group("list");
    group.throughput(Throughput::Elements(10_000)).sample_size(20);
    for (name, query) in [
        ("10,000 objects", ""),
        ("10,000 objects, one matches", "?labelSelector=n%3D5000"),
    ] {
        group.bench_function(name, |b| {
            let cluster = &*cluster;
            b.to_async(&runtime).iter(|| async move {
                let path = format!("{CONFIG_MAPS}{query}");
                send(
                    cluster,
                    request(Method::GET, &path, "application/json", Vec::new()),
                )
                .await
            });
        });
    }
    group.finish();
}

fn applies(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("server-side apply of a Deployment");
    group.throughput(Throughput::Elements(1));
    let cluster = runtime.block_on(cluster());
    let mut n = 0_u64;
    group.bench_function("creates", |b| {
        b.iter_batched(
            || {
                n += 1;
                format!("d{n}")
            },
            |name| runtime.block_on(apply(&cluster, &name, "nginx:1")),
            BatchSize::PerIteration,
        );
    });
    runtime.block_on(apply(&cluster, "same", "nginx:1"));
    group.bench_function("changes nothing", |b| {
        b.iter(|| runtime.block_on(apply(&cluster, "same", "nginx:1")));
    });
    group.bench_function("changes an image", |b| {
        b.iter_batched(
            || {
                n += 1;
                format!("nginx:{n}")
            },
            |image| runtime.block_on(apply(&cluster, "same", &image)),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn watchers(c: &mut Criterion) {
    const WATCHERS: usize = 500;
    const EVENTS: usize = 1_000;
    let runtime = runtime();
    let mut group = c.benchmark_group("watch");
    group
        .throughput(Throughput::Elements((WATCHERS * EVENTS) as u64))
        .sample_size(10);
    group.measurement_time(Duration::from_secs(20));
    group.bench_function("500 watchers, 1,000 events each", |b| {
        b.iter(|| {
            runtime.block_on(async {
                let cluster = cluster().await;
                let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", cluster.revision());
                let mut readers = Vec::with_capacity(WATCHERS);
                for _ in 0..WATCHERS {
                    let watch = request(Method::GET, &path, "application/json", Vec::new());
                    let response = cluster.router().oneshot(watch).await.unwrap();
                    readers.push(tokio::spawn(read(response.into_body(), EVENTS)));
                }
                for n in 0..EVENTS {
                    send(
                        &cluster,
                        request(Method::POST, CONFIG_MAPS, "application/json", config_map(n)),
                    )
                    .await;
                }
                for reader in readers {
                    assert_eq!(reader.await.unwrap(), EVENTS);
                }
            });
        });
    });
    group.finish();
}

async fn read(body: Body, wanted: usize) -> usize {
    let mut stream = body.into_data_stream();
    let mut seen = 0;
    while seen < wanted {
        let Some(Ok(bytes)) = stream.next().await else {
            break;
        };
        seen += bytes.iter().filter(|b| **b == b'\n').count();
    }
    seen
}

fn documents(c: &mut Criterion) {
    let runtime = runtime();
    c.bench_function("the OpenAPI index of a new cluster", |b| {
        b.iter_batched(
            || runtime.block_on(cluster()),
            |cluster| {
                runtime.block_on(send(
                    &cluster,
                    request(Method::GET, "/openapi/v3", "application/json", Vec::new()),
                ));
                cluster
            },
            BatchSize::PerIteration,
        );
    });
}

criterion_group!(benches, start, list, applies, watchers, documents);

fn many_applies(times: u64) {
    let runtime = runtime();
    runtime.block_on(async {
        let cluster = cluster().await;
        for n in 0..times {
            apply(&cluster, "same", &format!("nginx:{n}")).await;
        }
    });
}

#[allow(clippy::print_stdout, reason = "it is asked for")]
fn unread_watches(watches: u64) {
    const EVENTS: usize = 10_000;
    runtime().block_on(async {
        let cluster = cluster().await;
        let path = format!("{CONFIG_MAPS}?watch=true&resourceVersion={}", cluster.revision());
        let mut unread = Vec::new();
        for _ in 0..watches {
            let watch = request(Method::GET, &path, "application/json", Vec::new());
            unread.push(cluster.router().oneshot(watch).await.unwrap());
        }
        for n in 0..EVENTS {
            let object = request(Method::POST, CONFIG_MAPS, "application/json", config_map(n));
            assert_eq!(send(&cluster, object).await.0, StatusCode::CREATED);
        }
        // Each is read once, so that it buffers a frame.
        let mut held = Vec::new();
        for response in unread {
            let mut stream = response.into_body().into_data_stream();
            held.push((stream.next().await, stream));
        }
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|line| line.starts_with("VmHWM"));
        println!(
            "{watches} watches: {}",
            peak.unwrap_or("peak memory is told by Linux alone")
        );
    });
}

fn cpu() -> Duration {
    const TICKS_PER_SECOND: u64 = 100;
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0);
    Duration::from_millis((ticks(11) + ticks(12)) * 1000 / TICKS_PER_SECOND)
}

fn three_replicas(n: usize) -> Vec<u8> {
    let container = json!({ "name": "c", "image": "nginx:1", "ports": [{ "containerPort": 80 }] });
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": format!("web-{n:05}"), "labels": { "app": "web" } },
        "spec": {
            "replicas": 3,
            "selector": { "matchLabels": { "app": "web", "n": n.to_string() } },
            "template": {
                "metadata": { "labels": { "app": "web", "n": n.to_string() } },
                "spec": { "containers": [container] },
            },
        },
    });
    object.to_string().into_bytes()
}

#[allow(clippy::print_stdout, reason = "it is asked for")]
fn simulated_workloads(count: u64) {
    const PATH: &str = "/apis/apps/v1/namespaces/default/deployments";
    let profile = Profile {
        workloads: Some(equate_apiserver::Simulation::default()),
        ..Profile::default()
    };
    runtime().block_on(async {
        let cluster = EmbeddedCluster::builder()
            .controllers(profile)
            .build()
            .await
            .unwrap();
        let (before, revision, start) = (cpu(), cluster.revision(), Instant::now());
        let path = format!("{PATH}?watch=true&resourceVersion={revision}");
        let watch = request(Method::GET, &path, "application/json", Vec::new());
        let mut events = cluster
            .router()
            .oneshot(watch)
            .await
            .unwrap()
            .into_body()
            .into_data_stream();
        for n in 0..usize::try_from(count).unwrap() {
            let create = request(Method::POST, PATH, "application/json", three_replicas(n));
            assert_eq!(send(&cluster, create).await.0, StatusCode::CREATED);
        }
        println!("created after {:?}", start.elapsed());
        let mut available = std::collections::HashSet::new();
        let mut rest = Vec::new();
        while available.len() < usize::try_from(count).unwrap() {
            rest.extend_from_slice(&events.next().await.unwrap().unwrap());
            while let Some(end) = rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                let event: serde_json::Value = serde_json::from_slice(&line).unwrap();
                if event["object"]["status"]["availableReplicas"] == 3 {
                    available.insert(event["object"]["metadata"]["name"].to_string());
                }
            }
        }
        let writes = cluster.revision() - revision;
        println!(
            "{count} Deployments available after {:?}: {:?} of CPU, {writes} writes",
            start.elapsed(),
            cpu() - before
        );
    });
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        Some(arguments[at + 1].parse::<u64>().unwrap())
    };
    if arguments.iter().any(|argument| argument == START_ONCE) {
        start_once();
    } else if let Some(times) = number(APPLIES) {
        many_applies(times);
    } else if let Some(watches) = number(UNREAD) {
        unread_watches(watches);
    } else if let Some(count) = number(WORKLOADS) {
        simulated_workloads(count);
    } else {
        benches();
        Criterion::default().configure_from_args().final_summary();
    }
}
