//! The status of a HelmRelease while a run changes it. Conditions, texts and counters are those of
//! fluxcd/helm-controller 1.6 (`internal/reconcile`); pure.

use std::cmp::Reverse;

use equate_api::helm::{HelmReleaseStatus, ReleaseAction, Snapshot, TestHook};
use equate_api::meta::{
    Condition, ConditionStatus, ConditionType, Reason, condition, is_true, remove_condition, set_condition,
};
use equate_helm::hooks::Event;
use equate_helm::release::{Release, config_digest, digest};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::declared::Declared;
use super::digests;

/// The format of snapshots whose digests are of Helm 4's releases.
pub(crate) const SNAPSHOT_VERSION: &str = "v2";
/// The start of upstream's text about an action in progress.
const RUNNING: &str = "Running '";
/// The revisions that a history without a successful one keeps.
const HISTORY_MAX: usize = 5;

/// A status in the making.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Draft {
    pub(crate) status: HelmReleaseStatus,
    generation: i64,
    now: Timestamp,
}

impl Draft {
    pub(crate) fn new(status: HelmReleaseStatus, generation: i64, now: Timestamp) -> Self {
        Self {
            status,
            generation,
            now,
        }
    }

    pub(crate) fn set(&mut self, of: ConditionType, is: ConditionStatus, reason: Reason, message: &str) {
        set_condition(
            &mut self.status.conditions,
            of,
            is,
            reason,
            message.trim(),
            self.generation,
            self.now,
        );
    }

    pub(crate) fn clear(&mut self, of: ConditionType) {
        remove_condition(&mut self.status.conditions, of);
    }

    pub(crate) fn get(&self, of: ConditionType) -> Option<&Condition> {
        condition(&self.status.conditions, of)
    }

    pub(crate) fn is_true(&self, of: ConditionType) -> bool {
        is_true(&self.status.conditions, of)
    }

    /// It makes progress.
    pub(crate) fn reconciling(&mut self, reason: Reason, message: &str) {
        self.clear(ConditionType::Stalled);
        self.set(ConditionType::Reconciling, ConditionStatus::True, reason, message);
    }

    /// It cannot progress.
    pub(crate) fn stalled(&mut self, reason: Reason, message: &str) {
        self.clear(ConditionType::Reconciling);
        self.set(ConditionType::Stalled, ConditionStatus::True, reason, message);
    }

    pub(crate) fn not_ready(&mut self, reason: Reason, message: &str) {
        self.set(ConditionType::Ready, ConditionStatus::False, reason, message);
    }

    /// An action begins.
    pub(crate) fn running(&mut self, declared: &Declared, action: super::declared::Action) {
        let timeout = equate_api::meta::Duration::from(declared.timeout_of(action));
        let message = format!("{RUNNING}{}' action with timeout of {timeout}", action.name());
        self.reconciling(Reason::Progressing, &message);
        if action.class() == super::declared::Class::Release {
            self.set(
                ConditionType::Ready,
                ConditionStatus::Unknown,
                Reason::Progressing,
                &message,
            );
        }
        if action == super::declared::Action::CorrectDrift {
            self.set(
                ConditionType::Ready,
                ConditionStatus::Unknown,
                Reason::Progressing,
                "correcting cluster drift",
            );
        }
    }

