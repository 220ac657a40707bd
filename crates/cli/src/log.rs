//! Log messages on standard error. While a view has the terminal they are held back, and printed afterwards.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tracing_subscriber::fmt::MakeWriter;

/// Messages that are held back; later ones are only counted.
const HELD_MAX: usize = 500;

#[derive(Debug, Default)]
struct Messages {
    lines: Vec<String>,
    /// The first of the lines that the view has not taken.
    news: usize,
    dropped: usize,
}

static HELD: Mutex<Option<Messages>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Messages>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Standard error, unless messages are held back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer;

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut *held() {
            None => io::stderr().write_all(bytes)?,
            Some(messages) if messages.lines.len() >= HELD_MAX => messages.dropped += 1,
            Some(messages) => messages
                .lines
                .push(String::from_utf8_lossy(bytes).trim_end().to_owned()),
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl MakeWriter<'_> for Writer {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        *self
    }
}

/// Holds messages back until it is dropped.
#[derive(Debug)]
pub(crate) struct Held;

impl Held {
    /// Messages go on to standard error if that is not the terminal.
    pub(crate) fn hold() -> Self {
        if io::stderr().is_terminal() {
            *held() = Some(Messages::default());
        }
        Self
    }

    /// The messages since the last call, without their colours.
    pub(crate) fn news() -> Vec<String> {
        let mut held = held();
        let Some(messages) = &mut *held else {
            return Vec::new();
        };
        let news = messages.lines.get(messages.news..).unwrap_or_default();
        let news = news
            .iter()
            .map(|line| console::strip_ansi_codes(line).into_owned());
        let news = news.collect();
        messages.news = messages.lines.len();
        news
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let Some(messages) = held().take() else { return };
        for line in messages.lines {
            eprintln!("{line}");
        }
        if messages.dropped > 0 {
            eprintln!("{} more log messages", messages.dropped);
        }
    }
}
