//! Labels, annotations, finalizers and field managers, by name.
//!
//! The texts are Flux's, so that objects move between the two engines unchanged;
//! what is Equate's own stands under `equate.dev/`.

/// Annotation: a token that asks for a run now; copied to `status.lastHandledReconcileAt`.
pub const REQUESTED_AT: &str = "reconcile.fluxcd.io/requestedAt";
/// Annotation: a token that asks a HelmRelease for one forced release; counts when it equals [`REQUESTED_AT`]'s.
pub const FORCE_AT: &str = "reconcile.fluxcd.io/forceAt";
/// Annotation: a token that resets a HelmRelease's failure counts; counts when it equals [`REQUESTED_AT`]'s.
pub const RESET_AT: &str = "reconcile.fluxcd.io/resetAt";
/// Label on a ConfigMap or Secret: with value [`ENABLED`], what refers to it reacts to its changes at once.
pub const WATCH: &str = "reconcile.fluxcd.io/watch";
/// Label: which shard of controllers an object belongs to.
pub const SHARD: &str = "sharding.fluxcd.io/key";
/// The finalizer of every kind that has something to clean up.
pub const FINALIZER: &str = "finalizers.fluxcd.io";

/// Label on a managed object: the Kustomization that owns it.
pub const KUSTOMIZATION_NAME: &str = "kustomize.toolkit.fluxcd.io/name";
/// Label on a managed object: the namespace of the Kustomization that owns it.
pub const KUSTOMIZATION_NAMESPACE: &str = "kustomize.toolkit.fluxcd.io/namespace";
/// Annotation on a managed object: how it is applied; [`SSA_OVERRIDE`] and its siblings.
pub const SSA: &str = "kustomize.toolkit.fluxcd.io/ssa";
/// Value of [`SSA`]: ours wins over other managers' fields. The default.
pub const SSA_OVERRIDE: &str = "Override";
/// Value of [`SSA`]: fields kubectl set are left alone.
pub const SSA_MERGE: &str = "Merge";
/// Value of [`SSA`]: created once, then left alone.
pub const SSA_IF_NOT_PRESENT: &str = "IfNotPresent";
/// Value of [`SSA`]: never applied.
pub const SSA_IGNORE: &str = "Ignore";
/// Annotation on a managed object: with value [`ENABLED`], an immutable change recreates it.
pub const FORCE: &str = "kustomize.toolkit.fluxcd.io/force";
/// Annotation or label on a managed object: with value [`DISABLED`], it is never pruned.
pub const PRUNE: &str = "kustomize.toolkit.fluxcd.io/prune";
/// Annotation or label on an object in git: with value `disabled`, variables in it are left alone.
pub const SUBSTITUTE: &str = "kustomize.toolkit.fluxcd.io/substitute";
/// Annotation or label on a managed object: with value `disabled`, it is left as it is.
pub const RECONCILE: &str = "kustomize.toolkit.fluxcd.io/reconcile";
/// Annotation on a Secret in git: with value [`DISABLED`], it is not decrypted.
pub const DECRYPT: &str = "kustomize.toolkit.fluxcd.io/decrypt";

/// Prefix of annotations that travel in an object's events.
pub const EVENT_PREFIX: &str = "event.toolkit.fluxcd.io/";
/// Event metadata: the commit an event is about.
pub const EVENT_COMMIT: &str = "event.toolkit.fluxcd.io/commit";
/// Event metadata: the pull request an event is about.
pub const EVENT_CHANGE_REQUEST: &str = "event.toolkit.fluxcd.io/change_request";

/// Label on a managed object: the HelmRelease that owns it.
pub const HELM_RELEASE_NAME: &str = "helm.toolkit.fluxcd.io/name";
/// Label on a managed object: the namespace of the HelmRelease that owns it.
pub const HELM_RELEASE_NAMESPACE: &str = "helm.toolkit.fluxcd.io/namespace";
/// Annotation or label on a release's object: with value `disabled`, drift in it is not looked for.
pub const HELM_DRIFT_DETECTION: &str = "helm.toolkit.fluxcd.io/driftDetection";
/// Annotation on an ArtifactGenerator: with value `disabled`, it rests.
pub const GENERATOR_RECONCILE: &str = "source.extensions.fluxcd.io/reconcile";

/// Annotation on a workload or pod template: how Equate's simulated cluster lets it turn out.
pub const SIMULATE: &str = "equate.dev/simulate";
/// Annotation on a Kustomization: the revision that may render nothing and so prune everything.
pub const ALLOW_EMPTY: &str = "equate.dev/allow-empty";
/// Annotation on a Kustomization: how many of its objects, or what share of them, a revision may delete.
pub const PRUNE_BUDGET: &str = "equate.dev/prune-budget";
/// Annotation on a Kustomization: the revision that may delete more than the budget.
pub const PRUNE_CONFIRM: &str = "equate.dev/prune-confirm";

/// Switches a behaviour on. Compared without regard to case.
pub const ENABLED: &str = "Enabled";
/// Switches a behaviour off. Compared without regard to case.
pub const DISABLED: &str = "Disabled";

/// The controller of sources, as events name it.
pub const SOURCE_MANAGER: &str = "source-controller";
/// The controller of Kustomizations, as events name it, and the field manager of what it applies.
pub const KUSTOMIZE_MANAGER: &str = "kustomize-controller";
/// Field manager of what the controller of sources writes into its own kinds: finalizers, statuses.
/// (Flux: `gotk-<controller>`, so that it is not taken for what was applied from git.)
pub const SOURCE_STATUS_MANAGER: &str = "gotk-source-controller";
/// The same for Kustomizations.
pub const KUSTOMIZE_STATUS_MANAGER: &str = "gotk-kustomize-controller";
/// Field manager of HelmReleases and of what they apply.
pub const HELM_MANAGER: &str = "helm-controller";

/// Where `flux bootstrap` puts its objects: the namespace commands look in unless told another.
pub const DEFAULT_NAMESPACE: &str = "flux-system";
