//! Programs of others on the embedded API, with their defaults: protobuf, leader election.
//!
//! Nothing simulates workloads here, so a Deployment runs only if kube-controller-manager, kube-scheduler and
//! kwok do their work.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use equate_apiserver::cluster::Serving;
use equate_testkit::cluster::EmbeddedCluster;
use equate_testkit::eventually::eventually;
use equate_testkit::peers::{self, Clients, ControlPlane, KubectlVersion};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind};
use kube::api::{ListParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::config::Kubeconfig;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// The deadline of programs that start on a busy machine.
const DEADLINE: Duration = Duration::from_secs(120);

/// The last lines of a log in a failure.
const LOG_LINES: usize = 20;

const REPLICAS: i32 = 2;

/// The peer, or a printed reason to skip.
fn peer<T>(make: impl FnOnce(peers::Progress<'_>) -> Result<T, peers::Error>) -> Option<T> {
    let made = peers::wanted()
        .and_then(|()| peers::available(make(&mut |line: &str| println!("peers: {line}"))).unwrap());
    made.map_err(|skip| println!("{}", skip.0)).ok()
}

fn clients() -> Option<Clients> {
    peer(|progress| peers::kubectl(KubectlVersion::ALL[0], progress))
}

/// The embedded API as `equate api` starts it, and the programs that use it.
struct Ground {
    cluster: EmbeddedCluster,
    serving: Serving,
    kubeconfig: PathBuf,
    programs: Vec<Program>,
    // last: the programs end before their folder
    folder: TempDir,
}

struct Program {
    name: &'static str,
    log: PathBuf,
    child: Child,
}

impl Program {
    fn log(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LOG_LINES)..];
        format!("{}:\n{}", self.name, last.join("\n"))
    }
}

impl Ground {
    async fn open() -> Ground {
        let folder = tempfile::tempdir().unwrap();
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let serving = cluster.serve(address).await.unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        cluster.write_kubeconfig(&serving, &kubeconfig).unwrap();
        Ground {
            cluster,
            serving,
            kubeconfig,
            programs: Vec::new(),
            folder,
        }
    }

    fn client(&self) -> Client {
        self.cluster.client()
    }

    fn kubeconfig_flag(&self) -> OsString {
        flag("kubeconfig", &self.kubeconfig)
    }

    /// Starts a program in the folder, which is its home too.
    fn start(&mut self, name: &'static str, program: &Path, arguments: impl IntoIterator<Item = OsString>) {
        let kubeconfig = self.kubeconfig.clone();
        self.start_as(&kubeconfig, name, program, arguments);
    }

    fn start_as(
        &mut self,
        kubeconfig: &Path,
        name: &'static str,
        program: &Path,
        arguments: impl IntoIterator<Item = OsString>,
    ) {
        let folder = self.folder.path();
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .env("HOME", folder)
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        self.programs.push(Program { name, log, child });
    }

    /// Runs a command of kubectl as the administrator; returns its output.
    async fn kubectl(&self, clients: &Clients, arguments: &[&OsStr]) -> String {
        let output = Command::new(&clients.kubectl)
            .args(arguments)
            .env("HOME", self.folder.path())
            .env("KUBECONFIG", &self.kubeconfig)
            .output()
            .await
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {errors}");
        String::from_utf8(output.stdout).unwrap()
    }

    async fn apply(&self, clients: &Clients, folder: &Path) {
        let command = ["apply", "--server-side", "--filename"].map(OsStr::new);
        self.kubectl(clients, &[&command[..], &[folder.as_os_str()]].concat())
            .await;
    }

    /// A kubeconfig of a ServiceAccount in the namespace `default`.
    async fn service_account(&self, clients: &Clients, name: &str) -> PathBuf {
        let token = self
            .kubectl(clients, &["create", "token", name].map(OsStr::new))
            .await;
        let mut kubeconfig = Kubeconfig::read_from(&self.kubeconfig).unwrap();
        let user = kubeconfig.auth_infos.first_mut().unwrap();
        user.auth_info.as_mut().unwrap().token = Some(token.trim().to_owned().into());
        let path = self.folder.path().join(format!("{name}.kubeconfig"));
        fs::write(&path, serde_json::to_string(&kubeconfig).unwrap()).unwrap();
        path
    }

    fn logs(&self) -> String {
        let logs: Vec<String> = self.programs.iter().map(Program::log).collect();
        logs.join("\n")
    }

    /// Fails when a program does not hold its Lease.
    async fn holds(&self, namespace: &str, name: &str) {
        let leases: Api<Lease> = Api::namespaced(self.client(), namespace);
        let holder = leases.get(name).await.unwrap().spec.unwrap().holder_identity;
        assert!(holder.is_some_and(|holder| !holder.is_empty()), "{name}");
    }

    /// Fails when a program has ended by itself.
    async fn close(mut self) {
        for program in &mut self.programs {
            assert!(program.child.try_wait().unwrap().is_none(), "{}", program.log());
            program.child.kill().await.unwrap();
        }
        self.serving.stop().await;
        self.cluster.stop().await;
    }
}

