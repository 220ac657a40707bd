//! `cargo xtask charts`: public charts, rendered by us and by Helm itself.
//!
//! Every chart below the folders is rendered with its own values, and once with each of its
//! `ci/*-values.yaml`. Both sides render twice: lines that differ between two renders of one side
//! (passwords, certificates, dates) are random and compared by position only. `cargo xtask bench helm`
//! measures both.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use equate_testkit::peers;
use serde_json::{Value, json};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folders with charts
    #[arg(required = true)]
    folders: Vec<PathBuf>,
    /// Folder of Helm's answers, written and reused; they contain the date of their day
    #[arg(long, value_name = "FILE")]
    answers: Option<PathBuf>,
    /// Folder for pairs of texts that differ
    #[arg(long, value_name = "FOLDER")]
    differences: Option<PathBuf>,
}

struct Question {
    name: String,
    json: Value,
}

/// Helm itself; `None`, with a printed line, if unavailable.
fn judge() -> Result<Option<peers::Helm>, Box<dyn Error>> {
    let mut progress = |line: &str| eprintln!("peers: {line}");
    Ok(match peers::available(peers::helm(&mut progress))? {
        Ok(helm) => Some(helm),
        Err(skip) => {
            println!("{}", skip.0);
            None
        }
    })
}

pub(crate) fn run(args: &Args) -> Result<(), Box<dyn Error>> {
    let Some(helm) = judge()? else {
        return Ok(());
    };
    let questions = questions(&args.folders)?;
    let theirs = match args.answers.as_ref().filter(|file| file.exists()) {
        Some(file) => read(&std::fs::read_to_string(file)?)?,
        None => {
            let once = ask(helm.answers("render"), &questions, &json!({}))?;
            #[expect(
                clippy::disallowed_methods,
                reason = "what tells the second has to differ between two renders"
            )]
            std::thread::sleep(Duration::from_secs(1));
            let again = ask(helm.answers("render"), &questions, &json!({}))?;
            let both: Vec<[Value; 2]> = once.into_iter().zip(again).map(|(one, two)| [one, two]).collect();
            if let Some(file) = &args.answers {
                let lines: Vec<String> = both.iter().map(|pair| json!(pair).to_string()).collect();
                std::fs::write(file, lines.join("\n"))?;
            }
            both
        }
    };
    let once = ask(ours("render")?, &questions, &json!({ "seed": 1 }))?;
    let again = ask(ours("render")?, &questions, &json!({ "seed": 2 }))?;
    let mut table = Table::default();
    for ((question, theirs), ours) in questions.iter().zip(&theirs).zip(once.iter().zip(&again)) {
        table.add(question, theirs, [ours.0, ours.1], args.differences.as_deref())?;
    }
    table.print();
    match table.differ + table.fail_otherwise {
        0 => Ok(()),
        count => Err(format!("{count} renders differ from Helm's").into()),
    }
}

fn questions(folders: &[PathBuf]) -> Result<Vec<Question>, Box<dyn Error>> {
    let mut questions = Vec::new();
    for folder in folders {
        let folder = std::path::absolute(folder)?;
        find(&folder, &folder, &mut questions)?;
    }
    Ok(questions)
}

fn read(text: &str) -> Result<Vec<[Value; 2]>, serde_json::Error> {
    text.lines().map(serde_json::from_str).collect()
}

fn find(root: &Path, folder: &Path, found: &mut Vec<Question>) -> Result<(), Box<dyn Error>> {
    if folder.join("Chart.yaml").exists() {
        let name = folder.strip_prefix(root)?.to_string_lossy().into_owned();
        found.push(Question {
            name: name.clone(),
            json: json!({ "chart": folder, "values": "" }),
        });
        let Ok(entries) = std::fs::read_dir(folder.join("ci")) else {
            return Ok(());
        };
        let mut values: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        values.retain(|path| path.to_string_lossy().ends_with("values.yaml"));
        values.sort();
        for path in values {
            let file = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            found.push(Question {
                name: format!("{name} {file}"),
                json: json!({ "chart": folder, "values": std::fs::read_to_string(&path)? }),
            });
        }
        return Ok(());
    }
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            below.push(entry.path());
        }
    }
    below.sort();
    below.iter().try_for_each(|path| find(root, path, found))
}

