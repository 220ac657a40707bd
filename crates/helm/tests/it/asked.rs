//! Inputs of the cases, built as `cargo xtask baseline` builds them for Helm.

use equate_helm::{Chart, File};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Entry {
    pub(crate) name: String,
    text: String,
    kind: String,
    link: String,
    entries: Option<Vec<Entry>>,
}

impl Entry {
    fn bytes(&self) -> Vec<u8> {
        match &self.entries {
            Some(entries) => packed(entries),
            None => self.text.as_bytes().to_vec(),
        }
    }
}

pub(crate) fn files(entries: &[Entry]) -> Vec<File> {
    let file = |entry: &Entry| File {
        name: entry.name.as_str().into(),
        data: entry.bytes().into(),
    };
    entries.iter().map(file).collect()
}

pub(crate) fn packed(entries: &[Entry]) -> Vec<u8> {
    let zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(zip);
    for entry in entries {
        let mut header = tar::Header::new_gnu();
        let kind = match entry.kind.as_str() {
            "link" => tar::EntryType::Symlink,
            "hard" => tar::EntryType::Link,
            "directory" => tar::EntryType::Directory,
            "pipe" => tar::EntryType::Fifo,
            _ => tar::EntryType::Regular,
        };
        header.set_entry_type(kind);
        header.set_mode(0o644);
        let data = entry.bytes();
        header.set_size(data.len() as u64);
        if !entry.link.is_empty() {
            header.set_link_name(&entry.link).unwrap();
        }
        let name = entry.name.as_bytes();
        if name.len() > 100 {
            archive.append_data(&mut header, &entry.name, &*data).unwrap();
            continue;
        }
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name);
        header.set_cksum();
        archive.append(&header, &*data).unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

pub(crate) fn write(root: &Path, entries: &[Entry]) {
    for entry in entries {
        let path = root.join(&entry.name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        match entry.kind.as_str() {
            "link" => std::os::unix::fs::symlink(&entry.link, path).unwrap(),
            "directory" => std::fs::create_dir_all(path).unwrap(),
            _ => std::fs::write(path, entry.bytes()).unwrap(),
        }
    }
}

pub(crate) fn described(chart: &Chart) -> Value {
    let names = |files: &[File]| files.iter().map(|file| file.name.to_string()).collect::<Vec<_>>();
    let mut charts: Vec<&Chart> = chart.dependencies.iter().map(AsRef::as_ref).collect();
    charts.sort_by_key(|chart| format!("{} {}", chart.name(), chart.metadata.version));
    let mut map = Map::new();
    map.insert("metadata".into(), json!(*chart.metadata));
    map.insert("templates".into(), json!(names(&chart.templates)));
    map.insert("files".into(), json!(names(&chart.files)));
    map.insert("values".into(), json!(*chart.values));
    map.insert("charts".into(), charts.into_iter().map(described).collect());
    if let Some(lock) = &chart.lock {
        map.insert("lock".into(), json!(**lock));
    }
    if let Some(schema) = &chart.schema {
        map.insert("schema".into(), String::from_utf8_lossy(schema).into());
    }
    Value::Object(map)
}
