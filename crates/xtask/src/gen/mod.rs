//! `cargo xtask gen`: the built-in schema table, our CustomResourceDefinitions, the index of the
//! kustomize cases, the field matrix.
//!
//! The definitions come from the types of `equate-api`. The table,
//! `crates/manifest/data/kubernetes-1.36.json.gz`, comes from the pinned Kubernetes Go modules: the
//! published OpenAPI schemas, the encoding from the Go source, and the served resources. Nothing is
//! guessed: a type whose published properties and Go fields differ is an error.

mod cases;
mod crds;
mod definitions;
mod fields;
mod go;
mod resources;

use flate2::{Compression, GzBuilder};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Kubernetes release of the table, and the version of its library modules.
const KUBERNETES: &str = "v1.36.3";
const LIBRARIES: &str = "v0.36.3";

const TABLE: &str = "kubernetes-1.36.json.gz";
const DESCRIPTIONS: &str = "kubernetes-1.36-descriptions.json.gz";
const ATTRIBUTION: &str = "kubernetes-1.36.NOTICE";

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot run `go mod download -json {module}`")]
    Go { module: String, source: std::io::Error },
    #[error("`go mod download -json {module}` failed: {output}")]
    Download { module: String, output: String },
    #[error("cannot read {path}")]
    Read { path: PathBuf, source: std::io::Error },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: std::io::Error },
    #[error("{path} is not JSON")]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{0}")]
    Source(String),
    #[error("a definition cannot be written as JSON")]
    Definition(#[source] serde_json::Error),
    #[error("{path} is out of date: run `cargo xtask gen`")]
    Stale { path: PathBuf },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only generate files that need no Go modules: definitions, case index, field matrix
    #[arg(long)]
    crds: bool,
    /// Compare with the committed files and change nothing
    #[arg(long)]
    check: bool,
}

/// Generates the files, or with `--check` compares them.
pub(crate) fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    crds::generate(args.check)?;
    cases::generate(args.check)?;
    fields::generate(args.check)?;
    if !args.crds {
        generate(args.check)?;
    }
    Ok(())
}

fn generate(check: bool) -> Result<(), Error> {
    let kubernetes = module("k8s.io/kubernetes", KUBERNETES)?;
    let mut sources = go::Sources::new(vec![
        ("k8s.io/api".into(), module("k8s.io/api", LIBRARIES)?),
        (
            "k8s.io/apimachinery".into(),
            module("k8s.io/apimachinery", LIBRARIES)?,
        ),
        (
            "k8s.io/apiextensions-apiserver".into(),
            module("k8s.io/apiextensions-apiserver", LIBRARIES)?,
        ),
        (
            "k8s.io/kube-aggregator".into(),
            module("k8s.io/kube-aggregator", LIBRARIES)?,
        ),
    ]);
    let discovery = read_json(&kubernetes.join("api/discovery/aggregated_v2.json"))?;
    let core = read_json(&kubernetes.join("api/discovery/api__v1.json"))?;
    let served = resources::served(&discovery)?;
    let definitions::Published {
        definitions,
        descriptions,
    } = definitions::read(&kubernetes.join("api/openapi-spec/v3"), &served, &mut sources)?;
    let resources = resources::read(&discovery, &core, &definitions)?;

    let text = render(&definitions, &resources);
    let texts = lines(&descriptions);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifest/data");
    let table = data.join(TABLE);
    let described = data.join(DESCRIPTIONS);
    let notice = data.join(ATTRIBUTION);
    if check {
        let current = gunzip(&table)?;
        let current_notice = std::fs::read_to_string(&notice).map_err(|source| Error::Read {
            path: notice.clone(),
            source,
        })?;
        if current != text {
            return Err(Error::Stale { path: table });
        }
        if gunzip(&described)? != texts {
            return Err(Error::Stale { path: described });
        }
        if current_notice != attribution() {
            return Err(Error::Stale { path: notice });
        }
        return Ok(());
    }
    std::fs::create_dir_all(&data).map_err(|source| Error::Write {
        path: data.clone(),
        source,
    })?;
    write(&table, &gzip(&text))?;
    write(&described, &gzip(&texts))?;
    write(&notice, attribution().as_bytes())
}

