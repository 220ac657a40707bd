//! Plans that remove a service from an environment.
//!
//! The edit is a guess: the files of the service, and the entries of kustomizations that name them. All
//! environments and all other kustomizations of the repository are built again with it. Only objects that the
//! service's files declare may vanish, and nothing else may change.

use super::{Past, Plan, PlanError, Step, config, environments, holds, known_service, record};
use crate::artifact::Artifact;
use crate::config::{Config, Place, is_directory, join};
use crate::edit::{Change, others_changed, shortened, target};
use crate::fleet::{Built, Fleet, Unit, is_within, resolve, service_of};
use crate::hold::Hold;
use crate::overlay::{Files, Overlay};
use crate::record::Intent;
use crate::rules::{self, Actor, Case};
use crate::site;
use bytes::Bytes;
use equate_kustomize::{EntryKind, Tree};
use equate_manifest::yaml;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The most files and directories that are searched for references.
const ENTRIES_MAX: usize = 500_000;

/// Plans the removal of a service.
///
/// # Errors
/// The environment or service is unknown, or something else would change.
pub fn plan_undeploy(
    tree: &dyn Tree,
    (service, to): (&str, &str),
    reason: Option<String>,
    by: &str,
    past: Past<'_>,
) -> Result<Plan, PlanError> {
    let config = config(tree)?;
    let holds = holds(tree)?;
    let mut files = Files::new();
    let mut steps = Vec::new();
    for environment in environments(&config, to)? {
        let overlay = Overlay::new(tree, &files);
        let fleet = Fleet::build(&overlay, &config);
        known_service(&fleet, service)?;
        let is_there = fleet.artifact(&environment, service).is_some();
        if !is_there && fleet.fault(&environment, service).is_none() {
            continue;
        }
        let removal = Removal::find(&overlay, &fleet, (&environment, service))?;
        let others = removal.others(&overlay, &config, &fleet);
        if !others.is_empty() {
            return Err(PlanError::Undeploy {
                service: service.to_owned(),
                environment: environment.clone(),
                others: shortened(others),
            });
        }
        let case = Case {
            service,
            environment: &environment,
            artifact: &removal.artifact,
            is_rollback: false,
            actor: Actor::Person,
            arrival: None,
            holds: &holds,
            now: past.now,
        };
        let verdicts = rules::judge_removal(&config, &case);
        let Removal {
            artifact,
            mut changes,
            files: removed,
            ..
        } = removal;
        // a hold of nothing would only confuse; one that counts refuses the removal anyway
        let path = Hold::path(&environment, service);
        let mut removed = removed;
        if holds.iter().any(|hold| hold.path == path) {
            changes.push(whole(&path));
            removed.insert(path, None);
        }
        files.extend(removed);
        steps.push(Step {
            service: service.to_owned(),
            environment,
            from: None,
            before: artifact,
            after: Artifact::default(),
            changes,
            verdicts,
            remark: None,
            warning: None,
        });
    }
    if steps.is_empty() {
        return Err(PlanError::Absent {
            service: service.to_owned(),
            environment: to.to_owned(),
        });
    }
    Ok(Plan {
        record: record(Intent::Undeploy, by, reason, &steps),
        steps,
        files,
    })
}

struct Removal<'s> {
    service: &'s str,
    artifact: Artifact,
    /// The index of the target's unit.
    at: usize,
    /// The removed files and directories.
    paths: Vec<String>,
    /// The files that declare the service's objects.
    origins: BTreeSet<String>,
    /// The objects that must vanish from the target.
    objects: BTreeSet<String>,
    files: Files,
    changes: Vec<Change>,
    /// Entries that cannot be removed.
    kept: Vec<String>,
}

