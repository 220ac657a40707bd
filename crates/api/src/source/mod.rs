//! `source.toolkit.fluxcd.io/v1`: where declarations come from.

mod artifact;
mod git;

pub use artifact::Artifact;
pub use git::{
    GitProvider, GitReference, GitRepository, GitRepositorySpec, GitRepositoryStatus, GitVerification,
    GitVerificationMode, Include,
};

/// The group's name.
pub const GROUP: &str = "source.toolkit.fluxcd.io";
/// The version served.
pub const VERSION: &str = "v1";
