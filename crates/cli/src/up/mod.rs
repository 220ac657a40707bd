//! `equate up`: the whole loop on this machine, from git to an embedded cluster.
//!
//! Starts the embedded API, bootstraps it, starts the controllers and shows their progress, until interrupted
//! or, with `--once`, until everything is ready.

mod bootstrap;
mod dashboard;
mod endpoints;
mod once;
mod repository;
mod run;
mod screen;
mod view;

pub(crate) use repository::{Repository, RepositoryError, remote_url};
pub(crate) use run::run;

use std::path::PathBuf;

#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES:
  equate up                                            the repository here, branch of HEAD, path ./
  equate up ~/fleet --path clusters/dev
  equate up https://example.org/fleet.git --path clusters/dev --poll 5s
  equate up --path clusters/dev --once                 wait until ready, or explain why not, and exit")]
pub(crate) struct Args {
    /// Directory in a git repository, or an http, https or ssh URL.
    #[arg(value_name = "REPO", default_value = ".")]
    repository: String,
    /// Branch to follow (default: the branch of HEAD).
    #[arg(long)]
    branch: Option<String>,
    /// Directory in the repository with the manifests of this cluster.
    #[arg(long, default_value = "./")]
    path: String,
    /// Wait until everything is ready, then exit; exit code 1, with the reasons, if it does not become ready.
    #[arg(long)]
    once: bool,
    /// Maximum time to wait with --once.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: equate_api::meta::Duration,
    /// Port of the Kubernetes API on loopback; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Keep state, mirrors and artifacts in this directory across restarts.
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
    /// Interval at which to poll a remote repository; a local one is watched.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    poll: equate_api::meta::Duration,
    /// Read this directory instead of the repository at this URL. Repeatable.
    #[arg(long, value_name = "URL=PATH", value_parser = substitution)]
    instead_of: Vec<(String, PathBuf)>,
}

pub(crate) fn substitution(text: &str) -> Result<(String, PathBuf), String> {
    // from the right: URLs may contain `=` in the query, paths rarely do
    let (url, path) = text
        .rsplit_once('=')
        .ok_or("expected URL=PATH, such as https://example.org/app.git=../app")?;
    if url.is_empty() || path.is_empty() {
        return Err("neither the URL nor the path may be empty".into());
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
            ("https://h/a", Err("expected URL=PATH")),
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
