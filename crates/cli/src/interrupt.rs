//! Signals that end a long-running command.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and SIGTERM. While this exists, neither signal ends the process by itself.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    ctrl_c: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Interrupts {
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            ctrl_c: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Listens from the first wait on.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    pub(crate) async fn received(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        tokio::select! {
            _ = self.ctrl_c.recv() => Ok(()),
            _ = self.terminate.recv() => Ok(()),
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await
    }
}

pub(crate) async fn interrupted() -> io::Result<()> {
    Interrupts::listen()?.received().await
}
