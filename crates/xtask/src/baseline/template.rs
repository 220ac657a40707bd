//! `cargo xtask baseline template`: what Go's templates and Helm's functions answer.
//!
//! The cases are lines of JSON; `output`, `bytes` (what is not UTF-8), `rendered` (the files of a
//! chart) and `error` are rewritten, everything else is kept.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Where the cases are, from this crate.
const CASES: &str = "../template/tests/golden";
const ANSWERS: [&str; 4] = ["output", "bytes", "rendered", "error"];

/// Which cases, and what to do with the answers.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only files whose name contains one of these.
    names: Vec<String>,
    /// Compare with what is recorded and change nothing.
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(crate_dir.join(CASES))? {
        let path = entry?.path();
        let name = path.to_string_lossy().into_owned();
        if args.names.is_empty() || args.names.iter().any(|wanted| name.contains(wanted)) {
            files.push(path);
        }
    }
    files.sort();
    let (mut asked, mut stale) = (0, 0);
    for file in files {
        let recorded = std::fs::read_to_string(&file)?;
        let answers = ask(&crate_dir.join("peers/template"), &recorded)?;
        let mut answered = String::new();
        for (line, answer) in recorded.lines().zip(answers.lines()) {
            let (mut case, answer): (Value, Value) =
                (serde_json::from_str(line)?, serde_json::from_str(answer)?);
            if let (Some(case), Value::Object(answer)) = (case.as_object_mut(), answer) {
                case.retain(|key, _| !ANSWERS.contains(&key.as_str()));
                case.extend(answer);
            }
            answered.push_str(&case.to_string());
            answered.push('\n');
            asked += 1;
        }
        if answers.lines().count() != recorded.lines().count() {
            return Err(format!("{}: not every case was answered", file.display()).into());
        }
        if answered != recorded {
            println!("{}", file.display());
            stale += 1;
            if !args.check {
                std::fs::write(&file, answered)?;
            }
        }
    }
    let what = if args.check { "differ" } else { "rewritten" };
    println!("{asked} cases asked, {stale} files {what}");
    if args.check && stale > 0 {
        return Err("the real engine answers otherwise: run `cargo xtask baseline template`".into());
    }
    Ok(())
}

/// The answers of the Go program, line by line.
fn ask(program: &Path, cases: &str) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new("go")
        .args(["run", "."])
        .current_dir(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let cases = cases.to_owned();
    let writer = std::thread::spawn(move || input.write_all(cases.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "the cases could not be written")??;
    if !output.status.success() {
        return Err(format!("the judge of templates: {}", output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
