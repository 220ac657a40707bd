//! Builds the objects of a revision, off the runtime's threads, and prepares them for applying.
//!
//! It is independent of runs: `preview` uses it, too.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use equate_apply::cluster::{Cluster, NamespaceError};
use equate_apply::desired::Desired;
use equate_apply::owner::Owner;
use equate_kustomize::{Built, Fault, Inputs, Loaders, Resource, Secrets, Stop};
use equate_manifest::yaml;
use equate_sops::TransitRequest;
use equate_source::{Entry, Tree};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use super::declared::Declared;
use super::inputs::decryption::{Answers, KeyRing, Opening, is_sealed};
use super::inputs::substitute_from::Values;
use super::inputs::tree::Content;
use super::inputs::vault_transit::{QUESTIONS_MAX, Transits};
use super::nearest;
use super::reasons::Failure;
use crate::OwnLoop;
use crate::kit::processors::{JobError, Processors, Turns};
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::kustomization::declaration::applier;
use crate::kustomization::owner_of;
use crate::masks::Masks;
use crate::object_rules::ObjectRules;
use crate::own_loop::inside;
use crate::ownership::desired::{BuiltObjects, DesiredSet};

const UNBUILT: &str = "cannot be built at this revision";

#[derive(Debug)]
pub(crate) struct Rendered {
    pub(super) desired: Arc<Vec<Desired>>,
    pub(super) objects: Arc<BuiltObjects>,
    pub(super) inputs: Inputs,
    pub(super) resolved: bool,
    /// The texts to mask.
    pub(super) opened: Arc<Masks>,
    pub(super) digest: String,
    /// The files that declare Equate's own loop, with their numbers of objects; for the root only.
    pub(super) own_files: Option<BTreeMap<String, usize>>,
}

pub(super) struct Rendering<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) processors: &'a Processors,
    /// The operator's limit for one build.
    pub(super) timeout_max: Duration,
    /// Called if the build waits long for those of others.
    pub(super) throttled: &'a (dyn Fn() + Sync),
    pub(super) root: Option<&'a OwnLoop>,
    pub(super) default_namespace: Option<&'a str>,
    pub(super) transits: &'a Transits,
    pub(super) rules: &'a Arc<ObjectRules>,
}

/// Builds when a processor is free. Waiting for one does not count as time of the build. A build that is
/// displaced begins again.
async fn build_within<T: Send + 'static>(
    processors: &Processors,
    namespace: &str,
    limit: TimeLimit,
    throttled: &(dyn Fn() + Sync),
    build: impl Fn(&Stop) -> T + Clone + Send + 'static,
) -> Result<T, Failure> {
    let by_turns = move |turns: &Turns| {
        let turns = turns.clone();
        build(&Stop::pausing(move |held| turns.go_on(held)))
    };
    let built = processors
        .by_turns(namespace, limit.time, throttled, by_turns)
        .await;
    built.map_err(|error| match error {
        JobError::Late(_) => Failure::BuildTimeout(limit),
        error => broken(&error),
    })
}

fn broken(error: &JobError) -> Failure {
    match error {
        JobError::NoThread => Failure::Unreachable(format!("kustomize build failed: {error}")),
        JobError::Panicked(_) | JobError::Late(_) | JobError::Displaced => {
            Failure::Build(format!("internal error in the build: {error}"))
        }
    }
}

/// The desired state of a build; none where it only could not be finished.
pub(super) fn desired_of(outcome: &Result<Rendered, Failure>) -> Option<DesiredSet> {
    match outcome {
        Ok(rendered) if !rendered.resolved && rendered.objects.have_variables() => {
            Some(DesiredSet::Unknown(UNBUILT))
        }
        Ok(rendered) => Some(DesiredSet::Known(Arc::clone(&rendered.objects))),
        // a missing directory declares nothing
        Err(Failure::PathAbsent { .. }) => Some(DesiredSet::nothing()),
        Err(Failure::Unreachable(_)) => None,
        Err(_) => Some(DesiredSet::Unknown(UNBUILT)),
    }
}

