//! One run of a fleet: fresh repositories and directories, the real binary, and the last state of the
//! cluster before the process ended.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use equate_api::kustomize::Kustomization;
use equate_api::meta::{ConditionType, condition};
use equate_testkit::git::Repository;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

use super::fleets::{Files, Fleet, OTHER_URL, ROOT};
use crate::bench::process::Process;
use crate::bench::session::api;

/// The pause between two probes. The cluster stays for three seconds after the last change.
const PROBE_INTERVAL: Duration = Duration::from_millis(100);
/// The timeout of `--once`.
const TIMEOUT: &str = "60s";
/// The time after which a process is given up.
const PATIENCE: Duration = Duration::from_secs(180);
/// The owner labels: name and namespace.
const OWNER: [&str; 2] = [
    "kustomize.toolkit.fluxcd.io/namespace",
    "kustomize.toolkit.fluxcd.io/name",
];

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Answer {
    pub(super) code: Option<i32>,
    /// The owner in the object's labels.
    pub(super) owner: String,
    /// The writer of its data.
    pub(super) value: String,
    /// The state of each Kustomization: `Ready` or the reason, and its conflicts.
    pub(super) ready: BTreeMap<String, String>,
}

impl Answer {
    /// Whether the object's data is its owner's.
    pub(super) fn is_consistent(&self) -> bool {
        let name = self.owner.rsplit_once('/').map_or("", |(_, name)| name);
        name == self.value
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            code,
            owner,
            value,
            ready,
        } = self;
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        write!(f, "exit {code}")?;
        if !owner.is_empty() {
            write!(f, ", owner {owner}, value {value:?}")?;
        }
        for (name, said) in ready {
            write!(f, "\n         {name}: {said}")?;
        }
        Ok(())
    }
}

/// The last observed state.
#[derive(Debug, Default)]
struct Seen {
    owner: String,
    value: String,
    ready: BTreeMap<String, String>,
}

pub(super) async fn once(binary: &Path, fleet: &Fleet) -> Result<Answer, Box<dyn Error>> {
    let repository = Repository::init()?;
    let other = match &fleet.other {
        Some(files) => {
            let other = Repository::init()?;
            commit(&other, files)?;
            Some(other)
        }
        None => None,
    };
    let folder = tempfile::Builder::new().prefix("equate-contest-").tempdir()?;
    let mut last = None;
    for files in &fleet.commits {
        commit(&repository, files)?;
        let mut command = Command::new(binary);
        command
            .arg("up")
            .arg(repository.path())
            .args(["--path", ROOT, "--once", "--timeout", TIMEOUT])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(other) = &other {
            let directory = other.path().display();
            command
                .arg("--instead-of")
                .arg(format!("{OTHER_URL}={directory}"));
        }
        if fleet.commits.len() > 1 {
            command.arg("--persist").arg(folder.path().join("state"));
        }
        last = Some(session(&mut command, folder.path()).await?);
    }
    last.ok_or_else(|| format!("{}: nothing is committed", fleet.name).into())
}

fn commit(repository: &Repository, files: &Files) -> Result<(), Box<dyn Error>> {
    let changes: Vec<(&str, Option<&str>)> = files
        .iter()
        .map(|(path, text)| (&**path, Some(&**text)))
        .collect();
    repository.commit(&changes)?;
    Ok(())
}

async fn session(command: &mut Command, directory: &Path) -> Result<Answer, Box<dyn Error>> {
    let begun = Instant::now();
    let mut process = Process::start(command)?;
    let (mut client, mut seen) = (None, Seen::default());
    let status = loop {
        if let Some(status) = process.ended()? {
            break status;
        }
        if begun.elapsed() > PATIENCE {
            return Err(format!("`equate up --once` did not end in {PATIENCE:?}").into());
        }
        client = match client {
            None => connect(directory).await,
            connected => connected,
        };
        if let Some(client) = &client
            // the API does not answer during start and shutdown
            && let Ok(now) = look(client).await
        {
            seen = now;
        }
        tokio::time::sleep(PROBE_INTERVAL).await;
    };
    let code = status.code();
    if code == Some(0) {
        // it restarted: the last state is outdated
        seen = Seen::default();
    }
    let Seen { owner, value, ready } = seen;
    Ok(Answer {
        code,
        owner,
        value,
        ready,
    })
}

async fn connect(directory: &Path) -> Option<Client> {
    let kubeconfig = Kubeconfig::read_from(directory.join(".equate/kubeconfig")).ok()?;
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await.ok()?;
    Client::try_from(config).ok()
}

async fn look(client: &Client) -> Result<Seen, kube::Error> {
    let maps = api(client, "", "v1", "ConfigMap", "default");
    let map = maps.get_opt("contested").await?;
    let labels = map.as_ref().and_then(|map| map.metadata.labels.clone());
    let label = |name: &str| labels.as_ref().and_then(|labels| labels.get(name)).cloned();
    let value = map
        .as_ref()
        .and_then(|map| map.data["data"]["value"].as_str())
        .unwrap_or_default();
    let kustomizations: Api<Kustomization> = Api::all(client.clone());
    let kustomizations = kustomizations.list(&ListParams::default()).await?;
    let said = kustomizations.items.iter().map(|object| {
        let name = [&object.metadata.namespace, &object.metadata.name];
        let name = name.map(|part| part.as_deref().unwrap_or_default()).join("/");
        (name, said(object))
    });
    Ok(Seen {
        owner: OWNER.map(|name| label(name).unwrap_or_default()).join("/"),
        value: value.to_owned(),
        ready: said.collect(),
    })
}

/// The readiness in one word, and its message about conflicts.
fn said(object: &Kustomization) -> String {
    let conditions = object.status.as_ref().map(|status| &status.conditions[..]);
    let conditions = conditions.unwrap_or_default();
    let ready = match condition(conditions, ConditionType::Ready) {
        Some(ready) if ready.status == "True" => "Ready",
        Some(ready) => ready.reason.as_str(),
        None => "-",
    };
    match condition(conditions, ConditionType::OwnershipConflict) {
        Some(contested) => format!("{ready}; {}", contested.message),
        None => ready.to_owned(),
    }
}
