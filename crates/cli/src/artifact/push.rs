//! `equate push artifact`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::io::Write;
use std::path::{Path, PathBuf};

use equate_registry::oci_spec::image::Digest;
use equate_registry::{Repository, Version, sha256};
use equate_source::{Ignore, Tree};
use flate2::read::GzDecoder;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{ArtifactError, CONFIG, CONTENT, CREATED, Place, REVISION, SOURCE};
use crate::document::{Form, document};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
/// The files that Flux leaves out.
const IGNORED: &str =
    ".git/,.gitignore,.gitmodules,.gitattributes,*.jpg,*.jpeg,*.gif,*.png,*.wmv,*.flv,*.tar.gz,*.zip";
/// A document on standard input.
const STDIN_FILE: &str = "manifest.yaml";
const STDIN_BYTES_MAX: u64 = 100 << 20;

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate push artifact [OPTIONS] --path <PATH> --source <URL> --revision <REVISION> <URL>",
    after_help = "Examples:
  # Push a directory, with the commit that it is from
  equate push artifact oci://ghcr.io/org/app:v1 --path ./deploy \\
    --source \"$(git config --get remote.origin.url)\" \\
    --revision \"$(git branch --show-current)@sha1:$(git rev-parse HEAD)\"
  # Push what another program prints, and print the digest
  equate build ./deploy | equate push artifact oci://ghcr.io/org/app:v1 -f - \\
    --source ./deploy --revision local -o json"
)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Directory or file to push; `-` is standard input.
    #[arg(short = 'f', long, value_name = "PATH")]
    path: PathBuf,
    /// Where the content is from, such as the URL of a git repository.
    #[arg(long, value_name = "URL")]
    source: String,
    /// Revision of the content, such as `main@sha1:<commit>`.
    #[arg(long, value_name = "REVISION")]
    revision: String,
    /// Add an annotation, such as `org.opencontainers.image.licenses=MIT` (can be repeated).
    #[arg(short, long, value_name = "KEY=VALUE")]
    annotations: Vec<String>,
    /// Patterns of files to leave out, as in .gitignore; replaces the default.
    #[arg(long, value_name = "PATTERN,...", value_delimiter = ',', default_value = IGNORED)]
    ignore_paths: Vec<String>,
    /// Set the time of creation to 1970, so that the same content has the same digest.
    #[arg(long)]
    reproducible: bool,
    /// Print URL, repository, tag and digest in this format.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Form>,
}

pub(crate) async fn run(args: Args) -> Result<(), ArtifactError> {
    let created = match args.reproducible {
        true => Timestamp::UNIX_EPOCH,
        false => Timestamp::now(),
    };
    let (repository, tag, digest) = push(&args, created).await?;
    let url = format!("oci://{repository}@{digest}");
    let text = match args.output {
        None => format!("pushed {url}\n"),
        Some(form) => document(
            &json!({
                "url": url,
                "repository": repository.to_string(),
                "tag": tag,
                "digest": digest.to_string(),
            }),
            form,
        ),
    };
    std::io::stdout()
        .write_all(text.as_bytes())
        .map_err(ArtifactError::Output)
}

pub(super) async fn push(
    args: &Args,
    created: Timestamp,
) -> Result<(Repository, String, Digest), ArtifactError> {
    let (repository, version) = args.place.parse("push")?;
    let Version::Tag(tag) = &version else {
        return Err(ArtifactError::NoTag(repository.at(&version)));
    };
    let annotations = annotations(args, created)?;
    let layer = layer(args)?;
    let remote = args.place.open(&repository)?;
    let config = config(&layer, created, &args.path)?;
    let described =
        |kind: &str, bytes: &[u8]| json!({ "mediaType": kind, "size": bytes.len(), "digest": sha256(bytes) });
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described(CONFIG, &config),
        "layers": [described(CONTENT, &layer)],
        "annotations": annotations,
    });
    remote.push_blob(layer.into()).await?;
    remote.push_blob(config.into()).await?;
    let manifest = manifest.to_string();
    let digest = remote.push_manifest(&version, MANIFEST, manifest.into()).await?;
    Ok((repository, tag.clone(), digest))
}

fn annotations(args: &Args, created: Timestamp) -> Result<BTreeMap<String, String>, ArtifactError> {
    // without a fraction, as RFC 3339 in Go
    let created = Timestamp::from_second(created.as_second()).unwrap_or(created);
    let mut annotations = BTreeMap::from([
        (CREATED.to_owned(), created.to_string()),
        (SOURCE.to_owned(), args.source.clone()),
        (REVISION.to_owned(), args.revision.clone()),
    ]);
    for given in &args.annotations {
        let (key, value) = given
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| ArtifactError::Annotation(given.clone()))?;
        annotations.insert(key.to_owned(), value.to_owned());
    }
    Ok(annotations)
}

fn layer(args: &Args) -> Result<Vec<u8>, ArtifactError> {
    if args.path == Path::new("-") {
        let folder = tempfile::tempdir().map_err(|source| ArtifactError::Write {
            path: std::env::temp_dir(),
            source,
        })?;
        let path = folder.path().join(STDIN_FILE);
        let mut text = Vec::new();
        let read = std::io::stdin()
            .lock()
            .take(STDIN_BYTES_MAX)
            .read_to_end(&mut text);
        read.map_err(|source| ArtifactError::Read {
            path: args.path.clone(),
            source,
        })?;
        std::fs::write(&path, text).map_err(|source| ArtifactError::Write {
            path: path.clone(),
            source,
        })?;
        return archive(folder.path(), args);
    }
    archive(&args.path, args)
}

fn archive(path: &Path, args: &Args) -> Result<Vec<u8>, ArtifactError> {
    let limits = equate_source::Limits::default();
    let ignore = Ignore::new(Some(&args.ignore_paths.join("\n")));
    let metadata = std::fs::metadata(path).map_err(|source| ArtifactError::Read {
        path: path.to_owned(),
        source,
    })?;
    let tree = match (metadata.is_dir(), path.file_name()) {
        (false, Some(name)) => {
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            let only = [name.to_string_lossy().into_owned()].into();
            Tree::from_files(parent.unwrap_or(Path::new(".")), &only, &ignore, &limits)
        }
        _ => Tree::from_directory(path, &ignore, &limits),
    };
    let tree = tree.map_err(|source| ArtifactError::Tree {
        path: path.to_owned(),
        source,
    })?;
    if tree.list("").is_none_or(|entries| entries.is_empty()) {
        return Err(ArtifactError::Empty(path.to_owned()));
    }
    let mut bytes = Vec::new();
    let archived = tree.write_archive(&mut bytes, &limits);
    archived.map_err(|source| ArtifactError::Archive {
        path: path.to_owned(),
        source,
    })?;
    Ok(bytes)
}

/// The configuration of an image (image-spec, `config.md`): other tools expect one.
fn config(layer: &[u8], created: Timestamp, path: &Path) -> Result<Vec<u8>, ArtifactError> {
    let mut tar = Vec::new();
    let unpacked = GzDecoder::new(layer).read_to_end(&mut tar);
    unpacked.map_err(|source| ArtifactError::Read {
        path: path.to_owned(),
        source,
    })?;
    let created = Timestamp::from_second(created.as_second()).unwrap_or(created);
    let config: Value = json!({
        "architecture": "",
        "created": created.to_string(),
        "os": "",
        "rootfs": { "type": "layers", "diff_ids": [sha256(&tar)] },
        "config": {},
    });
    Ok(config.to_string().into_bytes())
}
