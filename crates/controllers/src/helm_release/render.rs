//! Renders a chart for a release: templates, post-renderers, labels. Off the runtime's threads.
//!
//! Templates may look up objects of the cluster. A render does not wait for an answer: it notes the
//! question and goes on without the object. The answers are read with the release's rights, and the chart
//! is rendered again with all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use equate_api::helm::{KustomizeRenderer, PostRenderStrategy};
use equate_api::meta::{HELM_RELEASE_NAME, HELM_RELEASE_NAMESPACE};
use equate_apply::cluster::Cluster;
use equate_helm::cache::Cache;
use equate_helm::capabilities::{Capabilities, KubeVersion};
use equate_helm::engine::{self, Bounds, Fault, Seeded, World};
use equate_helm::hooks::Hook;
use equate_helm::manifests::{self, Manifest, Sorted};
use equate_helm::order::Order;
use equate_helm::release::RecordedChart;
use equate_helm::render::{Request, render};
use equate_helm::{Chart, Values, listing};
use equate_kustomize::{self as kustomize, Loaders, Stop};
use equate_manifest::object::Object;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::Value;

use super::declared::Declared;
use super::objects::{self, document};
use crate::kit::processors::{JobError, Processors, Turns};
use crate::kit::read::chain;
use crate::object_rules::{build_limits, spec_target};

/// The most renders of one release: each may ask for objects that the answers name.
const ROUNDS_MAX: usize = 8;
/// The most objects that one render looks up.
const LOOKUPS_MAX: usize = 256;
/// The most bytes of all of them.
const LOOKUP_BYTES_MAX: usize = 32 << 20;
const ANSWER: Duration = Duration::from_secs(30);

/// The annotation by which an object finds back to its file.
const FILE: &str = "postrenderer.helm.sh/postrender-filename";
const OUTPUT: &str = "helm-output.yaml";

/// A rendered release.
#[derive(Debug)]
pub(crate) struct Rendered {
    /// The objects, as the record has them.
    pub(crate) manifest: Arc<str>,
    pub(crate) hooks: Vec<Hook>,
    pub(crate) notes: String,
    pub(crate) chart: RecordedChart,
}

/// A release to render.
#[derive(Clone, Copy)]
pub(crate) struct Rendering<'a> {
    pub(crate) cluster: TemplateCluster<'a>,
    pub(crate) processors: &'a Processors,
    pub(crate) programs: &'a Cache,
    pub(crate) declared: &'a Declared,
    pub(crate) revision: u64,
    pub(crate) is_upgrade: bool,
    pub(crate) skips_schema: bool,
    pub(crate) timeout: Duration,
    /// Called if the render waits long for the work of others.
    pub(crate) throttled: &'a (dyn Fn() + Sync),
}

