//! One `equate up` under the clock: the process, its API and its counters.

use super::launch;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long anything may take before the bench gives up.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// A running `equate up`; ended when dropped.
#[derive(Debug)]
pub(super) struct Session {
    process: Child,
    metrics: http::Uri,
    pub(super) started: Instant,
}

/// What the process counts, by name.
pub(super) type Counters = BTreeMap<String, f64>;

impl Session {
    /// Starts it in a repository and waits for its kubeconfig.
    pub(super) async fn start(
        binary: &Path,
        directory: &Path,
        path: &str,
    ) -> Result<(Self, Client), Box<dyn Error>> {
        let started = Instant::now();
        let mut command = Command::new(binary);
        command
            .args(["up", ".", "--path", path])
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::inherit());
        let process = launch(&mut command, Command::spawn)?;
        let mut session = Self {
            process,
            metrics: http::Uri::from_static("http://127.0.0.1/metrics"),
            started,
        };
        // Written last: everything else is there then.
        let kubeconfig = directory.join(".equate/kubeconfig");
        session.wait_for(&kubeconfig).await?;
        let text = std::fs::read_to_string(directory.join(".equate/endpoints.json"))?;
        let endpoints: serde_json::Value = serde_json::from_str(&text)?;
        session.metrics = endpoints["metrics"]
            .as_str()
            .ok_or("endpoints.json names no metrics")?
            .parse()?;
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok((session, Client::try_from(config)?))
    }

    async fn wait_for(&mut self, file: &Path) -> Result<String, Box<dyn Error>> {
        loop {
            if let Ok(text) = std::fs::read_to_string(file) {
                return Ok(text);
            }
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("`equate up` ended: {status}").into());
            }
            if self.started.elapsed() > PATIENCE {
                return Err(format!("no {} in {PATIENCE:?}", file.display()).into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// The counters of this moment.
    pub(super) async fn counters(&self) -> Result<Counters, Box<dyn Error>> {
        // The client puts the path of its base before that of the request.
        let base = self.metrics.to_string();
        let base = base.trim_end_matches(self.metrics.path()).parse()?;
        let client = Client::try_from(Config::new(base))?;
        let request = http::Request::get(self.metrics.path()).body(Vec::new())?;
        let text = client.request_text(request).await?;
        Ok(text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| {
                let (name, value) = line.rsplit_once(' ')?;
                Some((name.to_owned(), value.parse().ok()?))
            })
            .collect())
    }

    /// Peak resident memory so far, in MiB (Linux: `VmHWM`).
    pub(super) fn peak_memory(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
        let kib: f64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib / 1024.0)
    }

    /// CPU time so far, in seconds (Linux: fields 14 and 15 of `stat`, in ticks of 10 ms).
    pub(super) fn cpu(&self) -> Option<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        let after_name = stat.rsplit_once(')')?.1;
        let mut fields = after_name.split_whitespace().skip(11);
        let user: f64 = fields.next()?.parse().ok()?;
        let system: f64 = fields.next()?.parse().ok()?;
        Some((user + system) / 100.0)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // By the number we started: SIGTERM lets it remove what it wrote.
        let pid = self.process.id().to_string();
        let told = Command::new("kill").args(["-TERM", &pid]).status();
        if !told.is_ok_and(|status| status.success())
            && let Err(error) = self.process.kill()
        {
            eprintln!("could not end process {pid}: {error}");
        }
        if let Err(error) = self.process.wait() {
            eprintln!("could not wait for process {pid}: {error}");
        }
    }
}

/// The API of a kind in a namespace.
pub(super) fn api(
    client: &Client,
    group: &str,
    version: &str,
    kind: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}
