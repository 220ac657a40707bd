//! `cargo xtask hostile --soak`: 200 honest Kustomizations beside 20 attacking namespaces, for a long time.
//!
//! Growth is that of the memory without attackers: they pause after a third of the time.
//!
//! Attackers and the honest git servers would have machines of their own. Here the attackers' threads have the lowest
//! priority, and the honest thread and servers a higher one, if the user may give it.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use equate_testkit::git::{HttpServer, Repository};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::Client;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::sleep;

use super::attacks::{self, Attack};
use super::ground::{self, Ground, Scale};
use super::session::{HONEST, Outcome, SOURCE, Session, condition, connected, create};
use crate::bench::Times;
use crate::bench::process::Process;
use crate::bench::session::api;

const KUSTOMIZATIONS: usize = 200;
const ATTACKERS: usize = 20;
/// Repositories of the honest Kustomizations: a commit reaches those of one.
const REPOSITORIES: usize = 10;
const COMMITS_BEFORE: usize = 200;
/// The pause between two commits.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(60);
/// An attacking namespace is left for another after this time.
const SHIFT: Duration = Duration::from_secs(60);
const AT_ONCE: usize = 16;
const POLL: Duration = Duration::from_millis(5);

/// The time for what attackers leave to end, and the time for memory to be given back then.
const SETTLE: Duration = Duration::from_secs(30);
/// Between two turns in the list of attacks, whose neighbours are alike: at least this.
const STRIDE_MIN: usize = 11;
const PART: Duration = Duration::from_secs(300);
/// The attacks that are named at the end.
const WORST: usize = 5;

const FACTOR_MAX: f64 = 2.0;
const MIB_PER_MINUTE_MAX: f64 = 1.0;
/// The builds of all attackers share one limit.
const MIB_MAX: f64 = 1_024.0;
const FILES_MAX: f64 = 10.0;

/// The lowest priority.
const NICE: i32 = 19;

/// The times of commits, and the controllers' resources meanwhile.
#[derive(Debug, Default)]
struct Measured {
    normal: Times,
    attacked: Times,
    /// By the number of their [`PART`].
    parts: BTreeMap<u64, Times>,
    /// Of those, until the source has the commit.
    fetched: Times,
    /// Of single reads of the API meanwhile.
    reads: Times,
    /// Minutes since the first attack, and MiB.
    memory: Vec<(f64, f64)>,
    /// The minutes in which commits began, and milliseconds until applied.
    applied: Vec<(f64, f64)>,
    /// Of those, until fetched, and the longest read.
    steps: Vec<(f64, f64)>,
    /// Before the attackers.
    files: f64,
    /// The same, MiB.
    memory_before: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Attack,
    Pause,
    End,
}

/// An attack, in minutes since the first.
#[derive(Debug)]
struct Presence {
    attack: &'static str,
    from: f64,
    until: f64,
}

impl Measured {
    /// `at` and `now`: since the first attack. `memory`: MiB.
    fn push(&mut self, at: Duration, taken: &Taken, (now, memory): (Duration, f64)) {
        self.attacked.push(taken.applied);
        self.fetched.push(taken.fetched);
        taken.reads.iter().for_each(|read| self.reads.push(*read));
        self.memory.push((minutes(now), memory));
        let milliseconds = |time: &Duration| time.as_secs_f64() * 1e3;
        self.applied.push((minutes(at), milliseconds(&taken.applied)));
        let longest = taken.reads.iter().max().map_or(f64::NAN, milliseconds);
        self.steps.push((milliseconds(&taken.fetched), longest));
        let part = at.as_secs() / PART.as_secs();
        self.parts.entry(part).or_default().push(taken.applied);
    }
}

/// The times from a commit on.
struct Taken {
    fetched: Duration,
    applied: Duration,
    /// The reads in between.
    reads: Vec<Duration>,
}

