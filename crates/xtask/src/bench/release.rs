//! Promotion on long histories and large repositories: the release binary in a clone, as a user runs it.
//!
//! `git fast-import` writes the repositories: services in four environments, a kustomization and a manifest each.
//! Each commit after the first changes one `newTag`. Times include the start of the process.

use super::{Times, launch};
use std::collections::BTreeSet;
use std::error::Error;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error>>;

const ENVIRONMENTS: [&str; 4] = ["dev", "staging", "prod-eu", "prod-us"];
const CONFIG: &str = "version: 1
environments: [dev, staging, {prod: [prod-eu, prod-us]}]
services: apps/{environment}/{service}
";
/// 2020, so that no commit is in the future.
const EPOCH: usize = 1_577_836_800;
const ROUNDS: usize = 10;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The number of commits of the long history
    #[arg(long, default_value_t = 20_000)]
    commits: usize,
    /// The number of its services
    #[arg(long, default_value_t = 200)]
    services: usize,
    /// The number of services of the wide repository, for `status`
    #[arg(long, default_value_t = 1000)]
    wide: usize,
    /// The number of promotions at once: each a process with its own clone, and all by one process
    #[arg(long, default_value_t = 50)]
    at_once: usize,
    /// The binary, relative to the current directory; by default the release binary is built
    #[arg(long, value_name = "FILE")]
    pub(super) equate: Option<PathBuf>,
}

pub(super) fn run(binary: &Path, args: &Args) -> Outcome {
    let folder = tempfile::Builder::new().prefix("equate-bench-").tempdir()?;
    let bench = Bench { binary };
    bench.start(folder.path())?;
    bench.long(&folder.path().join("long"), args)?;
    bench.wide(&folder.path().join("wide"), args.wide)?;
    // two files for each service and environment
    bench.one(&folder.path().join("one"), 2_000 / 8)?;
    bench.at_once(&folder.path().join("processes"), 5_000 / 8, args.at_once)?;
    bench.one_process(&folder.path().join("process"), 5_000 / 8, args.at_once)
}

/// A bare repository to which many push.
struct Contest {
    folder: PathBuf,
    origin: PathBuf,
    outsider: PathBuf,
}

impl Contest {
    /// `dev` has a newer version of the first services.
    fn new(folder: &Path, services: usize, count: usize) -> Result<Self, Box<dyn Error>> {
        std::fs::create_dir(folder)?;
        let origin = folder.join("origin");
        create(&origin, services, 1)?;
        let changes: Vec<_> = (0..count)
            .map(|number| (path(ENVIRONMENTS[0], number), kustomization(number, "1.1.0")))
            .collect();
        append(&origin, 1, &changes)?;
        git(&origin, &["config", "core.bare", "true"])?;
        let mut contest = Self {
            folder: folder.to_owned(),
            origin,
            outsider: PathBuf::new(),
        };
        contest.outsider = contest.clone("outsider", &[])?;
        Ok(contest)
    }

    fn clone(&self, name: &str, options: &[&str]) -> Result<PathBuf, Box<dyn Error>> {
        let clone = self.folder.join(name);
        let paths = [self.origin.display().to_string(), clone.display().to_string()];
        let arguments = [&["clone", "--quiet"], options, &[&paths[0], &paths[1]]].concat();
        git(&self.folder, &arguments)?;
        Ok(clone)
    }

    /// Does work while somebody pushes with git; returns the number of those pushes, too.
    fn beside<T>(
        &self,
        work: impl FnOnce() -> Result<T, Box<dyn Error>>,
    ) -> Result<(T, usize), Box<dyn Error>> {
        let ends = AtomicBool::new(false);
        let (done, pushed) = std::thread::scope(|scope| {
            let pushing =
                scope.spawn(|| push_beside(&self.outsider, &ends).map_err(|error| error.to_string()));
            let done = work();
            ends.store(true, Ordering::Release);
            (done, pushing.join())
        });
        let pushed = pushed.map_err(|_| "the pushes beside panicked")??;
        Ok((done?, pushed))
    }

    /// `50 landed, 0 twice`.
    fn landed(&self) -> Result<String, Box<dyn Error>> {
        let promoted = subjects(&self.origin)?;
        let different: BTreeSet<&String> = promoted.iter().collect();
        let twice = promoted.len() - different.len();
        Ok(format!("{} landed, {twice} twice", different.len()))
    }
}

struct Bench<'b> {
    binary: &'b Path,
}

