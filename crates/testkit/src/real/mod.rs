//! A real Kubernetes control plane for one test, on loopback.
//!
//! etcd, kube-apiserver and kube-controller-manager (with the scheduler and kwok in the full profile) are
//! children of this process, on free ports, with their own PKI and tokens, in one temporary folder.
//! Dropping the cluster kills exactly these children. It listens on 127.0.0.1 only and reuses nothing
//! that is running.

mod children;
mod files;

use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::peers::{self, ControlPlane, Progress};
use children::Children;
use files::Files;

pub use files::{ADMIN_TOKEN, ADMIN_UID, ALICE_TOKEN, ALICE_UID};

/// The limit for a full start; a busy two-core machine takes five seconds.
const START_TIMEOUT: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A free port may be taken before its owner binds it, and a slow server may give up before it wrote its
/// roles; then the start is repeated.
const START_ATTEMPTS: usize = 3;

/// The controllers beside the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Only the controllers that the embedded API replaces: namespace, service account, garbage
    /// collector, root CA publisher. No scheduler, no nodes.
    Differential,
    /// Every controller, the scheduler, and kwok with two nodes. `ServiceAccount` admission is off in
    /// both profiles, as in the recordings.
    Full,
}

/// A real cluster is not available.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The programs are not available.
    #[error("the control plane's programs are not available")]
    Peers(#[from] peers::Error),
    /// A file was not written or read.
    #[error("cannot {what}")]
    Io {
        /// The operation.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// A certificate was not made.
    #[error("cannot make the certificate of {name}")]
    Certificate {
        /// Its name.
        name: &'static str,
        /// The cause.
        source: rcgen::Error,
    },
    /// A child ended during the start.
    #[error("{program} ended while the cluster was starting ({status}):\n{log}")]
    Ended {
        /// The child.
        program: &'static str,
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The last lines of its log.
        log: String,
    },
    /// The cluster did not become ready in time.
    #[error("the cluster is not ready after {} s; last seen: {last_seen}", START_TIMEOUT.as_secs())]
    NotReady {
        /// The last answer or error.
        last_seen: String,
    },
    /// The client was not built or a request was not sent.
    #[error("cannot reach the real API server")]
    Client(#[source] Box<kube::Error>),
}

impl Error {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let what = what.into();
        move |source| Error::Io { what, source }
    }
}

impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Error::Client(Box::new(error))
    }
}

/// A running control plane. Dropping it kills its processes and removes its files.
#[derive(Debug)]
pub struct RealCluster {
    children: Children,
    files: Files,
    port: u16,
    // last: the processes end before their folder
    folder: TempDir,
}

