//! The processes of one control plane.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use super::files::Files;
use super::{Error, Ports, Profile};
use crate::peers::{ControlPlane, last_lines};

const DIFFERENTIAL_CONTROLLERS: &str = "--controllers=namespace-controller,serviceaccount-controller,\
garbage-collector-controller,root-ca-certificate-publisher-controller";

#[derive(Debug)]
struct Running {
    program: &'static str,
    child: Child,
    log: PathBuf,
}

/// The running processes; dropping them kills them.
#[derive(Debug)]
pub(super) struct Children {
    running: Vec<Running>,
    logs: PathBuf,
}

impl Children {
    /// Starts etcd and the API server; the others exit without permissions, so they start once these are
    /// ready.
    pub(super) fn start(
        plane: &ControlPlane,
        folder: &Path,
        files: &Files,
        ports: &Ports,
    ) -> Result<Children, Error> {
        let logs = folder.join("logs");
        fs::create_dir_all(&logs).map_err(Error::io("create the logs' folder"))?;
        let mut children = Children {
            running: Vec::new(),
            logs,
        };
        children.spawn("etcd", etcd(plane, folder, ports))?;
        children.spawn("kube-apiserver", api_server(plane, files, ports))?;
        Ok(children)
    }

    /// Starts the controllers, and in the full profile the scheduler and the nodes.
    pub(super) fn start_controllers(
        &mut self,
        plane: &ControlPlane,
        profile: Profile,
        files: &Files,
        ports: &Ports,
    ) -> Result<(), Error> {
        self.spawn(
            "kube-controller-manager",
            controllers(plane, profile, files, ports),
        )?;
        if profile == Profile::Full {
            self.spawn("kube-scheduler", scheduler(plane, files, ports))?;
            self.spawn("kwok", kwok(plane, files, ports)?)?;
        }
        Ok(())
    }

    fn spawn(&mut self, program: &'static str, mut command: Command) -> Result<(), Error> {
        let log = self.logs.join(format!("{program}.log"));
        let file = File::create(&log).map_err(Error::io(format!("create {program}'s log")))?;
        let twin = file
            .try_clone()
            .map_err(Error::io(format!("share {program}'s log")))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::from(twin))
            .stderr(Stdio::from(file))
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::io(format!("start {program}")))?;
        self.running.push(Running { program, child, log });
        Ok(())
    }

    pub(super) fn check(&mut self) -> Result<(), Error> {
        for Running { program, child, log } in &mut self.running {
            if let Some(status) = child
                .try_wait()
                .map_err(Error::io(format!("look at {program}")))?
            {
                let log = fs::read_to_string(&*log).map_err(Error::io(format!("read {program}'s log")))?;
                return Err(Error::Ended {
                    program,
                    status,
                    log: last_lines(&log),
                });
            }
        }
        Ok(())
    }

    pub(super) async fn stop(&mut self) -> Result<(), Error> {
        while let Some(Running {
            program, mut child, ..
        }) = self.running.pop()
        {
            child.kill().await.map_err(Error::io(format!("end {program}")))?;
        }
        Ok(())
    }
}

fn etcd(plane: &ControlPlane, folder: &Path, ports: &Ports) -> Command {
    let client = format!("http://127.0.0.1:{}", ports.etcd_client);
    let peer = format!("http://127.0.0.1:{}", ports.etcd_peer);
    let mut command = Command::new(plane.etcd());
    command
        .arg(flag("data-dir", folder.join("etcd")))
        .arg(format!("--listen-client-urls={client}"))
        .arg(format!("--advertise-client-urls={client}"))
        .arg(format!("--listen-peer-urls={peer}"))
        .arg(format!("--initial-advertise-peer-urls={peer}"))
        .arg(format!("--initial-cluster=default={peer}"))
        // the data of a test's cluster need not survive
        .arg("--unsafe-no-fsync");
    command
}

fn api_server(plane: &ControlPlane, files: &Files, ports: &Ports) -> Command {
    let mut command = Command::new(plane.kube_apiserver());
    command
        .arg(format!("--etcd-servers=http://127.0.0.1:{}", ports.etcd_client))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--secure-port={}", ports.api))
        .arg(flag("tls-cert-file", &files.server))
        .arg(flag("tls-private-key-file", &files.server_key))
        .arg(flag("client-ca-file", &files.ca))
        .arg(flag("token-auth-file", &files.tokens))
        .arg(flag("service-account-key-file", &files.sa))
        .arg(flag("service-account-signing-key-file", &files.sa_key))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg("--service-cluster-ip-range=10.96.0.0/16")
        .args([
            "--authorization-mode=RBAC",
            "--endpoint-reconciler-type=none",
            "--allow-privileged=true",
        ])
        .arg("--disable-admission-plugins=ServiceAccount");
    command
}

fn controllers(plane: &ControlPlane, profile: Profile, files: &Files, ports: &Ports) -> Command {
    let mut command = Command::new(plane.kube_controller_manager());
    command
        .arg(flag("kubeconfig", &files.controllers))
        .arg(flag("authentication-kubeconfig", &files.controllers))
        .arg(flag("authorization-kubeconfig", &files.controllers))
        .arg("--bind-address=127.0.0.1")
        .arg(format!("--secure-port={}", ports.controllers))
        // the default of 20 requests a second would distort measurements
        .args([
            "--leader-elect=false",
            "--kube-api-qps=1000",
            "--kube-api-burst=2000",
        ])
        .arg("--use-service-account-credentials=true")
        .arg(flag("service-account-private-key-file", &files.sa_key))
        .arg(flag("root-ca-file", &files.ca))
        .arg(flag("cluster-signing-cert-file", &files.ca))
        .arg(flag("cluster-signing-key-file", &files.ca_key));
    if profile == Profile::Differential {
        command.arg(DIFFERENTIAL_CONTROLLERS);
    }
    command
}

fn scheduler(plane: &ControlPlane, files: &Files, ports: &Ports) -> Command {
    let mut command = Command::new(plane.kube_scheduler());
    command
        .arg(flag("kubeconfig", &files.scheduler))
        .arg(flag("authentication-kubeconfig", &files.scheduler))
        .arg(flag("authorization-kubeconfig", &files.scheduler))
        .args(["--bind-address=127.0.0.1", "--leader-elect=false"])
        .arg(format!("--secure-port={}", ports.scheduler));
    command
}

fn kwok(plane: &ControlPlane, files: &Files, ports: &Ports) -> Result<Command, Error> {
    let mut command = Command::new(plane.kwok());
    command
        .arg(flag("kubeconfig", &files.kwok))
        .args([
            "--manage-all-nodes=true",
            "--enable-crds=",
            "--node-lease-duration-seconds=40",
        ])
        .arg(format!("--server-address=127.0.0.1:{}", ports.kwok));
    for stage in plane.kwok_stages()? {
        command.arg(flag("config", stage));
    }
    Ok(command)
}

fn flag(name: &str, value: impl AsRef<Path>) -> std::ffi::OsString {
    let mut flag = std::ffi::OsString::from(format!("--{name}="));
    flag.push(value.as_ref());
    flag
}
