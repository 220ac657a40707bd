//! All environments of a tree, built.
//!
//! A unit is one directory that is built on its own: a service's, or a whole environment's. A unit that does
//! not build keeps its error and hides nothing else.

use crate::artifact::Artifact;
use crate::config::{Config, PLACES_MAX, Place, ValuePath, is_directory, join};
use crate::field::{self, Field};
use crate::history::{Current, History};
use equate_kustomize::{EntryKind, Inputs, Spec, Tree};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// Names of directories that name no service.
const SHARED: [&str; 8] = [
    "base",
    "bases",
    "common",
    "components",
    "shared",
    "overlays",
    "default",
    "kustomize",
];

/// The units of all environments.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    /// The units that were built, in the order of environments and directories.
    pub units: Vec<Unit>,
    /// The units that were not built, because a history knows their versions.
    known: Vec<(Place, BTreeMap<String, Artifact>)>,
    /// The services with units that were not built, because no change outside them can change them.
    closed: BTreeSet<String>,
    positions: Positions,
}

/// Builds of earlier trees of a repository, so that a plan on the next one builds only what changed.
#[derive(Debug, Default)]
pub struct Builds(RefCell<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// The values that are versions, which the units were built with.
    values: Vec<ValuePath>,
    units: BTreeMap<Place, Unit>,
    /// The ids of directories that name no path outside.
    closed: HashSet<[u8; 32]>,
    /// The directories of services by the directory that has them, and by name.
    found: HashMap<String, HashMap<String, Found>>,
}

/// The directory of a service.
#[derive(Debug, Clone)]
struct Found {
    id: [u8; 32],
    place: Arc<Place>,
    /// Whether it is empty: then it is no unit.
    is_empty: bool,
    /// Whether no file of it can name a path outside.
    is_closed: bool,
}

impl Builds {
    /// Builds a unit, unless it is known and nothing that it read changed.
    fn unit(&self, tree: &dyn Tree, config: &Config, place: Place) -> Unit {
        let mut kept = self.0.borrow_mut();
        if kept.values != config.values {
            kept.values.clone_from(&config.values);
            kept.units.clear();
        }
        if let Some(unit) = kept.units.get(&place)
            && let Ok(built) = &unit.state
            && built.inputs.unchanged(tree)
        {
            return unit.clone();
        }
        let unit = Unit::build(tree, config, place);
        kept.units.insert(unit.place.clone(), unit.clone());
        unit
    }

    /// The directories of an environment that are built on their own. Those that are as in the tree before are not
    /// looked at again.
    fn places(&self, tree: &dyn Tree, config: &Config, environment: &str) -> Vec<Found> {
        let pattern = config.services.pattern();
        let Some(parent) = pattern.services_of(environment) else {
            let places = pattern.places(tree, &[environment]).into_iter();
            return places.map(|place| self.found(tree, place, [0; 32])).collect();
        };
        let before = self.0.borrow_mut().found.remove(&parent).unwrap_or_default();
        let mut found = Vec::new();
        for (name, stat) in tree.list(&parent).unwrap_or_default() {
            if stat.kind != EntryKind::Directory || name.starts_with('.') || found.len() >= PLACES_MAX {
                continue;
            }
            found.push(match before.get(&name) {
                Some(known) if known.id == stat.id && known.place.environment == environment => known.clone(),
                Some(_) | None => {
                    let place = Place {
                        environment: environment.to_owned(),
                        directory: join(&parent, &name),
                        service: Some(name),
                    };
                    self.found(tree, place, stat.id)
                }
            });
        }
        let named = found.iter().filter_map(|found| {
            let name = found.place.service.clone()?;
            Some((name, found.clone()))
        });
        self.0.borrow_mut().found.insert(parent, named.collect());
        found
    }

    fn found(&self, tree: &dyn Tree, place: Place, id: [u8; 32]) -> Found {
        Found {
            id,
            is_empty: !has_files(tree, &place.directory),
            is_closed: self.is_closed(tree, &place.directory),
            place: Arc::new(place),
        }
    }

    fn is_closed(&self, tree: &dyn Tree, directory: &str) -> bool {
        let Some(stat) = tree.stat(directory) else {
            return false;
        };
        if self.0.borrow().closed.contains(&stat.id) {
            return true;
        }
        let is_closed = is_closed(tree, directory);
        if is_closed {
            self.0.borrow_mut().closed.insert(stat.id);
        }
        is_closed
    }
}

