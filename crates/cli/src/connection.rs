//! Which cluster a command talks to.
//!
//! What the user names (`--kubeconfig`, `--context`), else `KUBECONFIG`, else the
//! `equate up` that runs in this directory or above it. Never silently another: without
//! one of these the command ends with an error that says what to do, and the cluster
//! that was chosen is named on standard error.

use crate::failure::Failure;
use crate::workspace;
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Which cluster, as the command line says it.
#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Options {
    /// The kubeconfig to use; without it KUBECONFIG, else that of the `equate up` running here.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use.
    #[arg(long, alias = "kube-context", value_name = "NAME")]
    pub(crate) context: Option<String>,
}

/// The same before the command, or after it: `crate::line` has them reach the command that asks.
#[derive(Debug, clap::Args)]
pub(crate) struct Anywhere {
    /// The kubeconfig to use; without it KUBECONFIG, else that of the `equate up` running here.
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig to use.
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
    /// The namespace to look in.
    #[arg(short, long, value_name = "NAMESPACE", global = true)]
    namespace: Option<String>,
}

/// Why there is no cluster to talk to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// Nothing says which.
    #[error("no cluster is chosen, and no `equate up` runs in {directory} or above it")]
    Unchosen {
        /// Where the command runs.
        directory: PathBuf,
    },
    /// The working directory is not known.
    #[error("could not tell the working directory")]
    Directory(#[source] std::io::Error),
    /// A kubeconfig cannot be read.
    #[error("could not read the kubeconfig {}", paths(.files))]
    Read {
        /// The files.
        files: Vec<PathBuf>,
        /// Why.
        #[source]
        source: Box<KubeconfigError>,
    },
    /// The kubeconfig has no such context.
    #[error("kubeconfig {} has no context {context:?}; it has {known}", paths(.files))]
    Context {
        /// The files.
        files: Vec<PathBuf>,
        /// The context asked for.
        context: String,
        /// Those there are.
        known: String,
    },
    /// The kubeconfig does not lead to a client.
    #[error("could not use the kubeconfig {}", paths(.files))]
    Use {
        /// The files.
        files: Vec<PathBuf>,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Failure for ConnectError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unchosen { .. } => {
                Some("run `equate up` here, set KUBECONFIG, or name a cluster with --kubeconfig or --context")
            }
            Self::Read { .. } | Self::Context { .. } => Some("name another with --kubeconfig or --context"),
            Self::Directory(_) | Self::Use { .. } => None,
        }
    }
}

/// Installs the one implementation of cryptography of the whole process; clients need it.
pub(crate) fn install_tls() {
    // Refused only when one is there already, as in tests.
    drop(rustls::crypto::ring::default_provider().install_default());
}

/// A cluster to talk to.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Its client.
    pub(crate) client: Client,
    context: Option<String>,
    url: String,
    source: &'static str,
}

/// What a choice fell on.
#[derive(Debug, PartialEq, Eq)]
struct Choice {
    files: Vec<PathBuf>,
    source: &'static str,
}

impl Connection {
    /// Whether it leads to an `equate up` that was found here, not to a cluster that was named.
    pub(crate) fn is_up(&self) -> bool {
        self.source == UP
    }
}

/// What [`Connection`] says of a cluster that was found here.
const UP: &str = "equate up";

impl Options {
    /// Reads the kubeconfig that is chosen and prepares a client. Nothing is asked of the cluster yet.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        self.connect_by(Client::try_from).await
    }

    /// As [`Self::connect`], with a client of the caller's making.
    pub(crate) async fn connect_by(
        &self,
        make: impl FnOnce(Config) -> Result<Client, kube::Error>,
    ) -> Result<Connection, ConnectError> {
        let directory = std::env::current_dir().map_err(ConnectError::Directory)?;
        let choice = self.choose(
            std::env::var_os("KUBECONFIG").as_deref(),
            std::env::home_dir(),
            &directory,
        )?;
        self.open(choice, make).await
    }

    /// As [`Self::connect`], and says on standard error which cluster it is.
    pub(crate) async fn connect_aloud(&self) -> Result<Connection, ConnectError> {
        let connection = self.connect().await?;
        eprintln!("cluster: {connection}");
        Ok(connection)
    }

    /// The namespace of the context, as kubectl finds it; nothing where no kubeconfig names one. Where no
    /// cluster is chosen the user's own kubeconfig still says it.
    pub(crate) fn namespace(&self) -> Option<String> {
        let directory = std::env::current_dir().ok()?;
        let (variable, home) = (std::env::var_os("KUBECONFIG"), std::env::home_dir());
        let files = match self.choose(variable.as_deref(), home.clone(), &directory) {
            Ok(choice) => choice.files,
            Err(_) => vec![home?.join(".kube").join("config")],
        };
        let kubeconfig = read(&files).ok()?;
        let context = self.context.as_ref().or(kubeconfig.current_context.as_ref())?;
        let mut contexts = kubeconfig.contexts.iter();
        let found = contexts.find(|known| known.name == *context)?.context.as_ref()?;
        found.namespace.clone().filter(|namespace| !namespace.is_empty())
    }

    fn choose(
        &self,
        variable: Option<&OsStr>,
        home: Option<PathBuf>,
        directory: &Path,
    ) -> Result<Choice, ConnectError> {
        if let Some(file) = &self.kubeconfig {
            return Ok(Choice {
                files: vec![file.clone()],
                source: "--kubeconfig",
            });
        }
        let files: Vec<PathBuf> = variable
            .into_iter()
            .flat_map(std::env::split_paths)
            .filter(|file| !file.as_os_str().is_empty())
            .collect();
        if !files.is_empty() {
            return Ok(Choice {
                files,
                source: "KUBECONFIG",
            });
        }
        // A context that is named is a choice: it is looked for where kubectl would.
        if let (Some(_), Some(home)) = (&self.context, home) {
            return Ok(Choice {
                files: vec![home.join(".kube").join("config")],
                source: "--context",
            });
        }
        match workspace::live_kubeconfig(directory) {
            Some(file) => Ok(Choice {
                files: vec![file],
                source: UP,
            }),
            None => Err(ConnectError::Unchosen {
                directory: directory.to_path_buf(),
            }),
        }
    }

    async fn open(
        &self,
        choice: Choice,
        make: impl FnOnce(Config) -> Result<Client, kube::Error>,
    ) -> Result<Connection, ConnectError> {
        let Choice { files, source } = choice;
        let kubeconfig = read(&files)?;
        if let Some(context) = &self.context
            && !kubeconfig.contexts.iter().any(|known| known.name == *context)
        {
            let known: Vec<&str> = kubeconfig
                .contexts
                .iter()
                .map(|known| known.name.as_str())
                .collect();
            return Err(ConnectError::Context {
                files,
                context: context.clone(),
                known: if known.is_empty() {
                    "none".to_owned()
                } else {
                    known.join(", ")
                },
            });
        }
        let context = self
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone());
        let options = KubeConfigOptions {
            context: context.clone(),
            ..KubeConfigOptions::default()
        };
        let unusable = |source| ConnectError::Use {
            files: files.clone(),
            source,
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|source| unusable(source.into()))?;
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        let url = config.cluster_url.to_string();
        let client = make(config).map_err(|source| unusable(source.into()))?;
        Ok(Connection {
            client,
            context,
            url: url.trim_end_matches('/').to_owned(),
            source,
        })
    }
}

