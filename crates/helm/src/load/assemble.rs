//! Assembles a chart from its files.

use super::{Budget, CHART_YAML, FileError, LoadError, archive, decode};
use crate::chart::{Chart, File, Values};
use crate::metadata::Lock;
use crate::values;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Makes a chart of its files; `depth` counts this chart and its parents.
pub(super) fn chart(files: Vec<File>, budget: &mut Budget<'_>, depth: usize) -> Result<Chart, LoadError> {
    budget.chart(depth)?;
    let files = latest(files);
    let limits = budget.limits;
    let mut parts = Parts::default();
    if let Some(file) = files.iter().find(|file| &*file.name == CHART_YAML) {
        parts.described = true;
        let values =
            decode::metadata(&file.data, limits, &mut parts.metadata).map_err(in_file(CHART_YAML))?;
        budget.values(values)?;
        if parts.metadata.metadata.api_version.is_empty() {
            "v1".clone_into(&mut parts.metadata.metadata.api_version);
        }
    }
    // each section starts with its number of entries, so that sections cannot be confused
    let mut digest = Sha256::new();
    let own = files.iter().filter(|file| below_charts(&file.name).is_none());
    digest.update((own.count() as u64).to_le_bytes());
    for file in files {
        if below_charts(&file.name).is_none() {
            add(&mut digest, file.name.as_bytes());
            add(&mut digest, &file.data);
        }
        parts.take(file, budget)?;
    }
    let Parts {
        metadata,
        described,
        lock,
        templates,
        values,
        schema,
        files,
        subcharts,
    } = parts;
    if !described {
        return Err(LoadError::Missing);
    }
    let metadata = metadata.validated()?;
    let mut dependencies = Vec::new();
    let subcharts: Vec<_> = subcharts
        .into_iter()
        .filter(|(name, _)| !name.starts_with(['_', '.']))
        .collect();
    digest.update((subcharts.len() as u64).to_le_bytes());
    for (name, files) in subcharts {
        let chart = subchart(&name, files, &metadata.name, budget, depth)?;
        add(&mut digest, name.as_bytes());
        add(&mut digest, &chart.digest);
        dependencies.push(Arc::new(chart));
    }
    Ok(Chart {
        metadata: Arc::new(metadata),
        lock: lock.map(Arc::new),
        templates: templates.into(),
        values: Arc::new(values),
        schema,
        files: files.into(),
        dependencies,
        digest: digest.finalize().into(),
    })
}

/// The path of a subchart's file below `charts/`. A provenance file there belongs to the parent.
fn below_charts(name: &str) -> Option<&str> {
    let below = name.strip_prefix("charts/")?;
    (!has_extension(name, "prov")).then_some(below)
}

fn add(digest: &mut Sha256, bytes: &[u8]) {
    digest.update((bytes.len() as u64).to_le_bytes());
    digest.update(bytes);
}

/// Of repeated files the last one.
pub(super) fn latest(mut files: Vec<File>) -> Vec<File> {
    let mut last: HashMap<Arc<str>, usize> = HashMap::new();
    for (index, file) in files.iter().enumerate() {
        last.insert(Arc::clone(&file.name), index);
    }
    if last.len() < files.len() {
        let mut index = 0;
        files.retain(|file| {
            index += 1;
            last.get(&file.name) == Some(&(index - 1))
        });
    }
    files
}

fn in_file(file: &'static str) -> impl Fn(FileError) -> LoadError {
    move |source| LoadError::File { file, source }
}

#[derive(Default)]
struct Parts {
    metadata: decode::Parsed,
    described: bool,
    lock: Option<Lock>,
    templates: Vec<File>,
    values: Values,
    schema: Option<Arc<[u8]>>,
    files: Vec<File>,
    subcharts: BTreeMap<String, Vec<File>>,
}

impl Parts {
    fn take(&mut self, file: File, budget: &mut Budget<'_>) -> Result<(), LoadError> {
        let limits = budget.limits;
        match &*file.name {
            CHART_YAML => {}
            "Chart.lock" => {
                self.take_lock("Chart.lock", &file.data, budget)?;
            }
            "values.yaml" => {
                self.values = values::read_bytes(&file.data, limits).map_err(LoadError::Values)?;
                budget.values(values::nodes(&self.values))?;
            }
            "values.schema.json" => self.schema = Some(file.data),
            "requirements.yaml" => {
                self.described = true;
                let values = decode::metadata(&file.data, limits, &mut self.metadata)
                    .map_err(in_file("requirements.yaml"))?;
                budget.values(values)?;
                self.keep_of_version_1(file);
            }
            "requirements.lock" => {
                self.described = true;
                self.take_lock("requirements.lock", &file.data, budget)?;
                self.keep_of_version_1(file);
            }
            name if name.starts_with("templates/") => {
                budget.template(file.data.len() as u64)?;
                self.templates.push(file);
            }
            name => match below_charts(name) {
                Some(below) => {
                    let first = below.split('/').next().unwrap_or(below).to_owned();
                    let file = File {
                        name: below.into(),
                        data: file.data,
                    };
                    self.subcharts.entry(first).or_default().push(file);
                }
                _ => self.files.push(file),
            },
        }
        Ok(())
    }

    fn take_lock(
        &mut self,
        name: &'static str,
        data: &[u8],
        budget: &mut Budget<'_>,
    ) -> Result<(), LoadError> {
        let (lock, values) = decode::lock(data, budget.limits).map_err(in_file(name))?;
        self.lock = lock;
        Ok(budget.values(values)?)
    }

    /// Keeps a file that charts of version 1 see in `.Files`.
    fn keep_of_version_1(&mut self, file: File) {
        if self.metadata.metadata.api_version == "v1" {
            self.files.push(file);
        }
    }
}

/// Compares Go's `filepath.Ext`.
fn has_extension(path: &str, extension: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(_, found)| found == extension)
}

fn subchart(
    name: &str,
    files: Vec<File>,
    parent: &str,
    budget: &mut Budget<'_>,
    depth: usize,
) -> Result<Chart, LoadError> {
    let loaded = if has_extension(name, "tgz") {
        match files.first() {
            Some(file) if &*file.name == name => {
                let unpacked = archive::files(&file.data, budget).map_err(LoadError::Packed);
                unpacked.and_then(|files| chart(files, budget, depth + 1))
            }
            other => {
                return Err(LoadError::NotPacked {
                    chart: parent.to_owned(),
                    name: name.to_owned(),
                    found: other.map(|file| file.name.to_string()).unwrap_or_default(),
                });
            }
        }
    } else {
        let below = files.into_iter().filter_map(|file| {
            let (_, below) = file.name.split_once('/')?;
            Some(File {
                name: below.into(),
                data: file.data,
            })
        });
        chart(below.collect(), budget, depth + 1)
    };
    loaded.map_err(|source| LoadError::Subchart {
        name: name.to_owned(),
        chart: parent.to_owned(),
        source: Box::new(source),
    })
}

#[cfg(test)]
mod tests {
    use super::has_extension;

    #[test]
    fn extensions_are_what_follows_the_last_point_of_the_name() {
        for (path, extension, has) in [
            ("charts/a.tgz", "tgz", true),
            ("a.tgz/b", "tgz", false),
            ("tgz", "tgz", false),
            (".prov", "prov", true),
        ] {
            assert_eq!(has_extension(path, extension), has, "{path}");
        }
    }
}
