//! Writes objects to standard output, a file, or one file each in a directory.

use equate_kustomize::{Resource, file_names};
use equate_manifest::yaml;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    #[error("could not write to standard output")]
    Standard(#[source] io::Error),
    #[error("could not write {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{first} and {second} would both be written to {name}: their names differ in case only")]
    Same {
        first: String,
        second: String,
        name: String,
    },
}

pub(super) fn write(objects: Vec<Resource>, to: Option<&Path>) -> Result<(), OutputError> {
    match to {
        Some(directory) if directory.is_dir() => each(objects, directory),
        Some(file) => write_file(file, &stream(objects)),
        None => standard(&stream(objects)),
    }
}

pub(super) fn standard(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(OutputError::Standard)
}

fn stream(objects: Vec<Resource>) -> String {
    let texts: Vec<String> = objects.into_iter().map(document).collect();
    texts.join("---\n")
}

fn document(resource: Resource) -> String {
    yaml::to_string(&resource.object.into_value())
}

fn each(objects: Vec<Resource>, directory: &Path) -> Result<(), OutputError> {
    let names = file_names(&objects);
    let shown = |resource: &Resource| {
        let object = &resource.object;
        format!("{}/{}/{}", object.kind(), object.namespace(), object.name())
    };
    let mut taken: HashMap<&str, &Resource> = HashMap::new();
    for (name, object) in names.iter().zip(&objects) {
        if let Some(first) = taken.insert(name, object) {
            return Err(OutputError::Same {
                first: shown(first),
                second: shown(object),
                name: name.clone(),
            });
        }
    }
    for (name, object) in names.iter().zip(objects) {
        write_file(&directory.join(name), &document(object))?;
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> Result<(), OutputError> {
    fs::write(path, text).map_err(|source| OutputError::File {
        path: path.to_owned(),
        source,
    })
}
