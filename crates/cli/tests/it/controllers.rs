//! `equate controllers` processes that are killed: the next one completes their work, loses and prunes
//! nothing that is in git, and writes no unchanged object.
//!
//! Runs on the embedded API, or with `EQUATE_TEST_CLUSTER=real` on the one of `EQUATE_TEST_KUBECONFIG`, as
//! `cargo xtask test-peers` sets it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use equate_api::kustomize::{Kustomization, KustomizationStatus};
use equate_api::meta::{ConditionType, condition};
use equate_api::source::GitRepository;
use equate_controllers::kit::lease::name as lease_name;
use equate_controllers::shards::Slice;
use equate_testkit::cluster::Cluster;
use equate_testkit::eventually::eventually;
use equate_testkit::git::Repository;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::serde::Serialize;
use k8s_openapi::serde::de::DeserializeOwned;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::NamespaceResourceScope;
use kube::{Client, Config, CustomResourceExt, Resource};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::session::{Process, equate_in};

const URL: &str = "https://local.invalid/fleet";
/// Long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_secs(120);
const SESSION: &str = "equate.test/session";
const KEY: &str = "sharding.fluxcd.io/key";
const OWNER: &str = "kustomize.toolkit.fluxcd.io/name";
/// The object that a Kustomization's health check waits for.
const GATE: &str = "gate";
/// Long enough that no renewal is late on a loaded machine.
const ELECTION: [&str; 4] = [
    "--enable-leader-election",
    "--leader-election-lease-duration=15s",
    "--leader-election-renew-deadline=12s",
    "--leader-election-retry-period=500ms",
];
/// Objects of each Kustomization that do not change.
const STEADY: usize = 20;

struct Place {
    client: Client,
    kubeconfig: PathBuf,
    home: String,
    repository: Repository,
    processes: BTreeMap<String, Process>,
    /// None if the cluster belongs to the test runner.
    cluster: Option<Cluster>,
    // dropped last: no process writes there any more
    folder: TempDir,
}

/// Objects at one time: uid and resource version.
type Versions = BTreeMap<String, (String, String)>;

impl Place {
    async fn start(name: &str) -> Place {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let number = PLACES.fetch_add(1, Ordering::Relaxed);
        let real = std::env::var("EQUATE_TEST_CLUSTER").is_ok_and(|name| name == "real");
        let (client, kubeconfig, cluster) = if real {
            let path = PathBuf::from(std::env::var_os("EQUATE_TEST_KUBECONFIG").unwrap());
            (client_of(&path).await, path, None)
        } else {
            let cluster = Cluster::named("embedded", &mut |_| ()).await.unwrap();
            let path = cluster.kubeconfig().to_owned();
            (cluster.client().unwrap(), path, Some(cluster))
        };
        let place = Place {
            client,
            kubeconfig,
            home: format!("{name}-{}-{number}", std::process::id()),
            repository: Repository::init().unwrap(),
            processes: BTreeMap::new(),
            cluster,
            folder: tempfile::tempdir().unwrap(),
        };
        place.furnish().await;
        place
    }

