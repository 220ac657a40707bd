//! A HelmRelease as this controller reads it: parsed once, with defaults filled in.

use std::time::Duration;

use equate_api::helm::{
    ChartNameChangeStrategy, CrdsPolicy, DeletionPropagation, DriftMode, HelmRelease, HelmReleaseSpec,
    HelmReleaseStatus, Install, ReleaseAction, ReleaseStrategy, RemediationStrategy, Rollback,
    ServerSideApply, Test, Uninstall, Upgrade,
};
use equate_api::meta::{FORCE_AT, REQUESTED_AT, RESET_AT};
use equate_helm::release::shortened;

use crate::kit::inputs::InputRef;
use crate::policy::Policy;
use crate::targets::kube_config_source::KubeConfigSource;
use crate::targets::target::account;
use crate::{Key, ObjectRef};

/// Flux's `spec.timeout`.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Flux's `spec.maxHistory`.
const HISTORY: usize = 5;
/// Flux's `strategy.retryInterval`.
const RETRY_INTERVAL: Duration = Duration::from_secs(300);

/// The settings of a HelmRelease.
#[derive(Debug, Clone, PartialEq)]
pub struct Declared {
    /// Its namespace and name.
    pub key: Key,
    /// Its uid.
    pub uid: String,
    /// The generation of its spec.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its spec.
    pub spec: HelmReleaseSpec,
    /// The name of the release.
    pub name: String,
    /// The namespace of the release.
    pub namespace: String,
    /// The namespace of its records.
    pub storage: String,
    /// The source of its chart.
    pub source: ObjectRef,
    /// Whether the source is a HelmChart that this HelmRelease owns.
    pub owns_chart: bool,
    /// The options of each action.
    pub install: Install,
    /// Those of upgrades.
    pub upgrade: Upgrade,
    /// Those of rollbacks.
    pub rollback: Rollback,
    /// Those of uninstallations.
    pub uninstall: Uninstall,
    /// Those of tests.
    pub test: Test,
    /// The handling of drift.
    pub drift: DriftMode,
    /// The HelmReleases that have to be ready first.
    pub depends_on: Vec<Key>,
    /// CEL expressions that replace their readiness, in the same order.
    pub ready_exprs: Vec<Option<String>>,
    /// The kubeconfig of another target cluster.
    pub kube_config: Option<KubeConfigSource>,
    /// The token of a requested run.
    pub requested_at: Option<String>,
    /// The token of a forced release.
    pub force_at: Option<String>,
    /// The token of a reset of failures.
    pub reset_at: Option<String>,
}

/// An operation on a release, for its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Installs it.
    Install,
    /// Upgrades it.
    Upgrade,
    /// Runs its tests.
    Test,
    /// Restores its last successful revision.
    Rollback,
    /// Removes it, because a revision failed.
    UninstallFailed,
    /// Removes it.
    Uninstall,
    /// Ends an interrupted operation.
    Unlock,
    /// Corrects drift.
    CorrectDrift,
}

impl Action {
    /// Upstream's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Install => "install",
            Self::Upgrade => "upgrade",
            Self::Test => "test",
            Self::Rollback => "rollback",
            Self::UninstallFailed | Self::Uninstall => "uninstall",
            Self::Unlock => "unlock",
            Self::CorrectDrift => "correct cluster drift",
        }
    }

    /// The class of actions of which one attempt runs one.
    pub fn class(self) -> Class {
        match self {
            Self::Install | Self::Upgrade | Self::Uninstall => Class::Release,
            Self::Test => Class::Test,
            Self::Rollback | Self::UninstallFailed => Class::Remediate,
            Self::Unlock => Class::Unlock,
            Self::CorrectDrift => Class::CorrectDrift,
        }
    }
}

/// The classes of actions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Makes a revision.
    Release,
    /// Tests it.
    Test,
    /// Remediates it.
    Remediate,
    /// Unlocks it.
    Unlock,
    /// Corrects its objects.
    CorrectDrift,
}

/// The remediation that applies to the last attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remediation {
    /// The number of retries; endless if negative.
    pub retries: i64,
    /// The failures so far.
    pub failures: i64,
    /// Whether failed tests do not count.
    pub ignores_tests: bool,
    /// Whether the last failure is remediated, too.
    pub last: bool,
    /// The way.
    pub strategy: RemediationStrategy,
    /// Whether it is an upgrade's.
    pub of_upgrade: bool,
}

impl Remediation {
    /// Whether no retries are left.
    pub fn is_exhausted(&self) -> bool {
        self.retries >= 0 && self.failures > self.retries
    }
}