fn flag(name: &str, value: &Path) -> OsString {
    let mut flag = OsString::from(format!("--{name}="));
    flag.push(value);
    flag
}

fn start_control_plane(ground: &mut Ground, plane: &ControlPlane) {
    // without a port of their own they do not take those of another run
    let component = [ground.kubeconfig_flag(), "--secure-port=0".into()];
    // the default is a folder of the machine
    let plugins = flag("flex-volume-plugin-dir", &ground.folder.path().join("plugins"));
    ground.start(
        "kube-controller-manager",
        &plane.kube_controller_manager(),
        component.clone().into_iter().chain([plugins]),
    );
    ground.start("kube-scheduler", &plane.kube_scheduler(), component);
    let mut kwok = vec![
        ground.kubeconfig_flag(),
        "--manage-all-nodes=true".into(),
        "--enable-crds=".into(),
        "--server-address=127.0.0.1:0".into(),
    ];
    for stage in plane.kwok_stages().unwrap() {
        kwok.push(flag("config", &stage));
    }
    ground.start("kwok", &plane.kwok(), kwok);
}

fn has_condition(status: &Value, kind: &str) -> bool {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.any(|one| one["type"] == kind && one["status"] == "True")
}

fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn node(name: &str) -> Node {
    object(json!({
        "metadata": {
            "name": name,
            "annotations": { "kwok.x-k8s.io/node": "fake" },
            "labels": { "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" },
        },
        "status": {
            "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "110" },
            "capacity": { "cpu": "8", "memory": "16Gi", "pods": "110" },
        },
    }))
}