/// Whether no file of a directory can name a path outside it, so that its build reads nothing else.
fn is_closed(tree: &dyn Tree, directory: &str) -> bool {
    let entries = tree.list(directory).unwrap_or_default();
    entries.iter().all(|(name, stat)| {
        let path = join(directory, name);
        match stat.kind {
            EntryKind::Directory => is_closed(tree, &path),
            EntryKind::File => tree.read(&path).is_ok_and(|content| !may_lead_out(&content)),
            EntryKind::Symlink => false,
        }
    })
}

/// Absolute paths are refused by builds, so a path leads out only by `..`. A backslash in a quoted text, or a
/// tag such as `!!binary`, can write it in another way.
fn may_lead_out(content: &[u8]) -> bool {
    let mut last = 0;
    content.iter().any(|byte| {
        let is_found = matches!(byte, b'\\' | b'!') || (*byte == b'.' && last == b'.');
        last = *byte;
        is_found
    })
}

/// The units of environments and services.
#[derive(Debug, Clone, Default)]
struct Positions {
    units: HashMap<String, HashMap<String, usize>>,
    known: HashMap<String, HashMap<String, usize>>,
    /// The units that do not build.
    faults: Vec<usize>,
}

fn position(of: &HashMap<String, HashMap<String, usize>>, environment: &str, service: &str) -> Option<usize> {
    of.get(environment)?.get(service).copied()
}

fn add(to: &mut HashMap<String, HashMap<String, usize>>, place: &Place, service: &str, at: usize) {
    let services = match to.get_mut(&place.environment) {
        Some(services) => services,
        None => to.entry(place.environment.clone()).or_default(),
    };
    services.entry(service.to_owned()).or_insert(at);
}

/// A directory that is built on its own.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Its place.
    pub place: Place,
    /// Its objects, or the error of the build.
    pub state: Result<Arc<Built>, String>,
}

/// The objects of a unit.
#[derive(Debug, Clone)]
pub struct Built {
    /// The objects in the order of the build.
    pub objects: Vec<Object>,
    /// The inputs that the build read.
    pub inputs: Inputs,
    /// The version fields by service.
    pub services: BTreeMap<String, Vec<Member>>,
}

/// An object of a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Object {
    /// `Deployment shop/cart`.
    pub id: String,
    /// Its content.
    pub value: Value,
    /// The file that declares it.
    pub origin: String,
}

/// A version field of a service.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The index of the object.
    pub object: usize,
    /// The field.
    pub field: Field,
}

impl Built {
    /// The versions of a service.
    pub fn artifact(&self, service: &str) -> Artifact {
        let mut artifact = Artifact::default();
        for member in self.services.get(service).into_iter().flatten() {
            if !member.field.version.is_empty() {
                artifact.add(member.field.subject.clone(), member.field.version.clone());
            }
        }
        artifact
    }
}

impl Unit {
    /// Builds a unit.
    pub fn build(tree: &dyn Tree, config: &Config, place: Place) -> Self {
        let state = build(tree, config, &place).map(Arc::new);
        Self { place, state }
    }

    /// Whether a change of these paths may change the unit. Always true for a unit that does not build.
    pub fn reads_any<'p>(&self, paths: impl IntoIterator<Item = &'p str>) -> bool {
        let Ok(built) = &self.state else {
            return true;
        };
        let mut paths = paths.into_iter();
        paths.any(|path| {
            built
                .inputs
                .paths()
                .any(|read| read == path || is_within(read, path))
        })
    }
}

impl Fleet {
    fn new(units: Vec<Unit>, known: Vec<(Place, BTreeMap<String, Artifact>)>) -> Self {
        let mut positions = Positions::default();
        for (at, unit) in units.iter().enumerate() {
            match (&unit.place.service, &unit.state) {
                (Some(service), _) => add(&mut positions.units, &unit.place, service, at),
                (None, Ok(built)) => {
                    for service in built.services.keys() {
                        add(&mut positions.units, &unit.place, service, at);
                    }
                }
                (None, Err(_)) => {}
            }
            if unit.state.is_err() {
                positions.faults.push(at);
            }
        }
        for (at, (place, services)) in known.iter().enumerate() {
            for service in services.keys() {
                add(&mut positions.known, place, service, at);
            }
        }
        Self {
            units,
            known,
            closed: BTreeSet::new(),
            positions,
        }
    }