pub(super) fn run(binary: &Path, time: Duration) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(yield_to_others)
        .enable_all()
        .build()?;
    let session = runtime.block_on(Session::start(binary))?;
    let processes = [&session.controllers, &session.api];
    let attackers = Attackers {
        session: &session,
        presences: Mutex::new(Vec::new()),
        turns: AtomicUsize::new(0),
    };
    let (phases, phase) = watch::channel(Phase::Attack);
    let measured = std::thread::scope(|scope| {
        let (calm, attack) = mpsc::channel();
        let kubeconfig = session.kubeconfig();
        // errors of other threads are texts
        let honest = scope
            .spawn(move || measure(&kubeconfig, processes, &calm, &phase).map_err(|error| error.to_string()));
        let left = match attack.recv() {
            Ok(begun) => {
                yield_to_others();
                let left = runtime.block_on(attackers.all(begun, time, &phases));
                phases.send_replace(Phase::End);
                left
            }
            // the thread says why it ended
            Err(_) => Ok(Vec::new()),
        };
        let measured = honest.join().map_err(|_| "the measuring thread panicked")?;
        Ok((measured?, left))
    });
    let outcome = measured.and_then(|(measured, left)| {
        let presences = attackers.presences.lock().unwrap_or_else(PoisonError::into_inner);
        let came: BTreeSet<&str> = presences.iter().map(|one| one.attack).collect();
        println!("attacks that came: {} of {}", came.len(), attacks::all().len());
        tell_longest(&measured);
        tell_worst("longest commits", &measured.applied, &presences);
        tell_worst("most memory", &measured.memory, &presences);
        runtime.block_on(judge(&session, &measured, &left?))
    });
    runtime.shutdown_background();
    outcome
}

fn yield_to_others() {
    let is_idle = schedule("--idle", "0");
    if let (false, Err(error)) = (is_idle, rustix::process::nice(NICE)) {
        eprintln!("cannot lower the priority of attackers: {error}");
    }
}

/// For this thread and those that it starts, and for their processes. A new process of a git server waits up to 4 ms
/// for a busy processor, whatever its `nice` value, unless it has a real-time priority.
fn go_first() {
    if !schedule("--rr", "1") {
        eprintln!("cannot give the honest git servers a real-time priority: their time counts as Equate's");
    }
}

/// On sleeping processors of a virtual machine, a program takes 27 ms in place of 2 to start. Attackers keep them awake.
struct Awake(Arc<AtomicBool>);

impl Awake {
    fn keep() -> Self {
        let until = Arc::new(AtomicBool::new(false));
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            let until = Arc::clone(&until);
            std::thread::spawn(move || {
                yield_to_others();
                while !until.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(until)
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn schedule(policy: &str, priority: &str) -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let changed = Command::new("chrt")
        .args([policy, "--pid", priority, &thread])
        .output();
    changed.is_ok_and(|changed| changed.status.success())
}

/// Times commits, without attackers at first; says when they may begin.
fn measure(
    kubeconfig: &Path,
    [controllers, api]: [&Process; 2],
    calm: &mpsc::Sender<Instant>,
    phase: &watch::Receiver<Phase>,
) -> Outcome<Measured> {
    go_first();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let fleet = Fleet::start(connected(kubeconfig).await?).await?;
        let mut measured = Measured::default();
        let awake = Awake::keep();
        for number in 0..COMMITS_BEFORE {
            measured.normal.push(fleet.commit(number).await?.applied);
            sleep(PAUSE).await;
        }
        drop(awake);
        measured.files = controllers.files().unwrap_or(f64::NAN);
        measured.memory_before = controllers.memory().unwrap_or(f64::NAN);
        println!("without attackers: {}", quantiles(&measured.normal));
        controllers.reset_peak()?;
        let before = [controllers, api].map(|process| process.cpu().unwrap_or(f64::NAN));
        let begun = Instant::now();
        calm.send(begun)?;
        for number in COMMITS_BEFORE.. {
            let (at, began) = (begun.elapsed(), *phase.borrow());
            let taken = match fleet.commit(number).await {
                Ok(taken) => taken,
                Err(error) if controllers.memory().is_none() => return Err(error),
                Err(error) => {
                    eprintln!("{error}");
                    Taken {
                        fetched: PATIENCE,
                        applied: PATIENCE,
                        reads: Vec::new(),
                    }
                }
            };
            match *phase.borrow() {
                Phase::Attack if began == Phase::Attack => {
                    let memory = controllers.memory().unwrap_or(f64::NAN);
                    measured.push(at, &taken, (begun.elapsed(), memory));
                }
                Phase::Attack | Phase::Pause => {}
                Phase::End => break,
            }
            sleep(PAUSE).await;
        }
        println!("beside attackers:  {}", quantiles(&measured.attacked));
        for (part, times) in &measured.parts {
            let from = part * PART.as_secs() / 60;
            println!("  from minute {from:>2}:  {}", quantiles(times));
        }
        println!("until fetched:     {}", quantiles(&measured.fetched));
        println!("a read of the API: {}", quantiles(&measured.reads));
        let used = [controllers, api].map(|process| process.cpu().unwrap_or(f64::NAN));
        println!(
            "processor time meanwhile: {:.0} s of the controllers, {:.0} s of the API server",
            used[0] - before[0],
            used[1] - before[1]
        );
        Ok(measured)
    })
}

async fn judge(session: &Session, measured: &Measured, left: &[(f64, f64)]) -> Outcome {
    let files = settled_files(session, measured.files).await;
    let memory: Vec<String> = left
        .iter()
        .map(|(minutes, memory)| format!("{memory:.0} MiB after {minutes:.0} minutes"))
        .collect();
    println!(
        "memory {:.0} s after the attackers: {}; before them: {:.0} MiB",
        2.0 * SETTLE.as_secs_f64(),
        memory.join(", "),
        measured.memory_before
    );
    let growth = growth(left);
    let largest = session.controllers.peak_memory().unwrap_or(f64::NAN);
    let factor = measured.attacked.quantile(0.99) / measured.normal.quantile(0.99);
    let verdicts = [
        ("p99 of a commit, times the normal one", factor, FACTOR_MAX),
        ("growth of memory, MiB per minute", growth, MIB_PER_MINUTE_MAX),
        ("largest memory, MiB", largest, MIB_MAX),
        (
            "file descriptors more than before",
            files - measured.files,
            FILES_MAX,
        ),
    ];
    let mut broken = Vec::new();
    for (name, value, limit) in verdicts {
        println!("{name}: {value:.2}; the limit is {limit:.0}");
        if !matches!(
            value.partial_cmp(&limit),
            Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)
        ) {
            broken.push(format!("{name}: {value:.2}, more than {limit:.0}"));
        }
    }
    match broken.is_empty() {
        true => Ok(()),
        false => Err(broken.join("; ").into()),
    }
}

