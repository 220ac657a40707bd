//! Edits that set versions, each the smallest possible, and each proven.
//!
//! Files say what they set, and only a build tells whether that reaches an object. So an edit is a guess from
//! the sites of the files that the target's build read, and all environments are built again with it: the
//! target's fields must have the wanted versions, and nothing else may differ. A guess that fails is dropped.
//! Files outside the target's directory are never edited.

use crate::artifact::{Artifact, Subject, Version};
use crate::config::{Config, Services};
use crate::field::{self, Form, join_image};
use crate::fleet::{Built, Fleet, Unit, is_within};
use crate::overlay::{Files, Overlay};
use crate::site::{self, Site, SiteForm};
use bytes::Bytes;
use equate_kustomize::{EntryKind, Tree};
use equate_manifest::yaml::{self, EditError as Unwritable, Splice};
use std::collections::{BTreeMap, BTreeSet};

mod setters;

pub use setters::{Setter, setters};

/// The most lines of other changes in an error.
const OTHERS_MAX: usize = 5;

/// A change of one value in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Change {
    /// The file.
    pub path: String,
    /// The line before the change, from 1.
    pub line: usize,
    /// The key, `newTag`.
    pub key: String,
    /// The value before.
    pub old: String,
    /// The value after.
    pub new: String,
}

/// Proven edits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Edited {
    /// The new contents of the files.
    pub files: Files,
    /// The changes in the order of files and lines.
    pub changes: Vec<Change>,
}

/// The reason why versions cannot be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The environment has no such service.
    #[error("{environment} has no service {service}; add its manifests there first")]
    NoService {
        /// The environment.
        environment: String,
        /// The service.
        service: String,
    },
    /// The environment does not build.
    #[error("{directory} does not build: {problem}")]
    Unbuildable {
        /// The directory.
        directory: String,
        /// The error of the build.
        problem: String,
    },
    /// One subject has several versions.
    #[error("{subject} has several versions at once ({versions}); make them one first")]
    Several {
        /// The subject.
        subject: Subject,
        /// The versions.
        versions: String,
    },
    /// Only shared files set the version.
    #[error(
        "{subject} of {environment} is set in {file}, outside {directory}; set it in {directory}, so that other environments keep theirs"
    )]
    Shared {
        /// The subject.
        subject: Subject,
        /// The environment.
        environment: String,
        /// The directory of the environment.
        directory: String,
        /// The file and line.
        file: String,
    },
    /// No file sets the version in a form that can be edited.
    #[error("no file of {directory} sets the version of {subject} in a form that equate can edit{detail}")]
    NoSite {
        /// The subject.
        subject: Subject,
        /// The directory.
        directory: String,
        /// The reason why a site was left out.
        detail: String,
    },
    /// The edit would change something else.
    #[error("setting {subject} to {version} would also change {}; nothing was written", others.join(", "))]
    Others {
        /// The subject.
        subject: String,
        /// The version.
        version: String,
        /// The other changes.
        others: Vec<String>,
    },
    /// A directory cannot be copied.
    #[error("cannot copy {path}: {problem}")]
    Copy {
        /// The file.
        path: String,
        /// The reason.
        problem: String,
    },
}

/// Sets the versions of a service in an environment.
///
/// Subjects that the environment does not have are left out, and so are fields whose subject `wanted` does
/// not name.
///
/// # Errors
/// The service is not there, or no edit passes the proof.
pub fn set_versions(
    tree: &dyn Tree,
    config: &Config,
    fleet: &Fleet,
    (environment, service): (&str, &str),
    wanted: &Artifact,
) -> Result<Edited, EditError> {
    let (at, built) = target(fleet, environment, service)?;
    let unit = &fleet.units[at];
    let current = built.artifact(service);
    let mut expected: BTreeMap<Subject, Version> = BTreeMap::new();
    for member in built.services.get(service).into_iter().flatten() {
        let subject = &member.field.subject;
        let Some(source) = wanted.counterpart(subject) else {
            continue;
        };
        match wanted.of(source) {
            [version] => {
                expected.insert(subject.clone(), version.clone());
            }
            several if several == current.of(subject) => {}
            several => {
                let versions: Vec<String> = several.iter().map(ToString::to_string).collect();
                return Err(EditError::Several {
                    subject: source.clone(),
                    versions: versions.join(", "),
                });
            }
        }
    }
    expected.retain(|subject, version| current.of(subject) != std::slice::from_ref(version));
    let mut edited = Edited::default();
    let mut done: BTreeMap<Subject, Version> = BTreeMap::new();
    for (subject, version) in &expected {
        done.insert(subject.clone(), version.clone());
        let scope = Scope {
            tree,
            config,
            fleet,
            at,
            unit,
            built,
            service,
        };
        scope.set(subject, version, &done, &mut edited)?;
    }
    edited.changes.sort();
    edited.changes.dedup();
    Ok(edited)
}