/// One definition or resource per line, so that a reader can split without parsing.
fn render(definitions: &serde_json::Map<String, Value>, resources: &[Value]) -> String {
    let mut text = String::from("{\"definitions\":");
    text.push_str(lines(definitions).trim_end());
    text.push_str(",\"resources\":[\n");
    for (i, resource) in resources.iter().enumerate() {
        let comma = if i + 1 == resources.len() { "" } else { "," };
        let _ = writeln!(text, "{resource}{comma}");
    }
    text.push_str("]}\n");
    text
}

fn lines(entries: &serde_json::Map<String, Value>) -> String {
    let mut text = String::from("{\n");
    for (i, (name, entry)) in entries.iter().enumerate() {
        let comma = if i + 1 == entries.len() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}:{entry}{comma}", Value::from(name.as_str()));
    }
    text.push_str("}\n");
    text
}

fn attribution() -> String {
    format!(
        "{TABLE} and {DESCRIPTIONS} are generated by `cargo xtask gen` from Kubernetes {KUBERNETES}\n\
         (k8s.io/kubernetes api/openapi-spec and api/discovery; the type declarations of k8s.io/api,\n\
         k8s.io/apimachinery, k8s.io/apiextensions-apiserver and k8s.io/kube-aggregator {LIBRARIES}).\n\
         Changes: descriptions in a file of their own, single references flattened, encoding rules added (x-omit, x-zero,\n\
         x-go, x-inline, x-pb, x-pointer), alpha and beta versions left out.\n\n\
         Copyright The Kubernetes Authors. Licensed under the Apache License, Version 2.0:\n\
         http://www.apache.org/licenses/LICENSE-2.0\n"
    )
}

/// No time stamp and no name, for reproducible bytes.
fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    // Writing to a Vec cannot fail.
    let _ = encoder.write_all(text.as_bytes());
    encoder.finish().unwrap_or_default()
}

fn gunzip(path: &Path) -> Result<String, Error> {
    let read = |source| Error::Read {
        path: path.to_owned(),
        source,
    };
    let bytes = std::fs::read(path).map_err(read)?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(bytes.as_slice())
        .read_to_string(&mut text)
        .map_err(read)?;
    Ok(text)
}

/// Writes a page, or with `check` compares it.
fn settle(path: PathBuf, text: &str, check: bool) -> Result<(), Error> {
    if !check {
        return write(&path, text.as_bytes());
    }
    match std::fs::read_to_string(&path) {
        Ok(current) if current == text => Ok(()),
        Ok(_) => Err(Error::Stale { path }),
        Err(source) => Err(Error::Read { path, source }),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).map_err(|source| Error::Write {
        path: path.to_owned(),
        source,
    })
}

fn read_json(path: &Path) -> Result<Value, Error> {
    let bytes = std::fs::read(path).map_err(|source| Error::Read {
        path: path.to_owned(),
        source,
    })?;
    serde_json::from_slice(&bytes).map_err(|source| Error::Json {
        path: path.to_owned(),
        source,
    })
}

/// The folder of a module in Go's cache, downloaded if missing; Go verifies its checksum.
fn module(path: &str, version: &str) -> Result<PathBuf, Error> {
    let module = format!("{path}@{version}");
    let output = Command::new("go")
        .args(["mod", "download", "-json", &module])
        .current_dir(std::env::temp_dir())
        .output()
        .map_err(|source| Error::Go {
            module: module.clone(),
            source,
        })?;
    let failed = |output: &[u8]| Error::Download {
        module: module.clone(),
        output: String::from_utf8_lossy(output).trim().to_owned(),
    };
    if !output.status.success() {
        return Err(failed(&output.stderr));
    }
    let answer: Value = serde_json::from_slice(&output.stdout).map_err(|_| failed(&output.stdout))?;
    let dir = answer["Dir"].as_str().ok_or_else(|| failed(&output.stdout))?;
    Ok(PathBuf::from(dir))
}
