//! `equate history --at`: what git declared at a time, and when it was applied and healthy.

use super::super::applied::{self, Applied};
use super::super::past::{self, Key};
use super::super::repository::{Place, tree_of};
use super::super::view::View;
use super::super::wait::Clusters;
use super::super::{Output, ReleaseError, text};
use crate::connection;
use crate::table::{Table, Value, colour};
use equate_git::Commit;
use equate_release::artifact::Artifact;
use equate_release::fleet::Fleet;
use equate_release::history::Entry;
use equate_release::plan;
use equate_release::record::versions;
use jiff::Timestamp;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use tokio::runtime::Runtime;

/// A service in an environment at the time.
struct Row {
    service: String,
    environment: String,
    artifact: Artifact,
    /// The change that brought it, if history goes back to it.
    brought: Option<Entry>,
    applied: Applied,
}

pub(super) fn run(
    (text, services, env): (&str, &[String], Option<&str>),
    place: &Place,
    cluster: &connection::Options,
    output: Output,
    runtime: &Runtime,
) -> Result<(), ReleaseError> {
    let now = Timestamp::now();
    let time = text::past_time(text, now).ok_or_else(|| ReleaseError::At(text.to_owned()))?;
    let view = View::open(place, &[])?;
    let environments = view.environments(env)?;
    let then = past::at(&view.repository, &view.commit, time)?;
    let tree = tree_of(&then);
    let named: Vec<&str> = services.iter().map(String::as_str).collect();
    let fleet = Fleet::of_services(&tree, &view.config, &named);
    let known = fleet.names(&tree, &view.config);
    for service in &named {
        plan::check_service(known.iter().map(String::as_str), service)?;
    }
    let names = match named.is_empty() {
        true => fleet.services(),
        false => named.iter().copied().collect(),
    };
    let mut rows = Vec::new();
    for service in names {
        for environment in &environments {
            if let Some(artifact) = fleet.artifact(environment, service) {
                rows.push(Row {
                    service: service.to_owned(),
                    environment: environment.clone(),
                    artifact,
                    brought: None,
                    applied: Applied::default(),
                });
            }
        }
    }
    let mut chain = chain(&view, &then)?;
    let spells = spells(&view, &fleet, &chain, &rows);
    chain.reach(&view, spells.values().map(|(entry, _)| entry.commit.id.as_str()))?;
    let clusters = Clusters::new(cluster);
    let mut blind: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for row in &mut rows {
        let Some((entry, until)) = spells.get(&(row.service.clone(), row.environment.clone())) else {
            continue;
        };
        let commits = chain.between(&entry.commit.id, until.as_deref());
        let target = (row.environment.as_str(), row.service.as_str());
        let since = (entry.commit.time, &commits);
        let found = applied::of_service(&clusters, &tree, &view.config, target, since);
        match runtime.block_on(found) {
            Ok(found) => row.applied = found,
            Err(reason) => {
                blind.entry(reason).or_default().insert(row.environment.clone());
            }
        }
        row.brought = Some(entry.clone());
    }
    // each reason once, however many services there are
    for (reason, environments) in &blind {
        let environments: Vec<&str> = environments.iter().map(String::as_str).collect();
        let names = environments.join(", ");
        eprintln!(
            "{}",
            text::shown(&format!("unknown when it was applied in {names}: {reason}"))
        );
    }
    match output {
        Output::Text | Output::Wide => Ok(text::print(&table(&rows, output == Output::Wide))?),
        Output::Json | Output::Yaml => {
            let value = json!({
                "time": time.to_string(),
                "commit": then.revision().commit(),
                "services": rows.iter().map(data).collect::<Vec<_>>(),
            });
            Ok(text::print_data(output, &value)?)
        }
    }
}

/// The ids of the commits along first parents, newest first, with the position of the commit of the time.
struct Chain {
    ids: Vec<String>,
    positions: BTreeMap<String, usize>,
    then: usize,
    /// The next older commit, if the repository has it.
    next: Option<String>,
}

/// The commits up to that of the time.
fn chain(view: &View, then: &Commit) -> Result<Chain, ReleaseError> {
    let mut chain = Chain {
        ids: Vec::new(),
        positions: BTreeMap::new(),
        then: 0,
        next: Some(view.commit.revision().commit()),
    };
    let wanted = then.revision().commit();
    chain.reach(view, [wanted.as_str()])?;
    chain.then = chain.positions.get(&wanted).copied().unwrap_or_default();
    Ok(chain)
}

