//! What the error of every command answers, so that one place prints it and ends the process.
//!
//! This module knows no command, and no command knows how its error is printed: the hint and the exit
//! code stand beside the error's definition, and `exit` prints.

use std::error::Error;
use std::io;
use std::process::ExitCode;

/// Why a command failed, and what the person who called it needs besides the text.
pub(crate) trait Failure: Error {
    /// What to do next.
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Whether the reader of standard output left early, as `head` does: that is no failure.
    fn is_reader_gone(&self) -> bool {
        false
    }

    /// How the process ends. 2 is clap's, for bad usage, and that of commands whose 1 is an answer.
    fn exit_code(&self) -> ExitCode {
        ExitCode::FAILURE
    }
}

impl<F: Failure + 'static> From<F> for Box<dyn Failure> {
    fn from(failure: F) -> Self {
        Box::new(failure)
    }
}

/// Whether standard output is a pipe that nobody reads any more.
pub(crate) fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Standard output could not be written, by a command that does nothing else.
#[derive(Debug, thiserror::Error)]
#[error("could not write to standard output")]
pub(crate) struct StdoutError(#[from] io::Error);

impl Failure for StdoutError {
    fn is_reader_gone(&self) -> bool {
        is_broken_pipe(&self.0)
    }
}
