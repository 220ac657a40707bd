//! The state of a release, and the operations it allows.
//!
//! Pure: a list of revisions in, an answer out. Rules and error texts are Helm's.

use super::codec::Summary;
use super::record::Status;

/// A revision, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its number, from 1.
    pub version: u64,
    /// Its status.
    pub status: Status,
}

impl From<&Summary> for Revision {
    fn from(summary: &Summary) -> Self {
        Self {
            version: summary.version,
            status: summary.status.clone(),
        }
    }
}

/// The recorded revisions of one release, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History(Vec<Revision>);

/// The state of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The release does not exist.
    Absent,
    /// Its last revision is in the cluster.
    Deployed {
        /// That revision.
        version: u64,
    },
    /// Its last revision failed.
    Failed {
        /// That revision.
        version: u64,
        /// The deployed revision before it.
        deployed: Option<u64>,
    },
    /// An operation is in progress, or was interrupted.
    Pending {
        /// The revision in progress.
        version: u64,
        /// The operation.
        what: Pending,
        /// The deployed revision before it.
        deployed: Option<u64>,
    },
    /// Its last revision was replaced by one that is no longer recorded.
    Superseded {
        /// That revision.
        version: u64,
        /// A revision still marked as deployed.
        deployed: Option<u64>,
    },
    /// Its objects are being deleted, or the deletion was incomplete.
    Uninstalling {
        /// The revision being deleted.
        version: u64,
    },
    /// Its objects are deleted, its history is kept.
    Uninstalled {
        /// Its last revision.
        version: u64,
    },
    /// Its last revision has a status unknown to Helm.
    Unknown {
        /// That revision.
        version: u64,
    },
}

/// An operation in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// Installation.
    Install,
    /// Upgrade.
    Upgrade,
    /// Rollback.
    Rollback,
}

/// An operation is not allowed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another operation is in progress.
    #[error("another operation (install/upgrade/rollback) is in progress")]
    Pending,
    /// The name is in use.
    #[error("cannot reuse a name that is still in use")]
    InUse,
    /// No revision is deployed.
    #[error("has no deployed releases")]
    NoneDeployed,
    /// The release does not exist.
    #[error("release: not found")]
    NotFound,
    /// The revision does not exist.
    #[error("release has no {0} version")]
    NoRevision(u64),
    /// The release is deleted already.
    #[error("is already deleted")]
    Deleted,
}

impl FromIterator<Revision> for History {
    fn from_iter<I: IntoIterator<Item = Revision>>(revisions: I) -> Self {
        let mut revisions: Vec<_> = revisions.into_iter().collect();
        revisions.sort_by_key(|revision| revision.version);
        Self(revisions)
    }
}

impl History {
    /// The revisions, oldest first.
    pub fn revisions(&self) -> &[Revision] {
        &self.0
    }

    /// The last revision, whatever its status.
    pub fn last(&self) -> Option<&Revision> {
        self.0.last()
    }

    /// The last deployed revision. Concurrent operations may leave several.
    pub fn deployed(&self) -> Option<u64> {
        self.all_deployed().last()
    }

    fn all_deployed(&self) -> impl DoubleEndedIterator<Item = u64> {
        let revisions = self.0.iter();
        let deployed = revisions.filter(|revision| revision.status == Status::Deployed);
        deployed.map(|revision| revision.version)
    }

    /// The state of the release.
    pub fn state(&self) -> State {
        let Some(Revision { version, status }) = self.last() else {
            return State::Absent;
        };
        let (version, deployed) = (*version, self.deployed());
        let pending = |what| State::Pending {
            version,
            what,
            deployed,
        };
        match status {
            Status::Deployed => State::Deployed { version },
            Status::Failed => State::Failed { version, deployed },
            Status::PendingInstall => pending(Pending::Install),
            Status::PendingUpgrade => pending(Pending::Upgrade),
            Status::PendingRollback => pending(Pending::Rollback),
            Status::Superseded => State::Superseded { version, deployed },
            Status::Uninstalling => State::Uninstalling { version },
            Status::Uninstalled => State::Uninstalled { version },
            Status::Unknown | Status::Other(_) => State::Unknown { version },
        }
    }

    /// The number of the next revision.
    pub fn next_version(&self) -> u64 {
        self.last().map_or(0, |last| last.version).saturating_add(1)
    }

    /// Whether the release may be installed. `replace` allows it over an uninstalled or failed release of
    /// the same name.
    pub fn install(&self, replace: bool) -> Result<(), Refusal> {
        match self.last().map(|last| &last.status) {
            None => Ok(()),
            Some(Status::Uninstalled | Status::Failed) if replace => Ok(()),
            Some(_) => Err(Refusal::InUse),
        }
    }

    /// The base revision of an upgrade.
    pub fn upgrade(&self) -> Result<u64, Refusal> {
        let last = self.last().ok_or(Refusal::NoneDeployed)?;
        if last.status.is_pending() {
            return Err(Refusal::Pending);
        }
        match self.deployed() {
            Some(version) => Ok(version),
            None if matches!(last.status, Status::Failed | Status::Superseded) => Ok(last.version),
            None => Err(Refusal::NoneDeployed),
        }
    }

    /// The target of a rollback: the revision before the last, unless another is named.
    pub fn rollback(&self, to: Option<u64>) -> Result<u64, Refusal> {
        let last = self.last().ok_or(Refusal::NotFound)?;
        let to = to.unwrap_or(last.version.saturating_sub(1));
        match self.0.iter().any(|revision| revision.version == to) {
            true => Ok(to),
            false => Err(Refusal::NoRevision(to)),
        }
    }

    /// The revision that an uninstallation deletes.
    pub fn uninstall(&self) -> Result<u64, Refusal> {
        let last = self.last().ok_or(Refusal::NotFound)?;
        match last.status {
            Status::Uninstalled => Err(Refusal::Deleted),
            _ => Ok(last.version),
        }
    }

    /// The revision an installation supersedes before it starts: the last one, unless it failed.
    pub fn superseded_by_install(&self) -> Option<u64> {
        let last = self.last()?;
        (last.status != Status::Failed).then_some(last.version)
    }

    /// The revision an upgrade supersedes once it succeeds.
    pub fn superseded_by_upgrade(&self) -> Result<u64, Refusal> {
        self.upgrade()
    }

    /// The revisions superseded by a successful rollback, or by an uninstallation that keeps the history:
    /// all deployed ones except this.
    pub fn superseded_by_rollback(&self, version: u64) -> Vec<u64> {
        self.all_deployed()
            .filter(|deployed| *deployed != version)
            .collect()
    }

    /// The revisions to delete before one more is stored: the oldest ones, except the last deployed. A
    /// maximum of 0 means no limit.
    pub fn forgotten(&self, revisions_max: usize) -> Vec<u64> {
        if revisions_max == 0 {
            return Vec::new();
        }
        let surplus = (self.0.len() + 1).saturating_sub(revisions_max);
        let kept = self.deployed();
        let versions = self.0.iter().map(|revision| revision.version);
        versions
            .filter(|version| Some(*version) != kept)
            .take(surplus)
            .collect()
    }
}
