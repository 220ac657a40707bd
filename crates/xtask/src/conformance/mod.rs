//! `cargo xtask conformance`: Kubernetes' own conformance tests against the embedded API.
//!
//! The cluster has simulated workloads and one ready node. A committed list names the tests that pass; one
//! that passed and fails now is an error, and `EQUATE_BLESS=1` adds those that pass for the first time.

mod report;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use equate_testkit::apiserver::{EmbeddedCluster, Profile, Simulation};
use equate_testkit::peers::{self, E2e, KubectlVersion};

use report::{Outcome, Spec};

/// Tests of parts that the embedded API leaves out, and tests that disturb others.
const LEFT_OUT: &str = "[Ww]ebhook|Aggregator|Serial";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The special interest group whose tests run
    #[arg(long, default_value = "api-machinery")]
    sig: String,
    /// Run only the tests whose names match this regular expression, and leave the list alone
    #[arg(long, value_name = "REGEX")]
    focus: Option<String>,
    /// Leave out the tests whose names match this regular expression
    #[arg(long, value_name = "REGEX", default_value = LEFT_OUT)]
    skip: String,
    /// The encoding of requests and answers
    #[arg(long, default_value = "application/vnd.kubernetes.protobuf")]
    content_type: String,
    /// Write the tests' own output to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let tests = match peers::available(peers::e2e(&mut progress))? {
        Ok(tests) => tests,
        Err(skip) => {
            println!("{}", skip.0);
            return Ok(());
        }
    };
    let kubectl = match peers::available(peers::kubectl(KubectlVersion::ALL[0], &mut progress))? {
        Ok(clients) => clients.kubectl,
        Err(skip) => {
            println!("{}", skip.0);
            return Ok(());
        }
    };
    let folder = tempfile::Builder::new().prefix("equate-conformance-").tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let specs = runtime.block_on(async {
        let cluster = EmbeddedCluster::builder()
            .controllers(Profile {
                workloads: Some(Simulation::default()),
                ..Profile::default()
            })
            .build()
            .await?;
        let serving = cluster.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let kubeconfig = folder.path().join("kubeconfig");
        cluster.write_kubeconfig(&serving, &kubeconfig)?;
        let mut command = command(args, &tests, &kubectl, folder.path())?;
        let status = tokio::task::spawn_blocking(move || command.status()).await??;
        serving.stop().await;
        cluster.stop().await;
        report::read(&folder.path().join("report.json"))
            .map_err(|error| format!("e2e.test ({status}) left no report: {error}").into())
            .map_err(|error: Box<dyn Error>| error)
    })?;
    settle(args, &specs)
}

fn command(args: &Args, tests: &E2e, kubectl: &Path, folder: &Path) -> Result<Command, Box<dyn Error>> {
    let mut command = Command::new(tests.program());
    let focus = match &args.focus {
        Some(focus) => format!(r"\[sig-{}\].*(?:{focus}).*\[Conformance\]", args.sig),
        None => format!(r"\[sig-{}\].*\[Conformance\]", args.sig),
    };
    command
        .current_dir(folder)
        .args([
            "--provider=skeleton",
            "--allowed-not-ready-nodes=-1",
            "--disable-log-dump",
        ])
        .args([
            "--system-pods-startup-timeout=5s",
            "--ginkgo.no-color",
            "--ginkgo.v",
        ])
        .arg(format!("--kubeconfig={}", folder.join("kubeconfig").display()))
        .arg(format!("--kubectl-path={}", kubectl.display()))
        .arg(format!("--kube-api-content-type={}", args.content_type))
        .arg(format!("--ginkgo.focus={focus}"))
        .arg(format!("--ginkgo.skip={}", args.skip))
        .arg(format!(
            "--ginkgo.json-report={}",
            folder.join("report.json").display()
        ))
        .stdin(Stdio::null());
    let (output, errors) = match &args.output {
        None => (Stdio::null(), Stdio::null()),
        Some(path) => {
            let file = std::fs::File::create(path)?;
            (Stdio::from(file.try_clone()?), Stdio::from(file))
        }
    };
    command.stdout(output).stderr(errors);
    Ok(command)
}

fn settle(args: &Args, specs: &[Spec]) -> Result<(), Box<dyn Error>> {
    let mut passed: Vec<&str> = Vec::new();
    for spec in specs {
        match &spec.outcome {
            Outcome::Passed => passed.push(&spec.name),
            Outcome::Failed(why) => println!("failed: {}\n        {why}", spec.name),
        }
    }
    println!("{} of {} pass ({})", passed.len(), specs.len(), args.content_type);
    if args.focus.is_some() || args.skip != LEFT_OUT {
        return Ok(());
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("conformance/{}.txt", args.sig));
    let listed = std::fs::read_to_string(&path).unwrap_or_default();
    let comparison = report::compare(&listed, &passed);
    if std::env::var_os("EQUATE_BLESS").is_some() && !comparison.new.is_empty() {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        std::fs::write(&path, &comparison.text)?;
    } else if !comparison.new.is_empty() {
        println!(
            "{} pass for the first time: EQUATE_BLESS=1 adds them to the list",
            comparison.new.len()
        );
    }
    match comparison.lost.as_slice() {
        [] => Ok(()),
        lost => Err(format!(
            "{} tests passed and fail now:\n  {}",
            lost.len(),
            lost.join("\n  ")
        )
        .into()),
    }
}
