//! The kinds of owners of applied objects. Their labels are those of Flux, so that ownership carries over.

use equate_api::meta::{
    HELM_MANAGER, HELM_RELEASE_NAME, HELM_RELEASE_NAMESPACE, KUSTOMIZATION_NAME, KUSTOMIZATION_NAMESPACE,
};
use equate_apply::owner::OwnerKind;

/// Kustomizations.
pub static KUSTOMIZATION: OwnerKind = OwnerKind {
    kind: "Kustomization",
    field_manager: "kustomize-controller",
    name_label: KUSTOMIZATION_NAME,
    namespace_label: KUSTOMIZATION_NAMESPACE,
};

/// HelmReleases.
pub static HELM_RELEASE: OwnerKind = OwnerKind {
    kind: "HelmRelease",
    field_manager: HELM_MANAGER,
    name_label: HELM_RELEASE_NAME,
    namespace_label: HELM_RELEASE_NAMESPACE,
};
