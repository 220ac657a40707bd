//! `cargo xtask hostile`: tenants attack the real controllers, and another namespace's commits are timed
//! meanwhile.
//!
//! One pair of processes serves many attacks, one after the other. Each attack has a namespace of its own.
//! The times are compared with those before the first attack, on the same machine. An attack that is too slow is run
//! once more, with new processes and new times without attack. At the end nothing of the attackers may remain.

pub(crate) mod archive;
mod attacks;
mod ground;
mod pack;
mod servers;
mod session;
mod soak;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use self::attacks::Attack;
use self::ground::{Ground, Scale};
use self::session::{Outcome, Probed, Probes, Session};
use crate::bench::Times;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run only the attacks whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Attack for this many minutes in 20 namespaces, beside 200 honest Kustomizations
    #[arg(long, value_name = "MINUTES", conflicts_with = "only")]
    soak: Option<u64>,
    /// The binary, relative to the current directory; by default the dev binary is built
    #[arg(long, value_name = "FILE")]
    equate: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Run only the attacks whose name contains this text
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// The number of commits during each attack
    #[arg(long, default_value_t = 20)]
    rounds: usize,
    /// The binary, relative to the current directory; by default the release binary is built
    #[arg(long, value_name = "FILE")]
    pub(crate) equate: Option<PathBuf>,
}

/// How much an attack may change.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Times of a commit without attack.
    factor: f64,
    /// Always allowed on top of it, in milliseconds: other programs run on the machine, too.
    margin: f64,
    /// The same for the longest commit: the median hides a stall of one.
    longest_margin: f64,
    /// The longest answer of a probe.
    probe: Duration,
    /// Resident memory of the controllers, in MiB.
    memory: f64,
}

/// For the suite: relative, with a margin.
const RELATIVE: Bounds = Bounds {
    factor: 3.0,
    margin: 1_000.0,
    longest_margin: 5_000.0,
    probe: Duration::from_secs(2),
    // one pair of processes for all
    memory: 1_024.0,
};

/// For the benchmark: within a second.
const ABSOLUTE: Bounds = Bounds {
    factor: 1.0,
    margin: 1_000.0,
    longest_margin: 1_000.0,
    probe: Duration::from_secs(1),
    memory: 512.0,
};

/// Commits without attack, and during each attack of the suite.
const ROUNDS_BEFORE: usize = 7;
const ROUNDS: usize = 3;
/// Other programs on the machine cause single failures, so an attack counts when it fails each time.
const ATTEMPTS: usize = 2;
/// A commit that is not applied by then is not waited for.
const PATIENCE: Duration = Duration::from_secs(20);
/// The pause after a commit: an attack has several phases.
const PAUSE: Duration = Duration::from_millis(300);
const SAID_MAX: usize = 180;
const PROBE_PATIENCE: Duration = Duration::from_secs(5);
/// The time after the last attack until nothing of it remains: the longest deadline of a request, and the
/// retries of a deletion.
const REMAINS_MAX: Duration = Duration::from_secs(120);
/// The time after which those that are left are named.
const REMAINS_SAID: Duration = Duration::from_secs(10);
const STRANGERS_SHOWN: usize = 20;
/// File descriptors and threads that may be left over.
const FILES_MARGIN: f64 = 24.0;
const THREADS_MARGIN: f64 = 16.0;

pub(crate) fn run(args: &Args) -> Outcome {
    let binary = match &args.equate {
        Some(binary) => std::path::absolute(binary)?,
        None => crate::contests::build()?,
    };
    if let Some(minutes) = args.soak {
        return soak::run(&binary, Duration::from_secs(60 * minutes));
    }
    let suite = Suite {
        attacks: selected(args.only.as_deref())?,
        scale: Scale::Small,
        rounds: ROUNDS,
        bounds: RELATIVE,
    };
    in_runtime(suite.run(&binary))
}