impl Chain {
    /// Adds older commits until all of these are there, or history ends.
    fn reach<'w>(
        &mut self,
        view: &View,
        wanted: impl IntoIterator<Item = &'w str>,
    ) -> Result<(), ReleaseError> {
        let inner = &view.repository.inner;
        let is_shallow = inner.is_shallow();
        let missing = wanted.into_iter().filter(|id| !self.positions.contains_key(*id));
        let mut missing: BTreeSet<&str> = missing.collect();
        while !missing.is_empty()
            && let Some(id) = self.next.take()
        {
            let parents = inner.commit(&id)?.parents;
            self.next = parents
                .into_iter()
                .next()
                .filter(|id| !is_shallow || inner.has(id));
            missing.remove(id.as_str());
            self.positions.insert(id.clone(), self.ids.len());
            self.ids.push(id);
        }
        Ok(())
    }

    /// The commits from one to the one before another; up to the newest without another.
    fn between(&self, from: &str, until: Option<&str>) -> BTreeSet<&str> {
        let position = |id: &str| self.positions.get(id).copied();
        let first = until.and_then(position).map_or(0, |at| at + 1);
        let last = position(from).unwrap_or_default();
        let ids = self.ids.get(first..=last).unwrap_or_default();
        ids.iter().map(String::as_str).collect()
    }
}

/// The change that brought each version, and the commit of the next change of the same service.
type Spells = BTreeMap<Key, (Entry, Option<String>)>;

fn spells(view: &View, fleet: &Fleet, chain: &Chain, rows: &[Row]) -> Spells {
    let names: BTreeSet<&str> = rows.iter().map(|row| row.service.as_str()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let places = past::places(&view.config, fleet, &names);
    let versioned = rows.iter().filter(|row| !row.artifact.is_empty());
    let mut wanted: BTreeSet<Key> = versioned
        .map(|row| (row.service.clone(), row.environment.clone()))
        .collect();
    let mut spells = Spells::new();
    let mut later: BTreeMap<Key, String> = BTreeMap::new();
    for entry in past::changes(&view.history, &places) {
        let key = (entry.service.clone(), entry.environment.clone());
        let is_later = chain
            .positions
            .get(&entry.commit.id)
            .is_some_and(|at| *at < chain.then);
        if is_later {
            later.insert(key, entry.commit.id);
        } else if wanted.remove(&key) {
            let until = later.get(&key).cloned();
            spells.insert(key, (entry, until));
        }
        if wanted.is_empty() {
            break;
        }
    }
    spells
}

fn table(rows: &[Row], is_wide: bool) -> String {
    let header = vec![
        "SERVICE",
        "ENVIRONMENT",
        "VERSION",
        "COMMITTED",
        "APPLIED",
        "HEALTHY",
        "COMMIT",
        "BY",
    ];
    let mut table = Table::new(header, colour());
    for row in rows {
        let commit = row.brought.as_ref().map(|entry| &entry.commit);
        let time = |time: Option<Timestamp>| time.map_or_else(|| "-".to_owned(), text::moment);
        let id = commit.map(|commit| match is_wide {
            true => commit.id.clone(),
            false => commit.id.chars().take(7).collect(),
        });
        let cells = [
            row.service.clone(),
            row.environment.clone(),
            row.artifact.label(&row.service),
            time(commit.map(|commit| commit.time)),
            time(row.applied.applied),
            time(row.applied.healthy),
            id.unwrap_or_else(|| "-".to_owned()),
            commit.map_or_else(|| "-".to_owned(), |commit| commit.author.clone()),
        ];
        table.row(cells.iter().map(Value::plain).collect());
    }
    table.take()
}

fn data(row: &Row) -> serde_json::Value {
    let commit = row.brought.as_ref().map(|entry| &entry.commit);
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    json!({
        "service": row.service,
        "environment": row.environment,
        "version": row.artifact.label(&row.service),
        "artifact": row.artifact.id().to_string(),
        "versions": versions(&row.artifact),
        "commit": commit.map(|commit| commit.id.clone()),
        "committed": time(commit.map(|commit| commit.time)),
        "applied": time(row.applied.applied),
        "healthy": time(row.applied.healthy),
        "author": commit.map(|commit| json!({"name": commit.author, "email": commit.email})),
    })
}
