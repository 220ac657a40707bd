//! `equate promote --each`: each service in a commit of its own, and as many commits as possible in one push.

use super::Waiting;
use crate::exit;
use crate::failure::chain;
use crate::release::repository::{Repository, tree_of};
use crate::release::write::{self, HealthOf, Options, Planner};
use crate::release::{Output, POLICY, ReleaseError, UNHEALTHY, UNKNOWN, text, wait};
use equate_git::{Commit, Draft, Each, Queue, Written, queue};
use equate_kustomize::Tree;
use equate_release::plan::{self, Past, Plan, Request};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead as _};
use std::process::ExitCode;
use std::time::Instant;
use tokio::runtime::Runtime;

/// The name that stands for the lines of standard input.
const STDIN: &str = "-";

/// The exit codes that the worst of several is chosen from, the worst first.
const WORST: [u8; 5] = [1, 2, UNKNOWN, UNHEALTHY, POLICY];

pub(super) fn run(
    services: &[String],
    request: &Request,
    options: &Options,
    waiting: &Waiting,
    runtime: &Runtime,
) -> Result<ExitCode, ReleaseError> {
    let repository = options.place.open()?;
    let clusters = wait::Clusters::new(&waiting.cluster);
    let health: &HealthOf<'_> = &|tree, config, environment, service| {
        runtime.block_on(clusters.health(tree, config, (environment, service)))
    };
    let mut promotions = Promotions {
        request,
        options,
        repository: &repository,
        planner: Planner::new(options, &repository, health)?,
        codes: BTreeSet::new(),
        data: Vec::new(),
        landed: BTreeMap::new(),
    };
    match services {
        [one] if one == STDIN => promotions.stream(lines())?,
        services => promotions.batch(services)?,
    }
    if matches!(options.output, Output::Json | Output::Yaml) {
        let changes = std::mem::take(&mut promotions.data);
        text::print_data(options.output, &json!({"changes": changes}))?;
    }
    if waiting.wait && !options.dry_run {
        promotions.wait(waiting, runtime)?;
    }
    let worst = WORST.into_iter().find(|code| promotions.codes.contains(code));
    Ok(worst.map_or(ExitCode::SUCCESS, ExitCode::from))
}

/// The lines of standard input, as they come. Empty ones are left out.
fn lines() -> Queue<io::Result<String>, ()> {
    let (requests, queue) = queue();
    std::thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let line = line.map(|line| line.trim().to_owned());
            if matches!(&line, Ok(line) if line.is_empty()) {
                continue;
            }
            let is_last = line.is_err();
            let answer = requests.send_blocking(line);
            if is_last || answer.is_none() {
                return;
            }
        }
    });
    queue
}

/// The promotions of one call.
struct Promotions<'p> {
    request: &'p Request,
    options: &'p Options,
    repository: &'p Repository,
    planner: Planner<'p>,
    codes: BTreeSet<u8>,
    data: Vec<Value>,
    /// The newest commit of each service and environment that has its version.
    landed: BTreeMap<(String, String), Commit>,
}

/// A plan, the commit that has its versions, and the id of a new commit.
type End = (Plan, Commit, Option<String>);