/// Our side: the crate's example, compiled with the release profile.
fn ours(mode: &str) -> Result<Command, Box<dyn Error>> {
    let status = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--release",
            "--workspace",
            "--example",
            "answers",
        ])
        .status()?;
    if !status.success() {
        return Err("the example of crate helm does not compile".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let mut command = Command::new(target.join("release/examples/answers"));
    command.arg(mode);
    Ok(command)
}

fn ask(mut program: Command, questions: &[Question], more: &Value) -> Result<Vec<Value>, Box<dyn Error>> {
    let mut child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("no input")?;
    let lines: Vec<String> = questions
        .iter()
        .map(|question| {
            let mut json = question.json.clone();
            if let (Some(json), Some(more)) = (json.as_object_mut(), more.as_object()) {
                json.extend(more.clone());
            }
            json.to_string()
        })
        .collect();
    let writer = std::thread::spawn(move || lines.iter().try_for_each(|line| writeln!(input, "{line}")));
    let output = BufReader::new(child.stdout.take().ok_or("no output")?);
    let answers: Result<Vec<Value>, Box<dyn Error>> = output
        .lines()
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect();
    let answers = answers?;
    // a program that ended early shows in the number of its answers
    drop(writer.join());
    child.wait()?;
    if answers.len() != questions.len() {
        let asked = questions.get(answers.len()).map_or("", |question| &question.name);
        return Err(format!("no answer from {:?} for {asked}", program.get_program()).into());
    }
    Ok(answers)
}

#[derive(Default)]
struct Table {
    equal: usize,
    equal_but_chance: usize,
    differ: usize,
    fail_alike: usize,
    fail_otherwise: usize,
    /// Equal lines, and the random ones among them.
    lines: usize,
    masked: usize,
}

type Texts = BTreeMap<String, String>;

impl Table {
    fn add(
        &mut self,
        question: &Question,
        theirs: &[Value; 2],
        ours: [&Value; 2],
        folder: Option<&Path>,
    ) -> Result<(), Box<dyn Error>> {
        let [theirs, again] = theirs.each_ref().map(texts);
        let [ours, ours_again] = ours.map(texts);
        match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => {
                if theirs == ours {
                    self.equal += 1;
                    return Ok(());
                }
                let (theirs, ours) = (masked(&theirs, &again?), masked(&ours, &ours_again?));
                if alike(&theirs, &ours) {
                    self.equal_but_chance += 1;
                    let lines = || ours.values().flat_map(|text| text.split_inclusive('\n'));
                    self.lines += lines().count();
                    self.masked += lines().filter(|line| *line == RANDOM_LINE).count();
                } else {
                    self.differ += 1;
                    tell(&question.name, &theirs, &ours, folder)?;
                }
            }
            (Err(theirs), Err(ours)) if theirs == ours => self.fail_alike += 1,
            (Err(theirs), Err(ours)) => {
                self.fail_otherwise += 1;
                println!(
                    "fails otherwise {}\n  helm: {theirs}\n  ours: {ours}",
                    question.name
                );
            }
            (Err(theirs), Ok(_)) => {
                self.fail_otherwise += 1;
                println!("only Helm fails {}\n  helm: {theirs}", question.name);
            }
            (Ok(_), Err(ours)) => {
                self.differ += 1;
                println!("only ours fails {}\n  ours: {ours}", question.name);
            }
        }
        Ok(())
    }

    fn print(&self) {
        println!("| equal | equal except random lines | differ | fail alike | fail differently |");
        println!("|---|---|---|---|---|");
        println!(
            "| {} | {} | {} | {} | {} |",
            self.equal, self.equal_but_chance, self.differ, self.fail_alike, self.fail_otherwise
        );
        println!(
            "chance: {} of {} lines of the renders that are equal but for it",
            self.masked, self.lines
        );
    }
}

fn texts(answer: &Value) -> Result<Texts, String> {
    match answer["error"].as_str() {
        Some(error) => Err(error.to_owned()),
        None => Ok(serde_json::from_value(answer["texts"].clone()).unwrap_or_default()),
    }
}

