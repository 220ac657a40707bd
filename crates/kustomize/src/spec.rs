//! What to build: a directory, and what a Kustomization says on top of it.
//!
//! The fields are those of Flux's `Kustomization.spec` that shape the objects;
//! callers fill them. Decryption is not here: nothing in this crate holds keys.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// What to build and what to put on top.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// The directory, as a user writes it: `./clusters/prod`, `clusters/prod/`, empty for the root.
    pub path: String,
    /// Overrides the root kustomization's `namespace` unless empty.
    pub target_namespace: String,
    /// Overrides the root kustomization's `namePrefix` unless empty.
    pub name_prefix: String,
    /// Overrides the root kustomization's `nameSuffix` unless empty.
    pub name_suffix: String,
    /// Components appended to the root kustomization's; local paths relative to `path`.
    pub components: Vec<String>,
    /// Whether components whose directory is absent are left out instead of refused.
    pub ignore_missing_components: bool,
    /// Patches appended to the root kustomization's.
    pub patches: Vec<SpecPatch>,
    /// Images: each replaces the root kustomization's entry of the same name or is appended.
    pub images: Vec<SpecImage>,
    /// Labels and annotations every object gets; they win over the manifests'.
    pub common_metadata: CommonMetadata,
    /// What the build notes in annotations: `originAnnotations`, `transformerAnnotations`.
    pub build_metadata: Vec<String>,
    /// Post-build substitution of `${var}`; `None` leaves texts alone.
    pub substitute: Option<Substitution>,
    /// Name and namespace of the Kustomization whose substitution this is, for messages. May be empty.
    pub owner: String,
    /// How much a build may read and make.
    pub limits: Limits,
}

/// One entry of `spec.patches`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecPatch {
    /// A strategic merge patch or a JSON 6902 patch, as YAML or JSON text.
    pub patch: String,
    /// Which objects; a strategic merge patch without one patches the object it names.
    pub target: Option<SpecTarget>,
}

/// Which objects a patch is for. Empty fields match everything; names are anchored regular expressions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecTarget {
    /// The API group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The name.
    pub name: String,
    /// The namespace.
    pub namespace: String,
    /// A label selector, in the form kubectl takes.
    pub label_selector: String,
    /// A selector over annotations, in the same form.
    pub annotation_selector: String,
}

/// One entry of `spec.images`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecImage {
    /// The image's name as the manifests have it, without tag.
    pub name: String,
    /// The name it gets, unless empty.
    pub new_name: String,
    /// The tag it gets, unless empty.
    pub new_tag: String,
    /// The digest it gets, unless empty.
    pub digest: String,
}

/// Labels and annotations for every object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommonMetadata {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
}

/// Post-build substitution. `Debug` tells the variables' names only: their values may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Substitution {
    /// The variables.
    pub variables: BTreeMap<String, String>,
    /// Whether the pass runs without any variable (`substituteStrategy: Always`).
    pub always: bool,
    /// Whether a variable that is not set and has no default is an error rather than empty.
    pub strict: bool,
}

impl Default for Substitution {
    /// No variables, strict, only if there are variables.
    fn default() -> Self {
        Self {
            variables: BTreeMap::new(),
            always: false,
            strict: true,
        }
    }
}

impl fmt::Debug for Substitution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Substitution")
            .field("variables", &self.variables.keys().collect::<Vec<_>>())
            .field("always", &self.always)
            .field("strict", &self.strict)
            .finish()
    }
}

/// How much one build may read and make. Reaching a limit is an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The most files read.
    pub files_max: usize,
    /// The most bytes read in all files together.
    pub bytes_max: usize,
    /// The most bytes of one file.
    pub file_bytes_max: usize,
    /// The deepest nesting of bases and components.
    pub depth_max: usize,
    /// The most objects at any moment of the build.
    pub objects_max: usize,
    /// The most kustomizations entered, each time one is: two bases with two bases each, and so on, double.
    pub kustomizations_max: usize,
    /// The most bytes a build makes: read, counted every time, and copied by prefixes, labels, images, patches,
    /// replacements, variables and the like.
    pub made_bytes_max: usize,
    /// The most bytes that the regular expressions of selectors, images and replacements take, compiled.
    pub pattern_bytes_max: usize,
    /// The most properties looked at in one file of `crds`, each time one is reached.
    pub crd_properties_max: usize,
    /// The most charts rendered.
    pub charts_max: usize,
    /// The most threads that one build works with, itself included: more than one only where there is
    /// much to do. What is built is the same with any number. 1 where many builds run at once.
    pub threads_max: usize,
}

/// As many as can run at once; to ask is to read files.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get));

impl Default for Limits {
    /// 20,000 files, 256 MiB, 16 MiB a file, 64 levels, 50,000 objects, 20,000 kustomizations, 1 GiB made,
    /// 128 MiB of expressions, 200,000 properties, 1,000 charts, a thread for each processor there is.
    fn default() -> Self {
        Self {
            files_max: 20_000,
            bytes_max: 256 << 20,
            file_bytes_max: 16 << 20,
            depth_max: 64,
            objects_max: 50_000,
            kustomizations_max: 20_000,
            made_bytes_max: 1 << 30,
            pattern_bytes_max: 128 << 20,
            crd_properties_max: 200_000,
            charts_max: 1_000,
            threads_max: *THREADS,
        }
    }
}

/// Which files a kustomization may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadRestriction {
    /// Any in the tree: Flux's rule.
    #[default]
    Tree,
    /// Those in or below its own directory: the kustomize CLI's rule.
    Root,
}

/// The order objects come out in, unless the kustomization says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The order they appear in: Flux's rule.
    #[default]
    Input,
    /// By kind: the kustomize CLI's rule.
    Legacy,
}

/// How kustomize itself is to build, without anything of Flux's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Which files a kustomization may name.
    pub restriction: LoadRestriction,
    /// The order objects come out in.
    pub order: Order,
    /// Whether somebody asked for that order, who is to be told where the kustomization asks for another.
    pub order_asked: bool,
    /// Whether the tree is a whole file system: an absolute path, in a link or of a file, is one of it.
    pub whole: bool,
    /// How much a build may read and make.
    pub limits: Limits,
}
