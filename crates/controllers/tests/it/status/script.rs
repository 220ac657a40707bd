//! The format of scenarios: see `tests/status/scenarios`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use equate_manifest::yaml;
use serde::Deserialize;
use serde_json::{Value, json};

use super::sources_ground::Served;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Scenario {
    /// Its name, its namespace, and its golden file.
    pub(super) name: String,
    /// The repository's password of the user `git`, if any.
    #[serde(default)]
    pub(super) password: Option<String>,
    /// The shown kind; all where none is set.
    #[serde(default)]
    about: Option<String>,
    /// Whether it needs servers of charts, images and objects: those of files `sources_*` do.
    #[serde(skip)]
    pub(super) is_about_sources: bool,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) name: String,
    /// Whether the commit has also the files of `tests/status/chart`, at `chart/`.
    #[serde(default)]
    pub(super) chart: bool,
    /// Files by path; null removes one.
    #[serde(default)]
    pub(super) commit: BTreeMap<String, Option<String>>,
    #[serde(default = "main")]
    pub(super) branch: String,
    /// The commit's; else the step's name.
    #[serde(default)]
    pub(super) message: Option<String>,
    #[serde(default)]
    pub(super) tag: Option<String>,
    /// The HTTP status that the repository answers from now on; 0 ends the fault.
    #[serde(default)]
    pub(super) fault: Option<u16>,
    /// Charts, images and objects that are served from now on.
    #[serde(default)]
    pub(super) serve: Served,
    /// Objects to create, or to merge into the existing ones.
    #[serde(default)]
    pub(super) objects: Vec<Object>,
    #[serde(default)]
    pub(super) status: BTreeMap<Named, Value>,
    #[serde(default)]
    pub(super) delete: Vec<Named>,
    /// Whether to request a run of all awaited objects.
    #[serde(default = "yes")]
    pub(super) ask: bool,
    /// Whether only the events are shown: the attempts of a release that fails are counted.
    #[serde(default)]
    pub(super) hidden: bool,
    /// The awaited objects, in this order; then they are shown.
    pub(super) until: Vec<Until>,
}

fn main() -> String {
    "main".to_owned()
}

fn yes() -> bool {
    true
}

/// `Kind/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Named {
    pub(super) kind: String,
    pub(super) name: String,
}

impl TryFrom<String> for Named {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (kind, name) = text
            .split_once('/')
            .ok_or_else(|| format!("{text:?} is no Kind/name"))?;
        Ok(Self {
            kind: kind.to_owned(),
            name: name.to_owned(),
        })
    }
}

impl Step {
    /// The request that the step itself writes into an object.
    pub(super) fn requested(&self, of: &Named) -> Option<String> {
        let mut objects = self.objects.iter().map(|object| &object.0);
        let found = objects.find(|object| {
            let default = if of.kind == "GitRepository" {
                "fleet"
            } else {
                "app"
            };
            let name = object["metadata"]["name"].as_str().unwrap_or(default);
            object["kind"] == of.kind.as_str() && name == of.name
        });
        let annotations = &found?["metadata"]["annotations"];
        annotations["reconcile.fluxcd.io/requestedAt"]
            .as_str()
            .map(str::to_owned)
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

/// `Kind/name STATUS REASON` of `Ready` (any reason is `any`), `Kind/name TYPE STATUS REASON` of another
/// condition, `Kind/name release N` of a HelmRelease that is ready with that revision or chart, `Kind/name gone`,
/// `Kind/name any`, or `Kind/name either` for one that may be there or not.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Until {
    pub(super) of: Named,
    words: Vec<String>,
}

impl TryFrom<String> for Until {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mut words = text.split(' ').map(str::to_owned);
        let of = Named::try_from(words.next().unwrap_or_default())?;
        Ok(Self {
            of,
            words: words.collect(),
        })
    }
}

impl Until {
    /// Whether it is an object of Flux that must exist.
    pub(super) fn is_ours(&self) -> bool {
        self.words != ["gone"] && has_status(&self.of.kind)
    }

    pub(super) fn holds(&self, object: &Value) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match *words {
            ["gone"] => object.is_null(),
            ["any"] => !object.is_null(),
            ["either"] => true,
            ["release", which] => {
                let latest = &object["status"]["history"][0];
                let is = which.parse().is_ok_and(|number: u64| latest["version"] == number)
                    || latest["chartName"] == which;
                is && self.has(object, "Ready", "True", "any")
            }
            [status, reason] => self.has(object, "Ready", status, reason),
            [of, status, reason] => self.has(object, of, status, reason),
            _ => panic!("{self:?} says neither gone, any, either, release, nor a status and a reason"),
        }
    }

    fn has(&self, object: &Value, of: &str, status: &str, reason: &str) -> bool {
        let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let found = conditions.find(|condition| condition["type"] == of);
        // not every run is requested: the outcome of an earlier generation may have the same reason
        let current = |found: &Value| {
            self.of.kind != "HelmRelease" || found["observedGeneration"] == object["metadata"]["generation"]
        };
        found.is_some_and(|found| {
            let any = reason == "any";
            current(found) && found["status"] == status && (any || found["reason"] == reason)
        })
    }
}

/// An object in short form.
#[derive(Debug, Clone, Deserialize)]
#[serde(transparent)]
pub(super) struct Object(Value);

