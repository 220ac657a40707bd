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
use equate_kustomize::{Built, Fault, Inputs, Loaders, Resource, Secrets};
use equate_manifest::yaml;
use equate_sops::TransitRequest;
use equate_source::{Entry, Tree};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::Instant;

use super::declared::Declared;
use super::inputs::decryption::{Answers, KeyRing, Opening, is_sealed};
use super::inputs::masks::Masks;
use super::inputs::substitute_from::Values;
use super::inputs::tree::Content;
use super::inputs::vault_transit::{QUESTIONS_MAX, Transits};
use super::reasons::Failure;
use super::rules::ObjectRules;
use crate::OwnLoop;
use crate::kit::read::chain;
use crate::kustomization::declaration::applier;
use crate::kustomization::owner_of;
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
    /// Limits CPU-bound work.
    pub(super) blocking: &'a Arc<Semaphore>,
    pub(super) root: Option<&'a OwnLoop>,
    pub(super) default_namespace: Option<&'a str>,
    pub(super) transits: &'a Transits,
    pub(super) rules: &'a Arc<ObjectRules>,
}

/// Stops a build when its time is over or its run is cancelled.
struct Stops(equate_kustomize::Stop);

impl Drop for Stops {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs work when a processor is free. The work keeps it to its end, even if nobody waits any more.
async fn on_a_processor<T: Send + 'static>(
    processors: &Arc<Semaphore>,
    work: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    // the semaphore is never closed
    let permit = Arc::clone(processors).acquire_owned().await;
    tokio::task::spawn_blocking(move || {
        let done = work();
        drop(permit);
        done
    })
}

async fn within<T>(
    timeout: Duration,
    stop: equate_kustomize::Stop,
    build: impl Future<Output = T>,
) -> Result<T, Failure> {
    let _stops = Stops(stop);
    let built = tokio::time::timeout(timeout, build).await;
    built.map_err(|_elapsed| Failure::BuildTimeout(timeout))
}

#[expect(clippy::needless_pass_by_value, reason = "given to map_err as it is")]
fn panicked(error: JoinError) -> Failure {
    Failure::Build(format!("internal error in the build: {error}"))
}

/// The desired state of a build; none where it only could not be finished.
pub(super) fn desired_of(outcome: &Result<Rendered, Failure>) -> Option<DesiredSet> {
    match outcome {
        Ok(rendered) if !rendered.resolved && rendered.objects.have_variables() => {
            Some(DesiredSet::Unknown(UNBUILT))
        }
        Ok(rendered) => Some(DesiredSet::Known(Arc::clone(&rendered.objects))),
        // a missing directory declares nothing
        Err(Failure::PathAbsent(_)) => Some(DesiredSet::nothing()),
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
            return Err(Failure::PathAbsent(ks.build.path.clone()));
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
        let timeout = ks.timeout;
        let (until, mut answers) = (Instant::now() + timeout, Arc::new(Answers::new()));
        loop {
            let stop = equate_kustomize::Stop::default();
            let build = {
                let (content, spec, keys) = (Arc::clone(&content), Arc::clone(&spec), keys.clone());
                let (answers, stop) = (Arc::clone(&answers), stop.clone());
                let (transits, read) = (self.transits.clone(), read.clone().unwrap_or_default());
                move || {
                    once(
                        &content,
                        &spec,
                        keys.as_deref(),
                        (&transits, &answers),
                        &read,
                        &stop,
                    )
                }
            };
            let (built, opened, questions) = self.build_within(timeout, stop, build).await?;
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
            asked.map_err(|_elapsed| Failure::BuildTimeout(timeout))?;
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
        let desired = self.blocking(move || {
            let each = objects.into_iter();
            let desired: Vec<Desired> = each
                .map(|resource| ready(resource, &owner, own.as_ref(), &rules))
                .collect();
            let objects = BuiltObjects::of(&desired, applier);
            (desired, Arc::new(objects))
        });
        let (desired, objects) = desired.await?;
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

    /// Runs CPU-bound work on its own threads, at most one per processor.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let done = on_a_processor(self.blocking, work).await;
        done.await.map_err(panicked)
    }

    /// The same for a build. Waiting for a processor does not count as its time.
    async fn build_within<T: Send + 'static>(
        &self,
        timeout: Duration,
        stop: equate_kustomize::Stop,
        build: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Failure> {
        let building = on_a_processor(self.blocking, build).await;
        within(timeout, stop, building).await?.map_err(panicked)
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
    stop: &equate_kustomize::Stop,
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

    #[tokio::test]
    async fn abandoned_work_keeps_its_processor() {
        let processors = Arc::new(Semaphore::new(1));
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work = on_a_processor(&processors, move || ended.recv()).await;
        drop(work);
        assert_eq!(processors.available_permits(), 0);
        end.send(()).unwrap();
        assert!(processors.acquire().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_build_ends_at_the_kustomizations_timeout() {
        let minute = Duration::from_secs(60);
        let stop = equate_kustomize::Stop::default();
        let ended = within(minute, stop.clone(), std::future::pending::<()>()).await;
        assert_eq!(ended, Err(Failure::BuildTimeout(minute)));
        assert!(stop.is_stopped());
        let failure = ended.unwrap_err();
        assert_eq!(
            failure.to_string(),
            "kustomize build failed: stopped because it took longer than 1m0s (spec.timeout)"
        );
        let in_time = within(minute, equate_kustomize::Stop::default(), async { 1 }).await;
        assert_eq!(in_time, Ok(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_run_stops_its_build() {
        let stop = equate_kustomize::Stop::default();
        let run = within(Duration::MAX, stop.clone(), std::future::pending::<()>());
        drop(tokio::time::timeout(Duration::from_secs(1), run).await);
        assert!(stop.is_stopped());
    }
}