impl Declared {
    /// The ServiceAccount to impersonate under this policy.
    pub(crate) fn account<'a>(&'a self, policy: &'a Policy) -> Option<&'a str> {
        account(self.spec.service_account_name.as_deref(), policy)
    }

    /// `spec.timeout`.
    pub fn timeout(&self) -> Duration {
        self.spec.timeout.map_or(TIMEOUT, equate_api::meta::Duration::get)
    }

    /// The time of an action's hooks and of the wait for its objects, each.
    pub fn timeout_of(&self, action: Action) -> Duration {
        let own = match action {
            Action::Install => self.install.timeout,
            Action::Upgrade => self.upgrade.timeout,
            Action::Test => self.test.timeout,
            Action::Rollback => self.rollback.timeout,
            Action::UninstallFailed | Action::Uninstall => self.uninstall.timeout,
            Action::Unlock | Action::CorrectDrift => None,
        };
        own.map_or_else(|| self.timeout(), equate_api::meta::Duration::get)
    }

    /// The number of revisions to keep; 0 for all.
    pub fn revisions_max(&self) -> usize {
        self.spec
            .max_history
            .map_or(HISTORY, |max| usize::try_from(max).unwrap_or(0))
    }

    /// How an action treats the chart's CRDs. As upstream, `skipCRDs` counts only without `crds`, and an
    /// upgrade without a policy creates new ones (`action/crds.go`).
    pub fn crds(&self, action: Action) -> CrdsPolicy {
        match action {
            Action::Upgrade => self.upgrade.crds.unwrap_or(CrdsPolicy::Create),
            _ if self.install.skip_crds && self.install.crds.is_none() => CrdsPolicy::Skip,
            _ => self.install.crds.unwrap_or(CrdsPolicy::Create),
        }
    }

    /// Whether an action renders without a look at the chart's schema of values.
    pub fn skips_schema(&self, action: Action) -> bool {
        match action {
            Action::Upgrade => self.upgrade.disable_schema_validation,
            _ => self.install.disable_schema_validation,
        }
    }

    /// Whether an action runs hooks.
    pub fn runs_hooks(&self, action: Action) -> bool {
        !match action {
            Action::Install => self.install.disable_hooks,
            Action::Upgrade => self.upgrade.disable_hooks,
            Action::Rollback => self.rollback.disable_hooks,
            Action::UninstallFailed | Action::Uninstall => self.uninstall.disable_hooks,
            Action::Test | Action::Unlock | Action::CorrectDrift => false,
        }
    }

    /// Whether an action waits for its objects, and whether also for Jobs.
    pub fn waits(&self, action: Action) -> (bool, bool) {
        let (off, jobs_off) = match action {
            Action::Install => (self.install.disable_wait, self.install.disable_wait_for_jobs),
            Action::Upgrade => (self.upgrade.disable_wait, self.upgrade.disable_wait_for_jobs),
            Action::Rollback => (self.rollback.disable_wait, self.rollback.disable_wait_for_jobs),
            Action::UninstallFailed | Action::Uninstall => (self.uninstall.disable_wait, true),
            Action::Test | Action::Unlock | Action::CorrectDrift => (true, true),
        };
        (!off, !jobs_off)
    }

    /// Whether an action takes over objects of others.
    pub fn takes_ownership(&self, action: Action) -> bool {
        !match action {
            Action::Upgrade => self.upgrade.disable_take_ownership,
            _ => self.install.disable_take_ownership,
        }
    }

    /// Whether an action uses server-side apply; `None` is as the last release.
    pub fn server_side(&self, action: Action) -> Option<bool> {
        let of = |mode: Option<ServerSideApply>| match mode.unwrap_or(ServerSideApply::Auto) {
            ServerSideApply::Enabled => Some(true),
            ServerSideApply::Disabled => Some(false),
            ServerSideApply::Auto => None,
        };
        match action {
            Action::Install => Some(self.install.server_side_apply.unwrap_or(true)),
            Action::Rollback => of(self.rollback.server_side_apply),
            _ => of(self.upgrade.server_side_apply),
        }
    }

    /// Whether a client-side change replaces objects.
    pub fn replaces_objects(&self, action: Action) -> bool {
        match action {
            Action::Rollback => self.rollback.force,
            Action::Upgrade => self.upgrade.force,
            _ => false,
        }
    }

    /// Whether a failed action deletes the objects that it created.
    pub fn cleans_up(&self, action: Action) -> bool {
        match action {
            Action::Rollback => self.rollback.cleanup_on_fail,
            Action::Upgrade => self.upgrade.cleanup_on_fail,
            _ => false,
        }
    }