    /// Builds all environments.
    pub fn build(tree: &dyn Tree, config: &Config) -> Self {
        let environments: Vec<&str> = config.environments().collect();
        let places = config.services.pattern().places(tree, &environments);
        let units = places
            .into_iter()
            .filter(|place| has_files(tree, &place.directory))
            .map(|place| Unit::build(tree, config, place));
        Self::new(units.collect(), Vec::new())
    }

    /// The units that a change of some services may change: theirs, and all that read files outside their own
    /// directories. The other services have only names.
    pub fn for_change(tree: &dyn Tree, config: &Config, services: &[&str], builds: &Builds) -> Self {
        let (mut units, mut closed) = (Vec::new(), BTreeSet::new());
        for environment in config.environments() {
            for found in builds.places(tree, config, environment) {
                let other = found.place.service.as_ref();
                match other.filter(|name| !services.contains(&name.as_str())) {
                    _ if found.is_empty => {}
                    Some(name) if found.is_closed => {
                        closed.insert(name.clone());
                    }
                    Some(_) | None => units.push(builds.unit(tree, config, Place::clone(&found.place))),
                }
            }
        }
        Self {
            closed,
            ..Self::new(units, Vec::new())
        }
    }

    /// All environments as the history of a tree knows them. Only units that do not build are built, for their
    /// errors: the others have versions, and neither objects nor fields.
    pub fn of_history(tree: &dyn Tree, config: &Config, history: &History) -> Self {
        let (mut units, mut known) = (Vec::new(), Vec::new());
        for Current { place, services } in history.current() {
            match services {
                Some(services) => known.push((place, services)),
                None => units.push(Unit::build(tree, config, place)),
            }
        }
        Self::new(units, known)
    }

    /// Builds the units of one service, or all units of environments that have many services each.
    pub fn of_services(tree: &dyn Tree, config: &Config, services: &[&str]) -> Self {
        let pattern = config.services.pattern();
        if !pattern.has_service() || services.is_empty() {
            return Self::build(tree, config);
        }
        let mut units = Vec::new();
        for environment in config.environments() {
            for service in services {
                let directory = pattern.directory(environment, service);
                if is_directory(tree, &directory) && has_files(tree, &directory) {
                    let place = Place {
                        environment: environment.to_owned(),
                        service: Some((*service).to_owned()),
                        directory,
                    };
                    units.push(Unit::build(tree, config, place));
                }
            }
        }
        Self::new(units, Vec::new())
    }

    /// The built unit of a service in an environment.
    pub fn unit(&self, environment: &str, service: &str) -> Option<usize> {
        position(&self.positions.units, environment, service)
    }

    /// The versions of a service in an environment; `None` if it is not there or does not build.
    pub fn artifact(&self, environment: &str, service: &str) -> Option<Artifact> {
        if let Some(at) = position(&self.positions.known, environment, service) {
            return self.known[at].1.get(service).cloned();
        }
        let unit = &self.units[self.unit(environment, service)?];
        Some(unit.state.as_ref().ok()?.artifact(service))
    }

    /// The directories of all units.
    pub fn places(&self) -> impl Iterator<Item = &Place> {
        let built = self.units.iter().map(|unit| &unit.place);
        built.chain(self.known.iter().map(|(place, _)| place))
    }

    /// The names of all services.
    pub fn services(&self) -> BTreeSet<&str> {
        let mut names = BTreeSet::new();
        for unit in &self.units {
            match (&unit.place.service, &unit.state) {
                (Some(name), _) => {
                    names.insert(name.as_str());
                }
                (None, Ok(built)) => names.extend(built.services.keys().map(String::as_str)),
                (None, Err(_)) => {}
            }
        }
        let known = self.known.iter().flat_map(|(_, services)| services.keys());
        names.extend(known.chain(&self.closed).map(String::as_str));
        names
    }

    /// The names of all services of a tree, also if the fleet is only a part of it.
    pub fn names(&self, tree: &dyn Tree, config: &Config) -> BTreeSet<String> {
        let pattern = config.services.pattern();
        if !pattern.has_service() {
            return self.services().into_iter().map(str::to_owned).collect();
        }
        let environments: Vec<&str> = config.environments().collect();
        let places = pattern.places(tree, &environments);
        places.into_iter().filter_map(|place| place.service).collect()
    }

