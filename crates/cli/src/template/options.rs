//! Options as Helm reads them: switches that may be told `=false`, options that mean nothing when empty,
//! and those that only an installation has a use for.

use clap::builder::{OsStringValueParser, TypedValueParser};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A switch: `--no-hooks`, `--no-hooks=false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Switch(bool);

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self.0
    }
}

impl FromStr for Switch {
    type Err = NoSwitch;

    fn from_str(text: &str) -> Result<Self, NoSwitch> {
        match text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Self(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Self(false)),
            _ => Err(NoSwitch),
        }
    }
}

/// What an option says, which says nothing if it is empty.
pub(super) fn told(option: Option<&String>) -> Option<&String> {
    option.filter(|text| !text.is_empty())
}

/// The same of an option that names a file or a directory.
pub(super) fn told_path(option: Option<&Path>) -> Option<&Path> {
    option.filter(|path| !path.as_os_str().is_empty())
}

/// Reads a path, also an empty one.
pub(super) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

/// What is said of a switch is neither yes nor no.
#[derive(Debug, thiserror::Error)]
#[error("neither true nor false")]
pub(crate) struct NoSwitch;

/// Options of `helm template` that change nothing in what it prints.
#[derive(Debug, clap::Args)]
pub(super) struct OfAnInstallation {
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
