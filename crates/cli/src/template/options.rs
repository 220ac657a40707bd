//! Options in Helm's syntax: switches with `=false`, options that are unset if empty, and options that only
//! an installation uses.

use super::TemplateError;
use clap::builder::{OsStringValueParser, TypedValueParser};
use equate_controllers::chart_fetch::ChartRepository;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(bool);

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self.0
    }
}

impl FromStr for Switch {
    type Err = InvalidSwitch;

    fn from_str(text: &str) -> Result<Self, InvalidSwitch> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err(InvalidSwitch),
        }
    }
}

pub(super) fn non_empty(option: Option<&String>) -> Option<&String> {
    option.filter(|text| !text.is_empty())
}

pub(super) fn non_empty_path(option: Option<&Path>) -> Option<&Path> {
    option.filter(|path| !path.as_os_str().is_empty())
}

/// Parses a path, which may be empty.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

#[derive(Debug, thiserror::Error)]
#[error("expected true or false")]
pub(crate) struct InvalidSwitch;

/// How the repository of `--repo` is addressed.
#[derive(Debug, clap::Args)]
pub(super) struct RepositoryOptions {
    /// User name at the repository.
    #[arg(long, value_name = "NAME", requires = "repo")]
    username: Option<String>,
    /// Password at the repository.
    #[arg(long, value_name = "PASSWORD", requires = "repo")]
    password: Option<String>,
    /// Send user name and password also to other hosts that the index names.
    #[arg(long, num_args = 0..=1, require_equals = true, value_name = "BOOL",
          default_value = "false", default_missing_value = "true", hide_default_value = true)]
    pass_credentials: Switch,
    /// File with CA certificates to trust in addition to the system's.
    #[arg(long, value_name = "FILE", requires = "repo", value_parser = path())]
    ca_file: Option<PathBuf>,
    /// File with the client's certificate.
    #[arg(long, value_name = "FILE", requires = "repo", requires = "key_file", value_parser = path())]
    cert_file: Option<PathBuf>,
    /// File with the key of the client's certificate.
    #[arg(long, value_name = "FILE", requires = "repo", requires = "cert_file", value_parser = path())]
    key_file: Option<PathBuf>,
}

impl RepositoryOptions {
    pub(super) fn open(&self, url: &str) -> Result<ChartRepository, TemplateError> {
        let read = |path: &Option<PathBuf>| {
            let path = non_empty_path(path.as_deref());
            let read = path.map(|path| {
                std::fs::read(path).map_err(|source| TemplateError::Read {
                    path: path.display().to_string(),
                    source,
                })
            });
            read.transpose()
        };
        let (certificate, key) = (read(&self.cert_file)?, read(&self.key_file)?);
        let client = certificate.zip(key);
        let client = client.map(|(certificate, key)| [certificate, b"\n".to_vec(), key].concat());
        let repository = ChartRepository::new(url).with_certificates(read(&self.ca_file)?, client);
        let login = non_empty(self.username.as_ref()).zip(non_empty(self.password.as_ref()));
        Ok(match login {
            Some((username, password)) => {
                let pass = self.pass_credentials.is_on();
                repository.with_login(username.clone(), password.clone(), pass)
            }
            None => repository,
        })
    }
}

/// Options of `helm template` that do not change its output.
#[derive(Debug, clap::Args)]
pub(super) struct InstallationOptions {
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    create_namespace: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    disable_openapi_validation: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    replace: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    skip_crds: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    hide_notes: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    render_subchart_notes: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    devel: Option<Switch>,
    #[arg(long, alias = "atomic", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    rollback_on_failure: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    wait_for_jobs: Option<Switch>,
    #[arg(long, alias = "force", hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    force_replace: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    force_conflicts: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    take_ownership: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    server_side: Option<Switch>,
    #[arg(long, hide = true, num_args = 0..=1, require_equals = true, default_missing_value = "watcher")]
    wait: Option<String>,
    #[arg(short, long, hide = true)]
    labels: Vec<String>,
    #[arg(long, hide = true)]
    description: Option<String>,
}