pub(crate) fn target<'f>(
    fleet: &'f Fleet,
    environment: &str,
    service: &str,
) -> Result<(usize, &'f Built), EditError> {
    let absent = || match fleet.fault(environment, service) {
        Some(problem) => EditError::Unbuildable {
            directory: environment.to_owned(),
            problem: problem.to_owned(),
        },
        None => EditError::NoService {
            environment: environment.to_owned(),
            service: service.to_owned(),
        },
    };
    let at = fleet.unit(environment, service).ok_or_else(absent)?;
    let unit = &fleet.units[at];
    let built = unit.state.as_ref().map_err(|problem| EditError::Unbuildable {
        directory: unit.place.directory.clone(),
        problem: problem.clone(),
    })?;
    Ok((at, built.as_ref()))
}

struct Scope<'s> {
    tree: &'s dyn Tree,
    config: &'s Config,
    fleet: &'s Fleet,
    at: usize,
    unit: &'s Unit,
    built: &'s Built,
    service: &'s str,
}

enum Guess<'s> {
    Sites(Vec<&'s Site>),
    Append(String),
}

impl Scope<'_> {
    fn set(
        &self,
        subject: &Subject,
        version: &Version,
        done: &BTreeMap<Subject, Version>,
        edited: &mut Edited,
    ) -> Result<(), EditError> {
        let sites = self.sites(subject, &edited.files);
        let directory = &self.unit.place.directory;
        let (own, shared): (Vec<&Site>, Vec<&Site>) =
            sites.iter().partition(|site| is_within(directory, &site.path));
        let (entries, fields): (Vec<&Site>, Vec<&Site>) =
            own.iter().partition(|site| site.form == SiteForm::KustomizeImage);
        let of_service: Vec<&Site> = fields
            .iter()
            .copied()
            .filter(|site| self.is_of_service(site, subject))
            .collect();
        let mut guesses = vec![
            Guess::Sites(entries.clone()),
            Guess::Sites(of_service.clone()),
            Guess::Sites([entries, of_service].concat()),
            Guess::Sites(own.clone()),
        ];
        if let (Subject::Image(_), Some(path)) = (subject, self.kustomization()) {
            guesses.push(Guess::Append(path));
        }
        let mut others: Option<Vec<String>> = None;
        let mut unwritable: Option<(String, Unwritable)> = None;
        for guess in guesses {
            if matches!(&guess, Guess::Sites(sites) if sites.is_empty()) {
                continue;
            }
            let mut trial = edited.clone();
            if let Err(error) = self.write(&guess, subject, version, &mut trial) {
                unwritable.get_or_insert(error);
                continue;
            }
            match self.prove(&trial.files, done) {
                Ok(()) => {
                    *edited = trial;
                    return Ok(());
                }
                Err(Unproven::Unreached) => {}
                Err(Unproven::Others(found)) => {
                    others.get_or_insert(found);
                }
            }
        }
        if let Some(others) = others {
            return Err(EditError::Others {
                subject: subject.short().to_owned(),
                version: version.to_string(),
                others,
            });
        }
        match shared.first() {
            Some(site) if own.is_empty() => Err(EditError::Shared {
                subject: subject.clone(),
                environment: self.unit.place.environment.clone(),
                directory: directory.clone(),
                file: format!("{}:{}", site.path, site.line),
            }),
            _ => Err(EditError::NoSite {
                subject: subject.clone(),
                directory: directory.clone(),
                detail: unwritable.map_or_else(String::new, |(path, error)| format!(" ({path}: {error})")),
            }),
        }
    }

    /// The sites that may set a subject, in the files that the build read.
    fn sites(&self, subject: &Subject, files: &Files) -> Vec<Site> {
        let overlay = Overlay::new(self.tree, files);
        let mut sites = Vec::new();
        for path in self.built.inputs.paths() {
            let is_manifest = path.ends_with(".yaml") || path.ends_with(".yml");
            if !(is_manifest || site::is_kustomization(path)) {
                continue;
            }
            if let Some(text) = read(&overlay, path) {
                let found = site::of(path, &text, &self.config.values).into_iter();
                sites.extend(found.filter(|site| {
                    site.subject == *subject || site.former.as_deref() == Some(subject.name())
                }));
            }
        }
        sites
    }

    /// Whether a manifest or patch describes an object of the service. A build may add to names.
    fn is_of_service(&self, site: &Site, subject: &Subject) -> bool {
        let members = self.built.services.get(self.service).into_iter().flatten();
        members
            .filter(|member| member.field.subject == *subject)
            .any(|member| {
                let object = &self.built.objects[member.object].value;
                let (_, kind) = field::group_and_kind(object);
                kind == site.object.0 && field::name(object).contains(&site.object.1)
            })
    }

    /// The kustomization of the target's directory.
    fn kustomization(&self) -> Option<String> {
        let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
        let paths = names.map(|name| format!("{}/{name}", self.unit.place.directory));
        paths.into_iter().find(|path| {
            let stat = self.tree.stat(path);
            stat.is_some_and(|stat| stat.kind == EntryKind::File)
        })
    }

    fn write(
        &self,
        guess: &Guess<'_>,
        subject: &Subject,
        version: &Version,
        edited: &mut Edited,
    ) -> Result<(), (String, Unwritable)> {
        let mut by_path: BTreeMap<&str, Vec<&Site>> = BTreeMap::new();
        match guess {
            Guess::Append(path) => return self.append(path, subject, version, edited),
            Guess::Sites(sites) => {
                for site in sites {
                    by_path.entry(&site.path).or_default().push(site);
                }
            }
        }
        for (path, sites) in by_path {
            let text = read(&Overlay::new(self.tree, &edited.files), path).unwrap_or_default();
            let documents = site::documents(&text).unwrap_or_default();
            let mut splices = Vec::new();
            for site in sites {
                let failed = |error| (path.to_owned(), error);
                let Some(document) = documents.get(site.document) else {
                    return Err(failed(Unwritable::Absent(site.pointer.clone())));
                };
                let writer = Writer {
                    text: &text,
                    document,
                    site,
                };
                let (made, changes) = writer.set(version).map_err(failed)?;
                splices.extend(made);
                edited.changes.extend(changes);
            }
            let new = Bytes::from(yaml::apply(&text, splices));
            edited.files.insert(path.to_owned(), Some(new));
        }
        Ok(())
    }

    fn append(
        &self,
        path: &str,
        subject: &Subject,
        version: &Version,
        edited: &mut Edited,
    ) -> Result<(), (String, Unwritable)> {
        let failed = |error| (path.to_owned(), error);
        let text = read(&Overlay::new(self.tree, &edited.files), path).unwrap_or_default();
        let documents = site::documents(&text).unwrap_or_default();
        let [document] = documents.as_slice() else {
            return Err(failed(Unwritable::Absent("/images".to_owned())));
        };
        let mut entries = vec![("name", subject.name())];
        if !version.tag.is_empty() {
            entries.push(("newTag", &version.tag));
        }
        if !version.digest.is_empty() {
            entries.push(("digest", &version.digest));
        }
        let splice = yaml::append_item(&text, document, "images", &entries).map_err(failed)?;
        let line = text[..splice.bytes.start.min(text.len())].lines().count() + 1;
        let old = self.built.artifact(self.service);
        let old = old.of(subject).first().map(ToString::to_string);
        edited.changes.push(Change {
            path: path.to_owned(),
            line,
            key: format!("images: {}", subject.short()),
            old: old.unwrap_or_default(),
            new: version.to_string(),
        });
        let new = Bytes::from(yaml::apply(&text, vec![splice]));
        edited.files.insert(path.to_owned(), Some(new));
        Ok(())
    }

    fn prove(&self, files: &Files, done: &BTreeMap<Subject, Version>) -> Result<(), Unproven> {
        let tree = Overlay::new(self.tree, files);
        let unit = Unit::build(&tree, self.config, self.unit.place.clone());
        let after = unit.state.as_ref().map_err(|problem| {
            let directory = &self.unit.place.directory;
            Unproven::Others(vec![format!("{directory}, which no longer builds: {problem}")])
        })?;
        let reached = after
            .services
            .get(self.service)
            .into_iter()
            .flatten()
            .all(|member| {
                let wanted = done.get(&member.field.subject);
                wanted.is_none_or(|wanted| member.field.version == *wanted)
            });
        if !reached {
            return Err(Unproven::Unreached);
        }
        let mut others = differences(self.built, after, |service, member| {
            service == self.service && done.contains_key(&member.field.subject)
        });
        others.extend(others_changed(
            &tree,
            self.config,
            self.fleet,
            files,
            &BTreeSet::from([self.at]),
        ));
        match others.is_empty() {
            true => Ok(()),
            false => Err(Unproven::Others(shortened(others))),
        }
    }
}

