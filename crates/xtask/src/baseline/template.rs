//! `cargo xtask baseline template`: answers of Go's templates and Helm's functions.
//!
//! The cases are lines of JSON. `output`, `bytes` (output that is not UTF-8), `rendered` (the files of a
//! chart) and `error` are rewritten, everything else is kept.

use std::error::Error;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

pub(super) struct Reference {
    pub(super) cases: &'static str,
    /// The Go module below `peers`.
    pub(super) module: &'static str,
    /// The Go package of the program in the module.
    pub(super) program: &'static str,
    pub(super) answers: &'static [&'static str],
    /// Its subcommand of `baseline`.
    pub(super) command: &'static str,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only files whose name contains one of these
    names: Vec<String>,
    /// Compare with the recorded answers and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let asked = Reference {
        cases: "../template/tests/golden",
        module: "template",
        program: ".",
        answers: &["output", "bytes", "rendered", "error"],
        command: "template",
    };
    rewrite(&asked, &args.names, args.check)
}

/// Gets the answers of all cases in matching files, and writes or compares them.
pub(super) fn rewrite(asked: &Reference, names: &[String], check: bool) -> Result<(), Box<dyn Error>> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(crate_dir.join(asked.cases))? {
        let path = entry?.path();
        let name = path.to_string_lossy().into_owned();
        if names.is_empty() || names.iter().any(|wanted| name.contains(wanted)) {
            files.push(path);
        }
    }
    files.sort();
    let (mut count, mut stale) = (0, 0);
    for file in files {
        let recorded = std::fs::read_to_string(&file)?;
        let answers = ask(
            &crate_dir.join("peers").join(asked.module),
            asked.program,
            &recorded,
        )?;
        let mut answered = String::new();
        for (line, answer) in recorded.lines().zip(answers.lines()) {
            let (mut case, answer): (Value, Value) =
                (serde_json::from_str(line)?, serde_json::from_str(answer)?);
            if let (Some(case), Value::Object(answer)) = (case.as_object_mut(), answer) {
                case.retain(|key, _| !asked.answers.contains(&key.as_str()));
                case.extend(answer);
            }
            answered.push_str(&case.to_string());
            answered.push('\n');
            count += 1;
        }
        if answers.lines().count() != recorded.lines().count() {
            return Err(format!("{}: not every case was answered", file.display()).into());
        }
        if answered != recorded {
            println!("{}", file.display());
            stale += 1;
            if !check {
                std::fs::write(&file, answered)?;
            }
        }
    }
    let what = if check { "differ" } else { "rewritten" };
    println!("{count} cases asked, {stale} files {what}");
    if check && stale > 0 {
        let command = asked.command;
        return Err(
            format!("the real engine has other answers: run `cargo xtask baseline {command}`").into(),
        );
    }
    Ok(())
}

/// The answers of the Go program, line by line.
fn ask(module: &Path, program: &str, cases: &str) -> Result<String, Box<dyn Error>> {
    let mut child = Command::new("go")
        .args(["run", program])
        .current_dir(module)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let cases = cases.to_owned();
    let writer = std::thread::spawn(move || input.write_all(cases.as_bytes()));
    let output = child.wait_with_output()?;
    writer.join().map_err(|_| "the cases could not be written")??;
    if !output.status.success() {
        return Err(format!("the Go program in {} failed: {}", module.display(), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?)
}
