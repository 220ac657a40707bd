//! `source.toolkit.fluxcd.io/v1`: sources of manifests and charts.

mod artifact;
mod bucket;
mod external;
mod git;
mod helm;
mod oci;

pub use artifact::Artifact;
pub use bucket::{Bucket, BucketProvider, BucketSpec, BucketStatus, Sts, StsProvider};
pub use external::{ExternalArtifact, ExternalArtifactSpec, ExternalArtifactStatus};
pub use git::{
    GitProvider, GitReference, GitRepository, GitRepositorySpec, GitRepositoryStatus, GitVerification,
    GitVerificationMode, Include,
};
pub use helm::{
    ChartSource, ChartSourceKind, ChartVerification, HelmChart, HelmChartSpec, HelmChartStatus,
    HelmRepository, HelmRepositorySpec, HelmRepositoryStatus, HelmRepositoryType, ReconcileStrategy,
};
pub use oci::{
    LayerOperation, LayerSelector, OciIdentity, OciProvider, OciReference, OciRepository, OciRepositorySpec,
    OciRepositoryStatus, OciVerification, SignatureProvider,
};

/// The group's name.
pub const GROUP: &str = "source.toolkit.fluxcd.io";
/// The version served.
pub const VERSION: &str = "v1";