/// The texts with random lines masked: those in which two renders of one side differ.
fn masked(one: &Texts, two: &Texts) -> Texts {
    let mask = |(path, text): (&String, &String)| {
        let other = two.get(path).map_or("", String::as_str);
        if text == other {
            return (path.clone(), text.clone());
        }
        let mut lines = Vec::new();
        for change in similar::TextDiff::from_lines(text.as_str(), other).iter_all_changes() {
            match change.tag() {
                similar::ChangeTag::Equal => lines.push(change.value().to_owned()),
                // a random key in base64 varies in its number of lines
                similar::ChangeTag::Delete | similar::ChangeTag::Insert => {
                    if lines.last().is_none_or(|last| last != RANDOM_LINE) {
                        lines.push(RANDOM_LINE.to_owned());
                    }
                }
            }
        }
        (path.clone(), lines.concat())
    };
    one.iter().map(mask).collect()
}

const RANDOM_LINE: &str = "<chance>\n";

/// Whether masked texts are equal. Where Helm's own renders differ (random map order), ours may match any
/// of them.
fn alike(theirs: &Texts, ours: &Texts) -> bool {
    let same = |(path, theirs): (&String, &String)| {
        ours.get(path).is_some_and(|ours| {
            let diff = similar::TextDiff::from_lines(theirs.as_str(), ours.as_str());
            diff.ops().iter().all(|op| {
                let equal = op.tag() == similar::DiffTag::Equal;
                let mut masked = diff.iter_changes(op);
                equal
                    || op.tag() == similar::DiffTag::Replace
                        && masked.all(|change| {
                            change.tag() == similar::ChangeTag::Insert || change.value() == RANDOM_LINE
                        })
            })
        })
    };
    theirs.len() == ours.len() && theirs.iter().all(same)
}

fn tell(name: &str, theirs: &Texts, ours: &Texts, folder: Option<&Path>) -> Result<(), Box<dyn Error>> {
    let paths: std::collections::BTreeSet<_> = theirs.keys().chain(ours.keys()).collect();
    let differ: Vec<_> = paths
        .into_iter()
        .filter(|path| theirs.get(*path) != ours.get(*path))
        .collect();
    println!("differs {name}: {} files", differ.len());
    for path in differ.iter().take(2) {
        let text = |side: &Texts| side.get(*path).cloned().unwrap_or_default();
        let (theirs, ours) = (text(theirs), text(ours));
        let line = theirs
            .lines()
            .zip(ours.lines())
            .position(|(left, right)| left != right);
        let at = |text: &str| {
            line.and_then(|line| text.lines().nth(line))
                .unwrap_or("(the end)")
                .to_owned()
        };
        println!(
            "  {path}:{}\n    helm: {}\n    ours: {}",
            line.map_or(0, |line| line + 1),
            at(&theirs),
            at(&ours)
        );
        if let Some(folder) = folder {
            std::fs::create_dir_all(folder)?;
            let file = format!("{name}+{path}").replace(['/', ' '], "+");
            std::fs::write(folder.join(format!("{file}.helm")), theirs)?;
            std::fs::write(folder.join(format!("{file}.ours")), ours)?;
        }
    }
    Ok(())
}

/// Measures both on the charts below the folders: loading, the first render, and renders from the cache.
pub(crate) fn bench(folders: &[PathBuf], times: u32) -> Result<(), Box<dyn Error>> {
    let Some(helm) = judge()? else {
        return Ok(());
    };
    let questions = questions(folders)?;
    let more = json!({ "times": times });
    let theirs = ask(helm.answers("bench"), &questions, &more)?;
    let ours = ask(ours("bench")?, &questions, &more)?;
    println!(
        "| Chart | Helm {}: read | render | Equate: read | render | again | Helm's render / again |",
        peers::HELM_VERSION
    );
    println!("|---|---|---|---|---|---|---|");
    for ((question, theirs), ours) in questions.iter().zip(&theirs).zip(&ours) {
        let name = &question.name;
        if let (None, None) = (theirs["error"].as_str(), ours["error"].as_str()) {
            let (slow, warm) = (median(&theirs["render"]), median(&ours["warm"]));
            println!(
                "| {name} | {:.1} | {slow:.1} | {:.1} | {:.1} | {warm:.2} | {:.1} |",
                theirs["load"].as_f64().unwrap_or_default(),
                ours["load"].as_f64().unwrap_or_default(),
                median(&ours["render"]),
                slow / warm
            );
        } else {
            println!("| {name} | fails | | {} | | | |", ours["error"]);
        }
    }
    Ok(())
}

fn median(times: &Value) -> f64 {
    let mut times: Vec<f64> = times
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_f64)
        .collect();
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
