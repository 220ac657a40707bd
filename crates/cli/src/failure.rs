//! The trait of every command's error: `exit` prints it and ends the process.
//!
//! Commands define the hint and the exit code beside the error, and do not print it.

use std::error::Error;
use std::fmt::Write;
use std::io;
use std::process::ExitCode;

pub(crate) trait Failure: Error {
    fn hint(&self) -> Option<&'static str> {
        None
    }

    /// Whether the text is Helm's, which has a form of its own.
    fn is_helms(&self) -> bool {
        false
    }

    /// The hint, with the names of the objects filled in.
    fn hint_with_names(&self) -> Option<String> {
        self.hint().map(str::to_owned)
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

/// An error and its causes in one line. Leaves out a cause that the line has already.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            let _infallible = write!(text, ": {more}");
        }
        cause = error.source();
    }
    text
}

#[derive(Debug, thiserror::Error)]
#[error("could not write to standard output")]
pub(crate) struct StdoutError(#[from] io::Error);

impl Failure for StdoutError {
    fn is_reader_gone(&self) -> bool {
        is_broken_pipe(&self.0)
    }
}
