//! One cluster by name, so that the same test runs on the embedded API and on the real one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

pub use equate_apiserver::EmbeddedCluster;
use equate_apiserver::cluster::{BuildError, ServeError, Serving};
use equate_apiserver::{Identity, Token};
use tempfile::TempDir;

use crate::peers::Progress;
use crate::real::{self, ADMIN_TOKEN, ADMIN_UID, ALICE_TOKEN, ALICE_UID, Profile, RealCluster};
use crate::wire::Sender;

/// A running cluster of the differential profile: an API server with the controllers the
/// embedded API stands in for.
#[derive(Debug)]
pub enum Cluster {
    /// The embedded API, in this process and on a loopback port.
    Embedded(Box<Embedded>),
    /// The real control plane.
    Real(Box<RealCluster>),
}

/// An embedded cluster that is set up like the real one.
#[derive(Debug)]
pub struct Embedded {
    cluster: EmbeddedCluster,
    serving: Serving,
    kubeconfig: PathBuf,
    // last: nothing reads the kubeconfig any more
    _folder: TempDir,
}

impl Embedded {
    /// The real cluster's profile: its tokens, ServiceAccount admission off.
    async fn start() -> Result<Embedded, Error> {
        let identity = |name: &str, group: &str, uid: &str| {
            let mut identity = Identity::user(name, [group]);
            uid.clone_into(&mut identity.uid);
            identity
        };
        let cluster = EmbeddedCluster::builder()
            .token(
                Token::new(ADMIN_TOKEN),
                identity("admin", "system:masters", ADMIN_UID),
            )
            .token(Token::new(ALICE_TOKEN), identity("alice", "devs", ALICE_UID))
            .service_account_admission(false)
            .controllers(equate_apiserver::Profile::differential())
            .build()
            .await?;
        let serving = cluster.serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let folder = tempfile::Builder::new()
            .prefix("equate-embedded-")
            .tempdir()
            .map_err(Error::Kubeconfig)?;
        let kubeconfig = folder.path().join("kubeconfig");
        cluster
            .write_kubeconfig(&serving, &kubeconfig)
            .map_err(Error::Kubeconfig)?;
        Ok(Embedded {
            cluster,
            serving,
            kubeconfig,
            _folder: folder,
        })
    }
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
    /// The embedded one could not be built.
    #[error("the embedded cluster was not built")]
    Build(#[from] BuildError),
    /// The embedded one could not be served.
    #[error("the embedded cluster is not served")]
    Serve(#[from] ServeError),
    /// The embedded one's kubeconfig could not be written.
    #[error("cannot write the embedded cluster's kubeconfig")]
    Kubeconfig(#[source] std::io::Error),
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
            "embedded" => Ok(Cluster::Embedded(Box::new(Embedded::start().await?))),
            "real" => {
                let cluster = RealCluster::start(Profile::Differential, progress).await?;
                Ok(Cluster::Real(Box::new(cluster)))
            }
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
            Cluster::Embedded(embedded) => Ok(embedded.cluster.client()),
            Cluster::Real(cluster) => Ok(cluster.client()?),
        }
    }

    /// Sends requests as they are written, with any token and headers.
    ///
    /// # Errors
    /// When the client cannot be built.
    pub fn sender(&self) -> Result<Sender, Error> {
        match self {
            Cluster::Embedded(embedded) => Ok(Sender::Router(embedded.cluster.router())),
            Cluster::Real(cluster) => Ok(Sender::Remote(cluster.bare_client()?)),
        }
    }

    /// A kubeconfig of the administrator, for other programs.
    pub fn kubeconfig(&self) -> &Path {
        match self {
            Cluster::Embedded(embedded) => &embedded.kubeconfig,
            Cluster::Real(cluster) => cluster.kubeconfig_path(),
        }
    }

    /// Ends the cluster and waits until it is gone.
    ///
    /// # Errors
    /// When something of it cannot be ended.
    pub async fn stop(self) -> Result<(), Error> {
        match self {
            Cluster::Embedded(embedded) => {
                embedded.serving.stop().await;
                embedded.cluster.stop().await;
                Ok(())
            }
            Cluster::Real(cluster) => Ok(cluster.stop().await?),
        }
    }
}
