//! A promotion as data: the files that change, the rules that answered, the commit to be.
//!
//! A plan is a function of a tree and a request, so that it can be made anew on another tip. Plans are equal
//! if they change the same values in the same way.

use crate::artifact::{Artifact, Subject, Version};
use crate::config::{self, BYTES_MAX, Config, ConfigError, FILE, Services, is_name};
use crate::edit::{self, Change, EditError, Edited};
use crate::fleet::{Builds, Fleet};
use crate::history::Entry;
use crate::hold::{self, Hold, Stops};
use crate::layout;
use crate::overlay::{Files, Overlay};
use crate::record::{FORMAT, Intent, Record, RecordChange, versions};
use crate::rules::{self, Actor, Arrival, Case, Health, Verdict};
use bytes::Bytes;
use equate_kustomize::{EntryKind, Stat, Tree};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeSet;

mod error;
mod holding;
mod outlook;
mod removal;

pub use error::PlanError;
pub use holding::{plan_hold, plan_unhold};
pub use outlook::{Next, Outlook, outlook};
pub use removal::plan_undeploy;

/// A request for new versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// [`Intent::Promote`], [`Intent::Release`] or [`Intent::Rollback`].
    pub intent: Intent,
    /// The services.
    pub services: Vec<String>,
    /// An environment or a group.
    pub to: String,
    /// The environment whose version to take; the one before `to` if absent.
    pub from: Option<String>,
    /// The version to take, of those that any environment ever had.
    pub version: Option<String>,
    /// Versions of images that need not be known: name and version.
    pub images: Vec<(String, Version)>,
    /// The version to set in place of a range.
    pub pin: Option<String>,
    /// The reason.
    pub reason: Option<String>,
    /// The person, `Name <address>`.
    pub by: String,
    /// The writer.
    pub actor: Actor,
}

/// Knowledge that is not in the tree.
#[derive(Clone, Copy)]
pub struct Past<'p> {
    /// The history of a service, newest first.
    pub entries: &'p dyn Fn(&str) -> Vec<Entry>,
    /// The health of a service's current version in an environment.
    pub health: &'p dyn Fn(&str, &str) -> Health,
    /// The time.
    pub now: Timestamp,
    /// The builds of the tips that the plan was made on before.
    pub builds: &'p Builds,
}

impl std::fmt::Debug for Past<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Past")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The change of one service in one environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The service.
    pub service: String,
    /// The environment.
    pub environment: String,
    /// The environment that the version comes from.
    pub from: Option<String>,
    /// The versions before.
    pub before: Artifact,
    /// The versions after.
    pub after: Artifact,
    /// The changes of files.
    pub changes: Vec<Change>,
    /// The answers of the rules.
    pub verdicts: Vec<Verdict>,
    /// A note for the reader, such as the hold of a rollback.
    pub remark: Option<String>,
    /// A reason to think twice that refuses nothing.
    pub warning: Option<String>,
}

impl Step {
    /// Whether the environment already has the versions.
    pub fn is_done(&self) -> bool {
        self.changes.is_empty()
    }

    /// The verdicts that refuse it.
    pub fn refusals(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.refused)
    }

    /// `2.4.0` and `2.4.1`, or longer texts if those are equal.
    pub fn labels(&self) -> (String, String) {
        (
            self.before.label_beside(&self.service, &self.after),
            self.after.label_beside(&self.service, &self.before),
        )
    }
}

/// A plan for one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The steps.
    pub steps: Vec<Step>,
    /// The files of the commit; nothing is written if there is none.
    pub files: Files,
    /// The record of the commit.
    pub record: Record,
}

impl Plan {
    /// Whether a rule refuses a step.
    pub fn is_refused(&self) -> bool {
        self.steps.iter().any(|step| step.refusals().next().is_some())
    }

    /// The plan as a value that is stored and compared: two plans with equal summaries write the same.
    pub fn summary(&self) -> Summary {
        Summary {
            format: FORMAT,
            intent: self.record.intent,
            steps: self
                .steps
                .iter()
                .map(|step| SummaryStep {
                    service: step.service.clone(),
                    environment: step.environment.clone(),
                    from: step.from.clone(),
                    before: versions(&step.before),
                    after: versions(&step.after),
                    changes: step.changes.clone(),
                })
                .collect(),
        }
    }
}

/// The stored form of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The version of the format.
    pub format: u32,
    /// The intent.
    pub intent: Intent,
    /// The steps.
    pub steps: Vec<SummaryStep>,
}

