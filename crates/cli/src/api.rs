//! `equate api`: the embedded Kubernetes API on a loopback port.

use crate::exit::Failure;
use equate_apiserver::EmbeddedCluster;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// Serve the embedded Kubernetes API until interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The port to listen on; 0 picks a free one.
    #[arg(long, default_value_t = 6443)]
    port: u16,
    /// The address to listen on.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// Where to write the kubeconfig. Without it a file of the run's own is made and removed at the end.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Keep the state in this file, so that it survives a restart.
    #[arg(long, value_name = "FILE")]
    persist: Option<PathBuf>,
}

pub(crate) async fn run(args: Args) -> Result<(), Failure> {
    let mut builder = EmbeddedCluster::builder();
    if let Some(path) = &args.persist {
        builder = builder.journal(path);
    }
    let cluster = builder.build().await.map_err(|e| Failure::Build(Box::new(e)))?;
    let serving = cluster
        .serve(SocketAddr::new(args.bind, args.port))
        .await
        .map_err(Failure::Serve)?;
    let (path, temporary) = match args.kubeconfig {
        Some(path) => (path, None),
        None => {
            let directory = own_directory().map_err(|source| Failure::Kubeconfig {
                path: std::env::temp_dir(),
                source,
            })?;
            (directory.path().join("kubeconfig"), Some(directory))
        }
    };
    cluster
        .write_kubeconfig(&serving, &path)
        .map_err(|source| Failure::Kubeconfig {
            path: path.clone(),
            source,
        })?;
    say(&path, &serving.url());
    crate::interrupt::interrupted().await.map_err(Failure::Signal)?;
    serving.stop().await;
    cluster.stop().await;
    drop(temporary);
    Ok(())
}

fn own_directory() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("equate-").tempdir()
}

/// The path alone goes to standard output, for scripts; the rest is for people.
#[expect(clippy::print_stdout, reason = "the path is the command's result")]
fn say(path: &std::path::Path, url: &str) {
    println!("{}", path.display());
    eprintln!("serving the Kubernetes API on {url}");
    eprintln!("try: kubectl --kubeconfig {} get namespaces", path.display());
}