/// The kubeconfigs, merged as kubectl does: what comes first wins, what does not exist is passed over
/// where there are several.
fn read(files: &[PathBuf]) -> Result<Kubeconfig, ConnectError> {
    let failed = |source| ConnectError::Read {
        files: files.to_vec(),
        source: Box::new(source),
    };
    let mut merged = Kubeconfig::default();
    for file in files {
        if files.len() > 1 && !file.exists() {
            continue;
        }
        let next = Kubeconfig::read_from(file).map_err(failed)?;
        merged = merged.merge(next).map_err(failed)?;
    }
    Ok(merged)
}

fn paths(files: &[PathBuf]) -> String {
    let texts: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    texts.join(", ")
}

impl std::fmt::Display for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(context) = &self.context {
            write!(f, "{context} at ")?;
        }
        write!(f, "{} (by {})", self.url, self.source)
    }
}

/// No client: it may hold credentials.
impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("context", &self.context)
            .field("url", &self.url)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    #[test]
    fn the_first_that_is_named_is_chosen() {
        let place = tempfile::tempdir().unwrap();
        let running = place.path().join("running");
        std::fs::create_dir(&running).unwrap();
        let workspace = Workspace::claim(&running).unwrap();
        std::fs::write(workspace.kubeconfig(), "").unwrap();
        let check = |kubeconfig: Option<&str>,
                     context: Option<&str>,
                     variable: &str,
                     below: &Path,
                     expected: &str| {
            let options = Options {
                kubeconfig: kubeconfig.map(PathBuf::from),
                context: context.map(str::to_owned),
            };
            let said = match options.choose(Some(variable.as_ref()), Some("/users/me".into()), below) {
                Ok(choice) => format!("{} by {}", paths(&choice.files), choice.source),
                Err(error) => error.to_string(),
            };
            assert_eq!(
                said.replace(&place.path().display().to_string(), "PLACE"),
                expected
            );
        };
        check(Some("/a"), None, "/b", &running, "/a by --kubeconfig");
        check(Some("/a"), Some("x"), "/b", &running, "/a by --kubeconfig");
        check(None, None, "/b:/c", &running, "/b, /c by KUBECONFIG");
        check(None, Some("x"), "/b", &running, "/b by KUBECONFIG");
        check(
            None,
            Some("x"),
            "",
            &running,
            "/users/me/.kube/config by --context",
        );
        check(
            None,
            None,
            "",
            &running,
            "PLACE/running/.equate/kubeconfig by equate up",
        );
        check(
            None,
            None,
            "",
            &running.join("below"),
            "PLACE/running/.equate/kubeconfig by equate up",
        );
        check(
            None,
            None,
            "",
            place.path(),
            "no cluster is chosen, and no `equate up` runs in PLACE or above it",
        );
    }

    const KUBECONFIG: &str = "
apiVersion: v1
kind: Config
current-context: one
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
contexts: [{name: one, context: {cluster: c, user: u}}, {name: two, context: {cluster: c, user: u}}]
users: [{name: u, user: {token: secret}}]
";

    #[tokio::test]
    async fn the_cluster_is_named_and_its_token_is_not() {
        install_tls();
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("kubeconfig");
        std::fs::write(&file, KUBECONFIG).unwrap();
        let open = async |context: Option<&str>| {
            let options = Options {
                kubeconfig: Some(file.clone()),
                context: context.map(str::to_owned),
            };
            match options.connect().await {
                Ok(connection) => format!("{connection} {connection:?}"),
                Err(error) => error
                    .to_string()
                    .replace(&place.path().display().to_string(), "PLACE"),
            }
        };
        let said = open(None).await;
        assert!(
            said.starts_with("one at https://127.0.0.1:1 (by --kubeconfig) "),
            "{said}"
        );
        assert!(!said.contains("secret"), "{said}");
        let said = open(Some("two")).await;
        assert!(said.starts_with("two at "), "{said}");
        assert_eq!(
            open(Some("three")).await,
            "kubeconfig PLACE/kubeconfig has no context \"three\"; it has one, two"
        );
    }
}