    /// The propagation of deletions.
    pub fn propagation(&self) -> DeletionPropagation {
        self.uninstall.deletion_propagation.unwrap_or_default()
    }

    /// Whether another chart name means another release.
    pub fn reinstalls(&self) -> bool {
        let strategy = self.upgrade.chart_name_change_strategy.unwrap_or_default();
        strategy == ChartNameChangeStrategy::Reinstall
    }

    fn install_remediation(&self, status: &HelmReleaseStatus) -> Remediation {
        let set = self.install.remediation.clone().unwrap_or_default();
        Remediation {
            retries: set.retries.unwrap_or_default(),
            failures: status.install_failures.unwrap_or_default(),
            ignores_tests: set.ignore_test_failures.unwrap_or(self.test.ignore_failures),
            last: set.remediate_last_failure.unwrap_or(false),
            strategy: RemediationStrategy::Uninstall,
            of_upgrade: false,
        }
    }

    fn upgrade_remediation(&self, status: &HelmReleaseStatus) -> Remediation {
        let set = self.upgrade.remediation.clone().unwrap_or_default();
        let retries = set.retries.unwrap_or_default();
        Remediation {
            retries,
            failures: status.upgrade_failures.unwrap_or_default(),
            ignores_tests: set.ignore_test_failures.unwrap_or(self.test.ignore_failures),
            last: set.remediate_last_failure.unwrap_or(retries > 0),
            strategy: set.strategy.unwrap_or_default(),
            of_upgrade: true,
        }
    }

    /// The remediation of an action.
    pub fn remediation(&self, action: ReleaseAction, status: &HelmReleaseStatus) -> Remediation {
        match action {
            ReleaseAction::Install => self.install_remediation(status),
            ReleaseAction::Upgrade => self.upgrade_remediation(status),
        }
    }

    /// The remediation of the last attempt.
    pub fn active_remediation(&self, status: &HelmReleaseStatus) -> Option<Remediation> {
        let action = status.last_attempted_release_action?;
        Some(self.remediation(action, status))
    }

    /// The delay before a retry of an action, if its strategy is to retry.
    pub fn retry(&self, action: ReleaseAction) -> Option<Duration> {
        let (name, interval) = match action {
            ReleaseAction::Install => {
                let strategy = self.install.strategy.as_ref()?;
                (strategy.name, strategy.retry_interval)
            }
            ReleaseAction::Upgrade => {
                let strategy = self.upgrade.strategy.as_ref()?;
                (strategy.name, strategy.retry_interval)
            }
        };
        let interval = interval.map_or(RETRY_INTERVAL, equate_api::meta::Duration::get);
        (name == ReleaseStrategy::RetryOnFailure).then_some(interval)
    }

    /// The same for the last attempt.
    pub fn active_retry(&self, status: &HelmReleaseStatus) -> Option<Duration> {
        self.retry(status.last_attempted_release_action?)
    }
}

impl From<&HelmRelease> for Declared {
    fn from(object: &HelmRelease) -> Self {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        let near = |other: Option<&String>, name: &str| {
            Key::new(other.map_or(key.namespace.as_str(), String::as_str), name)
        };
        let annotation = |name: &str| meta.annotations.as_ref()?.get(name).cloned();
        let full_name = match (&spec.release_name, &spec.target_namespace) {
            (Some(name), _) => name.clone(),
            (None, Some(namespace)) => format!("{namespace}-{}", key.name),
            (None, None) => key.name.clone(),
        };
        Self {
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            name: shortened(&full_name),
            namespace: spec
                .target_namespace
                .clone()
                .unwrap_or_else(|| key.namespace.clone()),
            storage: spec
                .storage_namespace
                .clone()
                .unwrap_or_else(|| key.namespace.clone()),
            source: source(object),
            owns_chart: spec.chart_ref.is_none(),
            install: spec.install.clone().unwrap_or_default(),
            upgrade: spec.upgrade.clone().unwrap_or_default(),
            rollback: spec.rollback.clone().unwrap_or_default(),
            uninstall: spec.uninstall.clone().unwrap_or_default(),
            test: spec.test.clone().unwrap_or_default(),
            drift: spec
                .drift_detection
                .as_ref()
                .and_then(|drift| drift.mode)
                .unwrap_or_default(),
            depends_on: spec
                .depends_on
                .iter()
                .map(|on| near(on.namespace.as_ref(), &on.name))
                .collect(),
            ready_exprs: spec
                .depends_on
                .iter()
                .map(|on| on.ready_expr.clone().filter(|text| !text.is_empty()))
                .collect(),
            kube_config: spec.kube_config.as_ref().map(KubeConfigSource::from),
            requested_at: annotation(REQUESTED_AT),
            force_at: annotation(FORCE_AT),
            reset_at: annotation(RESET_AT),
            spec: spec.clone(),
            key,
        }
    }
}