    /// The number of version fields.
    pub fn fields(&self) -> usize {
        let built = self.units.iter().filter_map(|unit| unit.state.as_ref().ok());
        built
            .flat_map(|built| built.services.values())
            .map(Vec::len)
            .sum()
    }

    /// Whether an environment has a unit that does not build, and its error.
    pub fn fault(&self, environment: &str, service: &str) -> Option<&str> {
        let mut broken = self.positions.faults.iter().map(|at| &self.units[*at]);
        let unit = broken.find(|unit| {
            unit.place.environment == environment
                && unit.place.service.as_deref().is_none_or(|name| name == service)
        });
        unit.and_then(|unit| unit.state.as_ref().err())
            .map(String::as_str)
    }
}

/// Whether a directory contains files, and not only directories of something else.
fn has_files(tree: &dyn Tree, directory: &str) -> bool {
    let entries = tree.list(directory).unwrap_or_default();
    !entries.is_empty()
}

fn build(tree: &dyn Tree, config: &Config, place: &Place) -> Result<Built, String> {
    let spec = Spec {
        path: place.directory.clone(),
        ..Spec::default()
    };
    let built = equate_kustomize::build(tree, &spec).map_err(|error| in_one_line(&error))?;
    let objects: Vec<Object> = built
        .objects
        .into_iter()
        .map(|resource| Object {
            id: id(&resource.object),
            origin: resource.origin.path,
            value: resource.object.into_value(),
        })
        .collect();
    let services = services(tree, config, place, &objects);
    Ok(Built {
        objects,
        inputs: built.inputs,
        services,
    })
}

fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

fn id(object: &equate_manifest::object::Object) -> String {
    let (kind, namespace, name) = (object.kind(), object.namespace(), object.name());
    match namespace {
        "" => format!("{kind} {name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

fn services(
    tree: &dyn Tree,
    config: &Config,
    place: &Place,
    objects: &[Object],
) -> BTreeMap<String, Vec<Member>> {
    let mut services: BTreeMap<String, Vec<Member>> = BTreeMap::new();
    if let Some(service) = &place.service {
        services.insert(service.clone(), Vec::new());
    }
    let children = match place.service {
        Some(_) => Vec::new(),
        None => children(tree, &place.directory),
    };
    for (at, object) in objects.iter().enumerate() {
        let fields = field::of(&object.value, &config.values);
        if fields.is_empty() {
            continue;
        }
        let service = match &place.service {
            Some(service) => service.clone(),
            None => service_of(object, &children),
        };
        let members = services.entry(service).or_default();
        members.extend(fields.into_iter().map(|field| Member { object: at, field }));
    }
    services
}

/// A service of an environment's own directory: the child that declares the object, else the object's name.
pub(crate) fn service_of(object: &Object, children: &[String]) -> String {
    let child = children.iter().find(|child| {
        let rest = object.origin.strip_prefix(child.as_str());
        rest.is_some_and(|rest| rest.starts_with('/'))
    });
    let named = child.and_then(|child| child.rsplit('/').next());
    if let Some(name) = named.filter(|name| !SHARED.contains(name)) {
        return name.to_owned();
    }
    let (_, kind) = field::group_and_kind(&object.value);
    let name = field::name(&object.value);
    if matches!(kind, "HelmRelease" | "OCIRepository") {
        return name.to_owned();
    }
    let label = object
        .value
        .pointer("/metadata/labels/app.kubernetes.io~1name")
        .and_then(Value::as_str);
    label.unwrap_or(name).to_owned()
}

/// The directories among the resources of a kustomization.
pub(crate) fn children(tree: &dyn Tree, directory: &str) -> Vec<String> {
    let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
    let text = names
        .into_iter()
        .find_map(|name| tree.read(&join(directory, name)).ok());
    let Some(text) = text.as_deref().and_then(|bytes| std::str::from_utf8(bytes).ok()) else {
        return Vec::new();
    };
    let documents = crate::site::documents(text).unwrap_or_default();
    let mut found = Vec::new();
    for document in &documents {
        for key in ["resources", "bases", "components"] {
            let Some(Value::Array(entries)) = document.value.get(key) else {
                continue;
            };
            for entry in entries.iter().filter_map(Value::as_str) {
                let path = resolve(directory, entry);
                if let Some(path) = path.filter(|path| is_directory(tree, path)) {
                    found.push(path);
                }
            }
        }
    }
    found
}

/// A relative path from a directory; `None` outside the tree.
pub(crate) fn resolve(directory: &str, path: &str) -> Option<String> {
    let mut segments: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                segments.pop()?;
            }
            part => segments.push(part),
        }
    }
    Some(segments.join("/"))
}