/// The cluster that templates see.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TemplateCluster<'a> {
    /// This one, with its objects.
    Live(&'a Cluster),
    /// One with these versions and without objects.
    Assumed(&'a Capabilities),
}

type Question = (String, String, String, String);
type Answers = BTreeMap<Question, Option<Value>>;

impl Rendering<'_> {
    pub(crate) async fn run(&self, chart: &Arc<Chart>, values: &Arc<Values>) -> Result<Rendered, String> {
        let capabilities = Arc::new(match self.cluster {
            TemplateCluster::Live(cluster) => capabilities(cluster).await?,
            TemplateCluster::Assumed(capabilities) => capabilities.clone(),
        });
        let mut answers = Arc::new(Answers::new());
        for _ in 0..ROUNDS_MAX {
            let asked: Arc<Mutex<BTreeSet<Question>>> = Arc::default();
            let rendered = self.once(chart, values, &capabilities, &answers, &asked).await;
            let questions = std::mem::take(&mut *asked.lock().unwrap_or_else(PoisonError::into_inner));
            let cluster = match self.cluster {
                TemplateCluster::Live(cluster) if !questions.is_empty() => cluster,
                TemplateCluster::Live(_) | TemplateCluster::Assumed(_) => return rendered,
            };
            answers = Arc::new(answered(cluster, Answers::clone(&answers), questions).await?);
        }
        Err(format!(
            "the templates look up objects in more than {ROUNDS_MAX} rounds; look up fewer objects that others name"
        ))
    }

    async fn once(
        &self,
        chart: &Arc<Chart>,
        values: &Arc<Values>,
        capabilities: &Arc<Capabilities>,
        answers: &Arc<Answers>,
        asked: &Arc<Mutex<BTreeSet<Question>>>,
    ) -> Result<Rendered, String> {
        let release = engine::Release {
            name: self.declared.name.clone(),
            namespace: self.declared.namespace.clone(),
            revision: i64::try_from(self.revision).unwrap_or(i64::MAX),
            is_upgrade: self.is_upgrade,
        };
        let declared = self.declared.clone();
        let (chart, values, skip_schema) = (Arc::clone(chart), Arc::clone(values), self.skips_schema);
        let (capabilities, answers, asked) =
            (Arc::clone(capabilities), Arc::clone(answers), Arc::clone(asked));
        let programs = self.programs.clone();
        let work = move |turns: &Turns| {
            let world = ClusterWorld::new(Arc::clone(&answers), Arc::clone(&asked))?;
            let request = Request {
                chart: &chart,
                values: &values,
                release: &release,
                capabilities: &capabilities,
                skip_schema,
                subchart_notes: false,
            };
            let bounds = Bounds {
                stop: Some(turns.over()),
                ..Bounds::default()
            };
            let rendered =
                render(request, &programs, Box::new(world), bounds).map_err(|error| error.to_string())?;
            let turns = turns.clone();
            let stop = Stop::pausing(move |held| turns.go_on(held));
            let sorted = post_render(rendered.sorted, &declared, &stop)?;
            Ok(Rendered {
                manifest: listing::manifest(&[], &sorted.manifests).into(),
                hooks: sorted.hooks,
                notes: rendered.notes,
                chart: RecordedChart::of(&rendered.chart).map_err(|error| error.to_string())?,
            })
        };
        let namespace = &self.declared.key.namespace;
        let done = self
            .processors
            .by_turns(namespace, self.timeout, self.throttled, work)
            .await;
        done.map_err(|error| match error {
            JobError::Late(limit) => {
                let limit: equate_api::meta::Duration = limit.into();
                format!(
                    "cannot render the chart: it takes longer than {limit} of a processor; raise spec.timeout (at most \
                     --timeout-max), or use fewer templates and post-renderers"
                )
            }
            error => format!("cannot render the chart: {error}"),
        })?
    }
}

async fn capabilities(cluster: &Cluster) -> Result<Capabilities, String> {
    let version = cluster.client().apiserver_version();
    let version = tokio::time::timeout(ANSWER, version).await;
    let version = version.map_err(|_| "cannot get the version of the cluster: no answer".to_owned())?;
    let version =
        version.map_err(|error| format!("cannot get the version of the cluster: {}", chain(&error)))?;
    let served = cluster.api_versions().await;
    let api_versions =
        served.map_err(|error| format!("cannot get the APIs of the cluster: {}", chain(&error)))?;
    Ok(Capabilities {
        kube_version: KubeVersion {
            version: version.git_version.clone(),
            normalized: version.git_version,
            major: version.major,
            minor: version.minor,
        },
        api_versions,
    })
}

async fn answered(
    cluster: &Cluster,
    mut answers: Answers,
    questions: BTreeSet<Question>,
) -> Result<Answers, String> {
    let mut bytes: usize = answers
        .values()
        .flatten()
        .map(|value| value.to_string().len())
        .sum();
    for question in questions {
        if answers.len() >= LOOKUPS_MAX {
            return Err(format!("the templates look up more than {LOOKUPS_MAX} objects"));
        }
        let (api_version, kind, namespace, name) = &question;
        let found = cluster
            .look_up(api_version, kind, (namespace, name), ANSWER)
            .await;
        let found = found.map_err(|error| {
            format!(
                "lookup of {kind} {namespace}/{name} in {api_version}: {}",
                chain(&error)
            )
        })?;
        bytes += found.as_ref().map_or(0, |value| value.to_string().len());
        if bytes > LOOKUP_BYTES_MAX {
            return Err(format!(
                "the templates look up more than {LOOKUP_BYTES_MAX} bytes of objects"
            ));
        }
        answers.insert(question, found);
    }
    Ok(answers)
}