impl Promotions<'_> {
    /// Promotes services as they come. Those that come during a push are the next batch.
    fn stream(&mut self, mut queue: Queue<io::Result<String>, ()>) -> Result<(), ReleaseError> {
        loop {
            let batch = queue.next_batch();
            if batch.is_empty() {
                return Ok(());
            }
            let mut services = Vec::new();
            let mut failure = None;
            for waiting in batch {
                match waiting.request {
                    Ok(service) => services.push(service),
                    Err(error) => failure = Some(ReleaseError::Stdin(error)),
                }
            }
            self.batch(&services)?;
            if let Some(failure) = failure {
                self.fail(&[], &failure);
            }
        }
    }

    fn batch(&mut self, services: &[String]) -> Result<(), ReleaseError> {
        if self.options.dry_run {
            let tip = self.repository.tip()?;
            for service in services {
                let plan = self.plan(service, std::slice::from_ref(&tip));
                self.end(service, plan.map(|plan| (plan, tip.clone(), None)))?;
            }
            return Ok(());
        }
        let repository = self.repository;
        let Some((upstream, remote)) = &repository.upstream else {
            for service in services {
                let one = |tree: &dyn Tree, author: &str, past: Past<'_>| {
                    make(self.request, service, (tree, author, past))
                };
                let done = write::commit(repository, &self.planner, one);
                self.end(service, done)?;
            }
            return Ok(());
        };
        let next = |number: usize, commits: &[Commit]| {
            let (Some(service), Some(commit)) = (services.get(number), commits.last()) else {
                return Err(Box::new(ReleaseError::Detached));
            };
            let plan = self.plan(service, commits)?;
            let draft: Option<Draft> = self.planner.draft(commit, &plan);
            Ok((draft, (plan, commit.clone())))
        };
        let (inner, mirrors) = (&repository.inner, &repository.mirrors);
        let Each { done, failure } =
            inner.commit_each_upstream(mirrors, remote, upstream, services.len(), next);
        let (ended, stopped) = services.split_at(done.len());
        for (service, outcome) in ended.iter().zip(done) {
            let end = outcome.map_err(ReleaseError::from);
            let end = end.and_then(|(written, (plan, tip))| match written {
                Written::Nothing => Ok((plan, tip, None)),
                Written::Commit { id, .. } => Ok((plan, inner.commit(&id)?.commit, Some(id))),
            });
            self.end(service, end)?;
        }
        if let Some(failure) = failure {
            self.fail(stopped, &ReleaseError::from(failure));
        }
        Ok(())
    }

    fn plan(&self, service: &str, commits: &[Commit]) -> Result<Plan, ReleaseError> {
        self.planner.plan(commits, |tree, author, past| {
            make(self.request, service, (tree, author, past))
        })
    }

    /// Prints the end of one promotion.
    fn end(&mut self, service: &str, end: Result<End, ReleaseError>) -> Result<(), ReleaseError> {
        let (plan, commit, id) = match end {
            Ok(end) => end,
            Err(error) if matches!(&error, ReleaseError::Stdout(_)) => return Err(error),
            Err(error) => {
                self.fail(&[service.to_owned()], &error);
                return Ok(());
            }
        };
        match plan.is_refused() {
            true => {
                self.codes.insert(POLICY);
            }
            false => {
                let keys = plan.steps.iter();
                let keys = keys.map(|step| (step.service.clone(), step.environment.clone()));
                self.landed.extend(keys.map(|key| (key, commit.clone())));
            }
        }
        if matches!(self.options.output, Output::Json | Output::Yaml) {
            write::warn(&plan);
            let outcome = write::outcome(self.options, &plan, id.as_deref());
            self.data.push(text::data(&plan, id.as_deref(), outcome));
            return Ok(());
        }
        write::finish(self.options, self.repository, plan, commit, id.as_deref())?;
        Ok(())
    }

    /// Prints a failure, with the services that it is of.
    fn fail(&mut self, services: &[String], error: &ReleaseError) {
        let code = error.code();
        self.codes.insert(code);
        let mut said = exit::describe(error);
        // a plan's error names its service
        if !matches!(error, ReleaseError::Plan(_)) {
            said.push_str(&format!("\n  for        {}", services.join(", ")));
        }
        eprintln!("{said}");
        let outcome = match code {
            UNKNOWN => "unknown",
            _ => "failed",
        };
        let data = services
            .iter()
            .map(|service| json!({"outcome": outcome, "service": service, "error": chain(error)}));
        self.data.extend(data);
    }

    /// Waits for all versions until one deadline.
    fn wait(&mut self, waiting: &Waiting, runtime: &Runtime) -> Result<(), ReleaseError> {
        let timeout: std::time::Duration = waiting.timeout.into();
        let end = Instant::now() + timeout;
        for ((service, environment), commit) in std::mem::take(&mut self.landed) {
            let tree = tree_of(&commit);
            let config = plan::config(&tree)?;
            let left = end.saturating_duration_since(Instant::now());
            let target = (environment.as_str(), service.as_str());
            let outcome = wait::until_healthy(&tree, &config, target, &waiting.cluster, left);
            match runtime.block_on(outcome) {
                Ok(()) => {}
                Err(error) if matches!(&error, ReleaseError::Stdout(_)) => return Err(error),
                Err(error) => self.fail(&[service], &error),
            }
        }
        Ok(())
    }
}

fn make(
    request: &Request,
    service: &str,
    (tree, author, past): (&dyn Tree, &str, Past<'_>),
) -> Result<Plan, ReleaseError> {
    let request = Request {
        services: vec![service.to_owned()],
        by: author.to_owned(),
        ..request.clone()
    };
    Ok(plan::plan(tree, &request, past)?)
}
