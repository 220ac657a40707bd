//! `equate up`: the whole loop on this machine, from git to a cluster that is in this process.
//!
//! Starts the embedded API, gives it the definitions and the loop's own two objects, starts the
//! controllers and shows what they do, until interrupted or, with `--once`, until all is ready.

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

/// Keep an embedded cluster equal to a git repository.
#[derive(Debug, clap::Args)]
#[command(after_help = "EXAMPLES:
  equate up                                            the repository here, branch of HEAD, path ./
  equate up ~/fleet --path clusters/dev
  equate up https://example.org/fleet.git --path clusters/dev --poll 5s
  equate up --path clusters/dev --once                 wait until Ready, say why not, end")]
pub(crate) struct Args {
    /// A directory in a git repository, or an http, https or ssh URL.
    #[arg(value_name = "REPO", default_value = ".")]
    repository: String,
    /// The branch to follow; without it the one that HEAD is on.
    #[arg(long)]
    branch: Option<String>,
    /// The directory in the repository that says what this cluster runs.
    #[arg(long, default_value = "./")]
    path: String,
    /// Wait until everything is ready and end; exit code 1, with the reasons, if it does not become so.
    #[arg(long)]
    once: bool,
    /// How long `--once` waits.
    #[arg(long, default_value = "5m", value_name = "DURATION")]
    timeout: equate_api::meta::Duration,
    /// The port of the Kubernetes API on loopback; 0 picks a free one.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// Keep state, mirrors and artifacts in this directory, so that they survive a restart.
    #[arg(long, value_name = "DIR")]
    persist: Option<PathBuf>,
    /// How often a remote repository is looked at. A local one is watched.
    #[arg(long, default_value = "1m", value_name = "DURATION")]
    poll: equate_api::meta::Duration,
    /// Read this directory wherever a repository is declared with this URL. May be repeated.
    #[arg(long, value_name = "URL=PATH", value_parser = substitution)]
    instead_of: Vec<(String, PathBuf)>,
}

pub(crate) fn substitution(text: &str) -> Result<(String, PathBuf), String> {
    // From the right: a URL may hold `=` in its query, a path seldom does.
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
