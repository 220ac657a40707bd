//! How a command that runs on is told to end.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C and, as service managers send it, SIGTERM: from when this is made they end nothing by themselves.
#[derive(Debug)]
pub(crate) struct Interrupts {
    #[cfg(unix)]
    ctrl_c: Signal,
    #[cfg(unix)]
    terminate: Signal,
}

impl Interrupts {
    /// Listens from now on.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            ctrl_c: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Listens when it is first waited for.
    #[cfg(not(unix))]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Until one comes.
    pub(crate) async fn heard(&mut self) -> io::Result<()> {
        #[cfg(unix)]
        tokio::select! {
            _ = self.ctrl_c.recv() => Ok(()),
            _ = self.terminate.recv() => Ok(()),
        }
        #[cfg(not(unix))]
        tokio::signal::ctrl_c().await
    }
}

/// Until Ctrl-C or SIGTERM.
pub(crate) async fn interrupted() -> io::Result<()> {
    Interrupts::listen()?.heard().await
}
