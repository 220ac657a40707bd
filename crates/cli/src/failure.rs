//! The trait of every command's error: `exit` prints it and ends the process.
//!
//! Commands define the hint and the exit code beside the error, and do not print it.

use std::error::Error;
use std::io;
use std::process::ExitCode;

pub(crate) trait Failure: Error {
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Whether the reader of standard output closed it early, as `head` does: no failure.
    fn is_reader_gone(&self) -> bool {
        false
    }

    /// The exit code: 1, or 2 for commands whose 1 is an answer. clap uses 2 for bad usage.
    fn exit_code(&self) -> ExitCode {
        ExitCode::FAILURE
    }
}

impl<F: Failure + 'static> From<F> for Box<dyn Failure> {
    fn from(failure: F) -> Self {
        Box::new(failure)
    }
}

pub(crate) fn is_broken_pipe(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

#[derive(Debug, thiserror::Error)]
#[error("could not write to standard output")]
pub(crate) struct StdoutError(#[from] io::Error);

impl Failure for StdoutError {
    fn is_reader_gone(&self) -> bool {
        is_broken_pipe(&self.0)
    }
}
