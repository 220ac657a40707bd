//! `equate pull artifact`.

use std::io::{Seek as _, Write};
use std::path::{Path, PathBuf};

use equate_source::{Entry, Ignore, Limits, Pauses, Tree};

use super::{ArtifactError, Place, REVISION, SOURCE};

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate pull artifact [OPTIONS] --output <DIR> <URL>",
    after_help = "Examples:
  # Write the files of an artifact into a directory
  equate pull artifact oci://ghcr.io/org/app:v1 --output ./app"
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Directory to write the files into; it must exist.
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

pub(crate) async fn run(args: Args) -> Result<(), ArtifactError> {
    let text = pull(&args).await?;
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(ArtifactError::Output)
}

pub(super) async fn pull(args: &Args) -> Result<String, ArtifactError> {
    let (repository, version) = args.place.parse("pull")?;
    if !args.output.is_dir() {
        return Err(ArtifactError::NoDirectory(args.output.clone()));
    }
    let remote = args.place.open(&repository)?;
    let image = remote.image(&version).await?;
    let layer = image.manifest.layers().first().ok_or(ArtifactError::NoLayer)?;
    let temporary = |source| ArtifactError::Write {
        path: std::env::temp_dir(),
        source,
    };
    let (mut file, pack) = (
        tempfile::tempfile().map_err(temporary)?,
        tempfile::tempfile().map_err(temporary)?,
    );
    remote.blob(layer, &mut file).await?;
    file.rewind().map_err(temporary)?;
    // an artifact is written whole: a pattern that matches nothing replaces the default ones
    let everything = Ignore::new(Some("!*"));
    let tree = Tree::unpack(file, &everything, &Limits::default(), pack, &Pauses::none())
        .map_err(ArtifactError::Unpack)?;
    write(&tree, "", &args.output)?;
    let annotations = image.manifest.annotations().iter().flatten();
    let mut lines: Vec<String> = annotations
        .filter_map(|(name, value)| match name.as_str() {
            SOURCE => Some(format!("source {value}\n")),
            REVISION => Some(format!("revision {value}\n")),
            _ => None,
        })
        .collect();
    lines.sort_by(|one, other| other.cmp(one));
    lines.push(format!("digest {repository}@{}\n", image.digest));
    lines.push(format!("pulled into {}\n", args.output.display()));
    Ok(lines.concat())
}

fn write(tree: &Tree, directory: &str, to: &Path) -> Result<(), ArtifactError> {
    for (name, entry) in tree.list(directory).unwrap_or_default() {
        let path = match directory {
            "" => name,
            directory => format!("{directory}/{name}"),
        };
        let target = to.join(&path);
        let failed = |source| ArtifactError::Write {
            path: target.clone(),
            source,
        };
        match entry {
            Entry::Directory { .. } => {
                std::fs::create_dir_all(&target).map_err(failed)?;
                write(tree, &path, to)?;
            }
            Entry::File { executable, .. } => {
                let content = tree.read(&path).map_err(|source| ArtifactError::Content {
                    path: path.clone(),
                    source,
                })?;
                std::fs::write(&target, content).map_err(failed)?;
                if executable {
                    make_executable(&target).map_err(failed)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(unix)]
fn make_executable(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))
}

#[cfg(not(unix))]
fn make_executable(_path: &Path) -> std::io::Result<()> {
    Ok(())
}
