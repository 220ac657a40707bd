//! `equate up`: the whole loop on this machine, from git to an embedded cluster.
//!
//! Starts the embedded API, bootstraps it, starts the controllers and shows their progress, until interrupted
//! or, with `--once`, until everything is ready.

mod bootstrap;
mod crds;
mod dashboard;
mod definitions;
mod endpoints;
pub(crate) mod entry;
mod hosts;
mod live;
mod once;
pub(crate) mod own_credentials;
mod refusals;
mod repository;
mod run;
mod screen;
mod standing;
mod summary;
mod view;
mod wrap;

pub(crate) use dashboard::state_and_message;
pub(crate) use repository::{Repository, RepositoryError, remote_url};
pub(crate) use run::run;
pub(crate) use view::State;

use definitions::UnknownKinds;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Follow the current branch of the repository in this directory
  equate up
  # Apply one directory of another local repository
  equate up ~/fleet --path clusters/dev
  # Check a remote repository for commits every 5 seconds
  equate up https://example.org/fleet.git --path clusters/dev --poll 5s
  # Look at a repository whose CRDs are elsewhere
  equate up https://example.org/fleet.git --unknown-kinds=accept
  # Exit when everything is ready, as in CI
  equate up --path clusters/dev --once
  # Use the cluster in a second terminal
  kubectl --kubeconfig .equate/kubeconfig get pods --all-namespaces")]
pub(crate) struct Args {
    /// Git repository: a local directory, or a URL (https, http, ssh or `git@HOST:PATH`).
    #[arg(value_name = "REPO", default_value = ".")]
    repository: String,
    /// Branch to follow (default: the current branch; for a URL, the default branch of the remote).
    #[arg(long)]
    branch: Option<String>,
    /// Path in the repository of the manifests to apply, such as `clusters/dev` (default: the only directory with `flux-system/gotk-sync.yaml`, or the only one below `clusters`; else `./`).
    #[arg(long)]
    path: Option<String>,
    /// Exit with code 0 when everything is ready; otherwise print the reasons and exit with code 1.
    #[arg(long)]
    once: bool,
    /// Maximum time that --once waits.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: equate_api::meta::Duration,
    /// Print the state instead of the interactive view that a terminal shows.
    #[arg(long)]
    no_interactive: bool,
    /// Port of the Kubernetes API on 127.0.0.1; 0 selects a free port.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Keep the cluster, git mirrors and artifacts in this directory for the next start (default: keep nothing).
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
    /// Interval between checks of a remote repository for commits; Equate watches a local one.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    poll: equate_api::meta::Duration,
    /// Read the directory DIR instead of the source at URL, such as `https://example.org/app.git=../app` or `oci://example.org/charts=../charts` (can be repeated).
    #[arg(long, value_name = "URL=DIR", value_parser = substitution)]
    instead_of: Vec<(String, PathBuf)>,
    /// Define the kinds of a file or directory of CRDs, a chart, or a catalogue of schemas such as `cert-manager.io/issuer_v1.json` (can be repeated).
    #[arg(long, value_name = "PATH")]
    crds: Vec<PathBuf>,
    /// Objects of kinds without a definition fail, or their kinds are defined without a schema.
    #[arg(long, value_enum, value_name = "refuse|accept", default_value = "refuse")]
    unknown_kinds: UnknownKinds,
    #[command(flatten, next_help_heading = "Credentials")]
    credentials: own_credentials::Options,
}

pub(crate) fn substitution(text: &str) -> Result<(String, PathBuf), String> {
    // from the right: URLs may contain `=` in the query, paths rarely do
    let (url, path) = text
        .rsplit_once('=')
        .ok_or("expected URL=DIR, such as https://example.org/app.git=../app")?;
    if url.is_empty() || path.is_empty() {
        return Err("neither the URL nor the directory may be empty".into());
    }
    Ok((url.into(), path.into()))
}

#[cfg(test)]
mod tests {
    use super::substitution;

    #[test]
    fn substitutions() {
        for (text, expected) in [
            ("https://h/a.git=../a", Ok(("https://h/a.git", "../a"))),
            ("https://h/a?x=y=../a", Ok(("https://h/a?x=y", "../a"))),
            ("https://h/a", Err("expected URL=DIR")),
            ("=../a", Err("neither")),
        ] {
            match (substitution(text), expected) {
                (Ok((url, path)), Ok(wanted)) => assert_eq!((url.as_str(), path.to_str().unwrap()), wanted),
                (Err(error), Err(wanted)) => assert!(error.starts_with(wanted), "{error}"),
                (got, wanted) => panic!("{text}: {got:?}, expected {wanted:?}"),
            }
        }
    }
}