/// The source of its chart: a HelmChart of its own, or the one that it refers to.
pub(crate) fn source(object: &HelmRelease) -> ObjectRef {
    let own = Key::of(&object.metadata);
    if let Some(reference) = &object.spec.chart_ref {
        let namespace = reference.namespace.as_deref().unwrap_or(&own.namespace);
        return ObjectRef::new(reference.kind.as_str(), namespace, &*reference.name);
    }
    let template = object.spec.chart.as_ref();
    let namespace = template.and_then(|chart| chart.spec.source_ref.namespace.as_deref());
    ObjectRef::new(
        "HelmChart",
        namespace.unwrap_or(&own.namespace),
        format!("{}-{}", own.namespace, own.name),
    )
}

/// The ConfigMaps and Secrets that it reads.
pub(crate) fn holders(object: &HelmRelease) -> impl Iterator<Item = InputRef> {
    let namespace = object.metadata.namespace.clone().unwrap_or_default();
    let opener = object.spec.kube_config.as_ref().map(KubeConfigSource::from);
    let opener = opener.map(|opener| opener.holder(&namespace));
    let values = object.spec.values_from.iter();
    let values: Vec<InputRef> = values
        .map(|from| (from.kind, Key::new(&*namespace, &*from.name)))
        .collect();
    values.into_iter().chain(opener)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
    pub(crate) fn release(spec: serde_json::Value) -> HelmRelease {
        let mut object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": { "name": "app", "namespace": "team" },
            "spec": { "interval": "10m" },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn names_and_namespaces() {
        let check = |spec: serde_json::Value, expected: [&str; 3]| {
            let declared = Declared::from(&release(spec));
            assert_eq!(
                [&*declared.name, &*declared.namespace, &*declared.storage],
                expected
            );
        };
        check(json!({}), ["app", "team", "team"]);
        check(json!({ "targetNamespace": "prod" }), ["prod-app", "prod", "team"]);
        check(
            json!({ "targetNamespace": "prod", "releaseName": "web", "storageNamespace": "flux" }),
            ["web", "prod", "flux"],
        );
        // by fluxcd/helm-controller
        let long = "a".repeat(60);
        let declared = Declared::from(&release(json!({ "targetNamespace": long })));
        assert_eq!(declared.name.len(), 53);
        assert!(declared.name.starts_with(&format!("{}-", "a".repeat(40))));
    }

    #[test]
    fn sources() {
        let check = |spec: serde_json::Value, expected: &str| {
            assert_eq!(source(&release(spec)).to_string(), expected);
        };
        let chart =
            |source: serde_json::Value| json!({ "chart": { "spec": { "chart": "c", "sourceRef": source } } });
        check(
            chart(json!({ "kind": "GitRepository", "name": "g" })),
            "HelmChart/team/team-app",
        );
        check(
            chart(json!({ "kind": "GitRepository", "name": "g", "namespace": "flux" })),
            "HelmChart/flux/team-app",
        );
        check(
            json!({ "chartRef": { "kind": "OCIRepository", "name": "o" } }),
            "OCIRepository/team/o",
        );
        check(
            json!({ "chartRef": { "kind": "HelmChart", "name": "o", "namespace": "x" } }),
            "HelmChart/x/o",
        );
    }

    #[test]
    fn remediation_and_retries() {
        let declared = Declared::from(&release(json!({
            "install": { "strategy": { "name": "RetryOnFailure", "retryInterval": "1m" } },
            "upgrade": { "remediation": { "retries": 2 } },
        })));
        let status = |action: ReleaseAction, failures: i64| HelmReleaseStatus {
            last_attempted_release_action: Some(action),
            upgrade_failures: Some(failures),
            ..HelmReleaseStatus::default()
        };
        let installed = status(ReleaseAction::Install, 0);
        assert_eq!(declared.active_retry(&installed), Some(Duration::from_secs(60)));
        for (failures, exhausted) in [(2, false), (3, true)] {
            let status = status(ReleaseAction::Upgrade, failures);
            let remediation = declared.active_remediation(&status).unwrap();
            assert!(remediation.last);
            assert_eq!(remediation.is_exhausted(), exhausted);
            assert_eq!(declared.active_retry(&status), None);
        }
        assert_eq!(declared.active_remediation(&HelmReleaseStatus::default()), None);
    }
}
