//! The end of a run.

use equate_api::helm::HelmReleaseStatus;

use crate::kit::controller::{Next, Notice, Report};

/// The result of a run: the status and the events about it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Done {
    pub(crate) status: HelmReleaseStatus,
    pub(crate) notices: Vec<Notice>,
    pub(crate) next: Next,
    pub(crate) ended: bool,
    pub(crate) failed: bool,
}

pub(super) fn report(done: Done) -> Report<HelmReleaseStatus> {
    let Done {
        status,
        notices,
        next,
        ended,
        failed,
    } = done;
    Report {
        status,
        notices,
        next,
        ended,
        failed,
    }
}
