//! Builds of small trees, for the targets that fuzz one of their files.

use bytes::Bytes;
use equate_kustomize::{
    Built, EntryKind, Limits, LoadRestriction, Options, ReadError, Stat, Tree, kustomize,
};

/// Files by path; directories are what paths imply.
pub struct Files(pub Vec<(&'static str, Bytes)>);

impl Files {
    /// A file that is there.
    fn get(&self, path: &str) -> Option<&Bytes> {
        let found = self.0.iter().find(|(name, _)| *name == path);
        found.map(|(_, content)| content)
    }
}

impl Tree for Files {
    fn stat(&self, path: &str) -> Option<Stat> {
        let is_above = |name: &&str| {
            path.is_empty() || name.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'))
        };
        let kind = if self.get(path).is_some() {
            EntryKind::File
        } else if self.0.iter().any(|(name, _)| is_above(name)) {
            EntryKind::Directory
        } else {
            return None;
        };
        Some(Stat { kind, id: [0; 32] })
    }

    fn list(&self, dir: &str) -> Option<Vec<(String, Stat)>> {
        let below = self.0.iter().filter_map(|(name, _)| match dir {
            "" => Some(*name),
            _ => name.strip_prefix(dir)?.strip_prefix('/'),
        });
        let mut names: Vec<&str> = below.filter_map(|rest| rest.split('/').next()).collect();
        names.sort_unstable();
        names.dedup();
        let entry = |name: &str| {
            let path = if dir.is_empty() {
                name.to_owned()
            } else {
                format!("{dir}/{name}")
            };
            Some((name.to_owned(), self.stat(&path)?))
        };
        Some(names.into_iter().filter_map(entry).collect())
    }

    fn read(&self, path: &str) -> Result<Bytes, ReadError> {
        self.get(path).cloned().ok_or(ReadError::Absent)
    }
}

/// Limits that a small input does not come near unless it multiplies.
pub fn limits() -> Limits {
    Limits {
        objects_max: 1_000,
        depth_max: 16,
        ..Limits::default()
    }
}

/// Builds a directory; what comes out can be written, and what fails can be told.
pub fn build(files: &Files, dir: &str) {
    let options = Options {
        restriction: LoadRestriction::Root,
        limits: limits(),
        ..Options::default()
    };
    match kustomize(files, dir, &options) {
        Ok(built) => write(built),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Writes every object of a build.
pub fn write(built: Built) {
    for resource in built.objects {
        let text = equate_manifest::yaml::to_string(&resource.object.into_value());
        assert!(text.ends_with('\n'));
    }
}
