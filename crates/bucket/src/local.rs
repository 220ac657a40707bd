//! A bucket that is read from a directory of this machine ([`equate_egress::Substitutes`]).
//!
//! Keys are the paths of files below it. Symbolic links are left out, as nothing in a bucket is one. The
//! digest of a file is its etag.

use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::answer::Object;
use crate::error::{Problem, Reason};
use crate::store::Limits;

/// Directories above a file.
const DEPTH_MAX: usize = 128;
const BUFFER_BYTES: usize = 64 << 10;

/// The directory that stands for a bucket.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    directory: PathBuf,
}

impl Local {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    pub(crate) fn exists(&self) -> bool {
        self.directory.is_dir()
    }

    /// The files whose keys begin with a prefix. Blocks.
    pub(crate) fn list(&self, prefix: &str, limits: &Limits) -> Result<Vec<Object>, Problem> {
        let mut objects = Vec::new();
        self.walk(&self.directory, "", prefix, limits, &mut objects)?;
        Ok(objects)
    }

    fn walk(
        &self,
        directory: &Path,
        key: &str,
        prefix: &str,
        limits: &Limits,
        objects: &mut Vec<Object>,
    ) -> Result<(), Problem> {
        if key.split('/').count() > DEPTH_MAX {
            let text = format!("{key} is more than {DEPTH_MAX} directories deep");
            return Err(Problem::new(Reason::TooLarge, text));
        }
        let failed = |error| unreadable(directory, error);
        let entries = fs::read_dir(directory).map_err(failed)?;
        let mut entries: Vec<fs::DirEntry> = entries.collect::<io::Result<_>>().map_err(failed)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| unreadable(&path, error))?;
            let Ok(name) = entry.file_name().into_string() else {
                let text = format!("the name of {} is not UTF-8", path.display());
                return Err(Problem::new(Reason::Malformed, text));
            };
            let key = format!("{key}{name}");
            if kind.is_dir() && name != ".git" {
                self.walk(&path, &format!("{key}/"), prefix, limits, objects)?;
            }
            if kind.is_file() && key.starts_with(prefix) {
                let size = entry.metadata().map_err(|error| unreadable(&path, error))?.len();
                let etag = read(&path, u64::MAX, &mut io::sink())?;
                objects.push(Object { key, etag, size });
            }
            if objects.len() > limits.objects_max {
                let text = format!("it has more than {} objects; set spec.prefix", limits.objects_max);
                return Err(Problem::new(Reason::TooLarge, text));
            }
        }
        Ok(())
    }

    /// Writes the content of a file to `out`, and returns its etag. Blocks.
    pub(crate) fn get(&self, key: &str, bytes_max: u64, out: &mut dyn Write) -> Result<String, Problem> {
        // keys come from the list, or are names of the caller
        let leaves = key.split('/').any(|name| matches!(name, "" | "." | ".."));
        let path = self.directory.join(key);
        match leaves || !path.is_file() {
            true => Err(Problem::new(Reason::NotFound, "it does not exist")),
            false => read(&path, bytes_max, out),
        }
    }
}

fn unreadable(path: &Path, error: io::Error) -> Problem {
    Problem::new(Reason::Failed, format!("{} cannot be read", path.display())).because(error)
}

/// Copies a file within a limit, and returns its digest.
fn read(path: &Path, bytes_max: u64, out: &mut dyn Write) -> Result<String, Problem> {
    let failed = |error| unreadable(path, error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut left, mut buffer) = (Sha256::new(), bytes_max, vec![0; BUFFER_BYTES]);
    loop {
        let count = file.read(&mut buffer).map_err(failed)?;
        let Some(chunk) = buffer.get(..count).filter(|chunk| !chunk.is_empty()) else {
            return Ok(format!("{:x}", hash.finalize()));
        };
        let Some(rest) = left.checked_sub(count as u64) else {
            let text = format!("it is larger than {bytes_max} bytes");
            return Err(Problem::new(Reason::TooLarge, text));
        };
        left = rest;
        hash.update(chunk);
        out.write_all(chunk)
            .map_err(|error| Problem::new(Reason::Write, "its content cannot be written").because(error))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_the_files_below_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("apps/.git")).unwrap();
        for (path, text) in [("a.yaml", "1"), ("apps/b.yaml", "22"), ("apps/.git/HEAD", "3")] {
            fs::write(folder.path().join(path), text).unwrap();
        }
        std::os::unix::fs::symlink("a.yaml", folder.path().join("link.yaml")).unwrap();
        let local = Local::new(folder.path().to_owned());
        let listed = |prefix: &str| {
            let objects = local.list(prefix, &Limits::default()).unwrap();
            let one = |object: Object| (object.key, object.size);
            objects.into_iter().map(one).collect::<Vec<_>>()
        };
        let own = |key: &str, size| (key.to_owned(), size);
        assert_eq!(listed(""), [own("a.yaml", 1), own("apps/b.yaml", 2)]);
        assert_eq!(listed("apps/"), [own("apps/b.yaml", 2)]);
        let get = |key: &str, bytes_max| {
            let mut out = Vec::new();
            let got = local
                .get(key, bytes_max, &mut out)
                .map_err(|problem| problem.text);
            got.map(|etag| (etag, String::from_utf8(out).unwrap()))
        };
        let etag = format!("{:x}", Sha256::digest("22"));
        assert_eq!(get("apps/b.yaml", 2), Ok((etag, "22".to_owned())));
        assert_eq!(get("apps/b.yaml", 1), Err("it is larger than 1 bytes".to_owned()));
        for absent in ["../x", "apps", "b.yaml", "/etc/passwd"] {
            assert_eq!(get(absent, 1), Err("it does not exist".to_owned()), "{absent}");
        }
        let two = Limits {
            objects_max: 1,
            ..Limits::default()
        };
        assert_eq!(local.list("", &two).unwrap_err().reason, Reason::TooLarge);
    }
}
