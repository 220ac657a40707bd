//! `cargo xtask baseline`: recorded answers of the real tools.

pub(crate) mod cel;
pub(crate) mod chart;
#[path = "../../../helm/tests/it/chart_case.rs"]
mod chart_case;
// the format of the cases, shared with the tests of the other crate
#[expect(dead_code, reason = "what the tests ask of a case")]
#[path = "../../../kustomize/tests/it/cases/format.rs"]
pub(crate) mod format;
mod helm;
pub(crate) mod kustomize;
pub(crate) mod listings;
mod protobuf;
pub(crate) mod records;
mod sources;
mod statuses;
pub(crate) mod template;

use std::error::Error;
use std::path::PathBuf;

use equate_testkit::cluster::Cluster;
use equate_testkit::replay::{self, normal::Normaliser};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(Debug, clap::Subcommand)]
enum Tool {
    /// Play scripts against a real API server and print the conformance format
    KubeApiserver {
        /// Scripts, as in `crates/testkit/scenarios`
        #[arg(required = true)]
        scripts: Vec<PathBuf>,
    },
    /// Build the cases of `crates/kustomize/tests/cases` with the real engine
    Kustomize(kustomize::Args),
    /// List the charts of `crates/helm/tests/golden/listings.jsonl` with the real helm
    Listings(listings::Args),
    /// Record statuses and events of sources with Flux's source-controller on a real API server
    Sources(sources::Args),
    /// Make the records of `crates/helm/tests/golden/records.jsonl` with real helms
    Records,
    /// Render the charts of `crates/helm/tests/cases` with Helm itself
    Helm(helm::Args),
    /// Run the templates of `crates/template/tests/golden` with Go and Helm's functions
    Template(template::Args),
    /// Load the charts of `crates/helm/tests/golden/chart` and coalesce their values with Helm
    Chart(chart::Args),
    /// Ask the questions of `crates/cel/tests/golden` of cel-go
    Cel(cel::Args),
    /// Encode objects of `crates/manifest/tests/golden/protobuf` with Kubernetes' own types
    Protobuf(protobuf::Args),
    /// Record the statuses and events of HelmReleases with Flux's own helm-controller
    Statuses(statuses::Args),
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    match &args.tool {
        Tool::KubeApiserver { scripts } => kube_apiserver(scripts),
        Tool::Kustomize(args) => kustomize::run(args),
        Tool::Listings(args) => listings::run(args),
        Tool::Records => records::run(),
        Tool::Sources(args) => sources::run(args),
        Tool::Helm(args) => helm::run(args),
        Tool::Template(args) => template::run(args),
        Tool::Chart(args) => chart::run(args),
        Tool::Cel(args) => cel::run(args),
        Tool::Protobuf(args) => protobuf::run(args),
        Tool::Statuses(args) => statuses::run(args),
    }
}

fn kube_apiserver(scripts: &[PathBuf]) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut progress = |line: &str| eprintln!("peers: {line}");
        let cluster = Cluster::named("real", &mut progress).await?;
        let sender = cluster.sender()?;
        for script in scripts {
            let mut scenario = replay::load_script(script)?;
            let mut normaliser = Normaliser::default();
            let mut answers = Vec::new();
            replay::play(
                &sender,
                &scenario,
                |_, _, _| true,
                |exchange| {
                    answers.push(normaliser.answer(exchange.answer));
                },
            )
            .await?;
            for (step, answer) in scenario.steps.iter_mut().zip(answers) {
                step.response = Some(answer.into());
            }
            println!("{}", serde_json::to_string(&scenario)?);
        }
        cluster.stop().await?;
        Ok(())
    })
}