    async fn furnish(&self) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for definition in [Kustomization::crd(), GitRepository::crd()] {
            match definitions.create(&PostParams::default(), &definition).await {
                Err(kube::Error::Api(status)) if status.code == 409 && self.cluster.is_none() => {}
                created => drop(created.unwrap()),
            }
        }
        let home: Namespace = object(json!({ "metadata": { "name": self.home } }));
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.create(&PostParams::default(), &home).await.unwrap();
    }

    /// Creates an object of this session with this shard label.
    async fn create<K>(&self, name: &str, shard: &str, spec: Value)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + Serialize
            + std::fmt::Debug,
    {
        let created: K = object(json!({
            "metadata": { "name": name, "namespace": self.home, "labels": { SESSION: self.home, KEY: shard } },
            "spec": spec,
        }));
        let create = async || self.all::<K>().create(&PostParams::default(), &created).await;
        eventually(&format!("{name} is created"), DEADLINE, create).await;
    }

    async fn kustomize(&self, name: &str, shard: &str, source: &str) {
        let gate = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": GATE, "namespace": self.home });
        let spec = json!({
            "interval": "10m",
            "path": name,
            "prune": true,
            "timeout": "5m",
            "sourceRef": { "kind": "GitRepository", "name": source },
            "healthChecks": [gate],
        });
        self.create::<Kustomization>(name, shard, spec).await;
    }

    async fn source(&self, name: &str, shard: &str) {
        let spec = json!({ "url": URL, "interval": "10m", "ref": { "branch": "main" } });
        self.create::<GitRepository>(name, shard, spec).await;
    }

    fn all<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.home)
    }

    /// Creates or deletes the object that Kustomizations wait for.
    async fn open(&self, open: bool) {
        let maps = self.all::<ConfigMap>();
        let gate: ConfigMap = object(json!({ "metadata": { "name": GATE } }));
        match open {
            true => drop(maps.create(&PostParams::default(), &gate).await.unwrap()),
            false => drop(maps.delete(GATE, &DeleteParams::default()).await.unwrap()),
        }
    }

    fn run(&mut self, name: &str, selector: &str, arguments: &[&str]) {
        let log = self.folder.path().join(format!("{name}.log"));
        let storage = self.folder.path().join(name);
        std::fs::create_dir_all(&storage).unwrap();
        let selector = match selector {
            "" => format!("{SESSION}={}", self.home),
            selector => format!("{SESSION}={},{selector}", self.home),
        };
        let mut command = equate_in(self.folder.path(), &["controllers", "--kubeconfig"]);
        command
            .arg(&self.kubeconfig)
            .args(["--namespace", &self.home, "--watch-label-selector", &selector])
            .arg("--storage-path")
            .arg(storage)
            .args([
                "--storage-addr",
                "127.0.0.1:0",
                "--metrics-addr",
                "0",
                "--health-addr",
                "0",
                "--egress-allow=127.0.0.0/8",
                "--artifact-server=127.0.0.1",
            ])
            .arg("--instead-of")
            .arg(format!("{URL}={}", self.repository.path().display()))
            .args(arguments);
        self.processes
            .insert(name.to_owned(), Process::start(&mut command, log));
    }

    fn kill(&mut self, name: &str) {
        self.processes.remove(name).unwrap().kill();
    }

    async fn commit(&self, files: &BTreeMap<String, Option<String>>, source: &str) -> String {
        let files: Vec<(&str, Option<&str>)> = files
            .iter()
            .map(|(path, text)| (&**path, text.as_deref()))
            .collect();
        let commit = self.repository.commit(&files).unwrap();
        let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": commit } } });
        let sources = self.all::<GitRepository>();
        if !source.is_empty() {
            sources
                .patch(source, &PatchParams::default(), &Patch::Merge(request))
                .await
                .unwrap();
        }
        format!("main@sha1:{commit}")
    }

    fn map(&self, name: &str, value: &str) -> Option<String> {
        let map = json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "name": name, "namespace": self.home },
            "data": { "value": value },
        });
        Some(map.to_string())
    }

    fn first(&self, names: &[String]) -> BTreeMap<String, Option<String>> {
        let mut files = BTreeMap::new();
        for name in names {
            for number in 0..STEADY {
                let map = format!("{name}-steady-{number}");
                files.insert(format!("{name}/steady-{number}.yaml"), self.map(&map, "1"));
            }
            for part in ["changed", "gone"] {
                files.insert(
                    format!("{name}/{part}.yaml"),
                    self.map(&format!("{name}-{part}"), "1"),
                );
            }
        }
        files
    }

    fn second(&self, names: &[String]) -> BTreeMap<String, Option<String>> {
        let mut files = BTreeMap::new();
        for name in names {
            let changed = self.map(&format!("{name}-changed"), "2");
            files.insert(format!("{name}/changed.yaml"), changed);
            files.insert(format!("{name}/gone.yaml"), None);
            for number in 0..STEADY {
                let map = format!("{name}-added-{number}");
                files.insert(format!("{name}/added-{number}.yaml"), self.map(&map, "1"));
            }
        }
        files
    }

    async fn objects(&self) -> Versions {
        let managed = ListParams::default().labels(OWNER);
        let list = self.all::<ConfigMap>().list(&managed).await.unwrap();
        let was = |map: ConfigMap| {
            let meta = map.metadata;
            let version = meta.resource_version.unwrap_or_default();
            (
                meta.name.unwrap_or_default(),
                (meta.uid.unwrap_or_default(), version),
            )
        };
        list.items.into_iter().map(was).collect()
    }

    async fn until(&self, name: &str, what: &str, passes: impl Fn(&KustomizationStatus) -> bool) {
        let look = async || {
            let found = self.all::<Kustomization>().get(name).await;
            let status = found
                .map_err(|error| error.to_string())?
                .status
                .unwrap_or_default();
            match passes(&status) {
                true => Ok(()),
                false => Err(format!("{:?}", status.conditions)),
            }
        };
        eventually(&format!("{name} {what}"), DEADLINE, look).await;
    }

    async fn ready(&self, name: &str, revision: &str) {
        let message = format!("Applied revision: {revision}");
        self.until(name, &message, |status| {
            let ready = condition(&status.conditions, ConditionType::Ready);
            ready.is_some_and(|ready| ready.status == "True" && ready.message == message)
        })
        .await;
    }

    /// Waits until it has applied a revision and checks its health.
    async fn checks(&self, name: &str, revision: &str) {
        self.until(name, "waits for its health", |status| {
            let healthy = condition(&status.conditions, ConditionType::Healthy);
            healthy.is_some_and(|healthy| healthy.status == "Unknown" && healthy.message.contains(revision))
        })
        .await;
    }

    async fn leader(&self) -> String {
        let look = async || {
            let mut processes = self.processes.iter();
            let leads = processes.find(|(_, process)| process.log().contains("became leader"));
            leads.map(|(name, _)| name.clone()).ok_or("there is none")
        };
        eventually("one leads", DEADLINE, look).await
    }

    /// Waits until the cluster matches the second commit, and checks that unchanged objects were not written.
    async fn compare(&self, names: &[String], before: &Versions) {
        let mut expected: Vec<String> = Vec::new();
        for name in names {
            for number in 0..STEADY {
                expected.push(format!("{name}-steady-{number}"));
                expected.push(format!("{name}-added-{number}"));
            }
            expected.push(format!("{name}-changed"));
        }
        expected.sort();
        let all = async || {
            let after = self.objects().await;
            match after.keys().eq(&expected) {
                true => Ok(after),
                false => Err(format!("{:?}", after.keys())),
            }
        };
        let after = eventually("the declared objects exist and no others", DEADLINE, all).await;
        for name in names {
            for number in 0..STEADY {
                let steady = format!("{name}-steady-{number}");
                assert_eq!(after.get(&steady), before.get(&steady), "{steady} is as it was");
            }
            let changed = format!("{name}-changed");
            assert_eq!(
                after[&changed].0, before[&changed].0,
                "{changed} is the one it was"
            );
            assert_ne!(after[&changed].1, before[&changed].1, "{changed} was changed");
        }
    }

    /// Ends all processes with SIGTERM.
    async fn end(mut self) {
        for process in self.processes.values() {
            process.terminate();
        }
        while let Some((name, process)) = self.processes.pop_first() {
            let status = process.ended().await;
            assert!(status.success(), "{name}: {status}");
        }
        if let Some(cluster) = self.cluster.take() {
            cluster.stop().await.unwrap();
        }
    }
}