/// A step of a [`Summary`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SummaryStep {
    /// The service.
    pub service: String,
    /// The environment.
    pub environment: String,
    /// The environment that the version comes from.
    pub from: Option<String>,
    /// The versions before.
    pub before: std::collections::BTreeMap<String, Vec<String>>,
    /// The versions after.
    pub after: std::collections::BTreeMap<String, Vec<String>>,
    /// The changes of files.
    pub changes: Vec<Change>,
}

/// Reads `equate.yaml`, or finds environments by convention.
///
/// # Errors
/// The file is wrong, or there are no environments.
pub fn config(tree: &dyn Tree) -> Result<Config, PlanError> {
    match text(tree, FILE, BYTES_MAX)? {
        Some(text) => Ok(Config::parse(FILE, &text)?),
        None => layout::detect(tree).ok_or(PlanError::NoEnvironments),
    }
}

/// The holds of a tree.
///
/// # Errors
/// A file is no hold.
pub fn holds(tree: &dyn Tree) -> Result<Vec<Hold>, PlanError> {
    let mut holds = Vec::new();
    for file in hold_files(tree)? {
        holds.extend(file.read(tree)?);
    }
    Ok(holds)
}

/// An entry of the directory of holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HoldFile {
    /// Its path.
    pub(crate) path: String,
    /// Its kind.
    pub(crate) kind: EntryKind,
}

impl HoldFile {
    /// The environment and service that the path names.
    pub(crate) fn target(&self) -> Option<(&str, &str)> {
        let rest = self.path.strip_prefix(hold::DIRECTORY)?.strip_prefix('/')?;
        let (environment, name) = rest.split_once('/')?;
        Some((environment, name.strip_suffix(".yaml")?))
    }

    /// The hold; `None` if the entry is no file of a hold.
    pub(crate) fn read(&self, tree: &dyn Tree) -> Result<Option<Hold>, ConfigError> {
        let Some((environment, service)) = self.target() else {
            return Ok(None);
        };
        let text = text(tree, &self.path, hold::BYTES_MAX)?;
        text.map(|text| Hold::parse(environment, service, &self.path, &text))
            .transpose()
    }
}

/// The entries of the directory of holds, and of the directories of environments in it.
pub(crate) fn hold_files(tree: &dyn Tree) -> Result<Vec<HoldFile>, ConfigError> {
    let mut files = Vec::new();
    let (parent, _) = hold::DIRECTORY.split_once('/').unwrap_or_default();
    listed(tree, parent)?;
    for (environment, stat) in listed(tree, hold::DIRECTORY)? {
        let path = format!("{}/{environment}", hold::DIRECTORY);
        if stat.kind != EntryKind::Directory {
            files.push(HoldFile {
                path,
                kind: stat.kind,
            });
            continue;
        }
        files.extend(listed(tree, &path)?.into_iter().map(|(name, stat)| HoldFile {
            path: format!("{path}/{name}"),
            kind: stat.kind,
        }));
    }
    Ok(files)
}

/// The entries of a directory, none if it does not exist. One that cannot be read is an error: it may have holds.
fn listed(tree: &dyn Tree, path: &str) -> Result<Vec<(String, Stat)>, ConfigError> {
    match (tree.list(path), tree.stat(path)) {
        (Some(entries), _) => Ok(entries),
        (None, Some(stat)) if stat.kind == EntryKind::Directory => Err(ConfigError {
            path: path.to_owned(),
            line: 1,
            column: 1,
            problem: "the directory cannot be read from the repository".to_owned(),
            hint: "check the clone with `git fsck`, or clone again without a filter".to_owned(),
        }),
        (None, _) => Ok(Vec::new()),
    }
}

fn text(tree: &dyn Tree, path: &str, bytes_max: usize) -> Result<Option<String>, ConfigError> {
    let fault = |problem: String, hint: &str| ConfigError {
        path: path.to_owned(),
        line: 1,
        column: 1,
        problem,
        hint: hint.to_owned(),
    };
    match tree.stat(path) {
        Some(stat) if stat.kind == EntryKind::File => {}
        _ => return Ok(None),
    }
    let bytes = tree
        .read(path)
        .map_err(|error| fault(error.to_string(), "check the repository"))?;
    if bytes.len() > bytes_max {
        return Err(fault(format!("it has more than {bytes_max} bytes"), "shorten it"));
    }
    let text = String::from_utf8(bytes.to_vec());
    text.map(Some)
        .map_err(|_| fault("it is not UTF-8".to_owned(), "save it as UTF-8"))
}

