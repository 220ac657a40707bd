//! The reasons why there is no plan.

use crate::config::{ConfigError, FILE};
use crate::edit::EditError;
use crate::record::Intent;

/// The reason why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A file that people write is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// There is no `equate.yaml`, and nothing looks like environments.
    #[error("the repository has no {FILE}, and no directories that look like environments")]
    NoEnvironments,
    /// The environment is unknown.
    #[error("unknown environment {name:?}")]
    Environment {
        /// The name.
        name: String,
        /// A similar name.
        near: Option<String>,
        /// The names of all environments.
        known: Vec<String>,
    },
    /// The service is unknown.
    #[error("unknown service {name:?}")]
    Service {
        /// The name.
        name: String,
        /// A similar name.
        near: Option<String>,
    },
    /// No environment comes before.
    #[error("no environment comes before {to}, so there is nothing to promote")]
    First {
        /// The environment.
        to: String,
    },
    /// Environments before it have different versions.
    #[error("{service} has different versions before {to}: {versions}")]
    Ambiguous {
        /// The service.
        service: String,
        /// The environment.
        to: String,
        /// `staging-a 1.0, staging-b 1.1`.
        versions: String,
    },
    /// No environment ever had the version.
    #[error("no environment ever had {service} {version}")]
    Version {
        /// The service.
        service: String,
        /// The version.
        version: String,
        /// Some known versions, newest first.
        known: Vec<String>,
    },
    /// The version is a range.
    #[error("{service} in {from} is the range {range}, which is not one version")]
    Range {
        /// The service.
        service: String,
        /// The environment.
        from: String,
        /// The range.
        range: String,
    },
    /// The environment had no other version.
    #[error("{environment} had no version of {service} before {version}")]
    NothingBefore {
        /// The environment.
        environment: String,
        /// The service.
        service: String,
        /// The current version.
        version: String,
    },
    /// An image that no field names.
    #[error("{service} in {environment} has no image {name}")]
    Image {
        /// The name.
        name: String,
        /// The service.
        service: String,
        /// The environment.
        environment: String,
        /// The images that it has.
        known: Vec<String>,
    },
    /// There is no hold to remove.
    #[error("{service} is not held in {environment}")]
    NotHeld {
        /// The service.
        service: String,
        /// The environment.
        environment: String,
    },
    /// The environment does not have the service.
    #[error("{service} is not in {environment}")]
    Absent {
        /// The service.
        service: String,
        /// The environment or group.
        environment: String,
    },
    /// A removal would change something else.
    #[error("removing {service} from {environment} would also change {}; nothing was written", others.join(", "))]
    Undeploy {
        /// The service.
        service: String,
        /// The environment.
        environment: String,
        /// The other changes.
        others: Vec<String>,
    },
    /// Directories are copied, and an older state of them is not in the tree.
    #[error("a service whose directory is copied cannot {intent}: revert the commit with git")]
    Copied {
        /// The intent.
        intent: Intent,
    },
    /// The versions cannot be set.
    #[error(transparent)]
    Edit(#[from] EditError),
}