fn object<K: DeserializeOwned + Resource<DynamicType = ()>>(mut value: Value) -> K {
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    serde_json::from_value(value).unwrap()
}

async fn client_of(path: &std::path::Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(path).unwrap();
    // a second installation of the process's one provider
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// One of three processes that share the objects: its arguments, and the names of its source, if it has one,
/// and of its Kustomization.
struct Share {
    process: &'static str,
    selector: String,
    arguments: Vec<&'static str>,
    kustomization: String,
    label: String,
}

/// The time at which a process is killed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Moment {
    /// It waits for the health of applied objects.
    Checking,
    /// It has written one of its objects.
    Writing,
}

/// The first share has the source.
async fn kill_one_process(mut place: Place, shares: [Share; 3], source: &str, victim: usize, moment: Moment) {
    let names: Vec<String> = shares.iter().map(|share| share.kustomization.clone()).collect();
    place.source(source, &shares[0].label).await;
    for share in &shares {
        place.kustomize(&share.kustomization, &share.label, source).await;
    }
    place.open(true).await;
    let first = place.commit(&place.first(&names), "").await;
    for share in &shares {
        place.run(share.process, &share.selector, &share.arguments);
    }
    for name in &names {
        place.ready(name, &first).await;
    }
    let before = place.objects().await;
    assert_eq!(before.len(), 3 * (STEADY + 2));

    place.open(false).await;
    let second = place.commit(&place.second(&names), source).await;
    let killed = &shares[victim];
    match moment {
        Moment::Checking => place.checks(&killed.kustomization, &second).await,
        Moment::Writing => {
            let added = format!("{}-added-", killed.kustomization);
            let look = async || {
                let objects = place.objects().await;
                let some = objects.keys().any(|name| name.starts_with(&added));
                some.then_some(()).ok_or("none is written")
            };
            eventually("an object is written", DEADLINE, look).await;
        }
    }
    place.kill(killed.process);
    place.open(true).await;
    // the others continue without it, because they have the artifact
    if victim != 0 {
        for name in names.iter().filter(|name| **name != killed.kustomization) {
            place.ready(name, &second).await;
        }
    }
    place.run(killed.process, &killed.selector, &killed.arguments);
    for name in &names {
        place.ready(name, &second).await;
    }
    // objects are pruned once no other Kustomization can want them
    for name in &names {
        place
            .until(name, "holds nothing else", |status| {
                let held = condition(&status.conditions, ConditionType::PruneBlocked);
                held.is_none_or(|held| held.status != "True")
            })
            .await;
    }
    place.compare(&names, &before).await;
    place.end().await;
}

