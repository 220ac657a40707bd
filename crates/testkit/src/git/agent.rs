//! An ssh agent for tests, with its keys in memory. It needs no `ssh-agent`.

use std::{io, path::PathBuf};

use futures::StreamExt as _;
use russh::keys::agent::{client::AgentClient, server};
use tokio::{net::UnixListener, sync::oneshot};

use super::ssh::SshKey;

/// A running agent; dropping it stops it.
#[derive(Debug)]
pub struct SshAgent {
    folder: tempfile::TempDir,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl SshAgent {
    /// Starts an agent that has these keys.
    pub fn start(keys: &[SshKey]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let socket = folder.path().join("agent");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let listener = runtime.block_on(async { UnixListener::bind(&socket) })?;
        let accepted = futures::stream::unfold(listener, async |listener: UnixListener| {
            let stream = listener.accept().await.map(|(stream, _)| stream);
            Some((stream, listener))
        });
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("ssh-agent-test".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        _ = server::serve(accepted.boxed_local(), ()) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        let agent = Self {
            folder,
            stop: Some(stop),
            thread: Some(thread),
        };
        agent.add(keys)?;
        Ok(agent)
    }

    fn add(&self, keys: &[SshKey]) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let client = AgentClient::connect_uds(self.socket()).await;
            let mut client = client.map_err(io::Error::other)?;
            for key in keys {
                let added = client.add_identity(key.key(), &[]).await;
                added.map_err(io::Error::other)?;
            }
            Ok(())
        })
    }

    /// The socket, for `SSH_AUTH_SOCK`.
    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent")
    }
}

impl Drop for SshAgent {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // a panic of the thread is shown by itself
            drop(thread.join());
        }
    }
}