enum Unproven {
    /// The target does not get the versions.
    Unreached,
    /// Something else changes.
    Others(Vec<String>),
}

pub(crate) fn shortened(mut others: Vec<String>) -> Vec<String> {
    let count = others.len();
    others.truncate(OTHERS_MAX);
    if count > OTHERS_MAX {
        others.push(format!("{} more", count - OTHERS_MAX));
    }
    others
}

/// The objects of other units that a change of files changes.
pub(crate) fn others_changed(
    tree: &dyn Tree,
    config: &Config,
    fleet: &Fleet,
    files: &Files,
    targets: &BTreeSet<usize>,
) -> Vec<String> {
    let mut others = Vec::new();
    for (at, before) in fleet.units.iter().enumerate() {
        let is_affected = || before.reads_any(files.keys().map(String::as_str));
        if targets.contains(&at) || !is_affected() {
            continue;
        }
        let now = Unit::build(tree, config, before.place.clone());
        let environment = &before.place.environment;
        match (&before.state, &now.state) {
            (Ok(before), Ok(now)) => {
                let changed = differences(before, now, |_, _| false);
                others.extend(changed.iter().map(|object| format!("{object} in {environment}")));
            }
            (Err(before), Err(now)) if before == now => {}
            (_, Err(problem)) => others.push(format!("{environment}, which no longer builds: {problem}")),
            (Err(_), Ok(_)) => others.push(format!("{environment}, which builds now")),
        }
    }
    others
}