    /// Composes `Ready` of the conditions about the release: of the newest generation, the first.
    pub(crate) fn summarize(&mut self, declared: &Declared) {
        use ConditionType::{Ready, Released, Remediated, TestSuccess};
        if !declared.test.enable {
            self.clear(TestSuccess);
        }
        let order = match declared.test.enable && !declared.test.ignore_failures {
            true => &[Remediated, TestSuccess, Released][..],
            false => &[Remediated, Released][..],
        };
        let found = order.iter().enumerate().filter_map(|(place, of)| {
            let condition = self.get(*of)?;
            Some((Reverse(condition.observed_generation), place, condition.clone()))
        });
        let first = found.min_by_key(|(generation, place, _)| (*generation, *place));
        if let Some((_, _, first)) = first {
            let is = match first.status.as_str() {
                // any remediation is an error
                _ if first.type_ == Remediated.as_str() => ConditionStatus::False,
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            if is == ConditionStatus::True {
                self.clear(ConditionType::Stalled);
            }
            let reason = reason_of(&first.reason);
            self.set(Ready, is, reason, &first.message);
        }
        self.status.observed_post_renderers_digest = digests::post_renderers(&declared.spec.post_renderers);
        self.status.observed_common_metadata_digest =
            digests::common_metadata(declared.spec.common_metadata.as_ref());
    }

    /// The status describes this generation.
    pub(crate) fn observed(&mut self) {
        self.status.observed_generation = Some(self.generation);
    }

    /// The release is as declared: an earlier remediation or failure is over.
    pub(crate) fn in_sync(&mut self, declared: &Declared) {
        use ConditionType::{Ready, Released};
        self.released_instead_of_remediated();
        if !self.is_true(Ready) || !self.is_true(Released) {
            let failed = self.get(Released).map(|condition| condition.reason.clone());
            let said = match (failed.as_deref(), latest(&self.status.history)) {
                (Some("InstallFailed"), Some(latest)) => {
                    Some((Reason::InstallSucceeded, succeeded("install", latest)))
                }
                (Some("UpgradeFailed"), Some(latest)) => {
                    Some((Reason::UpgradeSucceeded, succeeded("upgrade", latest)))
                }
                _ => None,
            };
            if let Some((reason, message)) = said {
                self.set(Released, ConditionStatus::True, reason, &message);
                self.summarize(declared);
            }
        }
    }

    /// A rollback restored just what is declared now.
    pub(crate) fn released_instead_of_remediated(&mut self) {
        use ConditionType::{Released, Remediated};
        if !self.is_true(Remediated) {
            return;
        }
        let since = self
            .get(Remediated)
            .map(|condition| condition.last_transition_time.clone());
        let message = latest(&self.status.history).map(|latest| succeeded("upgrade", latest));
        self.clear(Remediated);
        self.clear(Released);
        self.set(
            Released,
            ConditionStatus::True,
            Reason::UpgradeSucceeded,
            &message.unwrap_or_default(),
        );
        let released = self.status.conditions.iter_mut();
        if let (Some(released), Some(since)) =
            (released.into_iter().find(|c| c.type_ == Released.as_str()), since)
        {
            released.last_transition_time = since;
        }
    }

    /// Notes a revision in the history: replaces its snapshot, or adds it.
    pub(crate) fn snapshot(&mut self, release: &Release, action: Option<&str>, oci_digest: Option<&str>) {
        let known = self
            .status
            .history
            .iter()
            .position(|known| targets(known, release));
        let before = known.map(|at| self.status.history.remove(at));
        let oci_digest = match &before {
            Some(before) => before.oci_digest.clone(),
            None => oci_digest.map(str::to_owned),
        };
        let action = action
            .map(str::to_owned)
            .or_else(|| before.as_ref().and_then(|before| before.action.clone()));
        let mut snapshot = observe(release, oci_digest, action);
        snapshot.test_hooks = before.and_then(|before| before.test_hooks);
        self.status.history.push(snapshot);
        self.status
            .history
            .sort_by_key(|snapshot| Reverse(snapshot.version));
    }

    /// Replaces the snapshot of a revision that the history has, and adds none.
    pub(crate) fn update_snapshot(&mut self, release: &Release, action: Option<&str>) {
        if self.status.history.iter().any(|known| targets(known, release)) {
            self.snapshot(release, action, None);
        }
    }

    /// Sets the results of tests of the latest revision.
    pub(crate) fn tested(&mut self, release: &Release, declared: &Declared) {
        self.update_snapshot(release, None);
        let hooks = test_hooks(release, declared);
        if let Some(latest) = self.status.history.first_mut() {
            latest.test_hooks = Some(hooks);
        }
    }

    /// Drops the revisions before the last successful one.
    pub(crate) fn truncate_history(&mut self, ignores_tests: bool) {
        let history = &mut self.status.history;
        let previous = history
            .iter()
            .enumerate()
            .skip(1)
            .find(|(_, snapshot)| is_good(snapshot, ignores_tests))
            .map(|(at, _)| at);
        history.truncate(previous.map_or(HISTORY_MAX, |at| at + 1));
    }

    /// Keeps the newest revisions.
    pub(crate) fn shorten_history(&mut self) {
        self.status.history.truncate(HISTORY_MAX);
    }
}

/// Whether an install or upgrade is in progress. After one that could not begin, `Reconciling` still says so.
pub(crate) fn is_releasing(conditions: &[Condition]) -> bool {
    condition(conditions, ConditionType::Ready)
        .is_some_and(|ready| ready.status == "Unknown" && ready.message.starts_with(RUNNING))
}

/// The reason of a text that a condition had.
fn reason_of(text: &str) -> Reason {
    Reason::ALL
        .iter()
        .copied()
        .find(|reason| reason.as_str() == text)
        .unwrap_or(Reason::Progressing)
}

/// The newest revision of a history.
pub(crate) fn latest(history: &[Snapshot]) -> Option<&Snapshot> {
    history.iter().max_by_key(|snapshot| snapshot.version)
}

/// The last successful revision before the latest.
pub(crate) fn previous(history: &[Snapshot], ignores_tests: bool) -> Option<&Snapshot> {
    let mut all: Vec<&Snapshot> = history.iter().collect();
    all.sort_by_key(|snapshot| Reverse(snapshot.version));
    let earlier = all.into_iter().skip(1);
    earlier
        .into_iter()
        .find(|snapshot| is_good(snapshot, ignores_tests))
}

fn is_good(snapshot: &Snapshot, ignores_tests: bool) -> bool {
    let deployed = matches!(snapshot.status.as_str(), "deployed" | "superseded");
    deployed && (ignores_tests || !has_test_in(snapshot, "Failed"))
}

/// Whether a test of a revision is in a phase.
pub(crate) fn has_test_in(snapshot: &Snapshot, phase: &str) -> bool {
    let tests = snapshot.test_hooks.iter().flatten();
    tests
        .into_iter()
        .any(|(_, test)| test.phase.as_deref() == Some(phase))
}

/// Whether the tests of a revision have run.
pub(crate) fn is_tested(snapshot: &Snapshot) -> bool {
    let Some(tests) = &snapshot.test_hooks else {
        return false;
    };
    has_test_in(snapshot, "Failed")
        || tests
            .values()
            .all(|test| test.phase.as_deref() == Some("Succeeded"))
}

/// Whether a snapshot is of a revision.
pub(crate) fn targets(snapshot: &Snapshot, release: &Release) -> bool {
    snapshot.name == release.name
        && snapshot.namespace == release.namespace
        && u64::try_from(snapshot.version) == Ok(release.version)
}

/// A revision as the history has it.
pub(crate) fn observe(release: &Release, oci_digest: Option<String>, action: Option<String>) -> Snapshot {
    let chart = release.chart.as_ref();
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |time: Option<&str>| time.and_then(|time| time.parse::<Timestamp>().ok()).map(second);
    let epoch = || Time(Timestamp::UNIX_EPOCH);
    Snapshot {
        action,
        api_version: Some(SNAPSHOT_VERSION.to_owned()),
        app_version: chart.and_then(|chart| text(chart.app_version())),
        chart_name: chart.map(|chart| chart.name().to_owned()).unwrap_or_default(),
        chart_version: chart.map(|chart| chart.version().to_owned()).unwrap_or_default(),
        config_digest: config_digest(&release.config),
        deleted: time(release.info.deleted.as_deref()),
        digest: digest(release, oci_digest.as_deref().unwrap_or_default()).unwrap_or_default(),
        first_deployed: time(release.info.first_deployed.as_deref()).unwrap_or_else(epoch),
        last_deployed: time(release.info.last_deployed.as_deref()).unwrap_or_else(epoch),
        name: release.name.clone(),
        namespace: release.namespace.clone(),
        oci_digest: oci_digest.filter(|digest| !digest.is_empty()),
        status: release.info.status.to_string(),
        test_hooks: None,
        version: i64::try_from(release.version).unwrap_or(i64::MAX),
    }
}

/// Kubernetes' times have no fractions.
fn second(time: Timestamp) -> Time {
    Time(Timestamp::from_second(time.as_second()).unwrap_or(time))
}

/// The results of the tests of a revision that the filters select.
fn test_hooks(release: &Release, declared: &Declared) -> std::collections::BTreeMap<String, TestHook> {
    let time = |time: Option<&str>| time.and_then(|time| time.parse::<Timestamp>().ok()).map(second);
    let tests = release.hooks.iter().filter(|hook| hook.runs_on(&Event::Test));
    let selected = tests.filter(|hook| is_selected(&hook.name, declared));
    selected
        .map(|hook| {
            let phase = hook.last_run.phase.as_str();
            let result = TestHook {
                last_completed: time(hook.last_run.completed_at.as_deref()),
                last_started: time(hook.last_run.started_at.as_deref()),
                phase: (!phase.is_empty()).then(|| phase.to_owned()),
            };
            (hook.name.clone(), result)
        })
        .collect()
}

/// Whether the filters of `spec.test` select a test.
pub(crate) fn is_selected(name: &str, declared: &Declared) -> bool {
    let filters = &declared.test.filters;
    let excluded = filters.iter().any(|filter| filter.exclude && filter.name == name);
    let mut included = filters.iter().filter(|filter| !filter.exclude).peekable();
    !excluded && (included.peek().is_none() || included.any(|filter| filter.name == name))
}

pub(crate) fn count_failure(status: &mut HelmReleaseStatus) {
    *status.failures.get_or_insert_default() += 1;
}

/// Counts a failure for the remediation of an action.
pub(crate) fn count_attempt(status: &mut HelmReleaseStatus, action: ReleaseAction) {
    let failures = match action {
        ReleaseAction::Install => &mut status.install_failures,
        ReleaseAction::Upgrade => &mut status.upgrade_failures,
    };
    *failures.get_or_insert_default() += 1;
}

pub(crate) fn clear_failures(status: &mut HelmReleaseStatus) {
    status.failures = None;
    status.install_failures = None;
    status.upgrade_failures = None;
}

/// `namespace/name.v1`.
pub(crate) fn full_name(snapshot: &Snapshot) -> String {
    let Snapshot {
        namespace,
        name,
        version,
        ..
    } = snapshot;
    format!("{namespace}/{name}.v{version}")
}

/// `chart@version`.
pub(crate) fn chart_of(snapshot: &Snapshot) -> String {
    format!("{}@{}", snapshot.chart_name, snapshot.chart_version)
}

/// The message about an install or upgrade that succeeded.
pub(crate) fn succeeded(action: &str, latest: &Snapshot) -> String {
    format!(
        "Helm {action} succeeded for release {} with chart {}",
        full_name(latest),
        chart_of(latest)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_api::helm::HelmRelease;
    use serde_json::json;

    #[expect(clippy::needless_pass_by_value, reason = "callers write it in place")]
    fn declared(spec: serde_json::Value) -> Declared {
        let mut object = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": { "name": "app", "namespace": "team", "generation": 2 },
            "spec": { "interval": "10m" },
        });
        for (field, value) in spec.as_object().unwrap() {
            object["spec"][field] = value.clone();
        }
        let object: HelmRelease = serde_json::from_value(object).unwrap();
        Declared::from(&object)
    }