impl RealCluster {
    /// Starts a control plane and waits until it is ready and its controllers act.
    ///
    /// # Errors
    /// [`Error::Peers`] without the programs; otherwise the failed step.
    pub async fn start(profile: Profile, progress: Progress<'_>) -> Result<RealCluster, Error> {
        let plane = peers::control_plane(progress)?;
        let mut attempt = 1;
        loop {
            match Self::start_once(&plane, profile).await {
                Err(ended @ Error::Ended { .. }) if attempt < START_ATTEMPTS => {
                    progress(&format!("the control plane starts again: {ended}"));
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_once(plane: &ControlPlane, profile: Profile) -> Result<RealCluster, Error> {
        // process-wide; a second installation is the same provider
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::Builder::new()
            .prefix("equate-real-")
            .tempdir()
            .map_err(Error::io("create the cluster's folder"))?;
        let ports = Ports::free().map_err(Error::io("find free ports"))?;
        let files = Files::write(folder.path(), ports.api)?;
        let children = Children::start(plane, folder.path(), &files, &ports)?;
        let mut cluster = RealCluster {
            children,
            files,
            port: ports.api,
            folder,
        };
        cluster.wait_for("/readyz", None).await?;
        // ready means that the roles are stored, not that the authorizer has read them
        cluster
            .wait_for(DELEGATED_AUTHENTICATION, Some("system:kube-controller-manager"))
            .await?;
        cluster
            .wait_for(DELEGATED_AUTHENTICATION, Some("system:kube-scheduler"))
            .await?;
        cluster
            .children
            .start_controllers(plane, profile, &cluster.files, &ports)?;
        if profile == Profile::Full {
            cluster.create_nodes().await?;
        }
        // created by the controllers
        cluster
            .wait_for("/api/v1/namespaces/default/serviceaccounts/default", None)
            .await?;
        cluster
            .wait_for("/api/v1/namespaces/default/configmaps/kube-root-ca.crt", None)
            .await?;
        if profile == Profile::Full {
            for node in files::NODES {
                cluster.wait_for_node(node).await?;
            }
        }
        Ok(cluster)
    }

    /// The API server's URL, without a trailing slash.
    pub fn url(&self) -> String {
        files::url(self.port)
    }

    /// A kubeconfig of mode 0600 with the administrator's token.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.files.kubeconfig
    }

    /// The certificate of the run's CA, PEM.
    pub fn ca_path(&self) -> &Path {
        &self.files.ca
    }

    /// The folder with the processes' logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// The administrator's client over TLS.
    ///
    /// # Errors
    /// The client cannot be built.
    pub fn client(&self) -> Result<kube::Client, Error> {
        let mut config = self.config();
        config.auth_info.token = Some(ADMIN_TOKEN.to_owned().into());
        Ok(kube::Client::try_from(config)?)
    }

    /// A client over TLS without credentials: requests bring their own headers.
    ///
    /// # Errors
    /// The client cannot be built.
    pub fn bare_client(&self) -> Result<kube::Client, Error> {
        Ok(kube::Client::try_from(self.config())?)
    }

    /// Sends one request with `token`.
    ///
    /// # Errors
    /// The request cannot be sent; an answer of any status is not an error.
    pub async fn token_request(
        &self,
        token: &str,
        mut request: Request<Vec<u8>>,
    ) -> Result<Response<Body>, Error> {
        if let Ok(value) = http::HeaderValue::from_str(&format!("Bearer {token}")) {
            request.headers_mut().insert(http::header::AUTHORIZATION, value);
        }
        Ok(self.bare_client()?.send(request.map(Body::from)).await?)
    }

    /// Stops the processes and waits until they have ended.
    ///
    /// # Errors
    /// A process cannot be stopped.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.children.stop().await
    }

    fn config(&self) -> kube::Config {
        let mut config = kube::Config::new(self.files.uri.clone());
        config.root_cert = Some(vec![self.files.ca_der.clone()]);
        // a test wants the first answer
        config.default_retry = false;
        config
    }

    async fn create_nodes(&self) -> Result<(), Error> {
        let client = self.client()?;
        for node in files::NODES {
            let request = request(
                Request::post("/api/v1/nodes"),
                files::node(node).to_string().into_bytes(),
            )?;
            client.request_text(request).await?;
        }
        Ok(())
    }

    /// Waits until a GET succeeds, as the administrator or as an impersonated user.
    async fn wait_for(&mut self, path: &str, user: Option<&str>) -> Result<(), Error> {
        self.wait_until(path, user, |_| true).await
    }

    async fn wait_for_node(&mut self, node: &str) -> Result<(), Error> {
        self.wait_until(&format!("/api/v1/nodes/{node}"), None, takes_pods)
            .await
    }

    async fn wait_until(
        &mut self,
        path: &str,
        user: Option<&str>,
        passes: impl Fn(&str) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + START_TIMEOUT;
        let mut interval = tokio::time::interval(POLL_INTERVAL);
        let client = self.client()?;
        loop {
            interval.tick().await;
            self.children.check()?;
            let mut builder = Request::get(path);
            if let Some(user) = user {
                builder = builder.header("Impersonate-User", user);
            }
            let last_seen = match client.request_text(request(builder, Vec::new())?).await {
                Ok(body) if passes(&body) => return Ok(()),
                Ok(body) => format!("GET {path}: {body}"),
                Err(error) => format!("GET {path}: {error}"),
            };
            if Instant::now() > deadline {
                return Err(Error::NotReady { last_seen });
            }
        }
    }
}

fn takes_pods(node: &str) -> bool {
    let Ok(node) = serde_json::from_str::<Value>(node) else {
        return false;
    };
    let mut conditions = node["status"]["conditions"].as_array().into_iter().flatten();
    let taints = node["spec"]["taints"].as_array();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
        && taints.is_none_or(Vec::is_empty)
}

const DELEGATED_AUTHENTICATION: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

fn request(builder: http::request::Builder, body: Vec<u8>) -> Result<Request<Vec<u8>>, Error> {
    let request = builder
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body);
    request.map_err(|error| Error::Client(Box::new(kube::Error::HttpError(error))))
}

#[derive(Debug)]
struct Ports {
    etcd_client: u16,
    etcd_peer: u16,
    api: u16,
    controllers: u16,
    scheduler: u16,
    kwok: u16,
}

impl Ports {
    /// Six distinct free ports: all are bound until all are found.
    fn free() -> io::Result<Ports> {
        let mut held = Vec::new();
        let mut next = || -> io::Result<u16> {
            let listener = TcpListener::bind(("127.0.0.1", 0))?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            Ok(port)
        };
        Ok(Ports {
            etcd_client: next()?,
            etcd_peer: next()?,
            api: next()?,
            controllers: next()?,
            scheduler: next()?,
            kwok: next()?,
        })
    }
}