fn service() -> Service {
    object(json!({
        "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    }))
}

fn deployment() -> Deployment {
    object(json!({
        "metadata": { "name": "web" },
        "spec": {
            "replicas": REPLICAS,
            "selector": { "matchLabels": { "app": "web" } },
            "template": {
                "metadata": { "labels": { "app": "web" } },
                "spec": { "containers": [{ "name": "web", "image": "example.com/web:1" }] },
            },
        },
    }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_runs_and_ends() {
    let Some(plane) = peer(|progress| peers::control_plane(progress)) else {
        return;
    };
    let mut ground = Ground::open().await;
    start_control_plane(&mut ground, &plane);

    let client = ground.client();
    let nodes: Api<Node> = Api::all(client.clone());
    for name in ["node-0", "node-1"] {
        nodes.create(&PostParams::default(), &node(name)).await.unwrap();
    }
    let services: Api<Service> = Api::default_namespaced(client.clone());
    services.create(&PostParams::default(), &service()).await.unwrap();
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments
        .create(&PostParams::default(), &deployment())
        .await
        .unwrap();

    let available = async || {
        let web = deployments.get("web").await.map_err(|error| error.to_string())?;
        let status = web.status.unwrap_or_default();
        (status.available_replicas == Some(REPLICAS))
            .then_some(())
            .ok_or_else(|| format!("{status:?}\n{}", ground.logs()))
    };
    eventually("the Deployment is available", DEADLINE, available).await;
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let node = pod.spec.unwrap().node_name.unwrap();
        assert!(node.starts_with("node-"), "{node}");
    }

    let slices: Api<EndpointSlice> = Api::default_namespaced(client);
    let of_web = ListParams::default().labels("kubernetes.io/service-name=web");
    let reachable = async || {
        let slices = slices.list(&of_web).await.map_err(|error| error.to_string())?;
        let endpoints = slices
            .items
            .iter()
            .flat_map(|slice| slice.endpoints.iter().flatten());
        let ready = endpoints.filter(|endpoint| {
            let conditions = endpoint.conditions.as_ref();
            conditions.and_then(|conditions| conditions.ready) == Some(true)
        });
        match ready.count() {
            2 => Ok(()),
            other => Err(format!("{other} of 2 endpoints\n{}", ground.logs())),
        }
    };
    eventually("the Service has its endpoints", DEADLINE, reachable).await;
    ground.holds("kube-system", "kube-controller-manager").await;
    ground.holds("kube-system", "kube-scheduler").await;

    let foreground = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        ..DeleteParams::default()
    };
    deployments.delete("web", &foreground).await.unwrap();
    // the pods wait for their grace period, which only kwok ends
    let gone = async || {
        let left = pods.list(&ListParams::default()).await;
        let left = left.map_err(|error| error.to_string())?.items.len();
        let web = deployments.get_opt("web").await;
        let web = web.map_err(|error| error.to_string())?;
        if left == 0 && web.is_none() {
            return Ok(());
        }
        let web = web.map(|web| web.metadata);
        Err(format!("{left} pods; {web:?}\n{}", ground.logs()))
    };
    eventually("the Deployment and its pods are gone", DEADLINE, gone).await;
    ground.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_manager_of_controller_runtime_reconciles() {
    let Some(manager) = peer(|progress| peers::manager(progress)) else {
        return;
    };
    let mut ground = Ground::open().await;
    ground.start("manager", &manager, []);

    let mut watched = deployment();
    watched.metadata.labels = Some([("watch".to_owned(), "yes".to_owned())].into());
    let deployments: Api<Deployment> = Api::default_namespaced(ground.client());
    let created = deployments.create(&PostParams::default(), &watched).await;
    created.unwrap();
    let configs: Api<ConfigMap> = Api::default_namespaced(ground.client());
    let seen = async |replicas: &str, generation: i64| {
        let config = configs.get("web-seen").await;
        let config = config.map_err(|error| format!("{error}\n{}", ground.logs()))?;
        let web = deployments.get("web").await.map_err(|error| error.to_string())?;
        let conditions = web.status.and_then(|status| status.conditions);
        let message = format!("generation {generation}");
        let is_seen = conditions.iter().flatten().any(|one| {
            one.type_.as_deref() == Some("Seen") && one.message.as_deref() == Some(message.as_str())
        });
        let data = config.data.unwrap_or_default();
        (data.get("replicas").is_some_and(|seen| seen == replicas) && is_seen)
            .then_some(())
            .ok_or_else(|| format!("{data:?}, {conditions:?}\n{}", ground.logs()))
    };
    eventually("the Deployment is seen", DEADLINE, async || seen("2", 1).await).await;
    ground.holds("default", "manager.equate.dev").await;

    let more = Patch::Merge(json!({ "spec": { "replicas": 5 } }));
    let patched = deployments.patch("web", &PatchParams::default(), &more).await;
    patched.unwrap();
    eventually("the change is seen", DEADLINE, async || seen("5", 2).await).await;
    let deleted = configs.delete("web-seen", &DeleteParams::default()).await;
    deleted.unwrap();
    eventually("the ConfigMap is back", DEADLINE, async || seen("5", 2).await).await;

    // only the manager removes its finalizer
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    let gone = async || {
        let web = deployments
            .get_opt("web")
            .await
            .map_err(|error| error.to_string())?;
        let config = configs.get_opt("web-seen").await;
        let config = config.map_err(|error| error.to_string())?;
        (web.is_none() && config.is_none())
            .then_some(())
            .ok_or_else(|| format!("{web:?}, {config:?}\n{}", ground.logs()))
    };
    eventually("the Deployment and its ConfigMap are gone", DEADLINE, gone).await;
    ground.close().await;
}

/// As its ServiceAccount, with the rights that its own role grants.
#[tokio::test(flavor = "multi_thread")]
async fn prometheus_operator_makes_a_stateful_set() {
    let Some(operator) = peer(|progress| peers::prometheus_operator(progress)) else {
        return;
    };
    let Some(clients) = clients() else { return };
    let mut ground = Ground::open().await;
    ground.apply(&clients, &operator.definitions).await;
    ground.apply(&clients, &operator.manifests).await;
    let account = ground.service_account(&clients, "prometheus-operator").await;
    let arguments = ["--web.listen-address=127.0.0.1:0".into()];
    ground.start_as(&account, "prometheus-operator", &operator.program, arguments);

    let kind = GroupVersionKind::gvk("monitoring.coreos.com", "v1", "Prometheus");
    let kind = ApiResource::from_gvk_with_plural(&kind, "prometheuses");
    let prometheuses: Api<DynamicObject> = Api::default_namespaced_with(ground.client(), &kind);
    let prometheus = object(json!({
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "Prometheus",
        "metadata": { "name": "main" },
        "spec": { "replicas": 1, "serviceMonitorSelector": {} },
    }));
    let created = prometheuses.create(&PostParams::default(), &prometheus).await;
    created.unwrap();
    let sets: Api<StatefulSet> = Api::default_namespaced(ground.client());
    let scaled = async |replicas: i32| {
        let set = sets.get("prometheus-main").await;
        let set = set.map_err(|error| format!("{error}\n{}", ground.logs()))?;
        let seen = set.spec.replicas;
        let main = prometheuses
            .get("main")
            .await
            .map_err(|error| error.to_string())?;
        let status = &main.data["status"];
        (seen == Some(replicas) && has_condition(status, "Reconciled"))
            .then_some(())
            .ok_or_else(|| format!("{seen:?} replicas, {status}\n{}", ground.logs()))
    };
    eventually("the StatefulSet exists", DEADLINE, async || scaled(1).await).await;
    let secrets: Api<Secret> = Api::default_namespaced(ground.client());
    let secret = secrets.get("prometheus-main").await.unwrap();
    assert!(secret.data.unwrap().contains_key("prometheus.yaml.gz"));

    let more = Patch::Merge(json!({ "spec": { "replicas": 2 } }));
    let patched = prometheuses.patch("main", &PatchParams::default(), &more).await;
    patched.unwrap();
    eventually("the StatefulSet is scaled", DEADLINE, async || scaled(2).await).await;

    prometheuses
        .delete("main", &DeleteParams::default())
        .await
        .unwrap();
    let gone = async || match sets.get_opt("prometheus-main").await {
        Ok(None) => Ok(()),
        seen => Err(format!("{seen:?}\n{}", ground.logs())),
    };
    eventually("the StatefulSet is collected", DEADLINE, gone).await;
    ground.close().await;
}