/// The random numbers and the clock of this machine, and known answers of a cluster.
struct ClusterWorld {
    random: SystemRandom,
    spare: Seeded,
    answers: Arc<Answers>,
    asked: Arc<Mutex<BTreeSet<Question>>>,
}

impl ClusterWorld {
    fn new(answers: Arc<Answers>, asked: Arc<Mutex<BTreeSet<Question>>>) -> Result<Self, String> {
        let random = SystemRandom::new();
        let mut seed = [0; 32];
        let filled = random.fill(&mut seed);
        filled.map_err(|_| "could not get random numbers from the operating system".to_owned())?;
        Ok(Self {
            random,
            spare: Seeded::new(&seed, jiff::Timestamp::now().as_nanosecond()),
            answers,
            asked,
        })
    }
}

impl World for ClusterWorld {
    fn random(&mut self, bytes: &mut [u8]) {
        if self.random.fill(bytes).is_err() {
            self.spare.random(bytes);
        }
    }

    fn now(&mut self) -> i128 {
        self.spare.now()
    }

    fn lookup(
        &mut self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<engine::TemplateValue, Fault> {
        let question = [api_version, kind, namespace, name].map(str::to_owned);
        let question: Question = question.into();
        Ok(match self.answers.get(&question) {
            Some(Some(found)) => engine::value(found),
            Some(None) => engine::value(&Value::Object(serde_json::Map::new())),
            None => {
                let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
                asked.insert(question);
                engine::value(&Value::Object(serde_json::Map::new()))
            }
        })
    }
}

/// Runs the post-renderers over the objects that the strategy selects, adds the common metadata and the
/// owner's labels, and sorts again.
fn post_render(sorted: Sorted, declared: &Declared, stop: &Stop) -> Result<Sorted, String> {
    let Sorted {
        hooks,
        manifests,
        ignored,
    } = sorted;
    let strategy = declared.spec.post_render_strategy.unwrap_or_default();
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let of_hooks = || hooks.iter().map(|hook| (&*hook.path, &*hook.manifest));
    let of_manifests = || {
        manifests
            .iter()
            .map(|Manifest { source, content, .. }| (&**source, &**content))
    };
    match strategy {
        PostRenderStrategy::Combined => {
            let all = read(of_hooks().chain(of_manifests()))?;
            add(&mut files, rendered(all, declared, "", stop)?);
        }
        PostRenderStrategy::Separate => {
            add(&mut files, rendered(read(of_hooks())?, declared, "hooks", stop)?);
            add(
                &mut files,
                rendered(read(of_manifests())?, declared, "manifests", stop)?,
            );
        }
        PostRenderStrategy::NoHooks => {
            let plain = of_hooks().map(|(path, text)| (path.to_owned(), text.to_owned()));
            add(&mut files, plain.collect());
            add(
                &mut files,
                rendered(read(of_manifests())?, declared, "manifests", stop)?,
            );
        }
    }
    let texts = files.iter().map(|(path, text)| (path.as_str(), text.as_str()));
    let sorted = manifests::sort(texts, Order::Install);
    let sorted = sorted.map_err(|error| format!("{error}: {}", error.fault))?;
    Ok(Sorted { ignored, ..sorted })
}

fn add(files: &mut BTreeMap<String, String>, documents: Vec<(String, String)>) {
    for (path, text) in documents {
        let file = files.entry(path).or_default();
        if !file.is_empty() {
            file.push_str("\n---\n");
        }
        file.push_str(&text);
    }
}

fn read<'t>(documents: impl Iterator<Item = (&'t str, &'t str)>) -> Result<Vec<(String, Object)>, String> {
    let mut found = Vec::new();
    for (path, text) in documents {
        let objects = objects::read(text).map_err(|error| format!("parsing {path}: {error}"))?;
        found.extend(objects.into_iter().map(|object| (path.to_owned(), object)));
    }
    Ok(found)
}