impl Bench<'_> {
    fn start(&self, directory: &Path) -> Outcome {
        println!("start of a process: {}", self.times(directory, &["--version"])?);
        Ok(())
    }

    fn long(&self, directory: &Path, args: &Args) -> Outcome {
        let services = args.services.max(1);
        create(directory, services, args.commits)?;
        println!("{} commits of {services} services:", args.commits);
        let time = self.time(directory, &["history", "--local", "-c", "1"])?;
        println!("  index from nothing: {:.2} s", time.as_secs_f64());
        let mut times = Times::default();
        for round in 0..ROUNDS {
            let file = kustomization(round % services, &format!("2.0.{round}"));
            let path = path(ENVIRONMENTS[0], round % services);
            append(directory, args.commits + round, &[(path, file)])?;
            times.push(self.time(directory, &["history", "--local", "-c", "1"])?);
        }
        println!("  the same after one more commit: {times}");
        let service = name(services / 2);
        let service = service.as_str();
        for arguments in [
            ["history", service, "--local"].as_slice(),
            &["history", service, "--local", "--env", "prod", "-c", "1"],
            &["history", "--local"],
            &["describe", service, "--local"],
            &["status", "--local"],
        ] {
            println!(
                "  equate {}: {}; {}",
                arguments.join(" "),
                self.times(directory, arguments)?,
                self.inside(directory, arguments)?
            );
        }
        Ok(())
    }

    fn wide(&self, directory: &Path, services: usize) -> Outcome {
        create(directory, services, services)?;
        println!("{services} services in {} environments:", ENVIRONMENTS.len());
        for command in ["status", "matrix"] {
            let cold = self.time(directory, &[command, "--local"])?;
            let warm = self.times(directory, &[command, "--local"])?;
            println!(
                "  equate {command}: first {:.0} ms, then {warm}; {}",
                cold.as_secs_f64() * 1000.0,
                self.inside(directory, &[command, "--local"])?
            );
        }
        Ok(())
    }

    /// Promotions one after the other, to the local branch.
    fn one(&self, directory: &Path, services: usize) -> Outcome {
        create(directory, services, 1)?;
        let changes: Vec<_> = (0..ROUNDS)
            .map(|number| (path(ENVIRONMENTS[0], number), kustomization(number, "1.1.0")))
            .collect();
        append(directory, 1, &changes)?;
        git(directory, &["reset", "--quiet", "--hard"])?;
        let mut times = Times::default();
        for number in 0..ROUNDS {
            let name = name(number);
            times.push(self.time(directory, &["promote", &name, "--to", "staging", "--local"])?);
        }
        println!("{services} services, {} files:", services * 8);
        println!("  promote one to the local branch: {times}");
        Ok(())
    }

    /// Promotions of different services at once, pushed to one bare repository: each by a process of its own.
    fn at_once(&self, folder: &Path, services: usize, count: usize) -> Outcome {
        let count = count.min(services);
        let contest = Contest::new(folder, services, count)?;
        let mut clones = Vec::new();
        for number in 0..count {
            clones.push(contest.clone(&format!("clone-{number}"), &["--no-checkout"])?);
        }
        let begun = Instant::now();
        let promotions: Vec<_> = clones
            .iter()
            .enumerate()
            .map(|(number, clone)| {
                let name = name(number);
                let mut command = self.command(clone, &["promote", &name, "--to", "staging"]);
                launch(&mut command, Command::spawn)
            })
            .collect();
        let (failed, pushed) = contest.beside(|| {
            let mut failed = 0;
            for promotion in promotions {
                let ended = promotion
                    .and_then(|promotion| promotion.wait_with_output().map_err(|error| error.to_string()));
                match ended {
                    Ok(output) if output.status.success() => {}
                    Ok(output) => {
                        failed += 1;
                        eprintln!("{}", String::from_utf8_lossy(&output.stderr));
                    }
                    Err(error) => {
                        failed += 1;
                        eprintln!("{error}");
                    }
                }
            }
            Ok(failed)
        })?;
        let passed = begun.elapsed();
        let landed = contest.landed()?;
        println!("{services} services, {} files:", services * 8);
        println!(
            "  {count} promotions at once, each a process, beside {pushed} pushes with git: {landed}, {failed} failed, \
             all after {:.1} s",
            passed.as_secs_f64()
        );
        Ok(())
    }

    /// The same by one process, which gets all at once.
    fn one_process(&self, folder: &Path, services: usize, count: usize) -> Outcome {
        let count = count.min(services);
        let contest = Contest::new(folder, services, count)?;
        let clone = contest.clone("clone", &["--no-checkout"])?;
        let mut command = self.command(&clone, &["promote", "-", "--to", "staging", "--each"]);
        command.stdin(Stdio::piped()).stderr(Stdio::inherit());
        let ((times, ended), pushed) = contest.beside(|| {
            let mut child = launch(&mut command, Command::spawn)?;
            let names: String = (0..count).map(|number| format!("{}\n", name(number))).collect();
            let begun = Instant::now();
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(names.as_bytes())?;
            }
            let mut times = Times::default();
            if let Some(stdout) = child.stdout.take() {
                for line in BufReader::new(stdout).lines() {
                    if line?.starts_with("committed  ") {
                        times.push(begun.elapsed());
                    }
                }
            }
            Ok((times, child.wait()?))
        })?;
        println!(
            "  {count} promotions at once by one process, beside {pushed} pushes with git: {}, in {} pushes, {ended}, \
             p50 {:.2} s, p99 {:.2} s",
            contest.landed()?,
            pushes(&clone)?,
            times.quantile(0.5) / 1000.0,
            times.quantile(0.99) / 1000.0
        );
        Ok(())
    }

    fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.binary);
        command
            .args(arguments)
            .current_dir(directory)
            .env("GIT_AUTHOR_NAME", "Mia Holm")
            .env("GIT_AUTHOR_EMAIL", "mia@example.org")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn time(&self, directory: &Path, arguments: &[&str]) -> Result<Duration, Box<dyn Error>> {
        let mut command = self.command(directory, arguments);
        let begun = Instant::now();
        let output = launch(&mut command, Command::output)?;
        let time = begun.elapsed();
        succeeded("equate", arguments, &output)?;
        Ok(time)
    }

    /// `in the process 5.8 ms, 2.1 ms of them until the command line was parsed`, as the process says with `-vv`.
    fn inside(&self, directory: &Path, arguments: &[&str]) -> Result<String, Box<dyn Error>> {
        let (mut parsed, mut passed) = (Times::default(), Times::default());
        for _ in 0..ROUNDS {
            let mut command = self.command(directory, arguments);
            command.args(["-vv"]);
            let output = launch(&mut command, Command::output)?;
            succeeded("equate", arguments, &output)?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let number = |key: &str| -> Option<Duration> {
                let line = said.lines().rev().find(|line| line.contains("milliseconds"))?;
                let (_, rest) = line.split_once(key)?;
                let number = rest.trim_start_matches('"').split(['"', ' ']).next()?;
                Some(Duration::from_secs_f64(number.parse::<f64>().ok()? / 1000.0))
            };
            let (Some(until), Some(whole)) = (number("parsed="), number("passed=")) else {
                return Err(format!("no time in the log of the process: {said}").into());
            };
            parsed.push(until);
            passed.push(whole);
        }
        let (parsed, passed) = (parsed.quantile(0.5), passed.quantile(0.5));
        Ok(format!(
            "in the process {passed:.1} ms, {parsed:.1} ms of them until the command line was parsed"
        ))
    }

    fn times(&self, directory: &Path, arguments: &[&str]) -> Result<Times, Box<dyn Error>> {
        let mut times = Times::default();
        for _ in 0..ROUNDS {
            times.push(self.time(directory, arguments)?);
        }
        Ok(times)
    }
}

