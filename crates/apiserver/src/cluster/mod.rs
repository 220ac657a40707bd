//! A cluster: the store, the API and the controllers, built and served.
//!
//! ```no_run
//! # async fn start() -> Result<(), equate_apiserver::cluster::BuildError> {
//! use equate_apiserver::EmbeddedCluster;
//!
//! let cluster = EmbeddedCluster::builder().build().await?;
//! let client: kube::Client = cluster.client();
//! # Ok(())
//! # }
//! ```
//!
//! The client calls the router in-process: no socket, no TLS. The same router
//! serves a loopback port for anyone else.

mod kubeconfig;
mod reading;
mod serve;

use crate::auth::issued::IssuedTokens;
use crate::auth::{Authenticator, Authority, Identity, Token};
use crate::catalog::Catalog;
use crate::controllers::{self, Profile};
use crate::http::{self, Server, nonresource::Documents};
use crate::pipeline::{Api, Clock, Settings};
use crate::store::{Options, Store, StoreError};
use crate::webhooks;
use axum::Router;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub use reading::{Found, Reading};
pub use serve::{Pace, ServeError, Serving, serve_http};

/// An error while building a cluster.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Opening the journal failed.
    #[error("cannot open the store")]
    Store(#[from] StoreError),
    /// A built-in object was refused, which is a bug.
    #[error("cannot create the bootstrap object {name}: {why}")]
    Bootstrap {
        /// Kind and name.
        name: String,
        /// The validation errors.
        why: String,
    },
    /// Writing the built-in objects failed.
    #[error("cannot write the bootstrap objects")]
    Commit(#[source] crate::store::CommitError),
    /// Creating the certificates failed.
    #[error("cannot create the cluster's certificate authority")]
    Certificates(#[from] rcgen::Error),
    /// Creating the administrator's token failed.
    #[error("cannot create the administrator's token")]
    Token(#[from] crate::NoRandomNumbers),
}

/// The settings of a cluster to build.
#[derive(Clone)]
pub struct Builder {
    options: Options,
    tokens: Vec<(Token, Identity)>,
    trusted: Vec<IssuedTokens>,
    anonymous: bool,
    settings: Settings,
    controllers: Profile,
    clock: Clock,
    base: Option<Store>,
    fair: bool,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("options", &self.options)
            .field("anonymous", &self.anonymous)
            .field("settings", &self.settings)
            .field("controllers", &self.controllers)
            .finish_non_exhaustive()
    }
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            options: Options::default(),
            tokens: Vec::new(),
            trusted: Vec::new(),
            anonymous: true,
            settings: Settings {
                service_account_admission: true,
                node: None,
            },
            controllers: Profile::default(),
            clock: Arc::new(jiff::Timestamp::now),
            base: None,
            fair: false,
        }
    }
}

impl Builder {
    /// Keeps the state in this file; without one it ends with the process.
    #[must_use]
    pub fn journal(mut self, path: impl Into<PathBuf>) -> Self {
        self.options.journal = Some(path.into());
        self
    }

    /// Bounds the history kept for watches and old lists.
    #[must_use]
    pub fn history(mut self, events: usize, age: std::time::Duration) -> Self {
        self.options.history_events = events;
        self.options.history_age = age;
        self
    }

    /// Accepts a bearer token in addition to the generated administrator's token.
    #[must_use]
    pub fn token(mut self, token: Token, identity: Identity) -> Self {
        self.tokens.push((token, identity));
        self
    }

    /// Accepts the ServiceAccount tokens of another cluster, like a server that trusts the other's issuer.
    #[must_use]
    pub fn trusting(mut self, other: &EmbeddedCluster) -> Self {
        self.trusted.push(other.api.auth.issued().clone());
        self
    }

    /// Whether requests without a token are accepted as `system:anonymous`.
    #[must_use]
    pub fn anonymous(mut self, allowed: bool) -> Self {
        self.anonymous = allowed;
        self
    }

    /// Selects the controllers to run.
    #[must_use]
    pub fn controllers(mut self, controllers: Profile) -> Self {
        self.settings.node = controllers.workloads.is_some().then_some(controllers::NODE);
        self.controllers = controllers;
        self
    }

    /// Whether pods get a default ServiceAccount, and must name an existing one.
    #[must_use]
    pub fn service_account_admission(mut self, on: bool) -> Self {
        self.settings.service_account_admission = on;
        self
    }

    /// Whether threads with a low priority make the answers for a user who asks for much in a namespace, while others
    /// ask. They need a runtime whose clock is not paused.
    #[must_use]
    pub fn fair(mut self, on: bool) -> Self {
        self.fair = on;
        self
    }

    /// The clock for timestamps.
    #[must_use]
    pub fn clock(mut self, now: impl Fn() -> jiff::Timestamp + Send + Sync + 'static) -> Self {
        self.clock = Arc::new(now);
        self
    }

