//! What the revisions of a release say about it, and what may be done next.
//!
//! Nothing is read and nothing is written: a list of revisions in, an answer out. The rules and the words
//! of the refusals are Helm's.

use super::codec::Summary;
use super::record::Status;

/// A revision, without what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// Its number, from 1.
    pub version: u64,
    /// Where it stands.
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

/// The revisions of one release that are still on record, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History(Vec<Revision>);

/// Where a release stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// There is none of that name.
    Absent,
    /// Its last revision is in the cluster.
    Deployed {
        /// That revision.
        version: u64,
    },
    /// Its last revision could not be brought to the cluster.
    Failed {
        /// That revision.
        version: u64,
        /// The one that was in the cluster before.
        deployed: Option<u64>,
    },
    /// Somebody is at it, or was and did not come to an end.
    Pending {
        /// The revision that is being made.
        version: u64,
        /// What is being done.
        what: Pending,
        /// The one that was in the cluster before.
        deployed: Option<u64>,
    },
    /// Its last revision was replaced by one that is no longer on record.
    Superseded {
        /// That revision.
        version: u64,
        /// One that claims to be in the cluster nevertheless.
        deployed: Option<u64>,
    },
    /// Its objects are being deleted, or were and not all went.
    Uninstalling {
        /// The revision that goes.
        version: u64,
    },
    /// Its objects are gone, its history is kept.
    Uninstalled {
        /// Its last revision.
        version: u64,
    },
    /// Its last revision stands where Helm does not know of.
    Unknown {
        /// That revision.
        version: u64,
    },
}

/// What is being done to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// It is installed.
    Install,
    /// It is upgraded.
    Upgrade,
    /// An earlier revision is brought back.
    Rollback,
}

/// Why something may not be done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Somebody is at it.
    #[error("another operation (install/upgrade/rollback) is in progress")]
    Pending,
    /// There is a release of that name.
    #[error("cannot reuse a name that is still in use")]
    InUse,
    /// There is nothing to upgrade.
    #[error("has no deployed releases")]
    NoneDeployed,
    /// There is no release of that name.
    #[error("release: not found")]
    NotFound,
    /// There is no such revision.
    #[error("release has no {0} version")]
    NoRevision(u64),
    /// It is gone already.
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
    /// The revisions, the oldest first.
    pub fn revisions(&self) -> &[Revision] {
        &self.0
    }

    /// The last revision, wherever it stands.
    pub fn last(&self) -> Option<&Revision> {
        self.0.last()
    }

    /// The last revision that is in the cluster. When two operations ran at once there may be several.
    pub fn deployed(&self) -> Option<u64> {
        self.all_deployed().last()
    }

    fn all_deployed(&self) -> impl DoubleEndedIterator<Item = u64> {
        let revisions = self.0.iter();
        let deployed = revisions.filter(|revision| revision.status == Status::Deployed);
        deployed.map(|revision| revision.version)
    }

    /// Where the release stands.
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

    /// The number of the revision that is made next.
    pub fn next_version(&self) -> u64 {
        self.last().map_or(0, |last| last.version).saturating_add(1)
    }

    /// Whether the release may be installed. A release of that name whose objects are gone, or that
    /// failed, is in the way unless it may be replaced.
    pub fn install(&self, replace: bool) -> Result<(), Refusal> {
        match self.last().map(|last| &last.status) {
            None => Ok(()),
            Some(Status::Uninstalled | Status::Failed) if replace => Ok(()),
            Some(_) => Err(Refusal::InUse),
        }
    }

    /// The revision that an upgrade goes out from.
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

    /// The revision that a rollback brings back: the one before the last, unless another is named.
    pub fn rollback(&self, to: Option<u64>) -> Result<u64, Refusal> {
        let last = self.last().ok_or(Refusal::NotFound)?;
        let to = to.unwrap_or(last.version.saturating_sub(1));
        match self.0.iter().any(|revision| revision.version == to) {
            true => Ok(to),
            false => Err(Refusal::NoRevision(to)),
        }
    }

    /// The revision whose objects an uninstallation deletes.
    pub fn uninstall(&self) -> Result<u64, Refusal> {
        let last = self.last().ok_or(Refusal::NotFound)?;
        match last.status {
            Status::Uninstalled => Err(Refusal::Deleted),
            _ => Ok(last.version),
        }
    }

    /// What an installation supersedes before it begins: the last revision, unless it failed.
    pub fn superseded_by_install(&self) -> Option<u64> {
        let last = self.last()?;
        (last.status != Status::Failed).then_some(last.version)
    }

    /// What an upgrade supersedes when it has come to a good end.
    pub fn superseded_by_upgrade(&self) -> Result<u64, Refusal> {
        self.upgrade()
    }

    /// What a rollback supersedes when it has come to a good end, and what an uninstallation that keeps
    /// the history does: all revisions that are in the cluster, but for the one that is at hand.
    pub fn superseded_by_rollback(&self, version: u64) -> Vec<u64> {
        self.all_deployed()
            .filter(|deployed| *deployed != version)
            .collect()
    }

    /// The revisions to forget so that there is room for one more: the oldest, but not the last one that
    /// is in the cluster. A maximum of 0 is none.
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
