//! Flux's own source-controller, as a process beside the test. `EQUATE_SOURCE_CONTROLLER` names the program.

use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use equate_api::source::{Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OciRepository};
use equate_testkit::eventually::established;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use kube::{Client, CustomResourceExt as _, ResourceExt as _};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::session::DEADLINE;

pub(crate) const VARIABLE: &str = "EQUATE_SOURCE_CONTROLLER";

pub(crate) struct SourceController {
    child: Child,
    _storage: Option<TempDir>,
}

impl SourceController {
    /// One for all namespaces, with its kinds and a storage of its own.
    pub(crate) async fn of_all(client: &Client) -> Self {
        define(client).await;
        let storage = tempfile::tempdir().unwrap();
        let all = "--watch-all-namespaces=true";
        let started = Self::start(&storage.path().join("data"), "flux-system", &[all]);
        let mut started = started.unwrap_or_else(|| panic!("{VARIABLE} is not set"));
        started._storage = Some(storage);
        started
    }

    /// One for the objects of one namespace, which needs its kinds to be defined; `None` without the program.
    pub(crate) fn of_namespace(storage: &Path, namespace: &str) -> Option<Self> {
        Self::start(storage, namespace, &["--watch-all-namespaces=false"])
    }

    fn start(storage: &Path, namespace: &str, arguments: &[&str]) -> Option<Self> {
        let Ok(program) = std::env::var(VARIABLE) else {
            eprintln!("skipped: {VARIABLE} is not set, run `cargo xtask test-peers`");
            return None;
        };
        // the address is in the artifacts' URLs, so the port must be known
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);
        let log = storage.parent().unwrap().join("source-controller.log");
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let log = log.unwrap();
        std::fs::create_dir_all(storage).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .args([
                "--enable-leader-election=false",
                "--log-level=error",
                "--metrics-addr=127.0.0.1:0",
                "--health-addr=127.0.0.1:0",
                "--concurrent=10",
                "--requeue-dependency=5s",
                // what is collected within a test depends on the time
                "--artifact-retention-ttl=1h",
            ])
            .arg(format!("--storage-adv-addr={address}"))
            .arg(format!("--storage-addr={address}"))
            .arg(format!("--storage-path={}", storage.display()))
            .env("KUBECONFIG", std::env::var("EQUATE_TEST_KUBECONFIG").unwrap())
            .env("RUNTIME_NAMESPACE", namespace)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        Some(Self {
            child: child.unwrap(),
            _storage: None,
        })
    }

    pub(crate) async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Defines the kinds of source-controller, where they are not.
pub(crate) async fn define(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let kinds = [
        GitRepository::crd(),
        HelmRepository::crd(),
        HelmChart::crd(),
        OciRepository::crd(),
        Bucket::crd(),
        ExternalArtifact::crd(),
    ];
    for definition in &kinds {
        match definitions.create(&PostParams::default(), definition).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            created => drop(created.unwrap()),
        }
    }
    for definition in &kinds {
        established(client, &definition.name_any(), DEADLINE).await;
    }
}
