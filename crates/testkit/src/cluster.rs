//! One cluster by name, so that the same test runs on the embedded API and on the real one.

use std::path::Path;

use crate::peers::Progress;
use crate::real::{self, Profile, RealCluster};
use crate::wire::Sender;

/// A running cluster of the differential profile: an API server with the controllers the
/// embedded API stands in for.
#[derive(Debug)]
pub enum Cluster {
    /// The real control plane.
    Real(RealCluster),
}

/// Why a cluster could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster has this name.
    #[error("no cluster is called {name}; there are `embedded` and `real`")]
    Name {
        /// The name asked for.
        name: String,
    },
    /// The real one did not start.
    #[error("the real cluster did not start")]
    Real(#[from] real::Error),
}

impl Cluster {
    /// Starts the cluster of that name: `embedded` or `real`.
    ///
    /// # Errors
    /// When there is none of that name or it does not start.
    pub async fn named(name: &str, progress: Progress<'_>) -> Result<Cluster, Error> {
        match name {
            "real" => Ok(Cluster::Real(
                RealCluster::start(Profile::Differential, progress).await?,
            )),
            _ => Err(Error::Name {
                name: name.to_owned(),
            }),
        }
    }

    /// A client of the administrator.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn client(&self) -> Result<kube::Client, Error> {
        match self {
            Cluster::Real(cluster) => Ok(cluster.client()?),
        }
    }

    /// Sends requests as they are written, with any token and headers.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn sender(&self) -> Result<Sender, Error> {
        match self {
            Cluster::Real(cluster) => Ok(Sender::Remote(cluster.bare_client()?)),
        }
    }

    /// A kubeconfig of the administrator, for other programs.
    pub fn kubeconfig(&self) -> &Path {
        match self {
            Cluster::Real(cluster) => cluster.kubeconfig_path(),
        }
    }

    /// Ends the cluster and waits until it is gone.
    ///
    /// # Errors
    /// When something of it cannot be ended.
    pub async fn stop(self) -> Result<(), Error> {
        match self {
            Cluster::Real(cluster) => Ok(cluster.stop().await?),
        }
    }
}