fn rendered(
    objects: Vec<(String, Object)>,
    declared: &Declared,
    group: &str,
    stop: &Stop,
) -> Result<Vec<(String, String)>, String> {
    let mut objects = objects;
    for renderer in &declared.spec.post_renderers {
        if let Some(kustomize) = &renderer.kustomize {
            objects = kustomized(objects, kustomize, group, stop)
                .map_err(|error| format!("error while running post render on files: {error}"))?;
        }
    }
    let common = declared.spec.common_metadata.clone().unwrap_or_default();
    let owner = [
        (HELM_RELEASE_NAME, declared.key.name.as_str()),
        (HELM_RELEASE_NAMESPACE, declared.key.namespace.as_str()),
    ];
    let pairs = |map: &BTreeMap<String, String>| -> Vec<(String, String)> {
        map.iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    };
    let (labels, annotations) = (pairs(&common.labels), pairs(&common.annotations));
    Ok(objects
        .into_iter()
        .map(|(path, mut object)| {
            let text = |(key, value): &(String, String)| (key.clone(), value.clone());
            let labels: Vec<_> = labels.iter().map(text).collect();
            objects::label(&mut object, labels.iter().map(|(key, value)| (&**key, &**value)));
            if !annotations.is_empty() {
                let each = annotations.iter().map(|(key, value)| (&**key, &**value));
                objects::annotate(&mut object, each);
            }
            objects::label(&mut object, owner);
            (path, document(&object))
        })
        .collect())
}