impl<'s> Removal<'s> {
    fn find(
        tree: &dyn Tree,
        fleet: &Fleet,
        (environment, service): (&str, &'s str),
    ) -> Result<Self, PlanError> {
        let (at, built) = target(fleet, environment, service)?;
        let unit = &fleet.units[at];
        let directory = &unit.place.directory;
        let own: Vec<&crate::fleet::Object> = match &unit.place.service {
            Some(_) => built.objects.iter().collect(),
            None => of_service(tree, built, directory, service),
        };
        let mut removal = Self {
            service,
            artifact: built.artifact(service),
            at,
            paths: Vec::new(),
            origins: own.iter().map(|object| object.origin.clone()).collect(),
            objects: own.iter().map(|object| object.id.clone()).collect(),
            files: Files::new(),
            changes: Vec::new(),
            kept: Vec::new(),
        };
        // entries of the environment's own kustomization that bring the objects
        let mut entries: Vec<(String, String)> = Vec::new();
        match &unit.place.service {
            Some(_) => removal.paths.push(directory.clone()),
            None => {
                for path in entries_of(tree, directory) {
                    let brings = removal
                        .origins
                        .iter()
                        .any(|origin| *origin == path || is_within(&path, origin));
                    if !brings {
                        continue;
                    }
                    match is_within(directory, &path) {
                        true => removal.paths.push(path),
                        // a shared base stays, and only the environment's entry goes
                        false => entries.push((directory.clone(), path)),
                    }
                }
                if removal.paths.is_empty() && entries.is_empty() {
                    let inside = removal.origins.iter().filter(|path| is_within(directory, path));
                    removal.paths = inside.cloned().collect();
                }
            }
        }
        for path in removal.paths.clone() {
            for file in files_below(tree, &path) {
                removal.changes.push(whole(&file));
                removal.files.insert(file, None);
            }
        }
        for kustomization in kustomizations(tree) {
            let is_removed = |path: &String| kustomization == *path || is_within(path, &kustomization);
            if removal.paths.iter().any(is_removed) {
                continue;
            }
            for path in entries_of(tree, &kustomization) {
                if removal.paths.contains(&path) {
                    entries.push((kustomization.clone(), path));
                }
            }
        }
        for (kustomization, path) in entries {
            removal.drop_entry(tree, &kustomization, &path);
        }
        removal.changes.sort();
        removal.changes.dedup();
        Ok(removal)
    }

    /// Removes the entry of a kustomization that resolves to a path.
    fn drop_entry(&mut self, tree: &dyn Tree, directory: &str, path: &str) {
        let Some(file) = kustomization_file(tree, directory) else {
            return;
        };
        let text = text(&Overlay::new(tree, &self.files), &file).unwrap_or_default();
        let documents = site::documents(&text).unwrap_or_default();
        let mut splices = Vec::new();
        for document in &documents {
            for (pointer, entry) in entries_in(&document.value) {
                if resolve(directory, entry).as_deref() != Some(path) {
                    continue;
                }
                let line = document.spans.get(&pointer).map_or(1, |place| place.line);
                match yaml::remove_item(&text, document, &pointer) {
                    Ok(splice) => splices.push(splice),
                    Err(error) => {
                        self.kept
                            .push(format!("{file}, which names {entry}: {error}; remove it by hand"));
                        continue;
                    }
                }
                self.changes.push(Change {
                    path: file.clone(),
                    line,
                    key: pointer.split('/').nth(1).unwrap_or_default().to_owned(),
                    old: entry.to_owned(),
                    new: "removed".to_owned(),
                });
            }
        }
        if !splices.is_empty() {
            let new = yaml::apply(&text, splices);
            self.files.insert(file, Some(Bytes::from(new)));
        }
    }

    /// The changes beyond the objects of the service, for people.
    fn others(&self, tree: &dyn Tree, config: &Config, fleet: &Fleet) -> Vec<String> {
        if self.files.is_empty() {
            return vec!["nothing, as no file of the environment declares it alone".to_owned()];
        }
        if !self.kept.is_empty() {
            return self.kept.clone();
        }
        let after = Overlay::new(tree, &self.files);
        let mut others = self.of_target(&after, config, &fleet.units[self.at]);
        let targets = BTreeSet::from([self.at]);
        others.extend(others_changed(&after, config, fleet, &self.files, &targets));
        let built: BTreeSet<&str> = fleet
            .units
            .iter()
            .map(|unit| unit.place.directory.as_str())
            .collect();
        for directory in kustomizations(tree) {
            let is_removed = self
                .paths
                .iter()
                .any(|path| *path == directory || is_within(path, &directory));
            if !is_removed && !built.contains(directory.as_str()) {
                others.extend(self.of_kustomization(tree, &after, config, &directory));
            }
        }
        others.extend(self.appliers(tree));
        others
    }

    /// The target loses the objects of the service, all of them, and keeps everything else.
    fn of_target(&self, after: &dyn Tree, config: &Config, unit: &Unit) -> Vec<String> {
        let place = &unit.place;
        if !is_directory(after, &place.directory) {
            return Vec::new();
        }
        let now = Unit::build(after, config, place.clone());
        let (before, now) = match (&unit.state, &now.state) {
            (Ok(before), Ok(now)) => (before, now),
            (_, Err(problem)) => {
                return vec![format!("{}, which no longer builds: {problem}", place.directory)];
            }
            (Err(_), Ok(_)) => return vec![format!("{}, which builds now", place.directory)],
        };
        let mut others = lost(before, now, |object| self.objects.contains(&object.id));
        let stays = now
            .objects
            .iter()
            .filter(|object| self.objects.contains(&object.id));
        others.extend(stays.map(|object| format!("{} of {}, which would stay", object.id, self.service)));
        others
    }

    /// A kustomization that is no environment's may lose only what the service's files declare.
    fn of_kustomization(
        &self,
        tree: &dyn Tree,
        after: &dyn Tree,
        config: &Config,
        directory: &str,
    ) -> Vec<String> {
        let place = Place {
            environment: String::new(),
            service: None,
            directory: directory.to_owned(),
        };
        let before = Unit::build(tree, config, place.clone());
        let Ok(built) = &before.state else {
            return Vec::new();
        };
        if !before.reads_any(self.files.keys().map(String::as_str)) {
            return Vec::new();
        }
        match &Unit::build(after, config, place).state {
            Err(problem) => vec![format!("{directory}, which no longer builds: {problem}")],
            Ok(now) => {
                let lost = lost(built, now, |object| self.origins.contains(&object.origin));
                lost.iter()
                    .map(|object| format!("{object} in {directory}"))
                    .collect()
            }
        }
    }

    /// Flux Kustomizations of removed directories. Without the directory they fail, and prune nothing.
    fn appliers(&self, tree: &dyn Tree) -> Vec<String> {
        let mut found = Vec::new();
        for path in manifests(tree) {
            let is_removed = self.files.get(&path).is_some_and(Option::is_none);
            let Some(text) = text(tree, &path).filter(|_| !is_removed) else {
                continue;
            };
            if !text.contains("kustomize.toolkit.fluxcd.io") {
                continue;
            }
            for document in site::documents(&text).unwrap_or_default() {
                let (group, kind) = crate::field::group_and_kind(&document.value);
                let applied = document.value.pointer("/spec/path").and_then(Value::as_str);
                let Some(applied) = applied.and_then(|applied| resolve("", applied)) else {
                    continue;
                };
                let is_flux = group == "kustomize.toolkit.fluxcd.io" && kind == "Kustomization";
                if is_flux && self.paths.contains(&applied) {
                    let name = crate::field::name(&document.value);
                    let place = document.spans.get("/spec/path").map_or(1, |place| place.line);
                    found.push(format!(
                        "Kustomization {name} ({path}:{place}), which applies {applied}: remove it first, so that Flux \
                         deletes the objects"
                    ));
                }
            }
        }
        found
    }
}

/// The objects of a service in a directory that has many. One in a file without objects of other services is
/// the service's, whatever its name.
fn of_service<'b>(
    tree: &dyn Tree,
    built: &'b Built,
    directory: &str,
    service: &str,
) -> Vec<&'b crate::fleet::Object> {
    let children = crate::fleet::children(tree, directory);
    let named: Vec<(String, &crate::fleet::Object)> = built
        .objects
        .iter()
        .map(|object| (service_of(object, &children), object))
        .collect();
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, object) in &named {
        if built.services.contains_key(name) {
            owners.entry(&object.origin).or_default().insert(name);
        }
    }
    let is_alone = |origin: &str| {
        let owners = owners.get(origin);
        owners.is_some_and(|owners| owners.len() == 1 && owners.contains(service))
    };
    named
        .iter()
        .filter(|(name, object)| name == service || is_alone(&object.origin))
        .map(|(_, object)| *object)
        .collect()
}