/// The objects that differ beyond the fields that may.
fn differences(
    before: &Built,
    after: &Built,
    may: impl Fn(&str, &crate::fleet::Member) -> bool,
) -> Vec<String> {
    let stripped = |built: &Built| -> Vec<(String, serde_json::Value)> {
        let mut by_object: BTreeMap<usize, Vec<field::Field>> = BTreeMap::new();
        for (service, members) in &built.services {
            for member in members.iter().filter(|member| may(service, member)) {
                by_object
                    .entry(member.object)
                    .or_default()
                    .push(member.field.clone());
            }
        }
        let objects = built.objects.iter().enumerate();
        objects
            .map(|(at, object)| {
                let fields = by_object.get(&at).map(Vec::as_slice).unwrap_or_default();
                (object.id.clone(), field::without(&object.value, fields))
            })
            .collect()
    };
    let (before, after) = (stripped(before), stripped(after));
    if before == after {
        return Vec::new();
    }
    let (old, new): (BTreeMap<_, _>, BTreeMap<_, _>) = (
        before.iter().map(|(id, value)| (id, value)).collect(),
        after.iter().map(|(id, value)| (id, value)).collect(),
    );
    let ids: BTreeSet<&String> = old.keys().chain(new.keys()).copied().collect();
    let changed = ids.into_iter().filter(|id| old.get(*id) != new.get(*id));
    let changed: Vec<String> = changed.cloned().collect();
    match changed.is_empty() {
        true => vec!["the order of objects".to_owned()],
        false => changed,
    }
}

