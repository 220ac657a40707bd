//! Checks of a repository for what makes promotions surprising.
//!
//! An error is something that is broken or has no effect although a person wrote it. A warning is something
//! that works, and that a reader may not expect.

use crate::artifact::Subject;
use crate::config::{Config, FILE, Rule, Services, nearest};
use crate::fleet::{Built, Fleet, Unit, is_within};
use crate::hold::{self, Hold};
use crate::plan::{HoldFile, hold_files};
use crate::site::{self, Site};
use equate_kustomize::{EntryKind, Tree};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The weight of a finding. Errors come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something is broken.
    Error,
    /// Something may surprise.
    Warning,
}

/// Something to know before a promotion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Its weight.
    pub severity: Severity,
    /// The file and line, or the directory.
    pub place: String,
    /// The check: `build`, `hold`, `missing`, `range`, `record`, `rule`, `shared`.
    pub check: &'static str,
    /// The fault.
    pub problem: String,
    /// The way to correct it.
    pub action: String,
}

impl Finding {
    /// A finding that something is broken.
    pub fn error(check: &'static str, place: String, problem: String, action: String) -> Self {
        Self {
            severity: Severity::Error,
            place,
            check,
            problem,
            action,
        }
    }

    /// A finding that something may surprise.
    pub fn warning(check: &'static str, place: String, problem: String, action: String) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(check, place, problem, action)
        }
    }
}

/// Checks all environments, holds and rules of a tree. Errors come first.
pub fn examine(tree: &dyn Tree, config: &Config, fleet: &Fleet, now: Timestamp) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(fleet.units.iter().filter_map(broken));
    findings.extend(missing(config, fleet));
    findings.extend(versions(tree, config, fleet));
    findings.extend(holds(tree, config, fleet, now));
    findings.extend(rules(config, fleet));
    findings.sort();
    findings.dedup();
    findings
}

fn broken(unit: &Unit) -> Option<Finding> {
    let problem = unit.state.as_ref().err()?;
    let directory = &unit.place.directory;
    Some(Finding::error(
        "build",
        directory.clone(),
        format!("does not build: {problem}"),
        format!("correct it until `equate build {directory}` succeeds"),
    ))
}

fn missing(config: &Config, fleet: &Fleet) -> Vec<Finding> {
    let mut findings = Vec::new();
    for service in fleet.services() {
        let (mut there, mut absent) = (Vec::new(), Vec::new());
        for environment in config.environments() {
            if fleet.artifact(environment, service).is_some() {
                there.push(environment);
            } else if fleet.fault(environment, service).is_none() {
                absent.push(environment);
            }
        }
        let Some(first) = absent.first().filter(|_| !there.is_empty()) else {
            continue;
        };
        findings.push(Finding::warning(
            "missing",
            config.services.pattern().directory(first, service),
            format!(
                "{service} is in {}, and not in {}",
                there.join(", "),
                absent.join(", ")
            ),
            match config.services {
                Services::Versions(_) => {
                    format!("add its manifests if it belongs to {first}; `promote` does not create them")
                }
                Services::Copies { .. } => format!("promote it if it belongs to {first}"),
            },
        ));
    }
    findings
}

/// A subject that a shared file sets: the place, the subject and its service.
type Shared = (String, Subject, String);

/// Ranges, and versions that files outside an environment's directory set.
fn versions(tree: &dyn Tree, config: &Config, fleet: &Fleet) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sites = Sites {
        tree,
        config,
        known: BTreeMap::new(),
    };
    let mut shared: BTreeMap<Shared, Vec<&str>> = BTreeMap::new();
    for unit in &fleet.units {
        let Ok(built) = &unit.state else {
            continue;
        };
        let (environment, directory) = (unit.place.environment.as_str(), &unit.place.directory);
        let all = sites.of(built);
        for service in built.services.keys() {
            let artifact = built.artifact(service);
            for (subject, version) in artifact.iter() {
                let named =
                    |site: &&Site| site.subject == *subject || site.former.as_deref() == Some(subject.name());
                let here: Vec<&Site> = all.iter().flat_map(|sites| sites.iter()).filter(named).collect();
                let place = |site: &Site| format!("{}:{}", site.path, site.line);
                let same = here.iter().find(|site| site.version == *version);
                if version.is_range() {
                    findings.push(Finding::warning(
                        "range",
                        same.map_or_else(|| directory.clone(), |site| place(site)),
                        format!("{subject} of {service} in {environment} is the range {version}"),
                        "promote it with --pin, or set one version".to_owned(),
                    ));
                }
                let is_own = here.iter().any(|site| is_within(directory, &site.path));
                if let Some(site) = same.filter(|_| !is_own) {
                    let key = (place(site), subject.clone(), service.clone());
                    shared.entry(key).or_default().push(environment);
                }
            }
        }
    }
    findings.extend(
        shared
            .into_iter()
            .map(|((place, subject, service), environments)| {
                let action = match subject {
                    Subject::Image(_) => {
                        "`promote` adds an entry of `images` to the environment's kustomization"
                    }
                    Subject::Chart(_) | Subject::Oci(_) | Subject::Value(_) => {
                        "set it in a file of each environment: `promote` does not edit a shared file"
                    }
                };
                Finding::warning(
                    "shared",
                    place,
                    format!(
                        "a shared file sets {subject} of {service} for {}",
                        environments.join(", ")
                    ),
                    action.to_owned(),
                )
            }),
    );
    findings
}

/// The sites of files, each read once.
struct Sites<'t> {
    tree: &'t dyn Tree,
    config: &'t Config,
    known: BTreeMap<String, Rc<Vec<Site>>>,
}