impl Rendering<'_> {
    /// Builds a Kustomization's objects, with their namespaces and labels.
    ///
    /// Without values nothing is substituted: then only names without variables are certain.
    pub(super) async fn render(
        &self,
        ks: &Declared,
        values: Option<&Values>,
        tree: &Tree,
    ) -> Result<Rendered, Failure> {
        if ks.decryption.is_some() && values.is_none() {
            // a name may have a hash suffix of decrypted content
            return Err(Failure::Values(
                "it cannot be decrypted, because the keys of spec.decryption are not read".to_owned(),
            ));
        }
        let path = inside(&ks.build.path);
        if !matches!(tree.entry(&path), Some(Entry::Directory { .. })) {
            return Err(Failure::PathAbsent {
                path: ks.build.path.clone(),
                nearest: nearest::directory(tree, &path),
            });
        }
        let mut spec = equate_kustomize::Spec {
            path,
            ..ks.build.clone()
        };
        let content = Content(tree.clone());
        match (values, &mut spec.substitute) {
            (Some(values), Some(substitution)) => {
                substitution.variables = values.under(&substitution.variables);
            }
            (None, substitution) => *substitution = None,
            (Some(_), None) => {}
        }
        let keys = values.and_then(Values::keys);
        let read = values.map(|values| Arc::clone(values.masks()));
        let (built, digest, opened) = self.build_opened(ks, content, spec, keys, read).await?;
        let Built {
            objects,
            inputs,
            deprecations: _,
            warnings: _,
        } = built;
        let rendered = self.prepare(ks, objects, inputs, digest).await;
        let rendered = rendered.map_err(|failure| failure.map_message(|why| opened.mask(why)))?;
        let mut sealed = rendered
            .desired
            .iter()
            .filter(|desired| is_sealed(&desired.object));
        if let Some(sealed) = sealed.next() {
            return Err(Failure::Apply(format!(
                "{} is SOPS encrypted, configuring decryption is required for this secret to be reconciled",
                sealed.id
            )));
        }
        Ok(Rendered {
            resolved: values.is_some(),
            opened: Arc::new(opened),
            ..rendered
        })
    }

    /// Builds, and builds again with the answers of transit engines if there were questions. No error has
    /// decrypted text.
    async fn build_opened(
        &self,
        ks: &Declared,
        content: Content,
        spec: equate_kustomize::Spec,
        keys: Option<&KeyRing>,
        read: Option<Arc<Masks>>,
    ) -> Result<(Built, String, Masks), Failure> {
        let (content, spec, keys) = (Arc::new(content), Arc::new(spec), keys.cloned().map(Arc::new));
        let limit = TimeLimit::of(ks.timeout, self.timeout_max);
        let (until, mut answers) = (Instant::now() + limit.time, Arc::new(Answers::new()));
        loop {
            let build = {
                let (content, spec, keys) = (Arc::clone(&content), Arc::clone(&spec), keys.clone());
                let answers = Arc::clone(&answers);
                let (transits, read) = (self.transits.clone(), read.clone().unwrap_or_default());
                move |stop: &Stop| {
                    once(
                        &content,
                        &spec,
                        keys.as_deref(),
                        (&transits, &answers),
                        &read,
                        stop,
                    )
                }
            };
            let built = build_within(self.processors, &ks.key.namespace, limit, self.throttled, build);
            let (built, opened, questions) = built.await?;
            let Some(ring) = keys.as_ref().filter(|_| !questions.is_empty()) else {
                let (built, digest) = built?;
                return Ok((built, digest, opened));
            };
            if answers.len() + questions.len() > QUESTIONS_MAX {
                return Err(Failure::Values(format!(
                    "error decrypting sources: more than {QUESTIONS_MAX} data keys are encrypted by transit engines; \
                     use fewer data keys"
                )));
            }
            // each round has new questions, so it ends
            let asking = self
                .transits
                .ask(ring, &ks.key.namespace, questions, Arc::make_mut(&mut answers));
            let asked = tokio::time::timeout_at(until, asking).await;
            asked.map_err(|_elapsed| Failure::BuildTimeout(limit))?;
        }
    }

    /// Adds the owner's labels and the namespaces to built objects.
    pub(super) async fn prepare(
        &self,
        ks: &Declared,
        mut objects: Vec<Resource>,
        inputs: Inputs,
        digest: String,
    ) -> Result<Rendered, Failure> {
        self.settle(&mut objects).await?;
        let owner = owner_of(&ks.key);
        let own = self
            .root
            .filter(|root| root.name == ks.key.name && root.namespace == ks.key.namespace)
            .cloned();
        let own_files = own.as_ref().map(|own| own_files(&objects, own));
        let rules = Arc::clone(self.rules);
        let preparing = self.processors.run(&ks.key.namespace, move || {
            let each = objects.into_iter();
            let desired: Vec<Desired> = each
                .map(|resource| ready(resource, &owner, own.as_ref(), &rules))
                .collect();
            let objects = BuiltObjects::of(&desired, applier);
            (desired, Arc::new(objects))
        });
        let (desired, objects) = preparing.done().await.map_err(|error| broken(&error))?;
        Ok(Rendered {
            desired: Arc::new(desired),
            objects,
            inputs,
            resolved: true,
            opened: Arc::default(),
            digest,
            own_files,
        })
    }

    /// Sets the objects' namespaces; `equate up` has a default, like kubectl.
    async fn settle(&self, objects: &mut [Resource]) -> Result<(), Failure> {
        let each: Vec<_> = objects.iter_mut().map(|resource| &mut resource.object).collect();
        match self.cluster.assign_namespaces(each, self.default_namespace).await {
            Ok(()) => Ok(()),
            Err(error @ NamespaceError::NotSpecified { index, .. }) => {
                let origin = objects.get(index).map(place).unwrap_or_default();
                Err(Failure::Apply(format!(
                    "{error} ({origin}): give it metadata.namespace, or the Kustomization spec.targetNamespace"
                )))
            }
            Err(error @ NamespaceError::Resolve(_)) => Err(Failure::Unreachable(chain(&error))),
        }
    }
}

