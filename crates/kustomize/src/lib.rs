//! kustomize build, pure: a tree and a spec in, objects out.
//!
//! The oracle is kustomize api 0.21, whose bytes Flux's users have in their
//! clusters; the rules of Flux's controller (a generated kustomization, fields
//! of its spec, `${var}` substitution) stand on top. Nothing here does I/O,
//! knows the time or a cluster: files come through [`Tree`].

mod error;
mod inputs;
mod spec;
mod tree;

pub use error::{BuildError, Fault, Place};
pub use inputs::Inputs;
pub use spec::{CommonMetadata, Limits, Spec, SpecImage, SpecPatch, SpecTarget, Substitution};
pub use tree::{EntryKind, ReadError, Stat, Tree};

use equate_manifest::object::Object;

/// What a build made.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The objects, in the order of their appearance.
    pub objects: Vec<Resource>,
    /// What was read.
    pub inputs: Inputs,
}

/// An object and where it comes from.
#[derive(Debug, Clone, PartialEq)]
pub struct Resource {
    /// The object.
    pub object: Object,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where an object comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// The file, relative to the tree's root; the kustomization file for generated objects.
    pub path: String,
    /// The line its document begins at, from 1.
    pub line: usize,
}

/// Builds the objects of a directory.
pub fn build(tree: &dyn Tree, spec: &Spec) -> Result<Built, BuildError> {
    let mut inputs = Inputs::default();
    inputs.walked(tree, &spec.path);
    inputs.saw(tree, &spec.path);
    Err(BuildError {
        place: Place::file(&spec.path),
        fault: Fault::Unsupported {
            field: "kustomization.resources".to_owned(),
        },
    })
}
