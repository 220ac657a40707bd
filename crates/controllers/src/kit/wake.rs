//! The reasons for which a key runs.
//!
//! An enum, so that metrics can count by it and a controller can match it. Several reasons for one key
//! become one run with a set of reasons.

use std::fmt;

/// Why a key runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The object is new, or was found when the engine started.
    Appeared,
    /// Its spec, labels or annotations changed.
    Changed,
    /// A person or webhook requested it (`reconcile.fluxcd.io/requestedAt`): it goes first in its
    /// namespace.
    Requested,
    /// It is being deleted.
    Deleted,
    /// Its source changed.
    Source,
    /// An object it depends on changed its state.
    Dependency,
    /// A managed object, or one it waits for, changed in the cluster.
    Object,
    /// A ConfigMap or Secret that it reads changed.
    Input,
    /// A watched repository received a push.
    Push,
    /// Its interval passed.
    Interval,
    /// A deadline passed.
    Deadline,
    /// The last run failed.
    Retry,
    /// It let objects with more work run first, and is next now.
    Deferred,
}

impl Reason {
    /// Every reason, in the order of their numbers.
    pub const ALL: [Reason; 13] = [
        Reason::Appeared,
        Reason::Changed,
        Reason::Requested,
        Reason::Deleted,
        Reason::Source,
        Reason::Dependency,
        Reason::Object,
        Reason::Input,
        Reason::Push,
        Reason::Interval,
        Reason::Deadline,
        Reason::Retry,
        Reason::Deferred,
    ];

    /// The name for logs and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Appeared => "appeared",
            Reason::Changed => "changed",
            Reason::Requested => "requested",
            Reason::Deleted => "deleted",
            Reason::Source => "source",
            Reason::Dependency => "dependency",
            Reason::Object => "object",
            Reason::Input => "input",
            Reason::Push => "push",
            Reason::Interval => "interval",
            Reason::Deadline => "deadline",
            Reason::Retry => "retry",
            Reason::Deferred => "deferred",
        }
    }

    const fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A set of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Reasons(u16);

impl Reasons {
    /// No reason.
    pub const NONE: Reasons = Reasons(0);

    /// Adds one.
    pub const fn insert(&mut self, reason: Reason) {
        self.0 |= reason.bit();
    }

    /// Adds all of another set.
    pub const fn extend(&mut self, reasons: Reasons) {
        self.0 |= reasons.0;
    }

    /// Whether it is among them.
    pub const fn contains(self, reason: Reason) -> bool {
        self.0 & reason.bit() != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The reasons, in the order of [`Reason::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Reason> {
        Reason::ALL
            .into_iter()
            .filter(move |reason| self.contains(*reason))
    }
}

impl From<Reason> for Reasons {
    fn from(reason: Reason) -> Self {
        Self(reason.bit())
    }
}

impl FromIterator<Reason> for Reasons {
    fn from_iter<I: IntoIterator<Item = Reason>>(reasons: I) -> Self {
        let mut set = Self::NONE;
        for reason in reasons {
            set.insert(reason);
        }
        set
    }
}

impl fmt::Display for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, reason) in self.iter().enumerate() {
            if place > 0 {
                f.write_str("+")?;
            }
            f.write_str(reason.as_str())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Reasons {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{self}}}")
    }
}
