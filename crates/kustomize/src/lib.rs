//! kustomize build as a pure function: a tree and a spec in, objects out.
//!
//! The reference is kustomize api 0.21: its bytes are in Flux users' clusters. Flux's additions
//! (a generated kustomization, fields of its spec, `${var}` substitution) come on top. The crate does no I/O
//! and knows neither the time nor a cluster: files come through [`Tree`].
//!
//! | module | purpose, in the order of a build |
//! |---|---|
//! | `tree`, `loader`, `inputs` | reading within limits, and recording inputs |
//! | `remote` | URLs of repositories and files, and the caller's fetcher |
//! | `flux` | the kustomization of a directory with a Kustomization's fields in it |
//! | `kustomization` | decoding a kustomization file |
//! | `budget`, `workers` | memory and thread limits |
//! | `pipeline`, `bases` | building a kustomization and its bases |
//! | `manifests`, `spelling`, `resource`, `collection` | resources, their ids and histories |
//! | `generate` | ConfigMaps and Secrets from files |
//! | `secrets` | decryption through the caller |
//! | `charts` | Helm charts through the caller's renderer |
//! | `patch`, `selector`, `schema` | patches and their targets |
//! | `sharing` | fields of one object that share a value |
//! | `transform`, `passes`, `field_spec` | namespace, names, labels, images, replicas, replacements |
//! | `references`, `variables`, `order`, `notes` | final steps at the root |
//! | `substitute` | `${var}` |
//! | `files` | file names for objects |
//!
//! Refused: remote bases and Helm charts if the caller has no fetcher or renderer, and external plugins.

mod bases;
mod budget;
mod charts;
mod collection;
mod crds;
mod error;
mod field_path;
mod field_spec;
mod files;
mod flux;
mod generate;
mod inputs;
mod kustomization;
mod loader;
mod manifests;
mod notes;
mod order;
mod passes;
mod patch;
mod path;
mod pipeline;
mod plugins;
mod references;
mod remote;
mod resource;
mod schema;
mod secrets;
mod selector;
mod sharing;
mod spec;
mod spelling;
pub mod substitute;
mod transform;
mod tree;
mod variables;
mod workers;

pub use budget::Stop;
pub use charts::{Chart, ChartError, Charts, ValuesFile};
pub use error::{BuildError, Exhausted, Fault, FieldProblem, Place};
pub use files::file_names;
pub use inputs::{Inputs, RemoteInput};
pub use kustomization::Deprecation;
pub use remote::{Fetched, FileError, RemoteError, RemoteRepository, RemoteUrlError, Remotes};
pub use secrets::{SecretError, SecretFile, Secrets};
pub use selector::Selection;
pub use spec::{
    CommonMetadata, Limits, LoadRestriction, Options, Order, Spec, SpecImage, SpecPatch, SpecTarget,
    Substitution,
};
pub use tree::{EntryKind, ReadError, Stat, Tree};

use equate_manifest::object::Object;
use loader::{Loader, at};

/// The result of a build.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The objects, in output order.
    pub objects: Vec<Resource>,
    /// The inputs that were read.
    pub inputs: Inputs,
    /// The deprecated fields in use, in the order the files were read. They do not affect the objects.
    pub deprecations: Vec<Deprecation>,
    /// Other lines kustomize would print to standard error.
    pub warnings: Vec<String>,
}

/// The receiver of derived texts: the value, and the text.
pub type Derived<'l> = &'l dyn Fn(&str, &str);

/// An object and its origin.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The object.
    pub object: Object,
    /// Its origin.
    pub origin: Origin,
}

/// The origin of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The file, relative to the tree's root; for generated objects, the kustomization file.
    pub path: String,
    /// The first line of its document, from 1.
    pub line: usize,
}

/// The caller's services for a build. A build that needs a missing one is refused.
#[derive(Clone, Copy, Default)]
pub struct Loaders<'l> {
    /// Fetches repositories and files.
    pub remotes: Option<&'l dyn Remotes>,
    /// Renders charts.
    pub charts: Option<&'l dyn Charts>,
    /// Decrypts files and objects. Without it, encrypted data is built as is.
    pub secrets: Option<&'l dyn Secrets>,
    /// Receives each text that an expression of substitution makes of a variable's value.
    pub derived: Option<Derived<'l>>,
    /// Stops the build early.
    pub stop: Option<&'l Stop>,
}

impl std::fmt::Debug for Loaders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loaders")
            .field("remotes", &self.remotes.is_some())
            .field("charts", &self.charts.is_some())
            .field("secrets", &self.secrets.is_some())
            .finish_non_exhaustive()
    }
}

/// Builds the objects of a Kustomization: its directory, its spec's fields, its variables.
///
/// # Errors
/// The first fault, with its place.
pub fn build(tree: &dyn Tree, spec: &Spec) -> Result<Built, BuildError> {
    build_with(tree, spec, Loaders::default())
}