struct Attackers<'a> {
    session: &'a Session,
    presences: Mutex<Vec<Presence>>,
    turns: AtomicUsize,
}

impl Attackers<'_> {
    /// Returns the MiB that are left in the pause and at the end, after the minutes since the first attack.
    async fn all(
        &self,
        begun: Instant,
        time: Duration,
        phases: &watch::Sender<Phase>,
    ) -> Outcome<Vec<(f64, f64)>> {
        let mut left = Vec::new();
        for part in [time / 3, time - time / 3] {
            phases.send_replace(Phase::Attack);
            let until = Instant::now() + part;
            let last: Vec<Option<Gone>> = stream::iter(0..ATTACKERS)
                .map(|_| self.one(begun, until))
                .buffer_unordered(ATTACKERS)
                .try_collect()
                .await?;
            phases.send_replace(Phase::Pause);
            sleep(SETTLE).await;
            for gone in last.into_iter().flatten() {
                self.clear(gone).await?;
            }
            sleep(SETTLE).await;
            let memory = self.session.controllers.memory().unwrap_or(f64::NAN);
            left.push((minutes(begun.elapsed()), memory));
        }
        Ok(left)
    }

    /// Runs one attack after the other, each for a while and in a namespace of its own. Returns the last one.
    async fn one(&self, begun: Instant, until: Instant) -> Outcome<Option<Gone>> {
        let all: Vec<Attack> = attacks::all();
        let mut before: Option<Gone> = None;
        while Instant::now() < until {
            let turn = self.turns.fetch_add(1, Ordering::Relaxed);
            let Some(attack) = all.get(place(turn, all.len())) else {
                break;
            };
            let ground = Ground::new(self.session, &format!("attacker-{turn}"), Scale::Small).await?;
            let from = minutes(begun.elapsed());
            // the API server may refuse an attacker
            match (attack.launch)(&ground).await {
                Ok(threat) => {
                    sleep(SHIFT.min(until.saturating_duration_since(Instant::now()))).await;
                    drop(threat);
                }
                Err(error) => eprintln!("{}: {error}", attack.name),
            }
            ground.leave().await?;
            // it had the time of this attack to end
            if let Some(gone) = before.replace((attack.name, ground.name)) {
                self.clear(gone).await?;
            }
            let presence = Presence {
                attack: attack.name,
                from,
                until: minutes(begun.elapsed()),
            };
            let mut presences = self.presences.lock().unwrap_or_else(PoisonError::into_inner);
            presences.push(presence);
        }
        Ok(before)
    }

    async fn clear(&self, (attack, namespace): Gone) -> Outcome {
        let mut left = ground::clear(self.session, &namespace).await;
        if let Err(error) = &left {
            eprintln!("{attack}: {error}; tried again");
            sleep(Duration::from_secs(1)).await;
            left = ground::clear(self.session, &namespace).await;
        }
        let left = left?;
        if left > 0 {
            eprintln!("{attack}: {left} objects were left in {namespace}, and their finalizers removed");
        }
        Ok(())
    }
}