pub(crate) fn bench(binary: &Path, args: &BenchArgs) -> Outcome {
    let suite = Suite {
        attacks: selected(args.only.as_deref())?,
        scale: Scale::Full,
        rounds: args.rounds,
        bounds: ABSOLUTE,
    };
    in_runtime(suite.run(binary))
}

fn in_runtime(work: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_background();
    outcome
}

fn selected(only: Option<&str>) -> Outcome<Vec<Attack>> {
    let mut all = attacks::all();
    all.retain(|attack| only.is_none_or(|text| attack.name.contains(text)));
    match all.is_empty() {
        true => Err("no attack has this text in its name".into()),
        false => Ok(all),
    }
}

struct Suite {
    attacks: Vec<Attack>,
    scale: Scale,
    rounds: usize,
    bounds: Bounds,
}

/// One attack as it was measured.
#[derive(Debug, Clone, Default)]
struct Record {
    name: String,
    /// Whether the attack reached the controllers.
    begun: bool,
    times: Times,
    /// The commit that was not applied.
    lost: Option<String>,
    probed: Probed,
    memory: f64,
    alive: bool,
    /// The rule that the attacker broke.
    broken: Option<String>,
    /// The state of the attacker's first object, to see that the attack is the intended one.
    said: String,
}

/// The processes, and their state before any attack.
struct Calm {
    session: Session,
    normal: Times,
    files: f64,
    threads: f64,
}

impl Suite {
    async fn run(self, binary: &Path) -> Outcome {
        let (mut calm, mut records, mut failures) = (None, Vec::new(), Vec::new());
        for (number, attack) in self.attacks.iter().enumerate() {
            for attempt in 1..=ATTEMPTS {
                let mut present = match calm.take() {
                    Some(calm) => calm,
                    None => self.start(binary).await?,
                };
                let (record, faults) = self.attempt(&mut present, attack, number).await;
                // no other program breaks a rule or ends the controllers
                let again = attempt < ATTEMPTS && record.alive && record.broken.is_none();
                records.push((record, present.normal.quantile(0.5)));
                if faults.is_empty() {
                    calm = Some(present);
                    break;
                }
                println!("{}, attempt {attempt} of {ATTEMPTS}:", attack.name);
                for fault in &faults {
                    println!("    {fault}");
                }
                println!("    the end of the log:\n{}", present.session.last_lines());
                if !again {
                    failures.push(format!("{}: {}", attack.name, faults.join("; ")));
                    break;
                }
            }
        }
        if let Some(calm) = calm
            && let Some(remains) = calm.remains().await?
        {
            println!(
                "{remains}\n    the end of the log:\n{}",
                calm.session.last_lines()
            );
            failures.push(remains);
        }
        print!("{}", Table(&records));
        match failures.is_empty() {
            true => Ok(()),
            false => Err(format!("{} failures:\n  {}", failures.len(), failures.join("\n  ")).into()),
        }
    }

    /// One attack, and its faults.
    async fn attempt(&self, calm: &mut Calm, attack: &Attack, number: usize) -> (Record, Vec<String>) {
        let started = Instant::now();
        let faced = self.face(calm, attack, number).await;
        let record = faced.unwrap_or_else(|error| Record {
            name: attack.name.to_owned(),
            lost: Some(format!("the attack cannot be run: {error}")),
            alive: true,
            ..Record::default()
        });
        let faults = judge(&record, calm.normal.quantile(0.5), self.bounds);
        eprintln!(
            "{:>3} s  {}  {}\n               {}",
            started.elapsed().as_secs(),
            if faults.is_empty() { "ok    " } else { "FAILED" },
            attack.name,
            record.said.chars().take(SAID_MAX).collect::<String>()
        );
        (record, faults)
    }

    async fn start(&self, binary: &Path) -> Outcome<Calm> {
        let session = Session::start(binary).await?;
        // the first one after the start is slower
        session.commit(PATIENCE).await?;
        let mut normal = Times::default();
        for _ in 0..self.rounds.max(ROUNDS_BEFORE) {
            normal.push(session.commit(PATIENCE).await?);
        }
        let (files, threads) = resources(&session);
        Ok(Calm {
            session,
            normal,
            files,
            threads,
        })
    }