/// Plans new versions of services.
///
/// # Errors
/// The request names something unknown, or no proven edit sets the versions. A rule that refuses is no error:
/// its verdict is in the step.
pub fn plan(tree: &dyn Tree, request: &Request, past: Past<'_>) -> Result<Plan, PlanError> {
    let config = config(tree)?;
    let holds = holds(tree)?;
    let environments = environments(&config, &request.to)?;
    let services: Vec<&str> = request.services.iter().map(String::as_str).collect();
    let mut files = Files::new();
    let mut steps = Vec::new();
    for service in &request.services {
        for environment in &environments {
            let overlay = Overlay::new(tree, &files);
            let fleet = Fleet::for_change(&overlay, &config, &services, past.builds);
            known_service(&fleet, service)?;
            let planner = Planner {
                tree: &overlay,
                config: &config,
                holds: &holds,
                request,
                past,
                fleet: &fleet,
            };
            let (step, edited) = planner.step(service, environment)?;
            files.extend(edited.files);
            steps.push(step);
        }
    }
    Ok(Plan {
        record: record(request.intent, &request.by, request.reason.clone(), &steps),
        steps,
        files,
    })
}

/// The environments that a name means: one, or those of a group.
///
/// # Errors
/// The name is unknown.
pub fn environments(config: &Config, name: &str) -> Result<Vec<String>, PlanError> {
    let found = config.resolve(name).ok_or_else(|| PlanError::Environment {
        name: name.to_owned(),
        near: config.nearest(name).map(str::to_owned),
        known: config.environments().map(str::to_owned).collect(),
    })?;
    Ok(found.into_iter().map(str::to_owned).collect())
}

/// Refuses a service that is not among the names.
///
/// # Errors
/// The name is unknown, or it cannot name a service.
pub fn check_service<'n>(names: impl IntoIterator<Item = &'n str>, service: &str) -> Result<(), PlanError> {
    let names: BTreeSet<&str> = names.into_iter().collect();
    if names.contains(service) && is_name(service) {
        return Ok(());
    }
    Err(PlanError::Service {
        name: service.to_owned(),
        near: config::nearest(service, names.into_iter()).map(str::to_owned),
    })
}

fn known_service(fleet: &Fleet, service: &str) -> Result<(), PlanError> {
    check_service(fleet.services(), service)
}

fn record(intent: Intent, by: &str, reason: Option<String>, steps: &[Step]) -> Record {
    let is_change = |step: &&Step| matches!(intent, Intent::Hold | Intent::Unhold) || !step.is_done();
    let changes = steps.iter().filter(is_change).map(|step| RecordChange {
        service: step.service.clone(),
        environment: step.environment.clone(),
        from: step.from.clone(),
        previous: step.before.id().to_string(),
        artifact: step.after.id().to_string(),
        version: step.labels().1,
        versions: versions(&step.after),
    });
    Record {
        format: FORMAT,
        intent,
        by: by.to_owned(),
        reason,
        changes: changes.collect(),
    }
}

struct Planner<'p> {
    tree: &'p dyn Tree,
    config: &'p Config,
    holds: &'p [Hold],
    request: &'p Request,
    past: Past<'p>,
    fleet: &'p Fleet,
}

/// The versions to set, and the environment that they come from.
struct Wanted {
    artifact: Artifact,
    from: Option<String>,
    is_rollback: bool,
}

