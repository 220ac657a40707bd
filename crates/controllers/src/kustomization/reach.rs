//! Where a Kustomization applies, and as whom.
//!
//! Everything that is done about managed objects goes through a run's [`Reach`]: requests through
//! its cluster, whose client has the identity to act with; what is seen through its hub. What is
//! ours (Kustomizations, sources, events) goes through this process's own client, always.

use equate_apply::cluster::Cluster;

use crate::runtime::hub::Hub;

/// Which cluster objects are in. Objects of different places have nothing to do with each other,
/// also if they have the same names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// The one this process serves.
    Here,
}

/// A place, and the ways to it.
#[derive(Debug, Clone)]
pub(crate) struct Reach {
    /// Which cluster that is.
    pub(crate) place: Place,
    /// For requests; with the identity of the one on whose behalf they are made.
    pub(crate) cluster: Cluster,
    /// What is seen of managed objects; watches with the rights of whoever opens the place.
    pub(crate) hub: Hub,
}