    async fn face(&self, calm: &mut Calm, attack: &Attack, number: usize) -> Outcome<Record> {
        let session = &calm.session;
        session.controllers.reset_peak()?;
        let cpu = session.controllers.cpu().unwrap_or_default();
        let ground = Ground::new(session, &format!("attacker-{number}"), self.scale).await?;
        let threat = (attack.launch)(&ground).await?;
        let mut record = Record {
            name: attack.name.to_owned(),
            begun: ground.begun(&threat, cpu).await,
            ..Record::default()
        };
        let probes = Probes::start(session.health, PROBE_PATIENCE);
        for _ in 0..self.rounds {
            match session.commit(PATIENCE).await {
                Ok(time) => record.times.push(time),
                Err(error) => {
                    record.lost = Some(error.to_string());
                    break;
                }
            }
            sleep(PAUSE).await;
        }
        record.said = ground.said().await?;
        record.broken = ground.broken(&threat.rule).await?;
        record.probed = probes.seen();
        record.memory = session.controllers.peak_memory().unwrap_or(f64::NAN);
        ground.leave().await?;
        drop(threat);
        record.alive = calm.session.controllers.ended()?.is_none();
        Ok(record)
    }
}

impl Calm {
    /// The rest of all attackers, if it does not go away.
    async fn remains(&self) -> Outcome<Option<String>> {
        let begun = Instant::now();
        let mut said = false;
        loop {
            let strangers = self.session.strangers().await?;
            let (files, threads) = resources(&self.session);
            let is_calm = strangers.is_empty()
                && files <= self.files + FILES_MARGIN
                && threads <= self.threads + THREADS_MARGIN;
            if is_calm {
                println!(
                    "nothing remains of the attackers after {} s: {files} file descriptors ({} before), {threads} threads ({} before)",
                    begun.elapsed().as_secs(),
                    self.files,
                    self.threads
                );
                return Ok(None);
            }
            if !said && begun.elapsed() > REMAINS_SAID {
                said = true;
                let first = strangers.iter().take(STRANGERS_SHOWN);
                let first: Vec<&str> = first.map(String::as_str).collect();
                eprintln!(
                    "{REMAINS_SAID:?} after the last attack: {} objects of attackers: {}",
                    strangers.len(),
                    first.join(", ")
                );
            }
            if begun.elapsed() > REMAINS_MAX {
                return Ok(Some(format!(
                    "{REMAINS_MAX:?} after the last attack: {} objects of attackers, {files} file descriptors \
                     ({} before), {threads} threads ({} before){}",
                    strangers.len(),
                    self.files,
                    self.threads,
                    strangers
                        .iter()
                        .take(STRANGERS_SHOWN)
                        .map(|one| format!("\n      {one}"))
                        .collect::<String>()
                )));
            }
            sleep(Duration::from_millis(500)).await;
        }
    }
}

fn resources(session: &Session) -> (f64, f64) {
    let process = &session.controllers;
    (
        process.files().unwrap_or(f64::NAN),
        process.threads().unwrap_or(f64::NAN),
    )
}

