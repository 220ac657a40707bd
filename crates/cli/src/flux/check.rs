//! `equate check`: checks the cluster's version, the controllers and their kinds.

use super::PART_OF_FLUX;
use crate::connection::{self, ConnectError, Connection};
use crate::diagnosis::Reader;
use crate::failure::{Failure, chain, is_broken_pipe};
use crate::kinds::Kinds;
use equate_api::meta::DEFAULT_NAMESPACE;
use equate_apply::id::ObjectId;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use std::fmt::Write as _;
use std::io::Write;

/// The oldest Kubernetes that Flux 2.9 and Equate support.
const MINOR_MIN: u32 = 33;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Check the cluster before the installation
  equate check --pre
  # Check the controllers and their kinds
  equate check

Exit codes:
  0  all checks passed
  1  a check failed, or an error occurred")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: connection::Options,
    /// Namespace of the controllers.
    #[arg(short, long, default_value = DEFAULT_NAMESPACE, value_name = "NAMESPACE")]
    namespace: String,
    /// Check only the prerequisites of an installation.
    #[arg(long)]
    pre: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0} of {1} checks failed")]
    Failed(usize, usize),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for CheckError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Failed(..) => {
                Some("install the controllers with `equate install`, or see `equate explain`")
            }
            Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), CheckError> {
    let connection = args.cluster.connect_and_print().await?;
    let report = check(&connection, kinds, &args).await;
    let written = std::io::stdout().write_all(report.text.as_bytes());
    written.map_err(CheckError::Output)?;
    match report.failed {
        0 => Ok(()),
        failed => Err(CheckError::Failed(failed, report.checks)),
    }
}

#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) text: String,
    checks: usize,
    pub(super) failed: usize,
}

impl Report {
    fn title(&mut self, title: &str) {
        let _infallible = writeln!(self.text, "► checking {title}");
    }

    fn entry(&mut self, entry: Result<String, String>) {
        self.checks += 1;
        self.failed += usize::from(entry.is_err());
        let _infallible = match entry {
            Ok(said) => writeln!(self.text, "✔ {said}"),
            Err(said) => writeln!(self.text, "✗ {said}"),
        };
    }
}

pub(super) async fn check(connection: &Connection, kinds: &Kinds, args: &Args) -> Report {
    let mut report = Report::default();
    report.title("prerequisites");
    report.entry(version(connection).await);
    if args.pre {
        return end(report, "prerequisites checks passed");
    }
    report.title("controllers");
    if connection.is_up() {
        report.entry(Ok("the controllers run in `equate up`".to_owned()));
    } else {
        controllers(connection, &args.namespace, &mut report).await;
    }
    report.title("crds");
    definitions(connection, kinds, &mut report).await;
    end(report, "all checks passed")
}

fn end(mut report: Report, said: &str) -> Report {
    if report.failed == 0 {
        let _infallible = writeln!(report.text, "✔ {said}");
    }
    report
}

async fn version(connection: &Connection) -> Result<String, String> {
    let version = connection.client.apiserver_version().await;
    let version =
        version.map_err(|error| format!("cannot read the version of Kubernetes: {}", chain(&error)))?;
    judge(&version.git_version, &version.major, &version.minor)
}

/// Whether a version is new enough. Providers add a sign to the minor version: `33+`.
pub(super) fn judge(git: &str, major: &str, minor: &str) -> Result<String, String> {
    let number = |text: &str| text.trim_end_matches('+').parse::<u32>().unwrap_or_default();
    let git = git.trim_start_matches('v');
    match (number(major), number(minor)) >= (1, MINOR_MIN) {
        true => Ok(format!("Kubernetes {git} >=1.{MINOR_MIN}.0-0")),
        false => Err(format!(
            "Kubernetes {git} is older than 1.{MINOR_MIN}: upgrade the cluster"
        )),
    }
}

async fn controllers(connection: &Connection, namespace: &str, report: &mut Report) {
    let api: Api<Deployment> = Api::namespaced(connection.client.clone(), namespace);
    let found = match api.list(&ListParams::default().labels(PART_OF_FLUX)).await {
        Ok(found) => found.items,
        Err(error) => {
            let said = format!(
                "cannot list the Deployments in namespace {namespace}: {}",
                chain(&error)
            );
            return report.entry(Err(said));
        }
    };
    if found.is_empty() {
        let said = format!("no controllers found in namespace {namespace} with the label {PART_OF_FLUX}");
        return report.entry(Err(said));
    }
    let reader = Reader::new(connection.client.clone());
    for deployment in found {
        let name = deployment.name_any();
        let id = ObjectId::new("apps", "Deployment", namespace, &name);
        let entry = match reader.object(&id, "v1").await {
            Ok(Some(object)) => {
                let node = reader.diagnose(&id, &object).await;
                match node.is_healthy() {
                    true => Ok(format!("{name}: deployment ready")),
                    false => Err(format!("{name}: {}", node.cause().unwrap_or_else(|| node.text()))),
                }
            }
            Ok(None) => Err(format!("{name}: does not exist any more")),
            Err(error) => Err(format!("{name}: {}", chain(&error))),
        };
        report.entry(entry);
        let spec = deployment.spec.template.spec;
        for container in spec.into_iter().flat_map(|spec| spec.containers) {
            let _infallible = writeln!(report.text, "► {}", container.image.unwrap_or_default());
        }
    }
}

async fn definitions(connection: &Connection, kinds: &Kinds, report: &mut Report) {
    let api: Api<CustomResourceDefinition> = Api::all(connection.client.clone());
    let found = match api.list(&ListParams::default()).await {
        Ok(found) => found.items,
        Err(error) => return report.entry(Err(format!("cannot list the CRDs: {}", chain(&error)))),
    };
    for kind in kinds.iter() {
        let name = format!("{}.{}", kind.plural, kind.group);
        let definition = found.iter().find(|one| one.name_any() == name);
        let stored =
            definition.and_then(|one| one.status.as_ref()?.stored_versions.as_ref()?.last().cloned());
        match (definition, stored) {
            (Some(_), Some(version)) => report.entry(Ok(format!("{name}/{version}"))),
            (Some(_), None) => report.entry(Err(format!("no stored versions for {name}"))),
            // a controller that is not here needs no kind
            (None, _) if kind.controller.is_none() => {}
            (None, _) => report.entry(Err(format!("{name} is not installed"))),
        }
    }
}
