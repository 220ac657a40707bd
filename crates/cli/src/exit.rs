//! Ends the process: prints an error with its causes and hint, and selects the exit code.

use crate::failure::{Failure, chain};
use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

pub(crate) fn finish(result: Result<ExitCode, Box<dyn Failure>>) -> ExitCode {
    match result {
        Ok(code) => code,
        Err(failure) if failure.is_reader_gone() => ExitCode::SUCCESS,
        Err(failure) => {
            // the reader of standard error may be gone, too
            let _gone = writeln!(io::stderr(), "{}", describe(&*failure));
            failure.exit_code()
        }
    }
}

/// An error with its causes and hint, as the terminal shows it.
pub(crate) fn describe(failure: &dyn Failure) -> String {
    if failure.is_helms() {
        return format!("Error: {}", chain(failure));
    }
    let mut text = format!("{} {failure}", console::style("error:").red().bold().for_stderr());
    let mut cause: Option<&dyn Error> = failure.source();
    while let Some(error) = cause {
        text.push_str(&format!("\n  caused by: {error}"));
        cause = error.source();
    }
    if let Some(hint) = failure.hint_with_names() {
        text.push_str(&format!("\nhint: {hint}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::StdoutError;

    #[derive(Debug, thiserror::Error)]
    #[error("it is not ready")]
    struct NotReady(#[source] io::Error);

    impl Failure for NotReady {
        fn hint(&self) -> Option<&'static str> {
            Some("wait")
        }

        fn exit_code(&self) -> ExitCode {
            ExitCode::from(2)
        }
    }

    #[test]
    fn causes_and_hint_follow_the_error() {
        let error = NotReady(io::Error::other("the disk is full"));
        assert_eq!(
            describe(&error),
            "error: it is not ready\n  caused by: the disk is full\nhint: wait"
        );
    }

    #[test]
    fn closed_pipe_is_no_failure() {
        let check = |result: Result<ExitCode, Box<dyn Failure>>, expected: ExitCode| {
            assert_eq!(format!("{:?}", finish(result)), format!("{expected:?}"));
        };
        let stdout = |kind: io::ErrorKind| StdoutError::from(io::Error::from(kind));
        check(Ok(ExitCode::from(1)), ExitCode::from(1));
        check(Err(stdout(io::ErrorKind::BrokenPipe).into()), ExitCode::SUCCESS);
        check(Err(stdout(io::ErrorKind::StorageFull).into()), ExitCode::FAILURE);
        let error = NotReady(io::ErrorKind::BrokenPipe.into());
        check(Err(error.into()), ExitCode::from(2));
    }
}
