//! Places in files that set a version.
//!
//! Sites are candidates: a file says what it sets, and only a build tells whether that reaches an object.

use crate::artifact::{Subject, Version};
use crate::config::ValuePath;
use crate::field::{self, Form};
use equate_manifest::yaml::{self, Dialect, Document, Duplicates, Options, Place};
use serde_json::Value;

/// A place that sets a version, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The file.
    pub path: String,
    /// The number of the document in the file, from 0.
    pub document: usize,
    /// The JSON pointer of the entry, of the reference, or of the value.
    pub pointer: String,
    /// Its form.
    pub form: SiteForm,
    /// The thing it is a version of.
    pub subject: Subject,
    /// Another name of the subject: that of an `images` entry before `newName`.
    pub former: Option<String>,
    /// The version it sets.
    pub version: Version,
    /// The line of the value, from 1.
    pub line: usize,
    /// The kind and name of the object that the document describes; empty in a kustomization.
    pub object: (String, String),
}

/// The form of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteForm {
    /// An entry of `images` in a kustomization: `newTag`, `digest`.
    KustomizeImage,
    /// A field of a manifest or patch.
    Field(Form),
}

/// The documents of a file with the places of their values; `None` if it is no YAML.
pub fn documents(text: &str) -> Option<Vec<Document>> {
    let options = Options {
        dialect: Dialect::Yaml12,
        duplicates: Duplicates::Collect,
        spans: true,
        ..Options::default()
    };
    yaml::load(text, &options).ok()
}

/// Whether a path may be a kustomization.
pub fn is_kustomization(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "kustomization.yaml" | "kustomization.yml" | "Kustomization")
}

/// The sites of a file.
pub fn of(path: &str, text: &str, declared: &[ValuePath]) -> Vec<Site> {
    let mut sites = Vec::new();
    for (document, read) in documents(text).unwrap_or_default().iter().enumerate() {
        if is_kustomization(path) {
            kustomize_images(path, document, read, &mut sites);
            continue;
        }
        let (_, kind) = field::group_and_kind(&read.value);
        let object = (kind.to_owned(), field::name(&read.value).to_owned());
        for found in field::of(&read.value, declared) {
            let Some(place) = place(read, &found.pointer) else {
                continue;
            };
            sites.push(Site {
                path: path.to_owned(),
                document,
                line: place.line,
                form: SiteForm::Field(found.form),
                pointer: found.pointer,
                subject: found.subject,
                former: None,
                version: found.version,
                object: object.clone(),
            });
        }
    }
    sites
}

fn place<'d>(document: &'d Document, pointer: &str) -> Option<&'d Place> {
    document.spans.get(pointer)
}

fn kustomize_images(path: &str, document: usize, read: &Document, sites: &mut Vec<Site>) {
    let Some(Value::Array(entries)) = read.value.get("images") else {
        return;
    };
    for (at, entry) in entries.iter().enumerate() {
        let text = |key: &str| entry.get(key).map(scalar_text).unwrap_or_default();
        let (name, new_name) = (text("name"), text("newName"));
        let version = Version {
            tag: text("newTag"),
            digest: text("digest"),
        };
        let pointer = format!("/images/{at}");
        let keys = ["newTag", "digest", "name"];
        let place = keys
            .into_iter()
            .find_map(|key| read.spans.get(&format!("{pointer}/{key}")));
        let Some(place) = place else {
            continue;
        };
        let (subject, former) = match new_name.as_str() {
            "" => (name, None),
            new_name => (new_name.to_owned(), Some(name)),
        };
        sites.push(Site {
            path: path.to_owned(),
            document,
            pointer,
            form: SiteForm::KustomizeImage,
            subject: Subject::Image(subject),
            former,
            version,
            line: place.line,
            object: (String::new(), String::new()),
        });
    }
}

/// A scalar as kustomize reads it: `newTag: 1.10` is the text `1.10` only in quotes.
fn scalar_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
