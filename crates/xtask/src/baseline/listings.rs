//! `cargo xtask baseline listings`: the real helm's listings of rendered texts.
//!
//! The cases are lines of JSON: chart files without template actions, and arguments of `helm template`.
//! The output, the written files and the record's hooks are rewritten.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use equate_testkit::peers::{self, KubectlVersion};
use serde_json::{Value, json};

const CASES: &str = "../helm/tests/golden/listings.jsonl";
const ANSWERS: [&str; 4] = ["output", "error", "written", "hooks"];

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Compare with the recorded answers and change nothing
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let helm = peers::kubectl(KubectlVersion::V1_37, &mut |line| eprintln!("peers: {line}"))?.helm;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(CASES);
    let recorded = fs::read_to_string(&path)?;
    let mut answered = String::new();
    for line in recorded.lines() {
        let mut case: Value = serde_json::from_str(line)?;
        let answer = ask(&helm, &case)?;
        let case = case.as_object_mut().ok_or("a case is no object")?;
        case.retain(|key, _| !ANSWERS.contains(&key.as_str()));
        case.extend(answer);
        answered.push_str(&serde_json::to_string(&case)?);
        answered.push('\n');
    }
    println!("{} cases asked", recorded.lines().count());
    if answered == recorded {
        return Ok(());
    }
    if args.check {
        return Err("the real helm has other answers: run `cargo xtask baseline listings`".into());
    }
    Ok(fs::write(&path, answered)?)
}

fn ask(helm: &Path, case: &Value) -> Result<serde_json::Map<String, Value>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let chart = folder.path().join("c");
    let mut files: BTreeMap<String, String> = serde_json::from_value(case["files"].clone())?;
    let manifest = "apiVersion: v2\nname: c\nversion: 0.1.0\n";
    files.insert("Chart.yaml".to_owned(), manifest.to_owned());
    for (name, text) in &files {
        let path = chart.join(name);
        fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
        fs::write(path, text)?;
    }
    for (name, text) in
        serde_json::from_value::<BTreeMap<String, String>>(case["there"].clone()).unwrap_or_default()
    {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().ok_or("a file without a folder")?)?;
        fs::write(path, text)?;
    }
    let helm = || {
        let mut command = Command::new(helm);
        command
            .current_dir(folder.path())
            .env_clear()
            .env("HOME", folder.path());
        command
    };
    let arguments: Vec<String> = serde_json::from_value(case["args"].clone()).unwrap_or_default();
    let mut answer = serde_json::Map::new();
    let shown = helm().args(["template", "r", "c"]).args(&arguments).output()?;
    if shown.status.success() {
        answer.insert("output".to_owned(), String::from_utf8(shown.stdout)?.into());
    } else {
        let told = String::from_utf8(shown.stderr)?;
        let told = told.trim_start_matches("Error: ").split("\n\nUse --debug").next();
        answer.insert("error".to_owned(), told.unwrap_or_default().trim_end().into());
    }
    let mut written = BTreeMap::new();
    read_all(&folder.path().join("out"), "out", &mut written)?;
    if !written.is_empty() {
        answer.insert("written".to_owned(), json!(written));
    }
    let record = helm()
        .args(["install", "r", "c", "--dry-run=client", "--output=json"])
        .output()?;
    if record.status.success() {
        let record: Value = serde_json::from_slice(&record.stdout)?;
        if let Some(hooks) = record.get("hooks") {
            answer.insert("hooks".to_owned(), hooks.clone());
        }
    }
    Ok(answer)
}

fn read_all(folder: &Path, name: &str, found: &mut BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    if !folder.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{name}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read_all(&entry.path(), &name, found)?;
        } else {
            found.insert(name, fs::read_to_string(entry.path())?);
        }
    }
    Ok(())
}