/// One build: its result, the texts to mask, and the questions for transit engines.
type Once = (Result<(Built, String), Failure>, Masks, Vec<TransitRequest>);

fn once(
    content: &Content,
    spec: &equate_kustomize::Spec,
    keys: Option<&KeyRing>,
    (transits, answers): (&Transits, &Answers),
    read: &Masks,
    stop: &Stop,
) -> Once {
    let allowed = |address: &str| keys.is_some_and(|keys| transits.allows(keys, address));
    let derived = RefCell::new(Masks::default());
    let derive = |value: &str, made: &str| {
        if read.contains(value) {
            derived.borrow_mut().add_derived(made, value);
        }
    };
    let opening = keys.map(|keys| Opening::new(keys, &allowed, answers, stop));
    let loaders = Loaders {
        stop: Some(stop),
        secrets: opening.as_ref().map(|opening| opening as &dyn Secrets),
        derived: Some(&derive),
        ..Loaders::default()
    };
    let built = equate_kustomize::build_with(content, spec, loaders);
    let (mut opened, questions) = opening.map(Opening::ends).unwrap_or_default();
    opened.extend(read);
    opened.extend(&derived.borrow());
    let unanswered = answers.values().any(Result::is_err);
    let built = match built {
        Ok(built) => {
            let digest = digest(&built.objects);
            Ok((built, digest))
        }
        Err(error) => Err(unbuilt(&error, unanswered).map_message(|why| opened.mask(why))),
    };
    (built, opened, questions)
}

/// The failure of a build. `unanswered`: a transit engine did not answer, and may later.
fn unbuilt(error: &equate_kustomize::BuildError, unanswered: bool) -> Failure {
    let why = match error.fault.decryption_fault() {
        None => {
            return match &*error.fault {
                Fault::Substitution { id, problem } => Failure::Substitution(format!(
                    "post build failed for '{}': envsubst error: variable substitution failed: {problem} ({})",
                    without_namespace(id),
                    error.place
                )),
                Fault::VariableName { .. } => {
                    Failure::Substitution(format!("post build failed: envsubst error: {}", error.fault))
                }
                _ => Failure::Build(chain(error)),
            };
        }
        Some(Fault::DecryptObject { id, source }) => {
            format!(
                "decryption failed for '{id}': {}: {}",
                error.place,
                chain(&**source)
            )
        }
        Some(_) => format!("error decrypting sources: {}", chain(error)),
    };
    if unanswered {
        Failure::Values(why)
    } else {
        Failure::Decryption(why)
    }
}

/// `ConfigMap.v1.[noGrp]/a.shop` without its last part; names of some kinds have dots, namespaces none.
fn without_namespace(id: &str) -> &str {
    id.rsplit_once('.').map_or(id, |(id, _)| id)
}

fn own_files(objects: &[Resource], own: &OwnLoop) -> BTreeMap<String, usize> {
    let mut files = BTreeMap::new();
    for object in objects.iter().filter(|object| own.declares(&object.origin.path)) {
        *files.entry(object.origin.path.clone()).or_default() += 1;
    }
    files
}

fn ready(resource: Resource, owner: &Owner, own: Option<&OwnLoop>, rules: &ObjectRules) -> Desired {
    let own = own.is_some_and(|own| own.declares(&resource.origin.path));
    let origin = place(&resource);
    let desired = Desired::under(resource.object, owner, Some(origin), rules);
    if own { desired.of_own_loop() } else { desired }
}

fn place(resource: &Resource) -> String {
    match resource.origin.line {
        0 => resource.origin.path.clone(),
        line => format!("{}:{line}", resource.origin.path),
    }
}

