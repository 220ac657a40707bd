//! The spec of a build: a directory and a Kustomization's fields.
//!
//! The fields are those of Flux's `Kustomization.spec` that shape objects; callers fill them. Decryption is
//! excluded: this crate holds no keys.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::LazyLock;

/// A directory to build and the fields to add.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Spec {
    /// The directory as a user writes it: `./clusters/prod`, `clusters/prod/`, empty for the root.
    pub path: String,
    /// Overrides the root kustomization's `namespace` unless empty.
    pub target_namespace: String,
    /// Overrides the root kustomization's `namePrefix` unless empty.
    pub name_prefix: String,
    /// Overrides the root kustomization's `nameSuffix` unless empty.
    pub name_suffix: String,
    /// Components appended to the root kustomization's; local paths are relative to `path`.
    pub components: Vec<String>,
    /// Whether to skip components whose directory is missing.
    pub ignore_missing_components: bool,
    /// Patches appended to the root kustomization's.
    pub patches: Vec<SpecPatch>,
    /// Images: each replaces the root kustomization's entry of the same name or is appended.
    pub images: Vec<SpecImage>,
    /// Labels and annotations for every object; they override the manifests'.
    pub common_metadata: CommonMetadata,
    /// The annotations to add: `originAnnotations`, `transformerAnnotations`.
    pub build_metadata: Vec<String>,
    /// Post-build substitution of `${var}`; `None` disables it.
    pub substitute: Option<Substitution>,
    /// Namespace and name of the Kustomization, for messages. May be empty.
    pub owner: String,
    /// Limits of the build.
    pub limits: Limits,
}

/// One entry of `spec.patches`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecPatch {
    /// A strategic merge patch or a JSON 6902 patch, as YAML or JSON text.
    pub patch: String,
    /// The target; a strategic merge patch without one patches the object it names.
    pub target: Option<SpecTarget>,
}

/// The target of a patch. Empty fields match everything; names are anchored regular expressions.
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
    /// A label selector in kubectl's syntax.
    pub label_selector: String,
    /// An annotation selector in the same syntax.
    pub annotation_selector: String,
}

/// One entry of `spec.images`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SpecImage {
    /// The image's name in the manifests, without tag.
    pub name: String,
    /// The new name; empty keeps it.
    pub new_name: String,
    /// The new tag; empty keeps it.
    pub new_tag: String,
    /// The new digest; empty keeps it.
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

/// Post-build substitution. `Debug` shows only the variables' names: values may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Substitution {
    /// The variables.
    pub variables: BTreeMap<String, String>,
    /// Whether to substitute without any variables (`substituteStrategy: Always`).
    pub always: bool,
    /// Whether a variable without value and default is an error rather than empty.
    pub strict: bool,
}

impl Default for Substitution {
    /// No variables, strict, not `always`.
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

/// Limits of one build. Exceeding one is an error that names it.
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
    /// The most kustomizations entered, repeats included: bases of bases double each level.
    pub kustomizations_max: usize,
    /// The most bytes a build produces: files, each time they are read, and copies by transformers.
    pub made_bytes_max: usize,
    /// The most bytes of compiled regular expressions.
    pub pattern_bytes_max: usize,
    /// The most work, in steps of some ten nanoseconds of processor time.
    pub steps_max: u64,
    /// The most properties visited in one file of `crds`, repeats included.
    pub crd_properties_max: usize,
    /// The most charts rendered.
    pub charts_max: usize,
    /// The most threads of one build, the caller's included. The result does not depend on it. Use 1 where
    /// many builds run at once.
    pub threads_max: usize,
}

/// The available parallelism, cached because the query reads files.
static THREADS: LazyLock<usize> =
    LazyLock::new(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get));

impl Default for Limits {
    /// 20,000 files, 256 MiB, 16 MiB a file, 64 levels, 50,000 objects, 20,000 kustomizations, 1 GiB made,
    /// 128 MiB of expressions, two minutes of work, 200,000 properties, 1,000 charts, one thread per
    /// processor.
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
            steps_max: 10_000_000_000,
            crd_properties_max: 200_000,
            charts_max: 1_000,
            threads_max: *THREADS,
        }
    }
}

/// The files a kustomization may read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoadRestriction {
    /// Any in the tree: Flux's rule.
    #[default]
    Tree,
    /// Those in or below its own directory: the kustomize CLI's rule.
    Root,
}

/// The default order of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// In order of appearance: Flux's rule.
    #[default]
    Input,
    /// By kind: the kustomize CLI's rule.
    Legacy,
}

/// Options for a kustomize build without Flux's additions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// The files a kustomization may read.
    pub restriction: LoadRestriction,
    /// The order of objects.
    pub order: Order,
    /// Whether the user requested that order and should be warned if the kustomization sets another.
    pub order_asked: bool,
    /// Whether the tree is a whole file system, so that absolute paths and links resolve in it.
    pub whole: bool,
    /// Limits of the build.
    pub limits: Limits,
}
