//! Decides from observations: pure, no client, no clock.

use equate_api::source::HelmChartStatus;

use super::build::Build;
use super::declared::Declared;
use super::origin::Origin;
use crate::sources::failure::Failure;

#[derive(Debug)]
pub(crate) enum Seen {
    /// The object alone decides: nothing outside was read.
    Unobserved,
    /// It was deleted while it was observed.
    Deleted,
    Observed(Box<Observed>),
}

#[derive(Debug)]
pub(crate) struct Observed {
    pub(crate) status: HelmChartStatus,
    pub(crate) artifact: Artifact,
    /// The revision of the source's artifact.
    pub(crate) source: Option<String>,
    /// The chart that the spec asks for.
    pub(crate) found: Result<(Build, Origin), Failed>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Artifact {
    /// The status names none.
    None,
    /// In the store, intact.
    Stored,
    Lost,
}

/// A failure with its circumstances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    /// A change of the source ends it.
    pub(crate) waits: bool,
    /// The chart, if it was found.
    pub(crate) build: Option<Build>,
    pub(crate) source: Option<String>,
    /// Whether the artifact of the status is missing from the store.
    pub(crate) lost: bool,
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            waits: false,
            build: None,
            source: None,
            lost: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It was deleted meanwhile: begin again.
    End,
    /// Remove the artifacts, then the finalizer.
    Delete,
    /// Report the failure. The present artifact stays, unless the store lost it.
    Fail(Failed),
    /// The artifact is up to date.
    Keep {
        build: Build,
        source: Option<String>,
    },
    Build {
        build: Build,
        lost: bool,
    },
}

/// Decides from the object, then from the source and the store.
pub(crate) fn decide(declared: &Declared, seen: &Seen) -> Plan {
    if declared.deleting {
        return Plan::Delete;
    }
    let seen = match seen {
        Seen::Observed(seen) => seen,
        Seen::Deleted => return Plan::End,
        Seen::Unobserved => return Plan::Delete,
    };
    let lost = seen.artifact == Artifact::Lost;
    match &seen.found {
        Err(failed) => Plan::Fail(Failed {
            lost,
            source: seen.source.clone(),
            ..failed.clone()
        }),
        Ok((build, _)) if is_current(declared, seen, build) => Plan::Keep {
            build: build.clone(),
            source: seen.source.clone(),
        },
        Ok((build, _)) => Plan::Build {
            build: build.clone(),
            lost,
        },
    }
}

/// Whether the artifact is the chart. Another spec may select other values of the same version.
fn is_current(declared: &Declared, seen: &Observed, build: &Build) -> bool {
    let status = &seen.status;
    let artifact = status.artifact.as_ref();
    seen.artifact == Artifact::Stored
        && status.observed_generation == Some(declared.generation)
        && status.observed_chart_name.as_ref() == Some(&build.name)
        && artifact.is_some_and(|artifact| artifact.revision == build.version)
}
