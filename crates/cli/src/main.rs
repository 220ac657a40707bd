//! The `equate` binary: the library's commands.

use std::process::ExitCode;

fn main() -> ExitCode {
    equate_cli::main(equate_controllers::all())
}
