//! A measured `equate up`: the process, its API and its metrics.

use super::process::Process;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// A running `equate up`; dropping it stops it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) process: Process,
    metrics: http::Uri,
    pub(super) started: Instant,
}

pub(super) type Counters = BTreeMap<String, f64>;

impl Session {
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
        let process = Process::start(&mut command)?;
        let mut session = Self {
            process,
            metrics: http::Uri::from_static("http://127.0.0.1/metrics"),
            started,
        };
        // written last, when everything else exists
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
            if let Some(status) = self.process.ended()? {
                return Err(format!("`equate up` ended: {status}").into());
            }
            if self.started.elapsed() > PATIENCE {
                return Err(format!("no {} in {PATIENCE:?}", file.display()).into());
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    pub(super) async fn counters(&self) -> Result<Counters, Box<dyn Error>> {
        counters(&self.metrics).await
    }
}

pub(super) async fn counters(page: &http::Uri) -> Result<Counters, Box<dyn Error>> {
    // the client puts the path of its base before that of the request
    let base = page.to_string();
    let base = base.trim_end_matches(page.path()).parse()?;
    let client = Client::try_from(Config::new(base))?;
    let request = http::Request::get(page.path()).body(Vec::new())?;
    Ok(read(&client.request_text(request).await?))
}

pub(super) fn read(page: &str) -> Counters {
    page.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            Some((name.to_owned(), value.parse().ok()?))
        })
        .collect()
}

pub(crate) fn api(
    client: &Client,
    group: &str,
    version: &str,
    kind: &str,
    namespace: &str,
) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    Api::namespaced_with(client.clone(), namespace, &resource)
}