    fn snapshot(version: i64, status: &str) -> Snapshot {
        serde_json::from_value(json!({
            "chartName": "c", "chartVersion": "1.0.0", "configDigest": "", "digest": "",
            "firstDeployed": "2026-01-01T00:00:00Z", "lastDeployed": "2026-01-01T00:00:00Z",
            "name": "app", "namespace": "team", "status": status, "version": version,
        }))
        .unwrap()
    }

    fn draft(history: &[Snapshot]) -> Draft {
        let status = HelmReleaseStatus {
            history: history.to_vec(),
            ..HelmReleaseStatus::default()
        };
        Draft::new(status, 2, Timestamp::UNIX_EPOCH)
    }

    fn versions(draft: &Draft) -> Vec<i64> {
        draft
            .status
            .history
            .iter()
            .map(|snapshot| snapshot.version)
            .collect()
    }

    #[test]
    fn a_history_ends_with_the_last_success() {
        let mut some = draft(&[
            snapshot(5, "failed"),
            snapshot(4, "failed"),
            snapshot(3, "deployed"),
            snapshot(2, "superseded"),
        ]);
        assert_eq!(
            previous(&some.status.history, false).map(|found| found.version),
            Some(3)
        );
        some.truncate_history(false);
        assert_eq!(versions(&some), [5, 4, 3]);
        let failed: Vec<Snapshot> = (1..=7).rev().map(|version| snapshot(version, "failed")).collect();
        let mut all = draft(&failed);
        assert_eq!(previous(&all.status.history, false), None);
        all.truncate_history(false);
        assert_eq!(versions(&all), [7, 6, 5, 4, 3]);
    }

