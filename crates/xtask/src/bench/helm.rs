//! Charts: the cost of hostile ones until a limit ends them, and real ones compared with Helm's engine.
//!
//! The release binary renders each hostile chart in its own process, to measure its peak memory.
//! Processor time counts: it does not depend on other programs.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::hostile::{HOSTILE, Hostile};
use super::launch;
use crate::charts;

/// Hostile charts, and real ones beside Helm's engine
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Real charts below this folder, compared with Helm itself
    #[arg(long, value_name = "FOLDER")]
    charts: Option<PathBuf>,
    /// The number of renders of each real chart
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Only hostile charts whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,
    /// The binary, relative to the current directory; by default the release binary is built
    #[arg(long, value_name = "FILE")]
    pub(super) equate: Option<PathBuf>,
}

const SECONDS_MAX: f64 = 1.0;
const MB_MAX: f64 = 200.0;
/// The time after which a render is killed.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct RenderCost {
    wall: f64,
    /// Processor time in seconds, in steps of a hundredth.
    cpu: f64,
    /// Peak resident memory, in MB.
    peak: f64,
}

pub(super) fn run(equate: &Path, args: &Args) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = &args.charts {
        charts::bench(std::slice::from_ref(folder), args.rounds)?;
        println!();
    }
    println!("| Hostile chart | processor s | wall s | peak MB | ends in |");
    println!("|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for hostile in HOSTILE.iter().filter(|hostile| hostile.name.contains(&args.only)) {
        let folder = tempfile::tempdir()?;
        let more = (hostile.write)(folder.path())?;
        let (took, told) = render(equate, folder.path(), &more)?;
        println!(
            "| {} | {:.2} | {:.2} | {:.0} | {} |",
            hostile.name,
            took.cpu,
            took.wall,
            took.peak,
            shown(&told)
        );
        wrong.extend(fault(hostile, &took, &told));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n").into()),
    }
}

/// The end of a render: its exit code and error.
struct RenderEnd {
    /// `None` after a signal.
    code: Option<i32>,
    error: String,
}

#[expect(clippy::disallowed_methods, reason = "a process is sampled until it ends")]
fn render(equate: &Path, folder: &Path, more: &[String]) -> Result<(RenderCost, RenderEnd), Box<dyn Error>> {
    let archive = folder.join("chart.tgz");
    let chart = if archive.exists() { &archive } else { folder };
    let said = tempfile::NamedTempFile::new()?;
    let mut command = Command::new(equate);
    command
        .arg("template")
        .arg(chart)
        .args(more)
        .stdout(Stdio::null())
        .stderr(said.reopen()?);
    let began = Instant::now();
    let mut child = launch(&mut command, Command::spawn)?;
    let mut took = RenderCost::default();
    let status = loop {
        took.sample(&child);
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if began.elapsed() > PATIENCE {
            child.kill()?;
            break child.wait()?;
        }
        // growth in the meantime is not seen: a few megabytes at most
        std::thread::sleep(Duration::from_millis(1));
    };
    took.wall = began.elapsed().as_secs_f64();
    let told = RenderEnd {
        code: status.code(),
        error: String::from_utf8_lossy(&std::fs::read(said.path())?).into_owned(),
    };
    Ok((took, told))
}

impl RenderCost {
    /// Samples a process, which keeps its processor time until it is waited for.
    fn sample(&mut self, child: &Child) {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", child.id()));
        if let Ok(status) = read("status") {
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
            self.peak = self.peak.max(kib.unwrap_or_default() * 1_024.0 / 1e6);
        }
        if let Ok(stat) = read("stat") {
            // after the name in parentheses, user and system time are the 12th and 13th fields
            let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            let ticks: f64 = fields
                .skip(11)
                .take(2)
                .filter_map(|ticks| ticks.parse::<f64>().ok())
                .sum();
            self.cpu = self.cpu.max(ticks / 100.0);
        }
    }
}

/// The last line of the error, which has the cause.
fn shown(told: &RenderEnd) -> String {
    let why = match told.code {
        Some(0) => "rendered",
        Some(_) => told
            .error
            .lines()
            .rfind(|line| !line.trim().is_empty() && !line.contains("Use --debug"))
            .unwrap_or_default(),
        None => "ended by a signal",
    };
    let mut why: String = why.trim().replace('|', "\\|").chars().rev().take(90).collect();
    why = why.chars().rev().collect();
    why
}

/// The fault in the end of a hostile chart, if any.
fn fault(hostile: &Hostile, took: &RenderCost, told: &RenderEnd) -> Option<String> {
    let name = hostile.name;
    if took.cpu > SECONDS_MAX || took.peak > MB_MAX {
        return Some(format!(
            "{name}: {:.2} s and {:.0} MB, at most {SECONDS_MAX} s and {MB_MAX} MB are allowed",
            took.cpu, took.peak
        ));
    }
    match told.code {
        None => Some(format!("{name}: ended by a signal")),
        Some(0) if hostile.said.is_empty() => None,
        Some(0) => Some(format!("{name}: rendered")),
        Some(_) if told.error.contains(hostile.said) => None,
        Some(_) => Some(format!(
            "{name}: {} is missing from the error: {}",
            hostile.said, told.error
        )),
    }
}
