//! `equate api`: the embedded Kubernetes API on a loopback port.
//!
//! Its `--kubeconfig` is a file that it writes. Elsewhere the same option names one to read, so a
//! file that something else wrote is never overwritten.

use crate::failure::Failure;
use equate_apiserver::EmbeddedCluster;
use equate_apiserver::cluster::{BuildError, ServeError};
use kube::config::Kubeconfig;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Serve the embedded Kubernetes API until interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// The address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Where to write the kubeconfig; a file that something else wrote is not overwritten. Without it a file of the run's own is made and removed at the end.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Keep the state in this file, so that it survives a restart.
    #[arg(long, value_name = "FILE")]
    persist: Option<PathBuf>,
}

/// Why no API was served.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// The cluster could not be built.
    #[error("could not start the embedded API")]
    Build(#[source] Box<BuildError>),
    /// The address could not be served.
    #[error("could not serve the embedded API")]
    Serve(#[source] ServeError),
    /// The kubeconfig could not be written.
    #[error("could not write the kubeconfig {path}")]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something else wrote the file that a kubeconfig was to be written to.
    #[error("the kubeconfig {path} is there and was not written by `equate api`: it is not overwritten")]
    KubeconfigTaken {
        /// Where.
        path: PathBuf,
    },
    /// Waiting for the interrupt failed.
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
}

impl Failure for ApiError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Serve(ServeError::Listen { .. }) => {
                Some("choose another port with --port, or 0 for any free one")
            }
            Self::Kubeconfig { .. } => Some("choose another place with --kubeconfig"),
            Self::KubeconfigTaken { .. } => Some(
                "`equate api` runs a cluster of its own and writes the way to it there: choose another file, or none",
            ),
            Self::Build(error) if matches!(**error, BuildError::Store(_)) => {
                Some("name another file with --persist, or leave it out to keep everything in memory")
            }
            Self::Build(_) | Self::Serve(_) | Self::Signal(_) => None,
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), ApiError> {
    if let Some(path) = args.kubeconfig.as_ref().filter(|path| !is_free(path)) {
        return Err(ApiError::KubeconfigTaken { path: path.clone() });
    }
    let mut builder = EmbeddedCluster::builder();
    if let Some(path) = &args.persist {
        builder = builder.journal(path);
    }
    let cluster = builder.build().await.map_err(|e| ApiError::Build(Box::new(e)))?;
    let serving = cluster
        .serve(SocketAddr::new(args.bind, args.port))
        .await
        .map_err(ApiError::Serve)?;
    let (path, temporary) = match args.kubeconfig {
        Some(path) => (path, None),
        None => {
            let directory = own_directory().map_err(|source| ApiError::Kubeconfig {
                path: std::env::temp_dir(),
                source,
            })?;
            (directory.path().join("kubeconfig"), Some(directory))
        }
    };
    cluster
        .write_kubeconfig(&serving, &path)
        .map_err(|source| ApiError::Kubeconfig {
            path: path.clone(),
            source,
        })?;
    say(&path, &serving.url());
    crate::interrupt::interrupted().await.map_err(ApiError::Signal)?;
    serving.stop().await;
    cluster.stop().await;
    drop(temporary);
    Ok(())
}

/// Whether a kubeconfig may be written there: nothing is, or nothing is in it, or what an earlier run wrote.
fn is_free(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        // what stands in the way is said when it is written
        return true;
    };
    if metadata.is_file() && metadata.len() == 0 {
        return true;
    }
    Kubeconfig::read_from(path).is_ok_and(|config| {
        let clusters: Vec<&str> = config.clusters.iter().map(|one| one.name.as_str()).collect();
        let contexts: Vec<&str> = config.contexts.iter().map(|one| one.name.as_str()).collect();
        let users: Vec<&str> = config.auth_infos.iter().map(|one| one.name.as_str()).collect();
        (&clusters[..], &contexts[..], &users[..]) == (&["equate"], &["equate"], &["admin"])
    })
}

fn own_directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("equate-").tempdir()
}

/// The path alone goes to standard output, for scripts; the rest is for people.
#[expect(clippy::print_stdout, reason = "the path is the command's result")]
fn say(path: &Path, url: &str) {
    println!("{}", path.display());
    eprintln!("serving the Kubernetes API on {url}");
    eprintln!("try: kubectl --kubeconfig {} get namespaces", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_something_else_wrote_is_not_overwritten() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kubeconfig");
        assert!(is_free(&path), "there is none");
        let cluster = EmbeddedCluster::builder().build().await.unwrap();
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let serving = cluster.serve(address).await.unwrap();
        cluster.write_kubeconfig(&serving, &path).unwrap();
        assert!(is_free(&path), "an earlier run wrote it");
        let ours = std::fs::read_to_string(&path).unwrap();
        let check = |what: &str, text: &str, free: bool| {
            std::fs::write(&path, text).unwrap();
            assert_eq!(is_free(&path), free, "{what}");
        };
        check("nothing in it", "", true);
        check(
            "another cluster",
            &ours.replace("name: equate", "name: production"),
            false,
        );
        let context = "contexts:\n- name: production\n  context: {cluster: production, user: me}\n";
        check("a second context", &ours.replace("contexts:\n", context), false);
        check("something else", "notes: none of this is a kubeconfig\n", false);
        check("no YAML", "{", false);
        serving.stop().await;
        cluster.stop().await;

        let args = |kubeconfig| Args {
            port: 0,
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            kubeconfig: Some(kubeconfig),
            persist: None,
        };
        let refused = run(args(path.clone())).await.unwrap_err();
        assert!(matches!(refused, ApiError::KubeconfigTaken { .. }), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
        assert!(!is_free(place.path()), "a directory");
    }
}