    #[test]
    fn a_failed_test_makes_a_revision_bad() {
        let mut tested = snapshot(1, "superseded");
        assert!(!is_tested(&tested));
        tested.test_hooks = Some(std::collections::BTreeMap::new());
        assert!(is_tested(&tested));
        let test = TestHook {
            phase: Some("Failed".to_owned()),
            ..TestHook::default()
        };
        tested.test_hooks = Some([("t".to_owned(), test)].into());
        assert!(is_tested(&tested));
        let history = [snapshot(2, "failed"), tested];
        assert_eq!(previous(&history, false), None);
        assert_eq!(previous(&history, true).map(|found| found.version), Some(1));
    }

    #[test]
    fn ready_is_the_first_condition_of_the_newest_generation() {
        let ready = |draft: &Draft| {
            let ready = draft.get(ConditionType::Ready).unwrap();
            (ready.status.clone(), ready.reason.clone())
        };
        let mut one = draft(&[]);
        one.set(
            ConditionType::Released,
            ConditionStatus::False,
            Reason::UpgradeFailed,
            "no",
        );
        one.set(
            ConditionType::Remediated,
            ConditionStatus::True,
            Reason::RollbackSucceeded,
            "back",
        );
        one.summarize(&declared(json!({})));
        assert_eq!(ready(&one), ("False".to_owned(), "RollbackSucceeded".to_owned()));
        // a later release is newer than the remediation
        let mut two = Draft::new(one.status, 3, Timestamp::UNIX_EPOCH);
        two.set(
            ConditionType::Released,
            ConditionStatus::True,
            Reason::UpgradeSucceeded,
            "yes",
        );
        two.summarize(&declared(json!({})));
        assert_eq!(ready(&two), ("True".to_owned(), "UpgradeSucceeded".to_owned()));
    }

    #[test]
    fn filters_select_tests() {
        let check = |filters: serde_json::Value, expected: [bool; 2]| {
            let declared = declared(json!({ "test": { "filters": filters } }));
            assert_eq!(
                [is_selected("a", &declared), is_selected("b", &declared)],
                expected
            );
        };
        check(json!([]), [true, true]);
        check(json!([{ "name": "a" }]), [true, false]);
        check(json!([{ "name": "a", "exclude": true }]), [false, true]);
    }
}