/// The faults of a record, by a normal time in milliseconds.
fn judge(record: &Record, normal: f64, bounds: Bounds) -> Vec<String> {
    let mut faults = Vec::new();
    if !record.alive {
        faults.push("the controllers ended".to_owned());
    }
    faults.extend(record.lost.clone());
    if record.lost.is_none() {
        if !record.begun {
            faults.push("the attack did not reach the controllers".to_owned());
        }
        let (time, limit) = (
            record.times.quantile(0.5),
            (normal * bounds.factor).max(normal + bounds.margin),
        );
        // not a number is a fault, too
        if !matches!(time.partial_cmp(&limit), Some(std::cmp::Ordering::Less)) {
            faults.push(format!(
                "a commit was applied after {time:.0} ms; the limit is {limit:.0} ms, the normal time {normal:.0} ms"
            ));
        }
        let (longest, limit) = (
            record.times.quantile(1.0),
            limit.max(normal + bounds.longest_margin),
        );
        if longest > limit {
            faults.push(format!(
                "the longest commit was applied after {longest:.0} ms; the limit is {limit:.0} ms, the normal time \
                 {normal:.0} ms"
            ));
        }
        if !matches!(
            record.memory.partial_cmp(&bounds.memory),
            Some(std::cmp::Ordering::Less)
        ) {
            faults.push(format!(
                "the controllers used {:.0} MiB; the limit is {} MiB",
                record.memory, bounds.memory
            ));
        }
    }
    if let Some(failure) = &record.probed.failure {
        faults.push(failure.clone());
    }
    if record.probed.worst > bounds.probe {
        faults.push(format!(
            "a probe was answered after {:?}; the limit is {:?}",
            record.probed.worst, bounds.probe
        ));
    }
    faults.extend(record.broken.clone());
    faults
}

struct Table<'r>(&'r [(Record, f64)]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| attack | normal | under attack | longest | probe | memory |")?;
        writeln!(f, "|---|---:|---:|---:|---:|---:|")?;
        for (record, normal) in self.0 {
            writeln!(
                f,
                "| {} | {normal:.0} ms | {:.0} ms | {:.0} ms | {} ms | {:.0} MiB |",
                record.name,
                record.times.quantile(0.5),
                record.times.quantile(1.0),
                record.probed.worst.as_millis(),
                record.memory
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(times: &[u64]) -> Record {
        let mut all = Times::default();
        for time in times {
            all.push(Duration::from_millis(*time));
        }
        Record {
            name: "an attack".to_owned(),
            begun: true,
            times: all,
            lost: None,
            probed: Probed::default(),
            memory: 100.0,
            alive: true,
            broken: None,
            said: String::new(),
        }
    }

    #[test]
    fn an_attack_without_effect_has_no_faults() {
        let check = |record: &Record, normal: f64, expected: &[&str]| {
            let faults = judge(record, normal, RELATIVE);
            assert_eq!(faults.len(), expected.len(), "{faults:?}");
            for (fault, expected) in faults.iter().zip(expected) {
                assert!(fault.contains(expected), "{fault}");
            }
        };
        check(&record(&[100, 90, 5_000]), 100.0, &[]);
        check(
            &record(&[100, 90, 6_000]),
            100.0,
            &["the longest commit was applied after 6000 ms; the limit is 5100 ms"],
        );
        // slow machines have a longer normal time
        check(&record(&[2_500, 2_600, 2_700]), 1_000.0, &[]);
        let slow = record(&[1_200, 1_300, 1_400]);
        check(&slow, 100.0, &["the limit is 1100 ms"]);
        check(&record(&[]), 100.0, &["after NaN ms"]);
        let mut missed = record(&[100]);
        missed.begun = false;
        check(&missed, 100.0, &["did not reach"]);
        let mut large = record(&[100]);
        large.memory = 1_100.0;
        check(&large, 100.0, &["used 1100 MiB"]);
        let mut silent = record(&[100]);
        silent.probed.failure = Some("GET /readyz: no answer".into());
        silent.probed.worst = Duration::from_secs(5);
        check(&silent, 100.0, &["GET /readyz", "answered after 5s"]);
        let mut stolen = record(&[100]);
        stolen.broken = Some("ConfigMap settings was applied".into());
        check(&stolen, 100.0, &["settings was applied"]);
        let mut dead = record(&[100]);
        (dead.alive, dead.lost) = (false, Some("commit 3 is not applied".into()));
        check(&dead, 100.0, &["ended", "commit 3"]);
    }

    #[test]
    fn there_are_attacks_of_each_name_once() {
        let mut names: Vec<&str> = attacks::all().iter().map(|attack| attack.name).collect();
        assert!(names.len() >= 25, "{}", names.len());
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), attacks::all().len());
        assert!(selected(Some("no such attack")).is_err());
        assert_eq!(selected(Some("refs without end")).unwrap().len(), 1);
    }
}
