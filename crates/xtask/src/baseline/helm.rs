//! `cargo xtask baseline helm`: the output of `helm template` for our cases.
//!
//! Helm 4.3 answers, whose output ours matches; Helm 4.2, whose engine ours follows, where a case says so
//! (its default API versions). Helm runs in a fresh folder with the case's files and arguments; the
//! folder's path becomes `<ROOT>`. Only the recorded answers of a case are rewritten.

use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

use equate_testkit::peers::{self, KubectlVersion};

use super::kustomize::cases_in;
use super::{chart_case, format};

const CASES: &str = "../helm/tests/cases";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only cases whose path contains one of these
    names: Vec<String>,
    /// Compare with the recorded answers and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    let helms = peers::helm(&mut progress)
        .and_then(|old| Ok((old, peers::kubectl(KubectlVersion::V1_37, &mut progress)?.helm)));
    let (old, new) = match peers::available(helms)? {
        Ok(helms) => helms,
        Err(skip) => {
            println!("{}", skip.0);
            return Ok(());
        }
    };
    let (mut asked, mut stale) = (0, Vec::<PathBuf>::new());
    for path in cases_in(CASES)? {
        let name = path.to_string_lossy().replace('\\', "/");
        if !args.names.is_empty() && !args.names.iter().any(|wanted| name.contains(wanted)) {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let case = format::Case::parse(&text).map_err(|problem| format!("{name}: {problem}"))?;
        if !case.judged {
            continue;
        }
        asked += 1;
        let answers = {
            let helm = match case.helm {
                Some(_) => old.command(),
                None => Command::new(&new),
            };
            answers(helm, &case)?
        };
        let answers: Vec<_> = answers
            .iter()
            .map(|(name, text)| (&**name, text.clone()))
            .collect();
        let answered = case.with_answers(&answers);
        if answered != text {
            println!("{name}");
            stale.push(path.clone());
            if !args.check {
                std::fs::write(&path, answered)?;
            }
        }
    }
    let what = if args.check { "differ" } else { "rewritten" };
    println!("{asked} cases asked, {} {what}", stale.len());
    if args.check && !stale.is_empty() {
        return Err("Helm has other answers: run `cargo xtask baseline helm`".into());
    }
    Ok(())
}

/// Helm's answers to a case, by their names in the case.
fn answers(mut helm: Command, case: &format::Case) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let root = folder.path().canonicalize()?;
    chart_case::write(case, &root)?;
    let home = tempfile::tempdir()?;
    let output = helm
        .arg("template")
        .args(chart_case::arguments(case))
        .current_dir(&root)
        .env_clear()
        .env("HOME", home.path())
        .envs(chart_case::environment(case))
        .output()?;
    let hide = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.replace(&*root.to_string_lossy(), "<ROOT>")
    };
    let mut answers = Vec::new();
    if !output.stdout.is_empty() {
        answers.push(("output".to_owned(), hide(&output.stdout)));
    }
    let said = hide(&output.stderr);
    // log lines contain the time
    let (logged, said): (Vec<&str>, Vec<&str>) = said.lines().partition(|line| line.starts_with("level="));
    let lines = |lines: Vec<&str>| {
        lines
            .into_iter()
            .flat_map(|line| [line, "\n"])
            .collect::<String>()
    };
    if !output.status.success() {
        let error = lines(said);
        let error = error.strip_prefix("Error: ").unwrap_or(&error);
        answers.push(("error".to_owned(), error.to_owned()));
    } else if !said.is_empty() {
        answers.push(("warnings".to_owned(), lines(said)));
    }
    if !logged.is_empty() {
        answers.push(("log".to_owned(), lines(logged)));
    }
    for (path, text) in chart_case::left(case, &root)? {
        answers.push((format!("file {path}"), text));
    }
    Ok(answers)
}