struct Writer<'w> {
    text: &'w str,
    document: &'w yaml::Document,
    site: &'w Site,
}

type Written = (Vec<Splice>, Vec<Change>);

impl Writer<'_> {
    fn set(&self, version: &Version) -> Result<Written, Unwritable> {
        match self.site.form {
            SiteForm::KustomizeImage => self.parts(version, ["newTag", "digest"], &["newName", "name"]),
            SiteForm::Field(Form::OciRef) => {
                let reference = self.document.value.pointer(&self.site.pointer);
                let has_range = reference.is_some_and(|reference| reference.get("semver").is_some());
                let tag = if has_range { "semver" } else { "tag" };
                self.parts(version, [tag, "digest"], &[])
            }
            SiteForm::Field(form @ (Form::Image | Form::Chart | Form::Value)) => {
                let pointer = &self.site.pointer;
                let old = self.text_at(pointer).unwrap_or_default();
                let new = match form {
                    Form::Image => join_image(field::split_image(&old).0, version),
                    Form::Value if version.tag.is_empty() => format!("@{}", version.digest),
                    Form::Value if !version.digest.is_empty() => {
                        format!("{}@{}", version.tag, version.digest)
                    }
                    Form::Chart | Form::OciRef | Form::Value => version.tag.clone(),
                };
                let splice = yaml::set(self.text, self.document, pointer, &new)?;
                Ok((vec![splice], vec![self.change(pointer, old, new)]))
            }
        }
    }

    /// Sets tag and digest, each in a key of its own.
    fn parts(&self, version: &Version, keys: [&str; 2], beside: &[&str]) -> Result<Written, Unwritable> {
        let (mut splices, mut changes) = (Vec::new(), Vec::new());
        let [tag, digest] = keys;
        for (key, other, new) in [(tag, digest, &version.tag), (digest, tag, &version.digest)] {
            let pointer = format!("{}/{key}", self.site.pointer);
            let old = self.text_at(&pointer);
            if old.as_deref().unwrap_or_default() == new {
                continue;
            }
            let change = self.change(&pointer, old.clone().unwrap_or_default(), new.clone());
            splices.push(match (old, new.as_str()) {
                (Some(_), "") => yaml::remove(self.text, self.document, &pointer)?,
                (Some(_), new) => yaml::set(self.text, self.document, &pointer, new)?,
                (None, new) => {
                    let siblings = [other].into_iter().chain(beside.iter().copied());
                    let mut siblings = siblings.map(|key| format!("{}/{key}", self.site.pointer));
                    let sibling = siblings.find(|pointer| self.text_at(pointer).is_some());
                    let sibling = sibling.ok_or_else(|| Unwritable::Absent(pointer.clone()))?;
                    yaml::insert_after(self.text, self.document, &sibling, key, new)?
                }
            });
            changes.push(change);
        }
        Ok((splices, changes))
    }

    fn text_at(&self, pointer: &str) -> Option<String> {
        match self.document.value.pointer(pointer)? {
            serde_json::Value::String(text) => Some(text.clone()),
            serde_json::Value::Null => None,
            other => Some(other.to_string()),
        }
    }

    fn change(&self, pointer: &str, old: String, new: String) -> Change {
        let line = self.document.spans.get(pointer).map(|place| place.line);
        Change {
            path: self.site.path.clone(),
            line: line.unwrap_or(self.site.line),
            key: pointer.rsplit('/').next().unwrap_or_default().to_owned(),
            old,
            new,
        }
    }
}