fn name(service: usize) -> String {
    format!("service-{service:04}")
}

fn path(environment: &str, service: usize) -> String {
    format!("apps/{environment}/{}/kustomization.yaml", name(service))
}

fn kustomization(service: usize, tag: &str) -> String {
    format!(
        "resources: [deployment.yaml]\nimages:\n- name: registry.example/{}\n  newTag: {tag}\n",
        name(service)
    )
}

fn deployment(service: usize) -> String {
    let name = name(service);
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
         containers:\n      - {{name: app, image: \"registry.example/{name}:0\"}}\n"
    )
}

/// A repository with a work tree.
fn create(directory: &Path, services: usize, commits: usize) -> Outcome {
    std::fs::create_dir(directory)?;
    git(directory, &["init", "--quiet", "--initial-branch=main"])?;
    let mut files = vec![("equate.yaml".to_owned(), CONFIG.to_owned())];
    for environment in ENVIRONMENTS {
        for service in 0..services {
            files.push((path(environment, service), kustomization(service, "1.0.0")));
            let manifest = format!("apps/{environment}/{}/deployment.yaml", name(service));
            files.push((manifest, deployment(service)));
        }
    }
    let mut stream = commit(0, &files);
    for number in 1..commits {
        // a service's environments one after the other, the services in turns
        let service = number % services;
        let environment = ENVIRONMENTS[number / services % ENVIRONMENTS.len()];
        let file = kustomization(service, &format!("1.0.{number}"));
        stream.push_str(&commit(number, &[(path(environment, service), file)]));
    }
    import(directory, &stream)?;
    // as a clone has them: one pack, the newest objects whole
    git(directory, &["repack", "--quiet", "-adf"])?;
    git(directory, &["reset", "--quiet", "--hard"])
}

/// Adds a commit to `main`.
fn append(directory: &Path, number: usize, files: &[(String, String)]) -> Outcome {
    // the program knows a branch's last commit only after it is named
    let start = "reset refs/heads/main\nfrom refs/heads/main^0\n\n";
    import(directory, &format!("{start}{}", commit(number, files)))
}

/// A commit on `main`, in the language of `git fast-import`: its parent is the branch's last one in the stream.
fn commit(number: usize, files: &[(String, String)]) -> String {
    let seconds = EPOCH + number * 600;
    let message = format!("change {number}\n");
    let who = format!("Mia Holm <mia@example.org> {seconds} +0000");
    let length = message.len();
    let mut text = format!("commit refs/heads/main\nauthor {who}\ncommitter {who}\ndata {length}\n{message}");
    for (path, content) in files {
        let length = content.len();
        text.push_str(&format!("M 100644 inline {path}\ndata {length}\n{content}\n"));
    }
    text
}

fn import(directory: &Path, stream: &str) -> Outcome {
    let mut command = Command::new("git");
    command
        .args(["fast-import", "--quiet"])
        .current_dir(directory)
        .stdin(Stdio::piped());
    let mut child = launch(&mut command, Command::spawn)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(stream.as_bytes())?;
    }
    succeeded("git", &["fast-import"], &child.wait_with_output()?)
}

