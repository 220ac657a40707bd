//! `equate push artifact` and `equate pull artifact`: directories as artifacts of an OCI registry, in Flux's
//! format.
//!
//! Credentials come from `--creds`, or else from the files that `docker login` and `podman login` write.
//! No credential helper is run.

pub(crate) mod pull;
pub(crate) mod push;

use std::path::{Path, PathBuf};

use equate_api::meta::Duration;
use equate_egress::Egress;
use equate_registry::{
    Access, Credentials, DockerConfig, DockerConfigError, Error, Limits, NameError, Registries, Remote,
    Repository, SecretString, Version,
};
use serde_json::Value;

use crate::failure::{Failure, is_broken_pipe};

const CONTENT: &str = "application/vnd.cncf.flux.content.v1.tar+gzip";
const CONFIG: &str = "application/vnd.cncf.flux.config.v1+json";
const SOURCE: &str = "org.opencontainers.image.source";
const REVISION: &str = "org.opencontainers.image.revision";
const CREATED: &str = "org.opencontainers.image.created";
const CONFIG_BYTES_MAX: u64 = 1 << 20;

/// Options of both commands.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The word `artifact`, and its URL, such as `oci://ghcr.io/org/app:v1`.
    #[arg(value_name = "artifact URL", required = true, num_args = 2)]
    what: Vec<String>,
    /// Name and password for the registry (default: those of `docker login` or `podman login`).
    #[arg(long, value_name = "NAME[:PASSWORD]")]
    creds: Option<String>,
    /// Authentication of the registry; only `generic` is supported.
    #[arg(long, value_name = "PROVIDER", default_value = "generic")]
    provider: String,
    /// Allow a registry without TLS, and do not check its certificate.
    #[arg(long)]
    insecure_registry: bool,
    /// Maximum time for all requests.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: Duration,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ArtifactError {
    #[error("cannot {verb} {word:?}: use `equate {verb} artifact URL`")]
    What { verb: &'static str, word: String },
    #[error("the URL {0:?} must begin with oci://")]
    Scheme(String),
    #[error("cannot read the URL {url:?}")]
    Name {
        url: String,
        #[source]
        source: NameError,
    },
    #[error("the URL {0:?} has a digest: an artifact is pushed to a tag")]
    NoTag(String),
    #[error("--provider {0} is not supported yet")]
    Provider(String),
    #[error("cannot read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot read the credentials in {}", path.display())]
    Config {
        path: PathBuf,
        #[source]
        source: DockerConfigError,
    },
    #[error("the annotation {0:?} is not of the form key=value")]
    Annotation(String),
    #[error("cannot archive {}", path.display())]
    Tree {
        path: PathBuf,
        #[source]
        source: equate_source::TreeError,
    },
    #[error("cannot archive {}", path.display())]
    Archive {
        path: PathBuf,
        #[source]
        source: equate_source::ArchiveError,
    },
    #[error("{} has no file that is not ignored", .0.display())]
    Empty(PathBuf),
    #[error("the artifact has no layer")]
    NoLayer,
    #[error("the layer of the artifact is no archive")]
    Unpack(#[source] equate_source::UnpackError),
    #[error("cannot read {path:?} of the artifact")]
    Content {
        path: String,
        #[source]
        source: equate_source::ReadError,
    },
    #[error("{} is not a directory", .0.display())]
    NoDirectory(PathBuf),
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error(transparent)]
    Registry(#[from] Error),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for ArtifactError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Scheme(_) => Some("name it as oci://HOST/PATH:TAG"),
            Self::Provider(_) => Some("log in with `docker login`, or use --creds"),
            Self::NoDirectory(_) => Some("create it first"),
            _ => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

impl Place {
    /// The repository and version of the URL.
    fn parse(&self, verb: &'static str) -> Result<(Repository, Version), ArtifactError> {
        let [word, url] = self.what.as_slice() else {
            let word = self.what.join(" ");
            return Err(ArtifactError::What { verb, word });
        };
        if word != "artifact" {
            let word = word.clone();
            return Err(ArtifactError::What { verb, word });
        }
        if self.provider != "generic" {
            return Err(ArtifactError::Provider(self.provider.clone()));
        }
        let name = url
            .strip_prefix("oci://")
            .ok_or_else(|| ArtifactError::Scheme(url.clone()))?;
        Repository::parse_version(name).map_err(|source| ArtifactError::Name {
            url: url.clone(),
            source,
        })
    }

    fn open(&self, repository: &Repository) -> Result<Remote, ArtifactError> {
        let mut access = Access::new("", self.timeout.get());
        access.insecure = self.insecure_registry;
        access.credentials = self.creds.as_ref().map(|creds| {
            let (username, password) = creds.split_once(':').unwrap_or((creds, ""));
            Credentials::Basic {
                username: username.to_owned(),
                password: SecretString::from(password),
            }
        });
        open(repository, access)
    }
}

/// Opens a repository, with the user's own login if the access has none.
fn open(repository: &Repository, access: Access) -> Result<Remote, ArtifactError> {
    let registries = Registries::new(Egress::default(), Limits::default());
    open_at(&registries, repository, access)
}

/// The same at given registries. A directory that stands for the repository needs no login.
pub(crate) fn open_at(
    registries: &Registries,
    repository: &Repository,
    mut access: Access,
) -> Result<Remote, ArtifactError> {
    if access.credentials.is_none() && registries.substitute(repository).is_none() {
        access.credentials = own_credentials(&login_files(|name| std::env::var_os(name)), repository)?;
    }
    Ok(registries.open(repository.clone(), access)?)
}

/// The files of logins: that of docker, then those of podman.
fn login_files(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Vec<PathBuf> {
    let home = variable("HOME").map(PathBuf::from);
    let docker = variable("DOCKER_CONFIG")
        .map(PathBuf::from)
        .or_else(|| Some(home.as_ref()?.join(".docker")));
    let podman = variable("XDG_RUNTIME_DIR").map(|folder| Path::new(&folder).join("containers"));
    docker
        .map(|folder| folder.join("config.json"))
        .into_iter()
        .chain(variable("REGISTRY_AUTH_FILE").map(PathBuf::from))
        .chain(podman.map(|folder| folder.join("auth.json")))
        .collect()
}

/// The first credentials for the repository. Missing files count as empty.
fn own_credentials(files: &[PathBuf], repository: &Repository) -> Result<Option<Credentials>, ArtifactError> {
    for path in files {
        let read = |source| ArtifactError::Read {
            path: path.clone(),
            source,
        };
        let json = match std::fs::metadata(path) {
            Ok(metadata) if metadata.len() > CONFIG_BYTES_MAX => {
                let text = format!("it is larger than {CONFIG_BYTES_MAX} bytes");
                return Err(read(std::io::Error::other(text)));
            }
            Ok(_) => std::fs::read(path).map_err(read)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(read(error)),
        };
        let mut config = DockerConfig::default();
        config.add(&json).map_err(|source| ArtifactError::Config {
            path: path.clone(),
            source,
        })?;
        if let Some(found) = config.find(repository) {
            return Ok(Some(found.clone()));
        }
        if let Some(helper) = helper(&json, repository.registry()) {
            eprintln!(
                "note: the credential helper {helper} of {} is not run; use --creds if {} needs credentials",
                path.display(),
                repository.registry()
            );
        }
    }
    Ok(None)
}

/// The name of the credential helper for a registry.
fn helper(json: &[u8], registry: &str) -> Option<String> {
    let config: Value = serde_json::from_slice(json).ok()?;
    let named = config["credHelpers"][registry].as_str();
    named.or_else(|| config["credsStore"].as_str()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