/// The digest of a build in the history: of the output of `kustomize build`, as in Flux.
pub(super) fn digest(objects: &[Resource]) -> String {
    let mut hash = Sha256::new();
    for (place, resource) in objects.iter().enumerate() {
        if place > 0 {
            hash.update(b"---\n");
        }
        hash.update(yaml::to_string(&resource.object.clone().into_value()));
    }
    let bytes = hash.finalize();
    let mut text = String::from("sha256:");
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::processors::Threads;
    use crate::kit::tenants::Tenants;
    use bytes::Bytes;
    use equate_kustomize::{EntryKind, ReadError, Stat};
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    fn endless(stop: &Stop) {
        while !stop.checkpoint() {
            std::thread::yield_now();
        }
    }

    /// One file with many objects.
    struct Many;

    impl equate_kustomize::Tree for Many {
        fn stat(&self, path: &str) -> Option<Stat> {
            let kind = match path {
                "" => EntryKind::Directory,
                "kustomization.yaml" | "all.yaml" => EntryKind::File,
                _ => return None,
            };
            Some(Stat { kind, id: [0; 32] })
        }

        fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
            let names = ["kustomization.yaml", "all.yaml"].into_iter();
            let names = names.filter(|_| dir.is_empty());
            Some(
                names
                    .filter_map(|name| Some((name.to_owned(), self.stat(name)?)))
                    .collect(),
            )
        }

        fn read(&self, path: &str) -> Result<Bytes, ReadError> {
            match path {
                "kustomization.yaml" => Ok("resources: [all.yaml]".into()),
                "all.yaml" => {
                    let one = |number| {
                        format!("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m{number}}}\n")
                    };
                    Ok((0..5_000).map(one).collect::<String>().into())
                }
                _ => Err(ReadError::Absent),
            }
        }
    }

    /// Builds [`Many`], and keeps its processor until it is told to stop.
    fn large(stop: &Stop, kept: impl Fn() -> bool) -> bool {
        let loaders = Loaders {
            stop: Some(stop),
            ..Loaders::default()
        };
        let options = equate_kustomize::Options {
            limits: equate_kustomize::Limits {
                threads_max: 1,
                ..equate_kustomize::Limits::default()
            },
            ..equate_kustomize::Options::default()
        };
        let built = equate_kustomize::kustomize_with(&Many, ".", &options, loaders);
        while kept() && !stop.checkpoint() {
            std::thread::yield_now();
        }
        built.is_ok() && !stop.is_stopped()
    }

    #[tokio::test]
    async fn a_build_for_which_there_is_no_memory_begins_again() {
        let processors = Processors::holding(2, 0);
        let hour = Duration::from_secs(3600);
        let limit = TimeLimit::of(hour, hour);
        let (first_ends, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let first = {
            let ends = Arc::clone(&first_ends);
            move |stop: &Stop| large(stop, || !ends.load(Ordering::SeqCst))
        };
        let mut first = std::pin::pin!(build_within(&processors, "a", limit, &|| (), first));
        let soon = || tokio::time::sleep(Duration::from_millis(1));
        while !processors.has_solo_job() {
            assert!(futures::poll!(&mut first).is_pending());
            soon().await;
        }
        let second = {
            let begun = Arc::clone(&begun);
            move |stop: &Stop| {
                let first_time = begun.fetch_add(1, Ordering::SeqCst) == 0;
                large(stop, || first_time)
            }
        };
        let mut second = std::pin::pin!(build_within(&processors, "b", limit, &|| (), second));
        assert!(futures::poll!(&mut second).is_pending());
        // it ends, and waits for the first
        while processors.waiting_solo_jobs() == 0 {
            assert!(futures::poll!(&mut second).is_pending());
            soon().await;
        }
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        first_ends.store(true, Ordering::SeqCst);
        assert_eq!(futures::join!(first, second), (Ok(true), Ok(true)));
        assert_eq!(begun.load(Ordering::SeqCst), 2);
        idle(&processors).await;
    }

    async fn idle(processors: &Processors) {
        while !processors.are_idle() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_build_ends_at_its_limit() {
        let processors = Processors::new(1, Tenants::default(), Threads::Own);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        for (spec, max, by) in [
            (second / 1000, hour, "1ms (spec.timeout)"),
            (hour, second / 1000, "1ms (--timeout-max)"),
        ] {
            let limit = TimeLimit::of(spec, max);
            let ended = build_within(&processors, "a", limit, &|| (), endless).await;
            assert_eq!(ended, Err(Failure::BuildTimeout(limit)));
            let text = format!("kustomize build failed: stopped because it took longer than {by}");
            assert_eq!(ended.unwrap_err().to_string(), text);
            idle(&processors).await;
        }
        let in_time = build_within(&processors, "a", TimeLimit::of(hour, hour), &|| (), |_| 1).await;
        assert_eq!(in_time, Ok(1));
    }

    #[tokio::test]
    async fn a_cancelled_run_stops_its_build() {
        let processors = Processors::new(1, Tenants::default(), Threads::Own);
        let limit = TimeLimit::of(Duration::MAX, Duration::MAX);
        let run = build_within(&processors, "a", limit, &|| (), endless);
        drop(tokio::time::timeout(Duration::from_millis(10), run).await);
        idle(&processors).await;
    }
}
