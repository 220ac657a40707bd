//! The chart that a run makes, and why it cannot. Reasons and texts are those of Flux's source-controller
//! (v1.9, `internal/helm/chart`).

use std::fmt;

use equate_api::meta::{ConditionType, Reason};
use equate_helm::dependencies::is_compatible;
use equate_manifest::go::version::Version;

use crate::kit::controller::Retry;
use crate::sources::failure::Failure;

/// A chart that is to be made, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Build {
    pub(crate) name: String,
    /// With the build metadata that the spec asks for.
    pub(crate) version: String,
    /// Whether it is not the chart of the source, byte for byte.
    pub(crate) packaged: bool,
    /// The values files in it.
    pub(crate) values_files: Vec<String>,
    /// Whether its signature was verified.
    pub(crate) verified: bool,
}

impl Build {
    /// The name in a file name: that of a chart in a registry may be a path.
    pub(crate) fn file_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or_default()
    }

    /// The reason of a success.
    pub(crate) fn reason(&self) -> Reason {
        match self.packaged {
            true => Reason::ChartPackageSucceeded,
            false => Reason::ChartPullSucceeded,
        }
    }

    /// The text of a success.
    pub(crate) fn summary(&self) -> String {
        let did = if self.packaged { "packaged" } else { "pulled" };
        self.told(did)
    }

    /// The text before it is made.
    pub(crate) fn news(&self) -> String {
        Self {
            values_files: Vec::new(),
            ..self.clone()
        }
        .told("new")
    }

    fn told(&self, did: &str) -> String {
        let Self { name, version, .. } = self;
        let mut text = format!("{did} '{name}' chart with version '{version}'");
        if !self.values_files.is_empty() {
            text.push_str(&format!(
                " and merged values files [{}]",
                self.values_files.join(" ")
            ));
        }
        text
    }
}

/// The steps of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Reference,
    Pull,
    Metadata,
    Values,
    Dependencies,
    Package,
    Verification,
}

impl Step {
    fn reason(self) -> Reason {
        match self {
            Self::Reference => Reason::InvalidChartReference,
            Self::Pull => Reason::ChartPullError,
            Self::Metadata => Reason::MetadataPatchError,
            Self::Values => Reason::ValuesFilesError,
            Self::Dependencies => Reason::DependencyBuildError,
            Self::Package => Reason::ChartPackageError,
            Self::Verification => Reason::ChartVerificationError,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Reference => "invalid chart reference",
            Self::Pull => "chart pull error",
            Self::Metadata => "chart metadata patch error",
            Self::Values => "values files merge error",
            Self::Dependencies => "dependency build error",
            Self::Package => "chart package error",
            Self::Verification => "chart verification error",
        }
    }

    /// The failure of a step.
    pub(crate) fn failed(self, why: impl fmt::Display) -> Failure {
        let (condition, retry) = match self {
            Self::Reference => (ConditionType::FetchFailed, Retry::Never),
            Self::Pull => (ConditionType::FetchFailed, Retry::Backoff),
            Self::Metadata | Self::Values => (ConditionType::BuildFailed, Retry::Never),
            Self::Dependencies | Self::Package | Self::Verification => {
                (ConditionType::BuildFailed, Retry::Backoff)
            }
        };
        Failure {
            condition: Some(condition),
            reason: self.reason(),
            message: format!("{}: {why}", self.text()),
            retry,
        }
    }
}

/// The repository refuses the credentials, or is not trusted.
pub(crate) fn unauthenticated(failure: &Failure) -> Failure {
    Failure::passing(
        ConditionType::FetchFailed,
        Reason::AuthenticationFailed,
        format!(
            "failed to authenticate with the Helm repository: {}",
            failure.message
        ),
    )
}

/// A version with build metadata, if there is any.
pub(crate) fn with_metadata(version: &str, metadata: Option<&str>) -> Result<String, Failure> {
    let Some(metadata) = metadata else {
        return Ok(version.to_owned());
    };
    let parsed = Version::parse(version).map_err(|error| {
        Step::Metadata.failed(format!(
            "failed to parse version from chart metadata as SemVer: {error}"
        ))
    })?;
    let patched = parsed.with_metadata(metadata).map_err(|error| {
        Step::Metadata.failed(format!("failed to set SemVer metadata on chart version: {error}"))
    })?;
    Ok(patched.to_string())
}

/// Whether a local chart has a version that the chart asks for.
pub(crate) fn accepts(range: &str, version: &str) -> bool {
    is_compatible(if range.is_empty() { "*" } else { range }, version)
}
