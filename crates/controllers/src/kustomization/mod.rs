//! Keeps what a Kustomization declares applied: its source's objects, healthy, and nothing else.
//!
//! What wakes a Kustomization:
//!
//! | | told by |
//! |---|---|
//! | its own spec, annotations, deletion | its mirror |
//! | a ConfigMap or Secret with its values or keys, if that has the label for it | `labelled`, by the index |
//! | a new artifact of its source | the sources' mirror, by the index |
//! | a dependency that became ready, or reached the revision | its mirror, by the index |
//! | another Kustomization that was built, where it matters what that wants | its run, by the index |
//! | an object that drifted, went, became healthy or is held by another | the hub |
//! | a time: interval, retry, deadline, a correction that waited | the queue |
//!
//! The index is `ownership::graph`. The interval is a safety net: it looks at what memory holds, and
//! asks the API server nothing but for the ConfigMaps and Secrets that it takes values from and that
//! nobody tells of.
//!
//! Layers, from the lowest; each may use those above it in this table and nothing below:
//!
//! | layer | what it does | may use |
//! |---|---|---|
//! | `reasons` | why a Kustomization is not ready, and when it is worth another try | - |
//! | `declared` | what the custom resource asks for, parsed once | - |
//! | `inputs` | what a build reads: artifact, variables, keys, Vault | `reasons`, `declared` |
//! | `declaration` | what others have to know of it, for the ownership graph | `declared`, `inputs` |
//! | `rules` | how it looks at the health and drift of its objects | `reasons`, `declared` |
//! | `decide` | what to do, from what was seen: values in, a decision out | `reasons`, `declared`, `inputs` |
//! | `report` | what the status says then | `reasons`, `declared`, `inputs` |
//! | `render` | the build of a revision, its objects made ready | `inputs`, `rules`, above |
//! | `memory` | what is remembered between runs, and may be lost | all above |
//! | `run` | the steps of one run; it alone knows the process (`Context`), and writes | all above |
//! | `preview` | what a run would do, without doing it | all but `memory`, `run` |

pub(crate) mod controller;
pub mod decide;
pub(crate) mod declaration;
pub mod declared;
pub mod inputs;
mod memory;
pub mod preview;
pub mod reasons;
pub(crate) mod render;
pub mod report;
pub(crate) mod rules;
mod run;
#[cfg(test)]
mod tests;

use equate_apply::id::ObjectId;
use equate_apply::owner::{Owner, OwnerKind};

use crate::{Key, ObjectRef};

/// How Kustomizations mark what they apply: as Flux does, so that ownership carries over.
pub static KUSTOMIZATION: OwnerKind = OwnerKind {
    kind: "Kustomization",
    field_manager: "kustomize-controller",
    name_label: "kustomize.toolkit.fluxcd.io/name",
    namespace_label: "kustomize.toolkit.fluxcd.io/namespace",
};

/// The API group of Kustomizations.
pub(crate) const GROUP: &str = "kustomize.toolkit.fluxcd.io";

/// The kind of owner that an object is that somebody declares, if it is one.
pub(crate) fn applies(id: &ObjectId) -> Option<&'static str> {
    let is_kustomization = &*id.group == GROUP && &*id.kind == KUSTOMIZATION.kind;
    is_kustomization.then_some(KUSTOMIZATION.kind)
}

/// A Kustomization as the owner of objects.
pub(crate) fn owner_of(key: &Key) -> Owner {
    Owner::new(&KUSTOMIZATION, &*key.namespace, &*key.name)
}

/// A Kustomization among objects of other kinds.
pub(crate) fn object_ref(key: &Key) -> ObjectRef {
    ObjectRef::of(KUSTOMIZATION.kind, key)
}