/// Runs one kustomize post-renderer.
fn kustomized(
    objects: Vec<(String, Object)>,
    renderer: &KustomizeRenderer,
    group: &str,
    stop: &Stop,
) -> Result<Vec<(String, Object)>, String> {
    if objects.is_empty() {
        return Ok(objects);
    }
    let mut output = String::new();
    for (path, mut object) in objects {
        objects::annotate(&mut object, [(FILE, path.as_str())]);
        output.push_str("---\n");
        output.push_str(&document(&object));
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let spec = kustomize::Spec {
        patches: renderer
            .patches
            .iter()
            .map(|patch| kustomize::SpecPatch {
                patch: patch.patch.clone(),
                target: patch.target.as_ref().map(spec_target),
            })
            .collect(),
        images: renderer
            .images
            .iter()
            .map(|image| kustomize::SpecImage {
                name: image.name.clone(),
                new_name: text(&image.new_name),
                new_tag: text(&image.new_tag),
                digest: text(&image.digest),
            })
            .collect(),
        limits: build_limits(),
        ..kustomize::Spec::default()
    };
    let tree = Output {
        files: [
            (
                "kustomization.yaml",
                Bytes::from(format!("resources:\n- {OUTPUT}\n")),
            ),
            (OUTPUT, Bytes::from(output)),
        ],
    };
    let loaders = Loaders {
        stop: Some(stop),
        ..Loaders::default()
    };
    let built = kustomize::build_with(&tree, &spec, loaders).map_err(|error| chain(&error))?;
    let mut found = Vec::new();
    for (at, resource) in built.objects.into_iter().enumerate() {
        let mut object = resource.object;
        let path = take_file(&mut object);
        let dash = if group.is_empty() { "" } else { "-" };
        let path = path.unwrap_or_else(|| format!("generated-by-postrender-{group}{dash}{at}.yaml"));
        found.push((path, object));
    }
    Ok(found)
}

fn take_file(object: &mut Object) -> Option<String> {
    let metadata = object.0.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let file = annotations.remove(FILE)?.as_str().map(str::to_owned);
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    file
}

/// The directory that a post-renderer builds.
struct Output {
    files: [(&'static str, Bytes); 2],
}

impl Output {
    fn file(&self, path: &str) -> Option<&Bytes> {
        let file = self.files.iter().find(|(name, _)| *name == path);
        file.map(|(_, bytes)| bytes)
    }

    fn stat_of(kind: kustomize::EntryKind, at: u8) -> kustomize::Stat {
        kustomize::Stat { kind, id: [at; 32] }
    }
}

impl kustomize::Tree for Output {
    fn stat(&self, path: &str) -> Option<kustomize::Stat> {
        use kustomize::EntryKind::{Directory, File};
        match path {
            "" => Some(Self::stat_of(Directory, 0)),
            OUTPUT => Some(Self::stat_of(File, 1)),
            path => self.file(path).map(|_| Self::stat_of(File, 2)),
        }
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, kustomize::Stat)>> {
        let each = self.files.iter().filter_map(|(name, _)| {
            let stat = kustomize::Tree::stat(self, name)?;
            Some(((*name).to_owned(), stat))
        });
        dir.is_empty().then(|| each.collect())
    }

    fn read(&self, path: &str) -> Result<Bytes, kustomize::ReadError> {
        self.file(path).cloned().ok_or(kustomize::ReadError::Absent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_api::helm::HelmRelease;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
    fn declared(spec: Value) -> Declared {
        let mut object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": { "name": "app", "namespace": "team" }, "spec": { "interval": "10m" },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        let object: HelmRelease = serde_json::from_value(object).unwrap();
        Declared::from(&object)
    }

    fn sorted() -> Sorted {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: map\ndata:\n  a: b\n";
        let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: hook\n  annotations:\n    helm.sh/hook: pre-install\n";
        manifests::sort(
            [("c/templates/map.yaml", map), ("c/templates/hook.yaml", hook)],
            Order::Install,
        )
        .unwrap()
    }

    #[test]
    fn post_renderers_change_what_the_strategy_selects() {
        let check = |strategy: &str, hook_is_changed: bool| {
            let declared = declared(json!({
                "postRenderStrategy": strategy,
                "commonMetadata": { "annotations": { "team": "a" } },
                "postRenderers": [{ "kustomize": { "patches": [{
                    "target": { "kind": "ConfigMap" },
                    "patch": "- {op: add, path: /metadata/labels, value: {patched: \"yes\"}}",
                }] } }],
            }));
            let sorted = post_render(sorted(), &declared, &Stop::default()).unwrap();
            let [manifest] = &sorted.manifests[..] else {
                panic!("{sorted:?}")
            };
            let object = &objects::read(&manifest.content).unwrap()[0];
            assert_eq!(&*manifest.source, "c/templates/map.yaml");
            assert_eq!(
                object.metadata().unwrap()["labels"],
                json!({
                    "helm.toolkit.fluxcd.io/name": "app",
                    "helm.toolkit.fluxcd.io/namespace": "team",
                    "patched": "yes",
                })
            );
            assert_eq!(object.metadata().unwrap()["annotations"], json!({ "team": "a" }));
            let [hook] = &sorted.hooks[..] else {
                panic!("{sorted:?}")
            };
            assert_eq!(hook.manifest.contains("patched"), hook_is_changed, "{strategy}");
            assert_eq!(hook.manifest.contains("toolkit"), hook_is_changed, "{strategy}");
        };
        check("combined", true);
        check("separate", true);
        check("nohooks", false);
    }

    #[test]
    fn failing_post_renderers_fail_the_render() {
        let declared = declared(json!({
            "postRenderers": [{ "kustomize": { "patches": [{ "patch": "- {op: remove, path: /nothing}" }] } }],
        }));
        let error = post_render(sorted(), &declared, &Stop::default()).unwrap_err();
        assert!(
            error.starts_with("error while running post render on files: "),
            "{error}"
        );
    }

    #[test]
    fn stopped_post_renderers_end() {
        let patch = json!({ "target": { "name": "map" }, "patch": "- {op: add, path: /data/b, value: c}" });
        let declared =
            declared(json!({ "postRenderers": [{ "kustomize": { "patches": vec![patch; 5_000] } }] }));
        let error = post_render(sorted(), &declared, &Stop::pausing(|_| false)).unwrap_err();
        assert!(error.contains("stopped"), "{error}");
    }

    #[test]
    fn templates_get_random_bytes_of_the_operating_system() {
        let random = || {
            let mut world = ClusterWorld::new(Arc::default(), Arc::default()).unwrap();
            world.spare = Seeded::new(&[0; 32], 0);
            let mut bytes = [0; 32];
            world.random(&mut bytes);
            bytes
        };
        assert_ne!(random(), random(), "both have the same seed");
    }
}
