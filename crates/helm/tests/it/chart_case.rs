//! The folder and command line of a chart case. `cargo xtask baseline helm` and the tests of the command
//! line both include this file; `format` is beside it there.

use super::format::{Case, Content};
use std::io;
use std::path::Path;

const CHART: &str = "apiVersion: v2\nname: demo\nversion: 0.1.0\n";

const ARGS: &str = "demo .";

pub(crate) fn write(case: &Case, root: &Path) -> io::Result<()> {
    for file in &case.files {
        let path = root.join(&file.path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        match &file.content {
            Content::Bytes(bytes) => std::fs::write(path, bytes)?,
            Content::Link(target) => std::os::unix::fs::symlink(target, path)?,
        }
    }
    let chart = root.join("Chart.yaml");
    match chart.exists() {
        true => Ok(()),
        false => std::fs::write(chart, CHART),
    }
}

pub(crate) fn arguments(case: &Case) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in case.args.as_deref().unwrap_or(ARGS).chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

pub(crate) fn environment(case: &Case) -> impl Iterator<Item = (&str, &str)> {
    let words = case.env.as_deref().unwrap_or_default().split(' ');
    words.filter_map(|word| word.split_once('='))
}

pub(crate) fn left(case: &Case, root: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                folders.push(path);
                continue;
            }
            let below = path.strip_prefix(root).map_err(io::Error::other)?;
            let below = below.to_string_lossy().into_owned();
            if below != "Chart.yaml" && !case.files.iter().any(|file| file.path == below) {
                found.push((below, std::fs::read_to_string(path)?));
            }
        }
    }
    found.sort();
    Ok(found)
}
