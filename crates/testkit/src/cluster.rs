//! A cluster selected by name, so that the same test runs on the embedded API and on a real one.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

pub use equate_apiserver::EmbeddedCluster;
use equate_apiserver::cluster::{BuildError, ServeError, Serving};
use equate_apiserver::{Identity, Token};
use tempfile::TempDir;

use crate::peers::Progress;
use crate::real::{self, ADMIN_TOKEN, ADMIN_UID, ALICE_TOKEN, ALICE_UID, Profile, RealCluster};
use crate::wire::Sender;

/// A running cluster of the differential profile: an API server with the controllers that the embedded
/// API replaces.
#[derive(Debug)]
pub enum Cluster {
    /// The embedded API, in this process, on a loopback port.
    Embedded(Box<Embedded>),
    /// The real control plane.
    Real(Box<RealCluster>),
}

/// An embedded cluster configured like the real one.
#[derive(Debug)]
pub struct Embedded {
    cluster: EmbeddedCluster,
    serving: Serving,
    kubeconfig: PathBuf,
    // last: the kubeconfig must outlive its users
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

/// A cluster is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name is unknown.
    #[error("unknown cluster {name}; choose `embedded` or `real`")]
    Name {
        /// The name.
        name: String,
    },
    /// The embedded API was not built.
    #[error("the embedded cluster was not built")]
    Build(#[from] BuildError),
    /// The embedded API cannot be served.
    #[error("the embedded cluster is not served")]
    Serve(#[from] ServeError),
    /// The kubeconfig was not written.
    #[error("cannot write the embedded cluster's kubeconfig")]
    Kubeconfig(#[source] std::io::Error),
    /// The real cluster did not start.
    #[error("the real cluster did not start")]
    Real(#[from] real::Error),
}

impl Cluster {
    /// Starts a cluster: `embedded` or `real`.
    ///
    /// # Errors
    /// The name is unknown, or the cluster does not start.
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

    /// The administrator's client.
    ///
    /// # Errors
    /// The client cannot be built.
    pub fn client(&self) -> Result<kube::Client, Error> {
        match self {
            Cluster::Embedded(embedded) => Ok(embedded.cluster.client()),
            Cluster::Real(cluster) => Ok(cluster.client()?),
        }
    }

    /// Sends requests verbatim, with any token and headers.
    ///
    /// # Errors
    /// The client cannot be built.
    pub fn sender(&self) -> Result<Sender, Error> {
        match self {
            Cluster::Embedded(embedded) => Ok(Sender::Router(embedded.cluster.router())),
            Cluster::Real(cluster) => Ok(Sender::Remote(cluster.bare_client()?)),
        }
    }

    /// The administrator's kubeconfig, for other programs.
    pub fn kubeconfig(&self) -> &Path {
        match self {
            Cluster::Embedded(embedded) => &embedded.kubeconfig,
            Cluster::Real(cluster) => cluster.kubeconfig_path(),
        }
    }

    /// Stops the cluster and waits until it has ended.
    ///
    /// # Errors
    /// A part of it cannot be stopped.
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
