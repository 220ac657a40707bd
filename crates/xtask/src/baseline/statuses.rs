//! `cargo xtask baseline statuses`: what Flux's controllers write over the scenarios of HelmReleases in
//! `crates/controllers/tests/status`.

use std::error::Error;
use std::fs::File;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use equate_testkit::peers::{self, FluxController, KubectlVersion};
use equate_testkit::real::{Profile, RealCluster};

use crate::test_programs::Programs;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The scenarios whose names contain this
    #[arg(default_value = "helm-")]
    only: String,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let [helm, source] = peers::flux_controllers(&mut progress)?;
    let kubectl = peers::kubectl(KubectlVersion::ALL[0], &mut progress)?.kubectl;
    let programs = Programs::build()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let cluster = runtime.block_on(RealCluster::start(Profile::Full, &mut progress))?;
    let folder = tempfile::tempdir()?;
    let outcome = (|| {
        let kubeconfig = cluster.kubeconfig_path();
        for controller in [&helm, &source] {
            let mut define = Command::new(&kubectl);
            define
                .args(["apply", "--server-side", "-f"])
                .arg(&controller.definitions);
            succeeds(define.env("KUBECONFIG", kubeconfig), "kubectl apply of CRDs")?;
        }
        let _running = start(&helm, &source, kubeconfig, folder.path())?;
        let mut tests = programs.command("equate-controllers", "it")?;
        tests
            .args(["status::statuses_and_events_are_flux_s", "--nocapture"])
            .env("EQUATE_STATUS", "upstream")
            .env("EQUATE_STATUS_ONLY", &args.only)
            .env("EQUATE_TEST_KUBECONFIG", kubeconfig);
        succeeds(&mut tests, "recording")
    })();
    runtime.block_on(cluster.stop())?;
    outcome
}

/// Controllers that end with this value.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Err(error) = child.kill().and_then(|()| child.wait()) {
                eprintln!("cannot stop the controller with pid {}: {error}", child.id());
            }
        }
    }
}

fn start(
    helm: &FluxController,
    source: &FluxController,
    kubeconfig: &Path,
    folder: &Path,
) -> Result<Running, Box<dyn Error>> {
    let mut running = Running(Vec::new());
    // source-controller takes no port 0: the address is in its artifacts
    let storage = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let artifacts = folder.join("artifacts");
    std::fs::create_dir(&artifacts)?;
    let own = [
        (
            source,
            vec![
                format!("--storage-path={}", artifacts.display()),
                format!("--storage-addr={storage}"),
                format!("--storage-adv-addr={storage}"),
            ],
        ),
        // half a minute by default
        (helm, vec!["--requeue-dependency=2s".to_owned()]),
    ];
    for (controller, own) in own {
        let name = controller.program.file_name().unwrap_or_default();
        let log = File::create(folder.join(name).with_extension("log"))?;
        let child = Command::new(&controller.program)
            .args([
                "--enable-leader-election=false",
                "--events-addr=",
                "--metrics-addr=127.0.0.1:0",
                "--health-addr=127.0.0.1:0",
                "--concurrent=10",
                "--kube-api-qps=500",
                "--kube-api-burst=1000",
            ])
            .args(own)
            .env("KUBECONFIG", kubeconfig)
            .env("RUNTIME_NAMESPACE", "default")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        running.0.push(child);
    }
    Ok(running)
}

fn succeeds(command: &mut Command, what: &str) -> Result<(), Box<dyn Error>> {
    match command.status()? {
        status if status.success() => Ok(()),
        status => Err(format!("{what} failed ({status})").into()),
    }
}