fn git(directory: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new("git");
    command.args(arguments).current_dir(directory);
    succeeded("git", arguments, &launch(&mut command, Command::output)?)
}

/// Pushes commits to the same branch with git, ten a second if nobody is faster. Returns their number.
fn push_beside(clone: &Path, ends: &AtomicBool) -> Result<usize, Box<dyn Error>> {
    const PAUSE: Duration = Duration::from_millis(100);
    git(clone, &["config", "user.name", "Ole Berg"])?;
    git(clone, &["config", "user.email", "ole@example.org"])?;
    let mut number = 0;
    while !ends.load(Ordering::Acquire) {
        number += 1;
        std::fs::write(clone.join("README.md"), format!("change {number}\n"))?;
        git(clone, &["add", "README.md"])?;
        git(clone, &["commit", "--quiet", "--message", "by hand"])?;
        while git(clone, &["push", "--quiet", "origin", "main"]).is_err() {
            git(clone, &["pull", "--quiet", "--rebase", "origin", "main"])?;
        }
        std::thread::park_timeout(PAUSE);
    }
    Ok(number)
}

/// The number of pushes that a clone remembers.
fn pushes(clone: &Path) -> Result<usize, Box<dyn Error>> {
    let log = std::fs::read_to_string(clone.join(".git/logs/refs/remotes/origin/main"))?;
    Ok(log.lines().filter(|line| line.ends_with("commit: push")).count())
}

/// The subjects of the promotions on `main`.
fn subjects(repository: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let arguments = ["log", "--format=%s", "--grep=^promote ", "main"];
    let mut command = Command::new("git");
    command.args(arguments).current_dir(repository);
    let output = launch(&mut command, Command::output)?;
    succeeded("git", &arguments, &output)?;
    Ok(String::from_utf8(output.stdout)?
        .lines()
        .map(str::to_owned)
        .collect())
}

#[cfg(test)]
fn length(repository: &Path) -> Result<usize, Box<dyn Error>> {
    let arguments = ["rev-list", "--count", "main"];
    let mut command = Command::new("git");
    command.args(arguments).current_dir(repository);
    let output = launch(&mut command, Command::output)?;
    succeeded("git", &arguments, &output)?;
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

fn succeeded(program: &str, arguments: &[&str], output: &Output) -> Outcome {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program} {}: {}: {said}", arguments.join(" "), output.status).into())
}

#[cfg(test)]
mod tests {
    use super::{append, create, length};

    #[test]
    fn repositories_have_the_commits_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("fleet");
        create(&directory, 3, 20).unwrap();
        assert_eq!(length(&directory).unwrap(), 20);
        let read = |environment: &str| {
            let path = directory.join(super::path(environment, 2));
            std::fs::read_to_string(path).unwrap()
        };
        assert_eq!(read("dev"), super::kustomization(2, "1.0.14"));
        assert_eq!(read("prod-us"), super::kustomization(2, "1.0.11"));
        for number in 20..22 {
            append(&directory, number, &[("new".to_owned(), number.to_string())]).unwrap();
        }
        assert_eq!(length(&directory).unwrap(), 22);
    }
}
