//! Selects the cluster of a command.
//!
//! In this order: `--kubeconfig` and `--context`, `KUBECONFIG`, the `equate up` that runs in this directory
//! or above it, `~/.kube/config`. The selected cluster is printed on standard error.

use crate::failure::Failure;
use crate::workspace;
use http::header::{HeaderValue, USER_AGENT};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const AGENT: &str = concat!("equate/", env!("CARGO_PKG_VERSION"));

/// The heading in the help of the options that most commands accept.
pub(crate) const GLOBAL_OPTIONS: &str = "Global options";

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Options {
    /// Path to the kubeconfig (default: `KUBECONFIG`, then that of the `equate up` in this directory or above it, then `~/.kube/config`).
    #[arg(long, value_name = "FILE", help_heading = GLOBAL_OPTIONS)]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use (default: the current one); without `KUBECONFIG`, it is read from `~/.kube/config`.
    #[arg(long, alias = "kube-context", value_name = "NAME", help_heading = GLOBAL_OPTIONS)]
    pub(crate) context: Option<String>,
}

/// The options of every command that reads a cluster, accepted before or after the command's name.
#[derive(Debug, clap::Args)]
pub(crate) struct ClusterOptions {
    /// Path to the kubeconfig (default: `KUBECONFIG`, then that of the `equate up` in this directory or above it, then `~/.kube/config`).
    #[arg(long, value_name = "FILE", global = true, help_heading = GLOBAL_OPTIONS)]
    kubeconfig: Option<PathBuf>,
    /// Kubeconfig context to use (default: the current one); without `KUBECONFIG`, it is read from `~/.kube/config`.
    #[arg(long, value_name = "NAME", global = true, help_heading = GLOBAL_OPTIONS)]
    context: Option<String>,
    /// Namespace to use; the default depends on the command.
    #[arg(short, long, value_name = "NAMESPACE", global = true, help_heading = GLOBAL_OPTIONS)]
    namespace: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    #[error(
        "no cluster selected: no `equate up` runs in {directory} or above it, and there is no ~/.kube/config"
    )]
    NoneSelected { directory: PathBuf },
    #[error("kubeconfig {} has no current context", paths(.files))]
    NoContext { files: Vec<PathBuf> },
    #[error("kubeconfig {} is that of an `equate up` that has ended", .file.display())]
    Ended { file: PathBuf },
    #[error("could not determine the working directory")]
    Directory(#[source] std::io::Error),
    #[error("could not read the kubeconfig {}", paths(.files))]
    Read {
        files: Vec<PathBuf>,
        #[source]
        source: Box<KubeconfigError>,
    },
    #[error("kubeconfig {} has no context {context:?}; it has {known}", paths(.files))]
    Context {
        files: Vec<PathBuf>,
        context: String,
        known: String,
    },
    #[error("could not use the kubeconfig {}", paths(.files))]
    Use {
        files: Vec<PathBuf>,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Failure for ConnectError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NoneSelected { .. } => Some(
                "run `equate up` here, set KUBECONFIG, or select a cluster with --kubeconfig or --context",
            ),
            Self::Read { .. } | Self::Context { .. } => Some("select another with --kubeconfig or --context"),
            Self::NoContext { .. } => {
                Some("select one with --context, or run `equate up` for a cluster of its own")
            }
            Self::Ended { .. } => {
                Some("start it again, or select another cluster with KUBECONFIG or --kubeconfig")
            }
            Self::Directory(_) | Self::Use { .. } => None,
        }
    }
}

/// Installs the TLS provider that all clients of the process share.
pub(crate) fn install_tls() {
    // refused only if one is installed already, as in tests
    drop(rustls::crypto::ring::default_provider().install_default());
}

#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    context: Option<String>,
    url: String,
    source: &'static str,
    files: Vec<PathBuf>,
}

#[derive(Debug, PartialEq, Eq)]
struct Selection {
    files: Vec<PathBuf>,
    source: &'static str,
}

impl Connection {
    /// Whether a running `equate up` serves it, also if KUBECONFIG names its file.
    pub(crate) fn is_up(&self) -> bool {
        self.source == UP || matches!(self.files.as_slice(), [file] if workspace::is_live(file))
    }
}

/// The source of a cluster that was found in this directory.
const UP: &str = "equate up";
const HOME: &str = "~/.kube/config";

impl Options {
    /// Selects and reads the kubeconfig, and prepares a client. Sends no request.
    pub(crate) async fn connect(&self) -> Result<Connection, ConnectError> {
        self.connect_by(Client::try_from).await
    }

    /// [`Self::connect`] with the caller's way to make a client.
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

    /// [`Self::connect`], and prints the cluster on standard error.
    pub(crate) async fn connect_and_print(&self) -> Result<Connection, ConnectError> {
        let connection = self.connect().await?;
        eprintln!("cluster: {connection}");
        Ok(connection)
    }

