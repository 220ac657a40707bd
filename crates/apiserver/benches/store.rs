//! The cost of the store: `cargo bench -p equate-apiserver --bench store`.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "the macros' functions have none, and a benchmark that fails should stop"
)]

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use equate_apiserver::store::{Change, Expect, Key, Options, ResourceId, Store};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

fn deployments() -> ResourceId {
    ResourceId::new("apps", "deployments")
}

fn key(n: usize) -> Key {
    Key::new(&deployments(), format!("team-{}", n % 50), format!("app-{n}"))
}

/// About 1 KiB of JSON.
fn object(n: usize) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": format!("app-{n}"), "namespace": format!("team-{}", n % 50),
            "uid": "8f6a4b8e-2f5c-4a0e-9f0e-6b1d2c3a4f5e", "generation": 1,
            "creationTimestamp": "2026-11-21T14:00:00Z",
            "labels": {"app.kubernetes.io/name": format!("app-{n}"), "app.kubernetes.io/part-of": "bench"},
        },
        "spec": {
            "replicas": 3, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app.kubernetes.io/name": format!("app-{n}")}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": format!("app-{n}")}},
                "spec": {
                    "containers": [{
                        "name": "main", "image": "registry.example.com/app:1.2.3", "imagePullPolicy": "IfNotPresent",
                        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                        "resources": {"limits": {"memory": "128Mi"}, "requests": {"cpu": "100m", "memory": "128Mi"}},
                        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
                    }],
                    "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                    "securityContext": {}, "terminationGracePeriodSeconds": 30,
                },
            },
        },
        "status": {},
    })
}

fn put(n: usize) -> Vec<Change> {
    vec![Change::Put {
        key: key(n),
        object: object(n),
        expect: Expect::Any,
    }]
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn filled(runtime: &Runtime, objects: usize) -> Store {
    let store = Store::in_memory();
    runtime.block_on(async {
        for n in 0..objects {
            store.commit(put(n)).await.unwrap();
        }
    });
    store
}

fn commit(c: &mut Criterion) {
    let runtime = runtime();
    let mut group = c.benchmark_group("commit");
    for objects in [100, 10_000] {
        let store = filled(&runtime, objects);
        // more events than the ring keeps, so that a write also drops one
        runtime.block_on(async {
            for n in 0..10_000 {
                store.commit(put(n % objects)).await.unwrap();
            }
        });
        let mut n = 0;
        group.bench_function(BenchmarkId::new("memory", objects), |b| {
            b.to_async(&runtime).iter_batched(
                || {
                    n = (n + 7919) % objects;
                    put(n)
                },
                |changes| store.commit(changes),
                BatchSize::SmallInput,
            );
        });
    }
    for writers in [1, 64] {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(Options {
            journal: Some(directory.path().join("journal")),
            ..Options::default()
        })
        .unwrap();
        group.throughput(Throughput::Elements(writers));
        group.bench_function(BenchmarkId::new("journal", format!("{writers} writers")), |b| {
            b.to_async(&runtime).iter(|| async {
                let mut tasks = JoinSet::new();
                for n in 0..writers {
                    let store = store.clone();
                    tasks.spawn(async move { store.commit(put(usize::try_from(n).unwrap())).await });
                }
                while let Some(done) = tasks.join_next().await {
                    done.unwrap().unwrap();
                }
            });
        });
    }
    group.finish();
}

fn list(c: &mut Criterion) {
    let runtime = runtime();
    let store = filled(&runtime, 10_000);
    let resource = deployments();
    let old = store.revision();
    let mut group = c.benchmark_group("list 10000");
    group.bench_function("objects", |b| {
        b.iter(|| {
            let snapshot = store.snapshot();
            snapshot
                .list(&resource, None)
                .map(|(_, entry)| entry.revision)
                .sum::<u64>()
        });
    });
    group.bench_function("encoded", |b| {
        b.iter(|| {
            let snapshot = store.snapshot();
            let mut body = Vec::new();
            for (_, entry) in snapshot.list(&resource, None) {
                body.extend_from_slice(&entry.encoded());
            }
            black_box(body.len())
        });
    });
    group.bench_function("one namespace of 50", |b| {
        b.iter(|| store.snapshot().list(&resource, Some("team-7")).count());
    });
    runtime.block_on(async {
        for n in 0..1_000 {
            store.commit(put(n)).await.unwrap();
        }
    });
    group.bench_function("1000 revisions ago", |b| {
        b.iter(|| {
            let snapshot = store.snapshot_of(&resource, old).unwrap();
            snapshot.list(&resource, None).count()
        });
    });
    group.finish();
}

fn watch(c: &mut Criterion) {
    const WATCHERS: usize = 500;
    const EVENTS: usize = 1_000;
    let runtime = runtime();
    let mut group = c.benchmark_group("watch");
    group.sample_size(10);
    group.throughput(Throughput::Elements((WATCHERS * EVENTS) as u64));
    group.bench_function("500 watchers x 1000 events", |b| {
        b.to_async(&runtime).iter(|| async {
            let store = Store::in_memory();
            let mut tasks = JoinSet::new();
            for _ in 0..WATCHERS {
                let mut subscription = store.subscribe(&deployments(), store.revision()).unwrap();
                tasks.spawn(async move {
                    let mut seen = 0;
                    let mut bytes = 0;
                    while seen < EVENTS {
                        for event in subscription.next().await.unwrap() {
                            seen += 1;
                            bytes += event.entry.encoded().len();
                        }
                    }
                    bytes
                });
            }
            for n in 0..EVENTS {
                store.commit(put(n)).await.unwrap();
                // as an HTTP request would
                tokio::task::yield_now().await;
            }
            while let Some(done) = tasks.join_next().await {
                black_box(done.unwrap());
            }
        });
    });
    group.finish();
}

fn open(c: &mut Criterion) {
    let runtime = runtime();
    let directory = tempfile::tempdir().unwrap();
    let options = || Options {
        journal: Some(directory.path().join("journal")),
        ..Options::default()
    };
    let store = Store::open(options()).unwrap();
    let changes = (0..10_000).flat_map(put).collect();
    runtime.block_on(store.commit(changes)).unwrap();
    drop(store);
    let mut group = c.benchmark_group("open");
    group.sample_size(10);
    group.bench_function("memory", |b| b.iter(Store::in_memory));
    group.bench_function("journal of 10000", |b| b.iter(|| Store::open(options()).unwrap()));
    group.finish();
}

criterion_group!(benches, commit, list, watch, open);
criterion_main!(benches);