/// [`build`] with access to remotes, charts and secrets.
///
/// # Errors
/// The first fault, with its place.
pub fn build_with(tree: &dyn Tree, spec: &Spec, loaders: Loaders<'_>) -> Result<Built, BuildError> {
    let mut loader = Loader::new(tree, spec.limits.clone(), LoadRestriction::Tree).with(loaders);
    let resources = of_spec(&mut loader, spec);
    finish(resources, loader)
}

fn of_spec(loader: &mut Loader<'_>, spec: &Spec) -> Result<Vec<resource::Resource>, BuildError> {
    let kustomization = flux::root(loader, spec)?;
    let mut resources = pipeline::run(&kustomization, loader, Order::Input)?;
    for resource in &mut resources {
        let place = resource.place();
        secrets::open_object(loader, resource).map_err(at(place))?;
    }
    if let Some(substitution) = &spec.substitute
        && (substitution.always || !substitution.variables.is_empty())
    {
        let place = Place::file(&kustomization.path);
        let variables = substitute::variables(substitution).map_err(at(place))?;
        for resource in &mut resources {
            let place = resource.place();
            let substituter = substitute::Substituter {
                variables: &variables,
                strict: substitution.strict,
                budget: &loader.budget,
                derived: loader.derived,
            };
            substitute::apply(resource, &substituter).map_err(at(place))?;
        }
    }
    let texts = [&spec.common_metadata.labels, &spec.common_metadata.annotations];
    let texts = texts
        .into_iter()
        .flatten()
        .map(|(key, text)| key.len() + text.len());
    let bytes = texts.sum::<usize>().saturating_mul(resources.len());
    let made = loader.budget.charge(bytes).map_err(Fault::from);
    made.map_err(at(Place::file(&kustomization.path)))?;
    for resource in &mut resources {
        flux::common_metadata(resource, &spec.common_metadata);
    }
    Ok(resources)
}

/// Builds a directory as the kustomize CLI does, without Flux's additions.
///
/// # Errors
/// The first fault, with its place.
pub fn kustomize(tree: &dyn Tree, dir: &str, options: &Options) -> Result<Built, BuildError> {
    kustomize_with(tree, dir, options, Loaders::default())
}

/// [`kustomize`] with access to remotes and charts. `dir` may be the URL of a repository.
///
/// # Errors
/// The first fault, with its place.
pub fn kustomize_with(
    tree: &dyn Tree,
    dir: &str,
    options: &Options,
    loaders: Loaders<'_>,
) -> Result<Built, BuildError> {
    let mut loader = Loader::new(tree, options.limits.clone(), options.restriction).with(loaders);
    loader.whole = options.whole;
    let resources = of_directory(&mut loader, dir, options);
    finish(resources, loader)
}

fn of_directory(
    loader: &mut Loader<'_>,
    dir: &str,
    options: &Options,
) -> Result<Vec<resource::Resource>, BuildError> {
    let root = match RemoteRepository::parse(dir) {
        Ok(repository) => loader
            .fetch(&repository)
            .map_err(at(Place::file(repository.label())))?,
        Err(_) => {
            let shown = path::join("", dir).unwrap_or_else(|_| dir.to_owned());
            let found = loader.resolve_directory("", dir);
            found.map_err(at(Place::file(shown)))?
        }
    };
    let Some(name) = kustomization::find(loader, &root)? else {
        return Err(at(Place::file(&root))(Fault::NoKustomization {
            root: root.clone(),
        }));
    };
    let kustomization = kustomization::read(loader, &root, &name)?;
    kustomization.refuse_empty()?;
    let resources = pipeline::run(&kustomization, loader, options.order)?;
    if options.order_asked && kustomization.fields.sort_options.is_some() {
        loader.warnings.push(ORDER_TWICE.to_owned());
    }
    Ok(resources)
}

/// kustomize's text.
const ORDER_TWICE: &str = "Warning: Sorting order is set both in 'kustomization.yaml' ('sortOptions') and in a CLI \
                           flag ('--reorder'). Using the kustomization file over the CLI flag.";

fn finish(
    resources: Result<Vec<resource::Resource>, BuildError>,
    loader: Loader<'_>,
) -> Result<Built, BuildError> {
    let resources = match (loader.budget.check(), resources) {
        // an interrupted step may have failed for another reason, or not at all
        (Err(exhausted), found) => {
            let place = found.err().map(|error| error.place);
            Err(at(place.unwrap_or_default())(exhausted.into()))
        }
        (Ok(()), found) => found,
    };
    let resources = resources.map_err(|error| {
        let deprecations = loader.deprecations.iter().map(ToString::to_string);
        let told = deprecations.chain(loader.warnings.iter().cloned());
        BuildError {
            warnings: told.collect(),
            ..error
        }
    })?;
    let objects = resources
        .into_iter()
        .map(|resource| Resource {
            object: resource.object,
            origin: resource.origin,
        })
        .collect();
    Ok(Built {
        objects,
        inputs: loader.inputs,
        deprecations: loader.deprecations,
        warnings: loader.warnings,
    })
}