impl Sites<'_> {
    /// The sites of the files that a build read.
    fn of(&mut self, built: &Built) -> Vec<Rc<Vec<Site>>> {
        let is_manifest =
            |path: &&str| path.ends_with(".yaml") || path.ends_with(".yml") || site::is_kustomization(path);
        let mut found = Vec::new();
        for path in built.inputs.paths().filter(is_manifest) {
            let (tree, config) = (self.tree, self.config);
            let sites = self.known.entry(path.to_owned()).or_insert_with(|| {
                let bytes = match tree.stat(path) {
                    Some(stat) if stat.kind == EntryKind::File => tree.read(path).ok(),
                    _ => None,
                };
                let text = bytes.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
                Rc::new(text.map_or_else(Vec::new, |text| site::of(path, &text, &config.values)))
            });
            found.push(Rc::clone(sites));
        }
        found
    }
}

fn holds(tree: &dyn Tree, config: &Config, fleet: &Fleet, now: Timestamp) -> Vec<Finding> {
    let files = match hold_files(tree) {
        Ok(files) => files,
        Err(error) => {
            let place = format!("{}:{}", error.path, error.line);
            return vec![Finding::error("hold", place, error.problem, error.hint)];
        }
    };
    files
        .iter()
        .filter_map(|file| hold_of(tree, config, fleet, now, file))
        .collect()
}

fn hold_of(
    tree: &dyn Tree,
    config: &Config,
    fleet: &Fleet,
    now: Timestamp,
    file: &HoldFile,
) -> Option<Finding> {
    let path = &file.path;
    let ignored = |problem: &str, action: &str| {
        let problem = format!("the hold does not count: {problem}");
        Some(Finding::error("hold", path.clone(), problem, action.to_owned()))
    };
    if file.kind == EntryKind::Symlink {
        return ignored("it is a symbolic link", "write the hold as a file");
    }
    let Some((environment, service)) = file.target() else {
        let action = format!("move it to {}/ENVIRONMENT/SERVICE.yaml", hold::DIRECTORY);
        return ignored("its path names no environment and service", &action);
    };
    if file.kind == EntryKind::Directory {
        return ignored("it is a directory", "remove it");
    }
    let hold = match file.read(tree) {
        Ok(hold) => hold?,
        Err(error) => {
            let place = format!("{}:{}", error.path, error.line);
            let problem = format!("the hold cannot be read: {}", error.problem);
            return Some(Finding::error("hold", place, problem, error.hint));
        }
    };
    judge_hold(config, fleet, now, &hold, (environment, service))
}

fn judge_hold(
    config: &Config,
    fleet: &Fleet,
    now: Timestamp,
    hold: &Hold,
    (environment, service): (&str, &str),
) -> Option<Finding> {
    let place = format!("{}:{}", hold.path, hold.line);
    let warn = |problem: String, action: String| Some(Finding::warning("hold", place, problem, action));
    if !config.environments().any(|name| name == environment) {
        let hint = match config.nearest(environment) {
            Some(near) => format!("did you mean {near}? otherwise remove {}", hold.path),
            None => format!("remove {}", hold.path),
        };
        return warn(
            format!("the hold is for the unknown environment {environment}"),
            hint,
        );
    }
    if fleet.artifact(environment, service).is_none() && fleet.fault(environment, service).is_none() {
        let near = nearest(service, fleet.services().into_iter()).filter(|near| *near != service);
        let hint = match near {
            Some(near) => format!("did you mean {near}? otherwise remove {}", hold.path),
            None => format!("remove {}", hold.path),
        };
        return warn(
            format!("the hold is for {service}, which is not in {environment}"),
            hint,
        );
    }
    if !hold.is_active(now) {
        let until = hold.until.map(|until| until.to_string()).unwrap_or_default();
        let action = format!("run `equate unhold {service} --env {environment}`");
        return warn(format!("the hold ended at {until} and counts no more"), action);
    }
    None
}

fn rules(config: &Config, fleet: &Fleet) -> Vec<Finding> {
    let names = fleet.services();
    let rules = config.rules.iter();
    rules
        .flat_map(|rule| rule_findings(config, &names, rule))
        .collect()
}

fn rule_findings(config: &Config, names: &BTreeSet<&str>, rule: &Rule) -> Vec<Finding> {
    let place = format!("{FILE}:{}", rule.line);
    let mut findings = Vec::new();
    let mut warn = |problem: String, action: String| {
        findings.push(Finding::warning("rule", place.clone(), problem, action));
    };
    for service in rule.services.iter().filter(|name| !names.contains(name.as_str())) {
        let action = match nearest(service, names.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => "correct the name, or remove it".to_owned(),
        };
        warn(
            format!("the rule is for {service}, and no environment has it"),
            action,
        );
    }
    if rule.soak.is_none() && rule.healthy.is_none() && rule.freeze.is_empty() {
        let action = "add soak, healthy or freeze, or remove it".to_owned();
        warn("the rule demands nothing".to_owned(), action);
        return findings;
    }
    let resolved: Vec<&str> = match rule.to.is_empty() {
        true => config.environments().collect(),
        false => {
            let names = rule.to.iter().filter_map(|name| config.resolve(name));
            names.flatten().collect()
        }
    };
    let is_first = |environment: &&str| config.before(environment).is_empty();
    if rule.freeze.is_empty() && resolved.iter().all(is_first) {
        warn(
            format!(
                "the rule matches nothing: no environment comes before {}",
                resolved.join(", ")
            ),
            "name the environments that versions come to".to_owned(),
        );
    }
    findings
}

#[cfg(test)]
mod tests;
