//! The state of a release: its last record, compared with the status and the spec. Pure, and upstream's
//! rules (`internal/reconcile/state.go`).

use std::fmt;

use equate_api::helm::DriftMode;
use equate_helm::release::Status;

use super::seen::{Last, Seen, Source, Storage, Values};
use crate::helm_release::declared::Declared;
use crate::helm_release::digests;
use crate::helm_release::status::{SNAPSHOT_VERSION, has_test_in, is_tested, latest};

/// The state of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum State {
    /// There is no release.
    Absent(&'static str),
    /// There is one that this HelmRelease did not make, or not as it is now.
    Unmanaged(&'static str),
    /// It is of another chart, other values or other metadata.
    OutOfSync(&'static str),
    /// Its objects differ.
    Drifted,
    /// An operation was interrupted.
    Locked(Status),
    /// Its removal was interrupted.
    Uninstalling,
    /// Its tests have not run.
    Untested,
    /// It is as declared.
    InSync,
    /// Its last operation failed.
    Failed(&'static str),
    /// It cannot be determined.
    Unknown(String),
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) => write!(f, "release not installed: {why}"),
            Self::Unmanaged(why) => write!(f, "release not managed by controller: {why}"),
            Self::OutOfSync(why) => write!(f, "release out-of-sync with desired state: {why}"),
            Self::Drifted => f.write_str("objects of the release differ from it"),
            Self::Locked(status) => write!(f, "release locked: release with status '{status}'"),
            Self::Uninstalling => f.write_str("the removal of the release was interrupted"),
            Self::Untested => f.write_str("release has not been tested"),
            Self::InSync => f.write_str("release in-sync with desired state"),
            Self::Failed("") => f.write_str("release is in a failed state"),
            Self::Failed(why) => write!(f, "release is in a failed state: {why}"),
            Self::Unknown(why) => f.write_str(why),
        }
    }
}

/// Determines the state. The chart and the values are known.
pub(crate) fn determine(declared: &Declared, seen: &Seen) -> State {
    let last = match &seen.storage {
        Storage::NotLooked => return State::Unknown("the records of the release are not read".to_owned()),
        Storage::Failed(why) => {
            return State::Unknown(format!("failed to retrieve last release from storage: {why}"));
        }
        Storage::Empty => return State::Absent("no release in storage for object"),
        Storage::Last(last) => last,
    };
    if last.status.is_pending() {
        return State::Locked(last.status.clone());
    }
    let Some(current) = latest(&seen.status.history) else {
        return match last.status {
            Status::Uninstalled => State::Absent("found uninstalled release in storage"),
            _ => State::Unmanaged("found existing release in storage"),
        };
    };
    // snapshots of older formats have digests of another kind
    let verifies = current.api_version.as_deref() == Some(SNAPSHOT_VERSION);
    if verifies && !last.observed && last.status != Status::Uninstalling {
        return State::Unmanaged("release not observed to be made for object");
    }
    match last.status {
        Status::Failed => State::Failed(""),
        Status::Uninstalled => State::Absent("found uninstalled release in storage"),
        Status::Uninstalling => State::Uninstalling,
        Status::Deployed => deployed(declared, seen, last),
        ref other => State::Unknown(format!(
            "unable to determine state for release with status '{other}'"
        )),
    }
}

fn deployed(declared: &Declared, seen: &Seen, last: &Last) -> State {
    let Some(current) = latest(&seen.status.history) else {
        return State::Unmanaged("found existing release in storage");
    };
    if let Source::Ready(chart) = &seen.source
        && (chart.name != last.chart_name || chart.version != last.chart_version)
    {
        return State::OutOfSync("release chart changed");
    }
    if let Values::Ready(digest) = &seen.values
        && last.values(digest) != current.config_digest
    {
        return State::OutOfSync("release config values changed");
    }
    if seen.status.observed_generation != Some(declared.generation) {
        let observed = &seen.status.observed_post_renderers_digest;
        if digests::post_renderers(&declared.spec.post_renderers) != *observed {
            return State::OutOfSync("postrenderers digest has changed");
        }
        let observed = &seen.status.observed_common_metadata_digest;
        if digests::common_metadata(declared.spec.common_metadata.as_ref()) != *observed {
            return State::OutOfSync("common metadata digest has changed");
        }
    }
    if declared.test.enable {
        if !is_tested(current) {
            return State::Untested;
        }
        let remediation = declared.active_remediation(&seen.status);
        let counts = remediation.is_some_and(|remediation| !remediation.ignores_tests);
        if counts && has_test_in(current, "Failed") {
            return State::Failed("release has test in failed phase");
        }
    }
    match declared.drift {
        DriftMode::Enabled | DriftMode::Warn if !seen.drift.is_empty() => State::Drifted,
        DriftMode::Enabled | DriftMode::Warn | DriftMode::Disabled => State::InSync,
    }
}
