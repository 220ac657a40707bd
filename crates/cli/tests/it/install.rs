//! `equate install` on the embedded API, and under `cargo xtask test-peers` on a real one with `kubectl`,
//! RBAC and admission.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use equate_testkit::cluster::Cluster;
use equate_testkit::eventually::eventually;
use equate_testkit::git::Repository;
use equate_testkit::peers::{self, KubectlVersion};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionCondition,
};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tempfile::TempDir;

const NAMESPACE: &str = "flux-system";
/// Long enough for a loaded machine.
const DEADLINE: Duration = Duration::from_secs(120);

struct World {
    cluster: Cluster,
    client: kube::Client,
    kubeconfig: PathBuf,
    kubectl: Option<PathBuf>,
    /// kubectl's cache.
    folder: TempDir,
}

impl World {
    async fn start() -> Self {
        drop(rustls::crypto::ring::default_provider().install_default());
        let real = peers::wanted().is_ok();
        let mut progress = |line: &str| println!("peers: {line}");
        let cluster = Cluster::named(if real { "real" } else { "embedded" }, &mut progress)
            .await
            .unwrap();
        let kubectl = real.then(|| {
            peers::kubectl(KubectlVersion::ALL[0], &mut progress)
                .unwrap()
                .kubectl
        });
        Self {
            client: cluster.client().unwrap(),
            kubeconfig: cluster.kubeconfig().to_owned(),
            cluster,
            kubectl,
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_equate"));
        command.arg("install").args(arguments);
        if !arguments.contains(&"--export") {
            command.arg("--kubeconfig").arg(&self.kubeconfig);
        }
        tokio::task::block_in_place(|| command.output().unwrap())
    }

    fn install(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let (printed, complained) = (
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{arguments:?}: {printed}{complained}");
        printed
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    }

    fn kubectl(&self, arguments: &[&str], input: &str) -> String {
        let mut command = Command::new(self.kubectl.as_ref().unwrap());
        // kubectl caches discovery by address, which another cluster may have had before
        command.arg("--cache-dir").arg(self.folder.path());
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments);
        let command = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        tokio::task::block_in_place(|| {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            let complained = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {complained}");
            String::from_utf8(output.stdout).unwrap()
        })
    }

    async fn versions(&self) -> BTreeMap<String, String> {
        let mut versions = BTreeMap::new();
        for object in documents(&self.install(&["--export", "--image", "equate:one"])) {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let (group, version) = match object["apiVersion"].as_str().unwrap().split_once('/') {
                Some((group, version)) => (group, version),
                None => ("", "v1"),
            };
            let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
            let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
                Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
                None => Api::all_with(self.client.clone(), &resource),
            };
            let found = api.get(&name).await.unwrap();
            versions.insert(format!("{kind}/{name}"), found.metadata.resource_version.unwrap());
        }
        versions
    }

    async fn apply(&self, object: Value) {
        let gvk = match object["apiVersion"].as_str().unwrap().split_once('/') {
            Some((group, version)) => GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap()),
            None => GroupVersionKind::gvk("", "v1", object["kind"].as_str().unwrap()),
        };
        let resource = ApiResource::from_gvk(&gvk);
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        // the kind of a new CRD may not be served yet
        let params = PatchParams::apply("test").force();
        let apply = async || api.patch(name, &params, &Patch::Apply(&object)).await;
        eventually(&format!("{name} is applied"), DEADLINE, apply).await;
    }

    async fn deployment(&self) -> Deployment {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        api.get("equate").await.unwrap()
    }

    /// Installs until no resource version changes: controllers react to the first installation.
    async fn settled(&self, arguments: &[&str], objects: usize) {
        let probe = async || {
            let before = self.versions().await;
            let printed = self.install(arguments);
            let after = self.versions().await;
            match before == after {
                true => Ok(all_are(&printed, " unchanged")),
                false => Err(format!("{printed}\n{before:?}\n{after:?}")),
            }
        };
        let what = "a second install changes nothing";
        let unchanged = eventually(what, DEADLINE, async || probe().await).await;
        assert_eq!(unchanged, objects);
    }

    async fn stop(self) {
        self.cluster.stop().await.unwrap();
    }
}

fn documents(text: &str) -> Vec<Value> {
    let all = equate_manifest::yaml::load(text, &equate_manifest::yaml::Options::default());
    all.unwrap().into_iter().map(|document| document.value).collect()
}

/// Asserts that every line ends so, and returns the number of lines.
fn all_are(printed: &str, what: &str) -> usize {
    let others: Vec<&str> = printed.lines().filter(|line| !line.ends_with(what)).collect();
    assert!(others.is_empty(), "not {what}: {others:#?}");
    printed.lines().count()
}

