//! A deadline that runs an action unless it is dropped before.

use std::{
    io,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    time::Instant,
};

#[derive(Debug)]
pub(super) struct Watchdog {
    _alive: Sender<()>,
}

impl Watchdog {
    pub(super) fn start(deadline: Instant, fire: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let (alive, dropped) = channel::<()>();
        std::thread::Builder::new()
            .name("git-watchdog".to_owned())
            .spawn(move || {
                let left = deadline.saturating_duration_since(Instant::now());
                if matches!(dropped.recv_timeout(left), Err(RecvTimeoutError::Timeout)) {
                    fire();
                }
            })?;
        Ok(Self { _alive: alive })
    }
}
