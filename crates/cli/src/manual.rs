//! `equate man`.

use crate::failure::Failure;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Install the manual pages for one user, and read one
  equate man ~/.local/share/man/man1
  man equate-diff")]
pub(crate) struct Args {
    /// Directory of the pages, such as ~/.local/share/man/man1; it is created if it does not exist.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("could not write the manual pages to {}", directory.display())]
pub(crate) struct ManualError {
    directory: PathBuf,
    source: io::Error,
}

impl Failure for ManualError {}

pub(crate) fn write(args: &Args, command: clap::Command) -> Result<(), ManualError> {
    pages(&args.directory, command).map_err(|source| ManualError {
        directory: args.directory.clone(),
        source,
    })
}

fn pages(directory: &Path, command: clap::Command) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let args = Args {
            directory: folder.path().join("man1"),
        };
        let command = crate::line::command(&equate_controllers::all());
        let commands = command.get_subcommands().count();
        write(&args, command).unwrap();
        assert!(fs::read_dir(&args.directory).unwrap().count() > commands);
        let page = fs::read_to_string(args.directory.join("equate-diff.1")).unwrap();
        assert!(page.contains(".TH equate-diff 1"), "{page}");
        assert!(page.contains("Show the changes that a commit"), "{page}");
    }

    #[test]
    fn a_directory_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let args = Args {
            directory: file.path().join("man1"),
        };
        let error = write(&args, clap::Command::new("equate")).unwrap_err();
        assert!(error.to_string().contains("man1"), "{error}");
    }
}
