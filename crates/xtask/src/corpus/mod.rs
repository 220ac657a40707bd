//! `cargo xtask corpus`: whole repositories, built by us and by the real kustomize.
//!
//! Both build every directory with a kustomization file, except components, in input order. The engine's
//! answers can be cached, so that a repeated run costs only our builds. Without a network, remote bases
//! fail on both sides; they are counted separately.

mod class;
mod disk;
mod engine;
mod table;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use equate_kustomize::{LoadRestriction, Options, Order};

use class::Class;
use disk::Disk;
use engine::{Answer, Engine};
use table::{Row, Table};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The checked-out repositories
    #[arg(required = true)]
    repositories: Vec<PathBuf>,
    /// Load files from anywhere in the repository, as Flux does
    #[arg(long)]
    any_file: bool,
    /// Folder of the engine's answers, written and reused
    #[arg(long)]
    answers: Option<PathBuf>,
    /// Folder for pairs of texts that differ
    #[arg(long)]
    differences: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let Some(mut engine) = Engine::new(args.any_file, args.answers.clone())? else {
        return Ok(());
    };
    let mut table = Table::default();
    for repository in &args.repositories {
        let repository = std::path::absolute(repository)?;
        let mut row = Row::new(&repository);
        for directory in disk::kustomizations(&repository)? {
            let real = engine.build(&repository.join(&directory))?;
            compare(args, &repository, &directory, &real, &mut row)?;
        }
        table.add(row);
    }
    println!("{table}");
    match table.failures() {
        0 => Ok(()),
        failures => Err(format!("{failures} directories build differently with the real engine").into()),
    }
}

fn compare(
    args: &Args,
    repository: &Path,
    directory: &str,
    real: &Answer,
    row: &mut Row,
) -> Result<(), Box<dyn Error>> {
    let (ours, took) = build(repository, directory, args.any_file);
    row.directories += 1;
    row.real += real.took;
    row.ours += took;
    let tell = |what: &str, text: &str| println!("{what} {}/{directory}\n    {text}", row.name);
    match (&real.result, &ours) {
        (Ok(real), Ok(ours)) if real == ours => row.equal += 1,
        (Ok(real), Ok(ours)) => {
            tell("differs", &first_difference(real, ours));
            row.differ += 1;
            if let Some(folder) = &args.differences {
                std::fs::create_dir_all(folder)?;
                let name = format!("{}/{directory}", row.name).replace('/', "+");
                std::fs::write(folder.join(format!("{name}.real")), real)?;
                std::fs::write(folder.join(format!("{name}.ours")), ours)?;
            }
        }
        (Ok(_), Err(ours)) => {
            tell("only ours fails", ours);
            row.only_ours_fails += 1;
        }
        (Err(real), Ok(_)) => {
            tell("only the real one fails", real);
            row.only_real_fails += 1;
        }
        (Err(real), Err(ours)) => match (Class::of(real), Class::of(ours)) {
            (Class::Remote, Class::Remote) => row.remote += 1,
            (left, right) if left == right => row.fail_alike += 1,
            (left, right) => {
                tell(
                    "fails otherwise",
                    &format!("{left:?}: {real}\n    {right:?}: {ours}"),
                );
                row.fail_otherwise += 1;
            }
        },
    }
    Ok(())
}

fn build(repository: &Path, directory: &str, any_file: bool) -> (Result<String, String>, Duration) {
    let options = Options {
        restriction: if any_file {
            LoadRestriction::Tree
        } else {
            LoadRestriction::Root
        },
        order: Order::Input,
        ..Options::default()
    };
    let started = Instant::now();
    let built = equate_kustomize::kustomize(&Disk::new(repository), directory, &options);
    let result = match built {
        Ok(built) => {
            let texts = built
                .objects
                .into_iter()
                .map(|resource| equate_manifest::yaml::to_string(&resource.object.into_value()));
            Ok(texts.collect::<Vec<_>>().join("---\n"))
        }
        Err(error) => Err(error.to_string()),
    };
    (result, started.elapsed())
}

fn first_difference(real: &str, ours: &str) -> String {
    let at = real
        .lines()
        .zip(ours.lines())
        .position(|(real, ours)| real != ours);
    let at = at.unwrap_or_else(|| real.lines().count().min(ours.lines().count()));
    let line = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
    format!("line {}: real {:?}, ours {:?}", at + 1, line(real), line(ours))
}