const ONCE: [&str; 3] = ["--no-wait", "--image", "equate:one"];

#[tokio::test(flavor = "multi_thread")]
async fn installation_is_idempotent() {
    let world = World::start().await;
    let foreseen = world.install(&["--dry-run", "--image", "equate:one"]);
    let objects = all_are(&foreseen, " created (dry run)");
    if world.kubectl.is_some() {
        // the export is for kubectl, which detects changes itself
        let manifests = world.install(&["--export", "--image", "equate:one"]);
        let first = world.kubectl(&["apply", "-f", "-"], &manifests);
        assert_eq!(all_are(&first, " created"), objects);
        let again = world.kubectl(&["apply", "-f", "-"], &manifests);
        assert_eq!(all_are(&again, " unchanged"), objects);
        let side = ["apply", "--server-side", "-f", "-"];
        let served = world.kubectl(&side, &manifests);
        assert_eq!(all_are(&served, " serverside-applied"), objects);
        // and this command takes over from kubectl
        world.install(&ONCE);
    } else {
        let printed = world.install(&ONCE);
        assert_eq!(all_are(&printed, " created"), objects, "{foreseen}");
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(world.client.clone());
    for definition in equate_api::definitions() {
        let established = async || {
            let found = definitions.get(definition.name).await.unwrap();
            let conditions = found
                .status
                .and_then(|status| status.conditions)
                .unwrap_or_default();
            let is = |condition: &CustomResourceDefinitionCondition| {
                condition.type_ == "Established" && condition.status == "True"
            };
            match conditions.iter().any(is) {
                true => Ok(()),
                false => Err(format!("{conditions:?}")),
            }
        };
        eventually(definition.name, DEADLINE, established).await;
    }
    world.settled(&ONCE, objects).await;

    // an update writes the differences only
    let other = ["--no-wait", "--image", "equate:two"];
    let before = world.deployment().await;
    let foreseen = world.install(&["--dry-run", "--image", "equate:two"]);
    assert!(
        foreseen.contains(
            "Deployment/flux-system/equate configured (dry run)\n    ~ .spec.template.spec.containers"
        ),
        "{foreseen}"
    );
    assert!(
        foreseen.contains("\"equate:one\" -> \"equate:two\""),
        "{foreseen}"
    );
    let untouched = world.deployment().await;
    assert_eq!(before.metadata.generation, untouched.metadata.generation);
    let printed = world.install(&other);
    let changed: Vec<&str> = printed
        .lines()
        .filter(|line| !line.ends_with(" unchanged"))
        .collect();
    assert_eq!(changed, ["Deployment/flux-system/equate configured"]);
    world.settled(&other, objects).await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_other_managers_are_left_alone() {
    const DEFINITION: &str = "gitrepositories.source.toolkit.fluxcd.io";
    let world = World::start().await;
    let printed = world.refused(&["--beside-flux", "--image", "equate:one"]);
    assert!(
        printed.contains("Flux is not installed in namespace flux-system"),
        "{printed}"
    );
    world.install(&ONCE);

    // Flux's controller in another namespace has another Lease
    let controller = |namespace: &str, replicas: u32| {
        let labels = json!({ "app": "source-controller" });
        json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {
                "name": "source-controller",
                "namespace": namespace,
                "labels": { "app.kubernetes.io/part-of": "flux" },
            },
            "spec": {
                "replicas": replicas,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "manager", "image": "flux" }] },
                },
            },
        })
    };
    world.apply(controller("default", 1)).await;
    let printed = world.refused(&ONCE);
    assert!(
        printed.contains("Flux's source-controller runs in namespace default")
            && printed.contains("hint: select that namespace"),
        "{printed}"
    );
    world.apply(controller("default", 0)).await;

    // git would revert the changes
    world
        .apply(json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": { "name": DEFINITION, "labels": {
                "kustomize.toolkit.fluxcd.io/name": "flux-system",
                "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
            } },
        }))
        .await;
    let printed = world.refused(&ONCE);
    assert!(
        printed.contains("managed by git, by the Kustomization flux-system/flux-system")
            && printed.contains("hint: use --beside-flux"),
        "{printed}"
    );

    // beside a running Flux, it prints which controllers Equate waits for, and writes none of Flux's objects
    world.apply(controller(NAMESPACE, 1)).await;
    let output = world.run(&["--no-wait", "--beside-flux", "--image", "equate:two"]);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(
        complained.contains("Flux's source-controller is running, and Equate waits until it stops"),
        "{complained}"
    );
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(
        printed.lines().collect::<Vec<_>>(),
        [
            "ClusterRole/equate-controllers-flux-system unchanged",
            "ClusterRoleBinding/equate-controllers-flux-system unchanged",
            "ClusterRoleBinding/equate-reconciler-flux-system unchanged",
            "Deployment/flux-system/equate configured",
        ]
    );
    world.stop().await;
}

