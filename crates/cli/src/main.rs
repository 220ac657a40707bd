//! The `equate` binary: the library's commands.

use std::process::ExitCode;

/// It gives the memory of large builds back (docs/decisions/0030-jemalloc.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    equate_cli::main(equate_controllers::all())
}