impl Object {
    /// Adds the parts that every `new` object of its kind has here, and replaces placeholders.
    pub(super) fn in_full(&self, new: bool, namespace: &str, places: &[(String, String)]) -> Value {
        let kind = self.0["kind"].as_str().unwrap();
        let mut full = match kind {
            "GitRepository" if !new => json!({ "metadata": { "name": "fleet" } }),
            "Kustomization" | "HelmRelease" if !new => json!({ "metadata": { "name": "app" } }),
            "HelmRelease" => json!({
                "metadata": { "name": "app" },
                "spec": {
                    "interval": "10m", "timeout": "20s",
                    "chart": { "spec": {
                        "chart": "./chart", "interval": "10m",
                        "sourceRef": { "kind": "GitRepository", "name": "fleet" },
                    } },
                },
            }),
            "GitRepository" => json!({
                "metadata": { "name": "fleet" },
                "spec": { "url": "@url", "interval": "10m", "timeout": "20s", "ref": { "branch": "main" } },
            }),
            "Kustomization" => json!({
                "metadata": { "name": "app" },
                "spec": {
                    "interval": "10m", "timeout": "20s", "path": "./app", "prune": true,
                    "sourceRef": { "kind": "GitRepository", "name": "fleet" },
                },
            }),
            "HelmRepository" | "HelmChart" | "OCIRepository" | "Bucket" => source(kind, new),
            _ => json!({ "metadata": {} }),
        };
        full["apiVersion"] = api_version(kind).into();
        if !is_cluster_scoped(kind) {
            full["metadata"]["namespace"] = namespace.into();
        }
        merge(&mut full, &self.0);
        let mut text = full.to_string().replace("@home", namespace);
        for (place, url) in places {
            text = text.replace(place, url);
        }
        serde_json::from_str(&text).unwrap()
    }
}

/// A source whose content is in the [`Served`] of a step.
fn source(kind: &str, new: bool) -> Value {
    let (name, mut spec) = match kind {
        "HelmRepository" => ("charts", json!({ "url": "@web" })),
        "HelmChart" => (
            "app",
            json!({
                "chart": "app", "version": "1.0.0",
                "sourceRef": { "kind": "HelmRepository", "name": "charts" },
            }),
        ),
        "OCIRepository" => (
            "image",
            json!({ "url": "@oci/org/app", "insecure": true, "ref": { "tag": "1.0.0" } }),
        ),
        // with a region, no client asks the store for it first
        _ => (
            "files",
            json!({
                "bucketName": "apps", "endpoint": "@bucket", "insecure": true, "region": "us-east-1",
                "secretRef": { "name": "keys" },
            }),
        ),
    };
    if !new {
        return json!({ "metadata": { "name": name } });
    }
    spec["interval"] = "10m".into();
    if kind != "HelmChart" {
        spec["timeout"] = "20s".into();
    }
    json!({ "metadata": { "name": name }, "spec": spec })
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (field, value) in from {
                merge(into.entry(field).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

/// Null removes a field: a new object has none to remove.
pub(super) fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(field, value)| (field, without_nulls(value)))
            .collect(),
        other => other,
    }
}

/// Whether objects of the kind are reconciled and have a status.
pub(super) fn has_status(kind: &str) -> bool {
    [
        "Kustomization",
        "GitRepository",
        "HelmRepository",
        "HelmChart",
        "HelmRelease",
        "OCIRepository",
        "Bucket",
    ]
    .contains(&kind)
}

/// The API version of each kind.
pub(super) fn api_version(kind: &str) -> &'static str {
    match kind {
        "Kustomization" => "kustomize.toolkit.fluxcd.io/v1",
        "HelmRelease" => "helm.toolkit.fluxcd.io/v2",
        "GitRepository" | "OCIRepository" | "HelmRepository" | "HelmChart" | "Bucket" => {
            "source.toolkit.fluxcd.io/v1"
        }
        "Role" | "RoleBinding" => "rbac.authorization.k8s.io/v1",
        "Deployment" => "apps/v1",
        "Widget" => "example.test/v1",
        _ => "v1",
    }
}

pub(super) fn is_cluster_scoped(kind: &str) -> bool {
    kind == "Namespace"
}

impl Scenario {
    pub(super) fn shows(&self, kind: &str) -> bool {
        self.about
            .as_deref()
            .is_none_or(|about| about == kind || !has_status(kind))
    }
}

/// The directory of scenarios and golden files.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/status")
}

impl Scenario {
    pub(super) fn page(&self) -> PathBuf {
        folder().join(format!("{}.txt", self.name))
    }
}

/// The files of the chart that HelmReleases have, by path in the repository.
pub(super) fn chart() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![folder().join("chart")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path
                .strip_prefix(self::folder())
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found.sort();
    found
}

/// All scenarios, by file and place in it.
pub(super) fn all() -> Vec<Scenario> {
    let files = std::fs::read_dir(folder().join("scenarios")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        let is_about_sources = name.starts_with("sources_");
        let documents = yaml::load(&text, &yaml::Options::default()).unwrap();
        let each = documents.into_iter().map(move |document| {
            let scenario: Scenario = serde_json::from_value(document.value)
                .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            Scenario {
                is_about_sources,
                ..scenario.here()
            }
        });
        each.collect::<Vec<_>>()
    };
    files.into_iter().flat_map(read).collect()
}

impl Scenario {
    /// Replaces the placeholder of its namespace.
    fn here(mut self) -> Self {
        let name = self.name.clone();
        for text in self
            .steps
            .iter_mut()
            .flat_map(|step| step.commit.values_mut())
            .flatten()
        {
            *text = text.replace("@home", &name);
        }
        self
    }
}
