//! Options in Helm's syntax: switches with `=false`, options that are unset if empty, and options that only
//! an installation uses.

use clap::builder::{OsStringValueParser, TypedValueParser};
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