/// The objects that another build lacks, adds or changes, except those that may vanish.
fn lost(before: &Built, after: &Built, may_vanish: impl Fn(&crate::fleet::Object) -> bool) -> Vec<String> {
    let by_id = |built: &Built| -> BTreeMap<String, Value> {
        let objects = built.objects.iter();
        objects
            .map(|object| (object.id.clone(), object.value.clone()))
            .collect()
    };
    let now = by_id(after);
    let mut others = Vec::new();
    for object in &before.objects {
        match now.get(&object.id) {
            None if may_vanish(object) => {}
            None => others.push(object.id.clone()),
            Some(value) if *value == object.value => {}
            Some(_) => others.push(format!("{}, which would change", object.id)),
        }
    }
    let then = by_id(before);
    let added = after
        .objects
        .iter()
        .filter(|object| !then.contains_key(&object.id));
    others.extend(added.map(|object| format!("{}, which would appear", object.id)));
    others
}

fn whole(path: &str) -> Change {
    Change {
        path: path.to_owned(),
        line: 1,
        key: "file".to_owned(),
        old: String::new(),
        new: "removed".to_owned(),
    }
}

/// The entries of a kustomization that name files and directories, with their pointers.
fn entries_in(value: &Value) -> Vec<(String, &str)> {
    let mut entries = Vec::new();
    for key in ["resources", "bases", "components"] {
        let items = value.get(key).and_then(Value::as_array);
        for (at, item) in items.into_iter().flatten().enumerate() {
            if let Some(entry) = item.as_str() {
                entries.push((format!("/{key}/{at}"), entry));
            }
        }
    }
    entries
}

