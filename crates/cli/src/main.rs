//! The `equate` binary: the library's commands.

use std::process::ExitCode;

/// The system's allocator keeps the memory of large builds (docs/decisions/0028-mimalloc.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    equate_cli::main(equate_controllers::all())
}