impl Planner<'_> {
    fn step(self, service: &str, environment: &str) -> Result<(Step, Edited), PlanError> {
        let before = self.fleet.artifact(environment, service).unwrap_or_default();
        let wanted = self.wanted(service, environment, &before)?;
        let mut edited = match &self.config.services {
            Services::Versions(_) => {
                let target = (environment, service);
                edit::set_versions(self.tree, self.config, self.fleet, target, &wanted.artifact)?
            }
            Services::Copies { .. } => match (&wanted.from, self.request.intent) {
                (Some(from), Intent::Promote) => {
                    let route = (from.as_str(), environment);
                    edit::copy(self.tree, self.config, self.fleet, service, route)?
                }
                (_, intent) => return Err(PlanError::Copied { intent }),
            },
        };
        let after = {
            let tree = Overlay::new(self.tree, &edited.files);
            let fleet = Fleet::of_services(&tree, self.config, &[service]);
            fleet.artifact(environment, service).unwrap_or_default()
        };
        let verdicts = match edited.changes.is_empty() {
            true => Vec::new(),
            false => self.verdicts(service, environment, &wanted, &after),
        };
        let warning = match edited.changes.is_empty() || wanted.is_rollback {
            true => None,
            false => self.rolled_back(service, environment, &after),
        };
        let remark = match wanted.is_rollback && !edited.changes.is_empty() {
            true => Some(self.hold_automation(service, environment, &before, &mut edited)),
            false => None,
        };
        let step = Step {
            service: service.to_owned(),
            environment: environment.to_owned(),
            from: wanted.from,
            before,
            after,
            changes: edited.changes.clone(),
            verdicts,
            remark,
            warning,
        };
        Ok((step, edited))
    }

    fn verdicts(&self, service: &str, environment: &str, wanted: &Wanted, after: &Artifact) -> Vec<Verdict> {
        let arrival = self.arrival(service, environment, wanted, after);
        let case = Case {
            service,
            environment,
            artifact: after,
            is_rollback: wanted.is_rollback,
            actor: self.request.actor,
            arrival: arrival.as_ref(),
            holds: self.holds,
            now: self.past.now,
        };
        rules::judge(self.config, &case)
    }

    /// The warning to a person who brings back the version that a rollback removed. The hold of the rollback
    /// remembers it.
    fn rolled_back(&self, service: &str, environment: &str, after: &Artifact) -> Option<String> {
        let label = after.label(service);
        let hold = self.holds.iter().find(|hold| {
            let is_of = hold.environment == environment && hold.service == service;
            is_of && hold.is_active(self.past.now) && hold.newer_than.as_deref() == Some(label.as_str())
        })?;
        let ago = match hold.since {
            Some(since) => format!(" {} ago", rules::span(self.past.now.duration_since(since))),
            None => String::new(),
        };
        let (by, reason) = (hold.name(), &hold.reason);
        Some(format!(
            "{service} {label} was rolled back in {environment}{ago} by {by}: {reason}"
        ))
    }

    /// A rollback holds against automation, in the same commit. A hold that a person set stays.
    fn hold_automation(
        &self,
        service: &str,
        environment: &str,
        before: &Artifact,
        edited: &mut Edited,
    ) -> String {
        let label = before.label(service);
        let held = self.holds.iter().any(|hold| {
            let is_of = hold.environment == environment && hold.service == service;
            is_of && hold.stops == Stops::All && hold.is_active(self.past.now)
        });
        if !held {
            let hold = Hold {
                environment: environment.to_owned(),
                service: service.to_owned(),
                reason: self
                    .request
                    .reason
                    .clone()
                    .unwrap_or_else(|| format!("rolled back from {label}")),
                by: self.request.by.clone(),
                since: Some(self.past.now),
                until: None,
                stops: Stops::Automation,
                newer_than: Some(label.clone()),
                path: Hold::path(environment, service),
                line: 1,
            };
            edited
                .files
                .insert(hold.path.clone(), Some(Bytes::from(hold.to_text())));
        }
        format!(
            "held: automation waits for a version newer than {label}, or `equate unhold {service} --env {environment}`"
        )
    }

    fn wanted(&self, service: &str, environment: &str, before: &Artifact) -> Result<Wanted, PlanError> {
        let request = self.request;
        if request.intent == Intent::Rollback {
            return self.rollback(service, environment, before);
        }
        let mut wanted = match &request.version {
            Some(version) => Wanted {
                artifact: self.known(service, version)?,
                from: request.from.clone(),
                is_rollback: false,
            },
            None if !request.images.is_empty() => Wanted {
                artifact: before.clone(),
                from: None,
                is_rollback: false,
            },
            None => self.source(service, environment)?,
        };
        for (name, version) in &request.images {
            let subject = Subject::Image(name.clone());
            let found = before.counterpart(&subject);
            let found = found.ok_or_else(|| PlanError::Image {
                name: name.clone(),
                service: service.to_owned(),
                environment: environment.to_owned(),
                known: before
                    .subjects()
                    .map(|subject| subject.name().to_owned())
                    .collect(),
            })?;
            wanted.artifact.set(found.clone(), version.clone());
        }
        self.pinned(service, wanted)
    }

    /// Ranges become the version of `--pin`, or are refused.
    fn pinned(&self, service: &str, mut wanted: Wanted) -> Result<Wanted, PlanError> {
        let ranges: Vec<Subject> = wanted
            .artifact
            .iter()
            .filter(|(_, version)| version.is_range())
            .map(|(subject, _)| subject.clone())
            .collect();
        for subject in ranges {
            match &self.request.pin {
                Some(pin) => wanted.artifact.set(subject, Version::tag(pin.clone())),
                None => {
                    let range = wanted.artifact.of(&subject).first();
                    return Err(PlanError::Range {
                        service: service.to_owned(),
                        from: wanted.from.unwrap_or_default(),
                        range: range.map(ToString::to_string).unwrap_or_default(),
                    });
                }
            }
        }
        Ok(wanted)
    }

    fn source(&self, service: &str, environment: &str) -> Result<Wanted, PlanError> {
        let named = |name: &String| environments(self.config, name);
        let sources: Vec<String> = match &self.request.from {
            Some(from) => named(from)?,
            None => {
                let before = self.config.before(environment);
                before.into_iter().map(str::to_owned).collect()
            }
        };
        if sources.is_empty() {
            return Err(PlanError::First {
                to: environment.to_owned(),
            });
        }
        let mut found: Vec<(String, Artifact)> = Vec::new();
        for source in &sources {
            if let Some(artifact) = self.fleet.artifact(source, service) {
                found.push((source.clone(), artifact));
            }
        }
        let Some((from, artifact)) = found.first().cloned() else {
            let source = sources.first().cloned().unwrap_or_default();
            let fault = self.fleet.fault(&source, service);
            return Err(match fault {
                Some(problem) => EditError::Unbuildable {
                    directory: source,
                    problem: problem.to_owned(),
                },
                None => EditError::NoService {
                    environment: source,
                    service: service.to_owned(),
                },
            }
            .into());
        };
        if found.iter().any(|(_, other)| *other != artifact) {
            let versions: Vec<String> = found
                .iter()
                .map(|(environment, artifact)| format!("{environment} {}", artifact.label(service)))
                .collect();
            return Err(PlanError::Ambiguous {
                service: service.to_owned(),
                to: environment.to_owned(),
                versions: versions.join(", "),
            });
        }
        Ok(Wanted {
            artifact,
            from: Some(from),
            is_rollback: false,
        })
    }

    /// The newest artifact of a version that any environment has or had.
    fn known(&self, service: &str, version: &str) -> Result<Artifact, PlanError> {
        let current = self
            .config
            .environments()
            .filter_map(|environment| self.fleet.artifact(environment, service));
        let entries = (self.past.entries)(service);
        let past = entries
            .into_iter()
            .flat_map(|entry| [entry.after, entry.before])
            .flatten();
        let mut known: Vec<String> = Vec::new();
        for artifact in current.chain(past) {
            let label = artifact.label(service);
            if artifact.is_named(service, version) {
                return Ok(artifact);
            }
            if !known.contains(&label) {
                known.push(label);
            }
        }
        Err(PlanError::Version {
            service: service.to_owned(),
            version: version.to_owned(),
            known,
        })
    }

    fn rollback(&self, service: &str, environment: &str, before: &Artifact) -> Result<Wanted, PlanError> {
        if let Some(version) = &self.request.version {
            return Ok(Wanted {
                artifact: self.known(service, version)?,
                from: None,
                is_rollback: true,
            });
        }
        let entries = (self.past.entries)(service);
        let here = entries.iter().filter(|entry| entry.environment == environment);
        // back from the first time that the environment got the current version, so that a second rollback
        // goes further back
        let mut same = here.filter(|entry| entry.after.as_ref() == Some(before));
        let first = same.next_back();
        let artifact = first.and_then(|entry| entry.before.clone());
        let artifact = artifact.ok_or_else(|| PlanError::NothingBefore {
            environment: environment.to_owned(),
            service: service.to_owned(),
            version: before.label(service),
        })?;
        Ok(Wanted {
            artifact,
            from: None,
            is_rollback: true,
        })
    }

    /// Where the versions are already, and since when. Looked up only if a rule asks.
    fn arrival(
        &self,
        service: &str,
        environment: &str,
        wanted: &Wanted,
        after: &Artifact,
    ) -> Option<Arrival> {
        let asks = self
            .config
            .rules_for(environment, service)
            .any(|rule| rule.soak.is_some() || rule.healthy.is_some_and(|(needed, _)| needed));
        if !asks || wanted.is_rollback {
            return None;
        }
        let before = self.config.before(environment);
        let has = |source: &&str| {
            let there = self.fleet.artifact(source, service);
            there.is_some_and(|there| there.agrees_with(after))
        };
        // the version must be in an environment before this one, whatever `--from` says
        let from = wanted.from.as_deref().filter(|from| before.contains(from));
        let source = from.into_iter().chain(before.iter().copied()).find(has)?;
        let entries = (self.past.entries)(service);
        let arrived = entries.iter().find(|entry| {
            entry.environment == source && entry.after.as_ref().is_some_and(|there| there.agrees_with(after))
        });
        Some(Arrival {
            environment: source.to_owned(),
            since: arrived.map(|entry| entry.commit.time),
            health: (self.past.health)(source, service),
        })
    }
}

#[cfg(test)]
mod tests;