/// A pod without the security context is refused, which proves that admission works.
#[tokio::test(flavor = "multi_thread")]
async fn restricted_namespace_admits_the_pod() {
    if let Err(skip) = peers::wanted() {
        println!("{}", skip.0);
        return;
    }
    let world = World::start().await;
    world
        .apply(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": { "name": "restricted", "labels": {
                "pod-security.kubernetes.io/enforce": "restricted",
                "pod-security.kubernetes.io/enforce-version": "latest",
            } },
        }))
        .await;
    let pods: Api<Pod> = Api::namespaced(world.client.clone(), "restricted");
    let deployment = documents(&world.install(&["--export", "--registry", "r.example"]))
        .pop()
        .unwrap();
    let template = &deployment["spec"]["template"];
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": "equate", "labels": template["metadata"]["labels"] },
        "spec": template["spec"],
    });
    let create = async |pod: &Value| {
        let trial = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let pod = serde_json::from_value(pod.clone()).unwrap();
        pods.create(&trial, &pod)
            .await
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert_eq!(create(&pod).await, Ok(()));
    for field in [
        "allowPrivilegeEscalation",
        "capabilities",
        "runAsNonRoot",
        "seccompProfile",
    ] {
        let mut without = pod.clone();
        without["spec"]["containers"][0]["securityContext"]
            .as_object_mut()
            .unwrap()
            .remove(field);
        let refused = create(&without).await.unwrap_err();
        assert!(
            refused.contains("violates PodSecurity") && refused.contains(field),
            "{refused}"
        );
    }
    world.stop().await;
}

/// Runs the controllers with the permissions of the installed ServiceAccount only.
#[tokio::test(flavor = "multi_thread")]
async fn installed_permissions_suffice_for_sources() {
    const URL: &str = "https://git.example/fleet.git";
    if let Err(skip) = peers::wanted() {
        println!("{}", skip.0);
        return;
    }
    let world = World::start().await;
    world.install(&[
        "--no-wait",
        "--image",
        "equate:one",
        "--components=source-controller",
    ]);
    let token = world.kubectl(
        &["--namespace", NAMESPACE, "create", "token", "source-controller"],
        "",
    );
    let folder = tempfile::tempdir().unwrap();
    let mut kubeconfig = documents(&std::fs::read_to_string(&world.kubeconfig).unwrap()).remove(0);
    kubeconfig["users"][0]["user"] = json!({ "token": token.trim() });
    let own = folder.path().join("kubeconfig");
    std::fs::write(&own, kubeconfig.to_string()).unwrap();
    let repository = Repository::init().unwrap();
    repository
        .commit(&[("kustomization.yaml", Some("resources: []\n"))])
        .unwrap();
    let controllers = Command::new(env!("CARGO_BIN_EXE_equate"))
        .args([
            "controllers",
            "--controllers=source-controller",
            "--enable-leader-election",
        ])
        .args([
            "--metrics-addr=0",
            "--health-addr=0",
            "--storage-addr=127.0.0.1:0",
        ])
        .arg("--storage-path")
        .arg(folder.path().join("data"))
        .arg(format!("--instead-of={URL}={}", repository.path().display()))
        .arg("--kubeconfig")
        .arg(&own)
        .env("RUNTIME_NAMESPACE", NAMESPACE)
        .spawn();
    let controllers = Running(controllers.unwrap());
    world
        .apply(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "GitRepository",
            "metadata": { "name": "fleet", "namespace": NAMESPACE },
            "spec": { "url": URL, "interval": "1h", "ref": { "branch": "main" } },
        }))
        .await;
    let jsonpath = |what: &[&str], path: &str| {
        let path = format!("jsonpath={path}");
        world.kubectl(
            &[&["--namespace", NAMESPACE, "get"], what, &["-o", &path]].concat(),
            "",
        )
    };
    eventually(
        "the source is ready, and its event is there",
        DEADLINE,
        async || {
            let ready = jsonpath(
                &["gitrepository", "fleet"],
                "{.status.conditions[?(@.type=='Ready')].status}",
            );
            let events = jsonpath(&["events"], "{.items[*].reason}");
            match ready == "True" && events.contains("NewArtifact") {
                true => Ok(()),
                false => Err(format!("{ready} {events}")),
            }
        },
    )
    .await;
    let leases = jsonpath(&["leases"], "{.items[*].metadata.name}");
    assert_eq!(leases, "source-controller-leader-election");
    drop(controllers);
    world.stop().await;
}

/// Killed at the end of its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
