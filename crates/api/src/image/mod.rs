//! `image.toolkit.fluxcd.io/v1`: image repositories, policies that select a tag, and automations that
//! commit it to git.

mod automation;
mod policy;
mod repository;

pub use automation::{
    CheckoutSpec, CommitAuthor, CommitSpec, GitSpec, ImageUpdateAutomation, ImageUpdateAutomationSpec,
    ImageUpdateAutomationStatus, PushSpec, SigningKey, SigningKeyType, UpdateSource, UpdateSourceKind,
    UpdateSpec, UpdateStrategy,
};
pub use policy::{
    DigestReflectionPolicy, FilterTags, ImagePolicy, ImagePolicySpec, ImagePolicyStatus, ImageReference,
    Order, Ordering, PolicyChoice, SemverPolicy,
};
pub use repository::{ImageRepository, ImageRepositorySpec, ImageRepositoryStatus, ScanResult};

/// The group's name.
pub const GROUP: &str = "image.toolkit.fluxcd.io";
/// The version served.
pub const VERSION: &str = "v1";