    /// The namespace of the context, as kubectl finds it.
    pub(crate) fn namespace(&self) -> Option<String> {
        let directory = std::env::current_dir().ok()?;
        let (variable, home) = (std::env::var_os("KUBECONFIG"), std::env::home_dir());
        let choice = self.choose(variable.as_deref(), home, &directory).ok()?;
        let kubeconfig = read(&choice.files).ok()?;
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
    ) -> Result<Selection, ConnectError> {
        if let Some(file) = &self.kubeconfig {
            return Ok(Selection {
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
            return Ok(Selection {
                files,
                source: "KUBECONFIG",
            });
        }
        let home = home.map(|home| home.join(".kube").join("config"));
        // a named context selects a cluster: search for it where kubectl does
        if let (Some(_), Some(file)) = (&self.context, &home) {
            return Ok(Selection {
                files: vec![file.clone()],
                source: "--context",
            });
        }
        if let Some(file) = workspace::live_kubeconfig(directory) {
            return Ok(Selection {
                files: vec![file],
                source: UP,
            });
        }
        match home.filter(|file| file.exists()) {
            Some(file) => Ok(Selection {
                files: vec![file],
                source: HOME,
            }),
            None => Err(ConnectError::NoneSelected {
                directory: directory.to_path_buf(),
            }),
        }
    }

    async fn open(
        &self,
        choice: Selection,
        make: impl FnOnce(Config) -> Result<Client, kube::Error>,
    ) -> Result<Connection, ConnectError> {
        let Selection { files, source } = choice;
        if let [file] = files.as_slice()
            && workspace::has_ended(file)
        {
            return Err(ConnectError::Ended { file: file.clone() });
        }
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
        // the defaults of a client without a context would mean this machine
        if context.as_ref().is_none_or(String::is_empty) {
            return Err(ConnectError::NoContext { files });
        }
        let options = KubeConfigOptions {
            context: context.clone(),
            ..KubeConfigOptions::default()
        };
        let unusable = |source| ConnectError::Use {
            files: files.clone(),
            source,
        };
        let config = Config::from_custom_kubeconfig(kubeconfig, &options)
            .await
            .map_err(|source| unusable(source.into()))?;
        let config = complete(config);
        let url = config.cluster_url.to_string();
        let client = make(config).map_err(|source| unusable(source.into()))?;
        Ok(Connection {
            files,
            client,
            context,
            url: url.trim_end_matches('/').to_owned(),
            source,
        })
    }
}

/// With a time limit, and a name for audit logs.
pub(crate) fn complete(mut config: Config) -> Config {
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    config.headers.push((USER_AGENT, HeaderValue::from_static(AGENT)));
    config
}

/// The kubeconfigs, merged like kubectl: the first value wins. Missing files are skipped if there are
/// several.
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

/// Without the client, which may contain credentials.
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

    #[tokio::test]
    async fn requests_name_the_program() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("kubeconfig");
        let text = "current-context: c\ncontexts: [{ name: c, context: { cluster: c } }]\n\
                    clusters: [{ name: c, cluster: { server: 'https://127.0.0.1:1' } }]\n";
        std::fs::write(&file, text).unwrap();
        let options = Options {
            kubeconfig: Some(file),
            context: None,
        };
        let mut headers = Vec::new();
        let make = |config: Config| {
            headers.clone_from(&config.headers);
            Client::try_from(config)
        };
        options.connect_by(make).await.unwrap();
        assert_eq!(headers, [(USER_AGENT, HeaderValue::from_static(AGENT))]);
    }

    #[test]
    fn first_named_cluster_is_selected() {
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
            let home = place
                .path()
                .join(if below.ends_with("mine") { "me" } else { "nobody" });
            let said = match options.choose(Some(variable.as_ref()), Some(home), below) {
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
            "PLACE/nobody/.kube/config by --context",
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
            "no cluster selected: no `equate up` runs in PLACE or above it, and there is no ~/.kube/config",
        );
        std::fs::create_dir_all(place.path().join("me/.kube")).unwrap();
        std::fs::write(place.path().join("me/.kube/config"), "").unwrap();
        check(
            None,
            None,
            "",
            &place.path().join("mine"),
            "PLACE/me/.kube/config by ~/.kube/config",
        );
    }

    #[tokio::test]
    async fn the_kubeconfig_of_an_ended_up_is_named() {
        let place = tempfile::tempdir().unwrap();
        let kubeconfig = Workspace::claim(place.path()).unwrap().kubeconfig();
        let options = Options {
            kubeconfig: Some(kubeconfig),
            context: None,
        };
        let error = options.connect().await.unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with("is that of an `equate up` that has ended"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn kubeconfig_without_a_context_selects_nothing() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("kubeconfig");
        std::fs::write(&file, "{apiVersion: v1, kind: Config}").unwrap();
        let options = Options {
            kubeconfig: Some(file),
            context: None,
        };
        let error = options.connect().await.unwrap_err();
        assert!(
            error.to_string().ends_with("kubeconfig has no current context"),
            "{error}"
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
    async fn cluster_is_printed_without_its_token() {
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