/// An attack that has ended, and its namespace.
type Gone = (&'static str, String);

/// Of the attack of a turn: each comes equally often, and at one time all differ.
fn place(turn: usize, attacks: usize) -> usize {
    let stride = (STRIDE_MIN..).find(|stride| common_divisor(*stride, attacks) == 1);
    turn * stride.unwrap_or(1) % attacks
}

fn common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

fn tell_longest(measured: &Measured) {
    let mut all: Vec<_> = measured.applied.iter().zip(&measured.steps).collect();
    all.sort_by(|one, other| other.0.1.total_cmp(&one.0.1));
    for ((at, applied), (fetched, read)) in all.into_iter().take(WORST) {
        println!(
            "  minute {at:>5.2}: applied after {applied:.0} ms, fetched after {fetched:.0} ms, longest read {read:.0} ms"
        );
    }
}

fn tell_worst(what: &str, samples: &[(f64, f64)], presences: &[Presence]) {
    let values = shares(samples, presences);
    let worst = values.iter().take(WORST);
    let worst = worst.map(|(attack, share)| format!("{:.0} % beside {attack}", share * 100.0));
    println!(
        "{what}, one of a hundred: {}",
        worst.collect::<Vec<_>>().join("; ")
    );
}

fn shares(samples: &[(f64, f64)], presences: &[Presence]) -> Vec<(&'static str, f64)> {
    let mut largest: Vec<&(f64, f64)> = samples.iter().filter(|(_, value)| !value.is_nan()).collect();
    largest.sort_by(|one, other| other.1.total_cmp(&one.1));
    largest.truncate(samples.len().div_ceil(100));
    let mut beside: BTreeMap<&'static str, BTreeSet<usize>> = BTreeMap::new();
    for one in presences {
        let during = largest.iter().enumerate();
        let during = during.filter(|(_, (at, _))| (one.from..one.until).contains(at));
        beside
            .entry(one.attack)
            .or_default()
            .extend(during.map(|(sample, _)| sample));
    }
    let share = |(attack, found): (&'static str, BTreeSet<usize>)| {
        (attack, found.len() as f64 / largest.len() as f64)
    };
    let mut shares: Vec<(&str, f64)> = beside.into_iter().map(share).collect();
    shares.sort_by(|one, other| other.1.total_cmp(&one.1));
    shares
}

/// The honest Kustomizations, and the repositories that they read.
struct Fleet {
    client: Client,
    repositories: Vec<(Repository, HttpServer)>,
}

impl Fleet {
    async fn start(client: Client) -> Outcome<Self> {
        let mut all = Vec::new();
        for repository in 0..REPOSITORIES {
            let made = Repository::init()?;
            let files: Vec<(String, String)> = own(repository).map(|number| file(number, 0)).collect();
            let files: Vec<(&str, Option<&str>)> = files
                .iter()
                .map(|(path, text)| (&**path, Some(&**text)))
                .collect();
            made.commit(&files)?;
            let server = made.serve_http()?.ok_or("git is not installed")?;
            let source = json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": { "name": format!("fleet-{repository}"), "namespace": HONEST },
                "spec": { "url": server.url(), "interval": "10m", "ref": { "branch": "main" } },
            });
            create(&client, source).await?;
            all.push((made, server));
        }
        let objects = (0..KUSTOMIZATIONS).map(|number| {
            json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": { "name": format!("app-{number}"), "namespace": HONEST },
                "spec": {
                    "interval": "10m", "path": format!("./app-{number}"), "prune": true,
                    "sourceRef": { "kind": "GitRepository", "name": format!("fleet-{}", number % REPOSITORIES) },
                },
            })
        });
        stream::iter(objects)
            .map(|object| create(&client, object))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        for number in 0..KUSTOMIZATIONS {
            applied(&client, number, 0).await?;
        }
        Ok(Self {
            client,
            repositories: all,
        })
    }

    /// Commits a change of one Kustomization, and waits until it is applied.
    async fn commit(&self, round: usize) -> Outcome<Taken> {
        let number = round % KUSTOMIZATIONS;
        let at = number % REPOSITORIES;
        let (repository, _) = self.repositories.get(at).ok_or("there is no such repository")?;
        let (path, text) = file(number, round + 1);
        let commit = repository.commit(&[(&path, Some(&text))])?;
        let begun = Instant::now();
        let sources = api(&self.client, SOURCE, "v1", "GitRepository", HONEST);
        let request = json!({ "metadata": { "annotations": { "reconcile.fluxcd.io/requestedAt": round.to_string() } } });
        let patch = Patch::Merge(request);
        sources
            .patch(&format!("fleet-{at}"), &PatchParams::default(), &patch)
            .await?;
        let name = format!("fleet-{at}");
        let mut reads = Vec::new();
        while begun.elapsed() < PATIENCE {
            let asked = Instant::now();
            let source = sources.get(&name).await?;
            reads.push(asked.elapsed());
            let revision = source.data.pointer("/status/artifact/revision");
            if revision
                .and_then(Value::as_str)
                .is_some_and(|revision| revision.ends_with(&commit))
            {
                break;
            }
            sleep(POLL).await;
        }
        let fetched = begun.elapsed();
        applied(&self.client, number, round + 1).await?;
        Ok(Taken {
            fetched,
            applied: begun.elapsed(),
            reads,
        })
    }
}