/// The paths that the kustomization of a directory names.
fn entries_of(tree: &dyn Tree, directory: &str) -> Vec<String> {
    let file = kustomization_file(tree, directory);
    let Some(text) = file.and_then(|file| text(tree, &file)) else {
        return Vec::new();
    };
    let documents = site::documents(&text).unwrap_or_default();
    let entries = documents.iter().flat_map(|document| entries_in(&document.value));
    entries
        .filter_map(|(_, entry)| resolve(directory, entry))
        .collect()
}

fn kustomization_file(tree: &dyn Tree, directory: &str) -> Option<String> {
    let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    let mut paths = names.map(|name| join(directory, name)).into_iter();
    paths.find(|path| tree.stat(path).is_some_and(|stat| stat.kind == EntryKind::File))
}

fn text(tree: &dyn Tree, path: &str) -> Option<String> {
    String::from_utf8(tree.read(path).ok()?.to_vec()).ok()
}

/// The directories of a tree with a kustomization.
fn kustomizations(tree: &dyn Tree) -> Vec<String> {
    let files = files_below(tree, "")
        .into_iter()
        .filter(|path| site::is_kustomization(path));
    let directories: BTreeSet<String> = files
        .map(|path| {
            path.rsplit_once('/')
                .map_or("", |(directory, _)| directory)
                .to_owned()
        })
        .collect();
    directories.into_iter().collect()
}

fn manifests(tree: &dyn Tree) -> Vec<String> {
    let is_manifest = |path: &String| path.ends_with(".yaml") || path.ends_with(".yml");
    files_below(tree, "").into_iter().filter(is_manifest).collect()
}

/// The files and links at or below a path.
fn files_below(tree: &dyn Tree, path: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![path.to_owned()];
    while let Some(path) = pending.pop() {
        match is_directory(tree, &path) {
            false => found.push(path),
            true => {
                let entries = tree.list(&path).unwrap_or_default();
                pending.extend(entries.into_iter().map(|(name, _)| join(&path, &name)));
            }
        }
        if found.len() + pending.len() > ENTRIES_MAX {
            break;
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests;