async fn by_label(victim: usize, moment: Moment) {
    let place = Place::start("by-label").await;
    let share = |process: &'static str, kustomization: &str| Share {
        process,
        selector: format!("{KEY}={process}"),
        arguments: Vec::new(),
        kustomization: kustomization.to_owned(),
        label: process.to_owned(),
    };
    let shares = [share("one", "red"), share("two", "green"), share("three", "blue")];
    kill_one_process(place, shares, "fleet", victim, moment).await;
}

async fn by_hash(victim: usize, moment: Moment) {
    let place = Place::start("by-hash").await;
    // a name that falls into each shard
    let named = |what: &str, index: u32| {
        let slice = Slice::new(index, 3).unwrap();
        let mut names = (0..1000).map(|number| format!("{what}-{number}"));
        names.find(|name| slice.has(&place.home, name)).unwrap()
    };
    let share = |process: &'static str, index: u32, shard: &'static str| Share {
        process,
        selector: String::new(),
        arguments: vec!["--shard", shard],
        kustomization: named("app", index),
        label: "any".to_owned(),
    };
    let shares = [
        share("one", 0, "0/3"),
        share("two", 1, "1/3"),
        share("three", 2, "2/3"),
    ];
    let source = named("fleet", 0);
    kill_one_process(place, shares, &source, victim, moment).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labelled_shard_killed_during_health_checks_recovers() {
    by_label(1, Moment::Checking).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labelled_shard_with_the_source_killed_during_writes_recovers() {
    by_label(0, Moment::Writing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashed_shard_with_the_source_killed_during_health_checks_recovers() {
    by_hash(0, Moment::Checking).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashed_shard_killed_during_writes_recovers() {
    by_hash(2, Moment::Writing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replica_completes_the_work_of_a_killed_leader() {
    let mut place = Place::start("leader").await;
    let names = ["app".to_owned()];
    place.source("fleet", "any").await;
    place.kustomize("app", "any", "fleet").await;
    place.open(true).await;
    let first = place.commit(&place.first(&names), "").await;
    for name in ["one", "two", "three"] {
        place.run(name, "", &ELECTION);
    }
    place.ready("app", &first).await;
    let before = place.objects().await;
    let leader = place.leader().await;

    place.open(false).await;
    let second = place.commit(&place.second(&names), "fleet").await;
    place.checks("app", &second).await;
    place.kill(&leader);
    place.open(true).await;
    let next = place.leader().await;
    assert_ne!(next, leader);
    place.ready("app", &second).await;
    place.compare(&names, &before).await;

    // one process ends in order and leaves the rest to the last
    let process = place.processes.remove(&next).unwrap();
    process.terminate();
    assert!(process.ended().await.success());
    place.leader().await;
    let third = BTreeMap::from([("app/changed.yaml".to_owned(), place.map("app-changed", "3"))]);
    let third = place.commit(&third, "fleet").await;
    place.ready("app", &third).await;
    place.end().await;
}

/// Flux's kustomize-controller is still running: another process must be able to become its
/// source-controller.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn single_lease_is_released() {
    let mut place = Place::start("alone").await;
    let leases: Api<Lease> = place.all();
    let share = format!("{SESSION}={}", place.home);
    let [own, other] =
        ["source", "kustomize"].map(|kind| lease_name(&format!("{kind}-controller"), &[&share]));
    let now = MicroTime(Timestamp::now());
    let flux: Lease = object(json!({
        "metadata": { "name": other.as_str() },
        "spec": {
            "holderIdentity": "flux", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now,
        },
    }));
    leases.create(&PostParams::default(), &flux).await.unwrap();
    place.run("one", "", &ELECTION);
    let holder = |lease: Lease| {
        lease
            .spec
            .and_then(|spec| spec.holder_identity)
            .unwrap_or_default()
    };
    let released = async || {
        let holder = leases.get_opt(&own).await.unwrap().map(holder);
        match holder {
            Some(nobody) if nobody.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    eventually("it is released", DEADLINE, released).await;
    leases.delete(&other, &DeleteParams::default()).await.unwrap();
    let held = async || {
        let mut holders = Vec::new();
        for name in [&own, &other] {
            holders.extend(leases.get_opt(name).await.unwrap().map(holder));
        }
        let all = holders.len() == 2 && holders.iter().all(|holder| !holder.is_empty());
        if all { Ok(()) } else { Err(format!("{holders:?}")) }
    };
    eventually("both are held", DEADLINE, held).await;
    place.end().await;
}

/// The API server accepts connections and never answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn process_ends_while_the_api_server_is_silent() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
        "clusters": [{ "name": "c", "cluster": { "server": format!("http://{address}") } }],
        "users": [{ "name": "u", "user": {} }],
    });
    File::create(&kubeconfig)
        .unwrap()
        .write_all(config.to_string().as_bytes())
        .unwrap();
    let log = folder.path().join("log");
    let mut command = equate_in(folder.path(), &["controllers", "--kubeconfig", "kubeconfig"]);
    command
        .args(["--storage-path", "data", "--storage-addr", "127.0.0.1:0"])
        .args(["--metrics-addr", "0", "--health-addr", "0"]);
    let process = Process::start(&mut command, log);
    // it sends a request and gets no answer
    let asked = tokio::task::spawn_blocking(move || (silent.accept().unwrap(), silent));
    let held = tokio::time::timeout(DEADLINE, asked).await.unwrap().unwrap();
    process.terminate();
    let status = process.ended().await;
    assert!(status.success(), "{status}");
    drop(held);
}
