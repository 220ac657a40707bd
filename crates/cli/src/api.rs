//! `equate api`: the embedded Kubernetes API on a loopback port.
//!
//! `--kubeconfig` names a file to write here, and a file to read in every other command, so a file of another
//! program is never overwritten.

use crate::failure::Failure;
use equate_apiserver::cluster::{BuildError, ServeError};
use equate_apiserver::{EmbeddedCluster, Profile, Simulation};
use kube::config::Kubeconfig;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Serve the API, and use it in a second terminal
  equate api --kubeconfig api.kubeconfig
  kubectl --kubeconfig api.kubeconfig get namespaces
  # Simulate a node, so that Deployments become ready and Jobs complete
  equate api --simulate --kubeconfig api.kubeconfig
  # Keep the objects for the next start
  equate api --persist cluster.redb")]
pub(crate) struct Args {
    /// Port of the Kubernetes API; 0 selects a free port.
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// IP address to listen on.
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Write the kubeconfig to this file; refuse to overwrite another program's file (default: a temporary file).
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Keep the objects in this file for the next start (default: keep nothing).
    #[arg(long, value_name = "FILE")]
    persist: Option<PathBuf>,
    /// Simulate a node and the controllers of workloads: pods become ready, no container runs.
    #[arg(long)]
    simulate: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("could not start the embedded API")]
    Build(#[source] Box<BuildError>),
    #[error("could not serve the embedded API")]
    Serve(#[source] ServeError),
    #[error("could not write the kubeconfig {path}")]
    Kubeconfig {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("will not overwrite the kubeconfig {path}: `equate api` did not write it")]
    KubeconfigTaken { path: PathBuf },
    #[error("could not listen for signals")]
    Signal(#[source] std::io::Error),
}

impl Failure for ApiError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Serve(ServeError::Listen { .. }) => {
                Some("choose another port with --port, or 0 for any free one")
            }
            Self::Kubeconfig { .. } => Some("choose another path with --kubeconfig"),
            Self::KubeconfigTaken { .. } => Some(
                "`equate api` writes the kubeconfig of its own cluster to this path; choose another, or omit --kubeconfig",
            ),
            Self::Build(error) if matches!(**error, BuildError::Store(_)) => {
                Some("choose another file with --persist, or omit it to keep the state in memory")
            }
            Self::Build(_) | Self::Serve(_) | Self::Signal(_) => None,
        }
    }
}

pub(crate) async fn run(args: Args) -> Result<(), ApiError> {
    if let Some(path) = args.kubeconfig.as_ref().filter(|path| !is_free(path)) {
        return Err(ApiError::KubeconfigTaken { path: path.clone() });
    }
    let mut builder = EmbeddedCluster::builder().fair(true).controllers(Profile {
        workloads: args.simulate.then(Simulation::default),
        ..Profile::default()
    });
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
    print_path(&path, &serving.url());
    crate::interrupt::interrupted().await.map_err(ApiError::Signal)?;
    serving.stop().await;
    cluster.stop().await;
    drop(temporary);
    Ok(())
}

/// Returns whether the path is absent or empty, or contains the kubeconfig of an earlier run.
fn is_free(path: &Path) -> bool {
    let Ok(metadata) = std::fs::metadata(path) else {
        // writing the file reports the error
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

/// Prints the path alone to standard output, for scripts.
#[expect(clippy::print_stdout, reason = "the path is the command's result")]
fn print_path(path: &Path, url: &str) {
    println!("{}", path.display());
    eprintln!("serving the Kubernetes API on {url}");
    eprintln!("try: kubectl --kubeconfig {} get namespaces", path.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn foreign_kubeconfig_is_not_overwritten() {
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
            simulate: false,
        };
        let refused = run(args(path.clone())).await.unwrap_err();
        assert!(matches!(refused, ApiError::KubeconfigTaken { .. }), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
        assert!(!is_free(place.path()), "a directory");
    }
}