    /// Builds the cluster and starts its controllers.
    ///
    /// # Errors
    /// When opening the journal or creating the certificate authority fails.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn build(self) -> Result<EmbeddedCluster, BuildError> {
        let store = match self.base.clone() {
            Some(store) => store,
            None => Store::open(self.options.clone())?,
        };
        let authority = serve::Authority::new()?;
        let admin = Token::random()?;
        let mut authenticator = Authenticator::new()
            .anonymous(self.anonymous)
            .token(&admin, Identity::admin());
        for (token, identity) in &self.tokens {
            authenticator = authenticator.token(token, identity.clone());
        }
        let api = Arc::new(Api {
            catalog: Catalog::new(),
            settings: self.settings,
            clock: Arc::clone(&self.clock),
            auth: Authority::new(authenticator, IssuedTokens::new()?).trusting(self.trusted.clone()),
            webhooks: webhooks::Webhooks::default(),
            addresses: tokio::sync::Mutex::default(),
            store,
        });
        api.bootstrap(self.controllers.cluster_roles).await?;
        let stop = CancellationToken::new();
        let tasks = TaskTracker::new();
        let running = controllers::start(Arc::clone(&api), &self.controllers, authority.certificate_pem());
        let stopped = stop.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = running => {}
                () = stopped.cancelled() => {}
            }
        });
        let server = Arc::new(Server {
            api: Arc::clone(&api),
            documents: Documents::default(),
            shares: self.fair.then(Arc::default),
        });
        let router = Router::new().fallback(http::handle).with_state(server);
        Ok(EmbeddedCluster {
            builder: self,
            api,
            router,
            admin,
            authority: Arc::new(authority),
            stop,
            tasks,
        })
    }
}

/// A running cluster. Dropping it stops its controllers.
pub struct EmbeddedCluster {
    builder: Builder,
    api: Arc<Api>,
    router: Router,
    admin: Token,
    authority: Arc<serve::Authority>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl std::fmt::Debug for EmbeddedCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EmbeddedCluster")
            .field("builder", &self.builder)
            .finish_non_exhaustive()
    }
}

impl EmbeddedCluster {
    /// The default cluster: in memory, with all controllers except simulated workloads.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// An in-process client with the administrator's rights.
    pub fn client(&self) -> kube::Client {
        self.client_as(Identity::admin())
    }

    /// An in-process client with the given identity.
    pub fn client_as(&self, identity: Identity) -> kube::Client {
        let service = tower::ServiceBuilder::new()
            .map_request(move |mut request: ::http::Request<kube::client::Body>| {
                request.extensions_mut().insert(identity.clone());
                request
            })
            .service(self.router.clone());
        kube::Client::new(service, "default")
    }

    /// The API as a service; identities come from bearer tokens or as an [`Identity`] extension.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// The administrator's token.
    pub fn admin_token(&self) -> &Token {
        &self.admin
    }

    /// The PEM certificate of the authority that signs the certificates of [`serve`](Self::serve).
    pub fn certificate_authority(&self) -> &str {
        self.authority.certificate_pem()
    }

    /// The newest revision.
    pub fn revision(&self) -> u64 {
        self.api.store.revision()
    }

    /// The objects at the newest revision, without requests.
    pub fn reading(&self) -> Reading {
        Reading::new(self.api.view())
    }

    /// The objects with webhooks that are not called here, as `KIND/NAME`, with the number of these webhooks. Reads
    /// all webhook configurations and CustomResourceDefinitions.
    pub fn skipped_webhooks(&self) -> BTreeMap<String, usize> {
        webhooks::all_skipped(&self.api.view())
    }

    /// Drops the history before a revision: older lists and watches answer 410.
    pub fn compact(&self, before: u64) {
        self.api.store.compact(before);
    }

    /// Starts a second cluster, in memory, from this one's state. The two are independent from then on.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub async fn fork(&self) -> Result<Self, BuildError> {
        let builder = Builder {
            base: Some(self.api.store.fork()),
            ..self.builder.clone()
        };
        builder.build().await
    }

    /// Serves the API over TLS on an address (port 0 picks one).
    ///
    /// # Errors
    /// When binding the address fails.
    pub async fn serve(&self, address: std::net::SocketAddr) -> Result<Serving, ServeError> {
        serve::serve(
            self.router.clone(),
            Arc::clone(&self.authority),
            address,
            self.stop.child_token(),
        )
        .await
    }

    /// Writes a kubeconfig for a served address, readable by its owner only.
    ///
    /// # Errors
    /// When writing the file fails.
    pub fn write_kubeconfig(&self, serving: &Serving, path: &Path) -> std::io::Result<()> {
        kubeconfig::write(
            path,
            &serving.url(),
            self.authority.certificate_pem(),
            &self.admin,
        )
    }

    /// Stops the controllers and waits for them.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