/// Copies the directory of a service from one environment to another, except files that stay.
///
/// # Errors
/// A directory is missing, contains something else than files, or another environment would change.
pub fn copy(
    tree: &dyn Tree,
    config: &Config,
    fleet: &Fleet,
    service: &str,
    (from, to): (&str, &str),
) -> Result<Edited, EditError> {
    let Services::Copies { pattern, keep } = &config.services else {
        return Ok(Edited::default());
    };
    let (source, target) = (pattern.directory(from, service), pattern.directory(to, service));
    let listed = |directory: &str| files_below(tree, directory);
    let (new, old) = (listed(&source)?, listed(&target)?);
    if new.is_empty() {
        return Err(EditError::NoService {
            environment: from.to_owned(),
            service: service.to_owned(),
        });
    }
    let mut edited = Edited::default();
    let stays = |path: &str| keep.iter().any(|keep| is_kept(keep, path));
    for path in old.difference(&new).filter(|path| !stays(path)) {
        edited.files.insert(format!("{target}/{path}"), None);
        edited.changes.push(whole_file(&target, path, "removed"));
    }
    for path in new.iter().filter(|path| !stays(path)) {
        let read = |directory: &str| tree.read(&format!("{directory}/{path}"));
        let content = read(&source).map_err(|error| EditError::Copy {
            path: format!("{source}/{path}"),
            problem: error.to_string(),
        })?;
        if old.contains(path) && read(&target).ok().as_ref() == Some(&content) {
            continue;
        }
        let how = if old.contains(path) { "replaced" } else { "added" };
        edited.files.insert(format!("{target}/{path}"), Some(content));
        edited.changes.push(whole_file(&target, path, how));
    }
    let targets = fleet.unit(to, service).into_iter().collect();
    let others = others_changed(
        &Overlay::new(tree, &edited.files),
        config,
        fleet,
        &edited.files,
        &targets,
    );
    if !others.is_empty() {
        return Err(EditError::Others {
            subject: service.to_owned(),
            version: format!("the files of {from}"),
            others: shortened(others),
        });
    }
    let place = crate::config::Place {
        environment: to.to_owned(),
        service: Some(service.to_owned()),
        directory: target.clone(),
    };
    let built = Unit::build(&Overlay::new(tree, &edited.files), config, place);
    if let Err(problem) = built.state {
        return Err(EditError::Unbuildable {
            directory: format!("{target}, after the copy,"),
            problem,
        });
    }
    edited.changes.sort();
    Ok(edited)
}

fn whole_file(directory: &str, path: &str, how: &str) -> Change {
    Change {
        path: format!("{directory}/{path}"),
        line: 1,
        key: "file".to_owned(),
        old: String::new(),
        new: how.to_owned(),
    }
}

/// The relative paths of the files below a directory.
pub(crate) fn files_below(tree: &dyn Tree, directory: &str) -> Result<BTreeSet<String>, EditError> {
    const FILES_MAX: usize = 10_000;
    let mut found = BTreeSet::new();
    let mut pending = vec![String::new()];
    while let Some(below) = pending.pop() {
        let path = crate::config::join(directory, &below);
        let path = path.trim_end_matches('/');
        for (name, stat) in tree.list(path).unwrap_or_default() {
            let relative = crate::config::join(&below, &name);
            match stat.kind {
                EntryKind::Directory => pending.push(relative),
                EntryKind::File => {
                    found.insert(relative);
                }
                EntryKind::Symlink => {
                    return Err(EditError::Copy {
                        path: format!("{directory}/{relative}"),
                        problem: "it is a symbolic link, which a copy does not follow".to_owned(),
                    });
                }
            }
            if found.len() > FILES_MAX {
                return Err(EditError::Copy {
                    path: directory.to_owned(),
                    problem: format!("it has more than {FILES_MAX} files"),
                });
            }
        }
    }
    Ok(found)
}

/// Whether a name or glob means a path. `*` matches within a name; a pattern without `/` matches at any depth.
fn is_kept(keep: &str, path: &str) -> bool {
    let path = if keep.contains('/') {
        path
    } else {
        path.rsplit('/').next().unwrap_or(path)
    };
    matches(keep.as_bytes(), path.as_bytes())
}

fn matches(glob: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while from < text.len() {
        match glob.get(at) {
            Some(b'*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(byte) if *byte == text[from] => {
                at += 1;
                from += 1;
            }
            _ => match star {
                Some((after, tried)) if text[tried] != b'/' => {
                    star = Some((after, tried + 1));
                    (at, from) = (after, tried + 1);
                }
                _ => return false,
            },
        }
    }
    glob[at..].iter().all(|byte| *byte == b'*')
}

fn read(tree: &dyn Tree, path: &str) -> Option<String> {
    let stat = tree.stat(path)?;
    if stat.kind != EntryKind::File {
        return None;
    }
    String::from_utf8(tree.read(path).ok()?.to_vec()).ok()
}

#[cfg(test)]
mod tests;