/// A path and all directories above it; the root, too.
pub(crate) fn above_or_at(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    above.chain([path, ""])
}

/// Whether a pattern names a directory that contains a path.
pub(crate) fn is_within(directory: &str, path: &str) -> bool {
    path.strip_prefix(directory)
        .is_some_and(|rest| rest.starts_with('/') || directory.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Builds, Fleet};
    use crate::config::{Config, FILE};
    use crate::overlay::Memory;
    use equate_kustomize::Tree;
    use std::collections::BTreeSet;

    const CONFIG: &str = "version: 1\nenvironments: [dev, prod]\nservices: apps/{environment}/{service}\n";

    fn service(tree: Memory, directory: &str, kustomization: &str) -> Memory {
        let name = directory.rsplit('/').next().unwrap();
        let manifest = format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: {name}}}\nspec:\n  template:\n    spec:\n      \
             containers: [{{name: app, image: 'example/{name}:1'}}]\n"
        );
        tree.with(
            &format!("apps/{directory}/kustomization.yaml"),
            kustomization.to_owned(),
        )
        .with(&format!("apps/{directory}/deployment.yaml"), manifest)
    }

    fn directories(tree: &dyn Tree, builds: &Builds) -> Vec<String> {
        let config = Config::parse(FILE, CONFIG).unwrap();
        let fleet = Fleet::for_change(tree, &config, &["cart"], builds);
        let all = Fleet::build(tree, &config);
        assert_eq!(fleet.services(), all.services());
        for unit in &fleet.units {
            let whole = all.units.iter().find(|whole| whole.place == unit.place).unwrap();
            let objects = |unit: &super::Unit| unit.state.as_ref().map(|built| built.objects.clone()).ok();
            assert_eq!(objects(unit), objects(whole), "{}", unit.place.directory);
        }
        let left = all
            .units
            .iter()
            .filter(|unit| fleet.units.iter().all(|built| built.place != unit.place));
        // the part that matters: units that are left out read nothing of others
        for unit in left {
            let directory = format!("{}/", unit.place.directory);
            let read: BTreeSet<&str> = unit.state.as_ref().unwrap().inputs.paths().collect();
            let outside = |path: &&&str| !format!("{path}/").starts_with(&directory);
            assert_eq!(read.iter().find(outside), None, "{directory}");
        }
        let mut found: Vec<String> = fleet
            .units
            .iter()
            .map(|unit| unit.place.directory.clone())
            .collect();
        found.sort();
        found
    }

    #[test]
    fn only_units_that_may_read_others_are_built() {
        let plain = "resources: [deployment.yaml]\n";
        let tree = service(Memory::default(), "dev/cart", plain);
        let tree = service(tree, "prod/cart", plain);
        let tree = service(tree, "dev/plain", plain);
        let tree = service(tree, "dev/reader", "resources: [../cart]\n");
        let tree = service(tree, "dev/escaped", "resources: [\"\\x2e\\x2e/cart\"]\n");
        let tree = service(tree, "dev/tagged", "resources: [!!str deployment.yaml]\n");
        let builds = Builds::default();
        let expected = ["dev/cart", "dev/escaped", "dev/reader", "dev/tagged", "prod/cart"];
        let expected: Vec<String> = expected.iter().map(|name| format!("apps/{name}")).collect();
        assert_eq!(directories(&tree, &builds), expected);
        // with what is known from the tree before
        let later = service(
            tree.clone(),
            "dev/plain",
            "resources: [deployment.yaml, ../cart]\n",
        );
        let later = later.with(
            "apps/dev/cart/deployment.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        );
        let mut wider = expected.clone();
        wider.insert(3, "apps/dev/plain".to_owned());
        wider.sort();
        assert_eq!(directories(&later, &builds), wider);
        assert_eq!(directories(&tree, &builds), expected);
        let files = ["kustomization.yaml", "deployment.yaml"];
        let gone = files.map(|name| (format!("apps/dev/plain/{name}"), None));
        let gone = later.changed(&gone.into());
        assert_eq!(directories(&gone, &builds), expected);
        let new = service(gone, "dev/new", plain);
        assert_eq!(directories(&new, &builds), expected);
    }
}