fn own(repository: usize) -> impl Iterator<Item = usize> {
    (repository..KUSTOMIZATIONS).step_by(REPOSITORIES)
}

fn file(number: usize, value: usize) -> (String, String) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": format!("app-{number}"), "namespace": HONEST },
        "data": { "value": value.to_string() },
    });
    (format!("app-{number}/map.yaml"), map.to_string())
}

async fn applied(client: &Client, number: usize, value: usize) -> Outcome {
    let maps = api(client, "", "v1", "ConfigMap", HONEST);
    let (begun, name) = (Instant::now(), format!("app-{number}"));
    let expected: Value = json!(value.to_string());
    loop {
        let found = maps.get_opt(&name).await?;
        if found.is_some_and(|map| map.data.pointer("/data/value") == Some(&expected)) {
            return Ok(());
        }
        if begun.elapsed() > PATIENCE {
            let why = condition(client, HONEST, "Kustomization", &name).await;
            return Err(format!("{name} has not {value} after {PATIENCE:?}: {why}").into());
        }
        sleep(POLL).await;
    }
}

/// The file descriptors after the attackers are gone.
async fn settled_files(session: &Session, before: f64) -> f64 {
    let begun = Instant::now();
    loop {
        let files = session.controllers.files().unwrap_or(f64::NAN);
        if files <= before + FILES_MAX || begun.elapsed() > super::REMAINS_MAX {
            return files;
        }
        sleep(Duration::from_secs(1)).await;
    }
}

fn quantiles(times: &Times) -> String {
    format!(
        "p50 {:.0} ms, p99 {:.0} ms, longest {:.0} ms",
        times.quantile(0.5),
        times.quantile(0.99),
        times.quantile(1.0)
    )
}

/// MiB per minute, between the first and the last of what is left.
fn growth(left: &[(f64, f64)]) -> f64 {
    match (left.first(), left.last()) {
        (Some(first), Some(last)) => (last.1 - first.1) / (last.0 - first.0),
        _ => f64::NAN,
    }
}

fn minutes(time: Duration) -> f64 {
    time.as_secs_f64() / 60.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_the_memory_without_attackers() {
        assert_eq!(growth(&[(10.0, 300.0), (30.0, 310.0)]), 0.5);
        assert!(growth(&[]).is_nan(), "no samples are no verdict");
        assert!(growth(&[(10.0, 300.0)]).is_nan(), "one sample is no verdict");
    }

    #[test]
    fn attackers_differ_and_all_attacks_come() {
        assert!(attacks::all().len() >= ATTACKERS);
        for attacks in ATTACKERS..200 {
            for first in 0..attacks {
                let mut places: Vec<usize> = (first..first + ATTACKERS)
                    .map(|turn| place(turn, attacks))
                    .collect();
                places.sort_unstable();
                places.dedup();
                assert_eq!(places.len(), ATTACKERS, "from turn {first} of {attacks}");
            }
            let mut all: Vec<usize> = (0..attacks).map(|turn| place(turn, attacks)).collect();
            all.sort_unstable();
            assert_eq!(all, (0..attacks).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_largest_count_for_the_attacks_of_their_time() {
        let presence = |attack: &'static str, from: f64, until: f64| Presence { attack, from, until };
        let presences = [
            presence("a", 0.0, 2.0),
            presence("b", 2.0, 3.0),
            presence("a", 3.0, 9.0),
        ];
        let samples = [(0.5, 10.0), (1.5, 20.0), (2.5, 90.0), (3.5, 30.0)];
        assert_eq!(shares(&samples, &presences), [("b", 1.0), ("a", 0.0)]);
    }

    #[test]
    fn each_kustomization_has_one_repository() {
        let mut all: Vec<usize> = (0..REPOSITORIES).flat_map(own).collect();
        all.sort_unstable();
        assert_eq!(all, (0..KUSTOMIZATIONS).collect::<Vec<_>>());
    }
}
