//! Names of labels, annotations, finalizers and field managers.
//!
//! The texts are Flux's, so that objects move between the two engines unchanged. Equate's own are under
//! `equate.dev/`.

/// Annotation: a token that requests a reconciliation now; copied to `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
/// Annotation: a token that requests one forced release of a HelmRelease; it must equal [`REQUESTED_AT`]'s.
pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// Annotation: a token that resets a HelmRelease's failure counts; it must equal [`REQUESTED_AT`]'s.
pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";
/// Label on a ConfigMap or Secret: with value [`ENABLED`], a change reconciles the objects that refer to it
/// at once.
pub const WATCH: &str = "reconcile.fluxcd.io/watch";
/// Label: the object's shard of controllers.
pub const SHARD: &str = "sharding.fluxcd.io/key";
/// The finalizer of every kind that needs cleanup.
pub const FINALIZER: &str = "finalizers.fluxcd.io";

/// Label on a managed object: the Kustomization that owns it.
pub const KUSTOMIZATION_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label on a managed object: the namespace of the Kustomization that owns it.
pub const KUSTOMIZATION_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
/// Annotation on a managed object: the way it is applied; [`SSA_OVERRIDE`] and its siblings.
pub const SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
/// Value of [`SSA`]: override other managers' fields. The default.
pub const SSA_OVERRIDE: &str = "Override";
/// Value of [`SSA`]: keep fields that kubectl set.
pub const SSA_MERGE: &str = "Merge";
/// Value of [`SSA`]: create once, then leave alone.
pub const SSA_IF_NOT_PRESENT: &str = "IfNotPresent";
/// Value of [`SSA`]: never apply.
pub const SSA_IGNORE: &str = "Ignore";
/// Annotation on a managed object: with value [`ENABLED`], an immutable change recreates it.
pub const FORCE: &str = "kustomize.toolkit.fluxcd.io/force";
/// Annotation or label on a managed object: with value [`DISABLED`], it is never pruned.
pub const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
/// Annotation or label on an object in git: with value `disabled`, its variables are not substituted.
pub const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";
/// Annotation or label on a managed object: with value `disabled`, it is not reconciled.
pub const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
/// Annotation on a Secret in git: with value [`DISABLED`], it is not decrypted.
pub const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// Prefix of annotations that are copied to an object's events.
pub const EVENT_PREFIX: &str = "event.toolkit.fluxcd.io/";
/// Event metadata: the commit an event is about.
pub const EVENT_COMMIT: &str = "event.toolkit.fluxcd.io/commit";
/// Event metadata: the pull request an event is about.
pub const EVENT_CHANGE_REQUEST: &str = "event.toolkit.fluxcd.io/change_request";

/// Label on a managed object: the HelmRelease that owns it.
pub const HELM_RELEASE_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// Label on a managed object: the namespace of the HelmRelease that owns it.
pub const HELM_RELEASE_NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";
/// Annotation or label on a release's object: with value `disabled`, its drift is ignored.
pub const HELM_DRIFT_DETECTION: &str = "helm.toolkit.fluxcd.io/driftDetection";
/// Annotation on an ArtifactGenerator: with value `disabled`, it is suspended.
pub const GENERATOR_RECONCILE: &str = "source.extensions.fluxcd.io/reconcile";

/// Annotation on a CustomResourceDefinition that `equate up` made for a kind without one: its origin.
pub const MADE_DEFINITION: &str = "equate.dev/definition";
/// Annotation on a workload or pod template: the failure to simulate in Equate's simulated cluster.
pub const SIMULATE: &str = "equate.dev/simulate";
/// Annotation on a Kustomization: the revision that may render nothing and so prune everything.
pub const ALLOW_EMPTY: &str = "equate.dev/allow-empty";
/// Annotation on a Kustomization: the number or share of its objects that a revision may prune.
pub const PRUNE_BUDGET: &str = "equate.dev/prune-budget";
/// Annotation on a Kustomization: the revision that may prune more than the budget.
pub const PRUNE_CONFIRM: &str = "equate.dev/prune-confirm";

/// Enables a behaviour. Compared case-insensitively.
pub const ENABLED: &str = "Enabled";
/// Disables a behaviour. Compared case-insensitively.
pub const DISABLED: &str = "Disabled";

/// The name of the source controller in events.
pub const SOURCE_MANAGER: &str = "source-controller";
/// The name of the Kustomization controller in events, and its field manager for applied objects.
pub const KUSTOMIZE_MANAGER: &str = "kustomize-controller";
/// The source controller's field manager for its own kinds: finalizers, statuses. Flux's
/// `gotk-<controller>`, distinct from the manager of applied objects.
pub const SOURCE_STATUS_MANAGER: &str = "gotk-source-controller";
/// The same for Kustomizations.
pub const KUSTOMIZE_STATUS_MANAGER: &str = "gotk-kustomize-controller";
/// The field manager of the Helm controller and of its releases' objects.
pub const HELM_MANAGER: &str = "helm-controller";

/// The namespace of `flux bootstrap`, and the default namespace of commands.
pub const DEFAULT_NAMESPACE: &str = "flux-system";
