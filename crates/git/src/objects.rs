//! New objects of a change: blobs, trees and commits made in memory, before anything is written.
//!
//! There is no work tree and no index: a change is a map of paths to contents over a tree.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use gix::{
    ObjectId,
    objs::{Kind, tree::name_order},
};

use crate::store::Store;

/// New contents by path; `None` removes the file.
pub type Changes = BTreeMap<String, Option<Vec<u8>>>;

/// One of them, its path relative to the directory that is being changed.
type PathChange<'a> = (&'a str, Option<&'a [u8]>);

/// A person or program in a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: String,
    /// The address.
    pub email: String,
}

impl Identity {
    /// Reads `Name <address>`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once('<')?;
        let email = rest.trim_end().strip_suffix('>')?;
        Some(Self {
            name: name.trim().to_owned(),
            email: email.trim().to_owned(),
        })
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} <{}>", self.name, self.email)
    }
}

/// A commit to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The files.
    pub changes: Changes,
    /// The person who asked.
    pub author: Identity,
    /// The program that writes.
    pub committer: Identity,
    /// The time of both.
    pub time: SystemTime,
    /// The message.
    pub message: String,
    /// The text of its note, and the ref of the notes.
    pub note: Option<(String, String)>,
}

/// The reason why objects cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// A path would leave the tree, or is in a submodule or link.
    #[error("{path:?} is not a path of a file in the repository")]
    Path {
        /// The path.
        path: String,
    },
    /// An object of the repository is missing or damaged.
    #[error("cannot read git object {id}")]
    Read {
        /// The object.
        id: String,
        /// The error from gix.
        source: gix::Error,
    },
}

/// One new object.
#[derive(Debug, Clone)]
pub(crate) struct Object {
    pub(crate) id: ObjectId,
    pub(crate) kind: Kind,
    pub(crate) data: Vec<u8>,
}

/// New objects, each after those it names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Objects(pub(crate) Vec<Object>);

impl Objects {
    /// Adds objects that name only those before them.
    pub(crate) fn extend(&mut self, others: Self) {
        for object in others.0 {
            if self.0.iter().all(|known| known.id != object.id) {
                self.0.push(object);
            }
        }
    }

    fn add(&mut self, kind: Kind, data: Vec<u8>) -> Result<ObjectId, ObjectsError> {
        let id = gix::objs::compute_hash(gix::hash::Kind::Sha1, kind, &data).map_err(|source| {
            ObjectsError::Read {
                id: "of new content".to_owned(),
                source,
            }
        })?;
        if !self.0.iter().any(|object| object.id == id) {
            self.0.push(Object { id, kind, data });
        }
        Ok(id)
    }

    /// The tree with changed files. Directories without files are left out.
    pub(crate) fn tree(
        &mut self,
        store: &Store,
        root: Option<ObjectId>,
        changes: &Changes,
    ) -> Result<ObjectId, ObjectsError> {
        for path in changes.keys() {
            let is_name = |name: &str| {
                !name.is_empty()
                    && !matches!(name, "." | "..")
                    && !name.eq_ignore_ascii_case(".git")
                    && !name.contains('\0')
            };
            if !path.split('/').all(is_name) {
                return Err(ObjectsError::Path { path: path.clone() });
            }
        }
        let changes: Vec<PathChange<'_>> = changes
            .iter()
            .map(|(path, content)| (path.as_str(), content.as_deref()))
            .collect();
        match self.directory(store, root, &changes)? {
            Some(id) => Ok(id),
            None => self.add(Kind::Tree, Vec::new()),
        }
    }

    fn directory(
        &mut self,
        store: &Store,
        id: Option<ObjectId>,
        changes: &[PathChange<'_>],
    ) -> Result<Option<ObjectId>, ObjectsError> {
        let mut entries = match id {
            Some(id) => read_tree(store, id)?,
            None => Vec::new(),
        };
        let mut below: BTreeMap<&str, Vec<PathChange<'_>>> = BTreeMap::new();
        for (path, content) in changes {
            match path.split_once('/') {
                Some((directory, rest)) => below.entry(directory).or_default().push((rest, *content)),
                None => {
                    let at = entries.iter().position(|entry| entry.name == path.as_bytes());
                    match content {
                        None => entries.retain(|entry| entry.name != path.as_bytes()),
                        Some(content) => {
                            let id = self.add(Kind::Blob, content.to_vec())?;
                            match at {
                                Some(at) if entries[at].is_file() => entries[at].id = id,
                                Some(_) => {
                                    let path = (*path).to_owned();
                                    return Err(ObjectsError::Path { path });
                                }
                                None => entries.push(TreeEntry {
                                    mode: b"100644".to_vec(),
                                    name: path.as_bytes().to_vec(),
                                    id,
                                }),
                            }
                        }
                    }
                }
            }
        }
        for (name, changes) in below {
            let at = entries.iter().position(|entry| entry.name == name.as_bytes());
            let known = match at {
                Some(at) if entries[at].is_tree() => Some(entries[at].id),
                Some(_) => {
                    let path = name.to_owned();
                    return Err(ObjectsError::Path { path });
                }
                None => None,
            };
            let new = self.directory(store, known, &changes)?;
            match (at, new) {
                (Some(at), Some(id)) => entries[at].id = id,
                (Some(at), None) => {
                    entries.remove(at);
                }
                (None, Some(id)) => entries.push(TreeEntry {
                    mode: b"40000".to_vec(),
                    name: name.as_bytes().to_vec(),
                    id,
                }),
                (None, None) => {}
            }
        }
        if entries.is_empty() {
            return Ok(None);
        }
        entries.sort_by(|one, other| name_order(&one.name, one.is_tree(), &other.name, other.is_tree()));
        let mut data = Vec::new();
        for entry in &entries {
            data.extend_from_slice(&entry.mode);
            data.push(b' ');
            data.extend_from_slice(&entry.name);
            data.push(0);
            data.extend_from_slice(entry.id.as_bytes());
        }
        self.add(Kind::Tree, data).map(Some)
    }

    /// A commit of a tree.
    pub(crate) fn commit(
        &mut self,
        tree: ObjectId,
        parent: Option<ObjectId>,
        (author, committer): (&Identity, &Identity),
        time: SystemTime,
        message: &str,
    ) -> Result<ObjectId, ObjectsError> {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut text = format!("tree {tree}\n");
        if let Some(parent) = parent {
            text.push_str(&format!("parent {parent}\n"));
        }
        for (role, who) in [("author", author), ("committer", committer)] {
            let (name, email) = (in_header(&who.name), in_header(&who.email));
            let space = if name.is_empty() { "" } else { " " };
            text.push_str(&format!("{role} {name}{space}<{email}> {seconds} +0000\n"));
        }
        text.push('\n');
        text.push_str(&message.replace('\0', ""));
        self.add(Kind::Commit, text.into_bytes())
    }

    /// The objects of a pack, whole and without deltas.
    pub(crate) fn pack(&self) -> std::io::Result<Vec<u8>> {
        let mut pack = b"PACK".to_vec();
        pack.extend_from_slice(&2_u32.to_be_bytes());
        let count = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        pack.extend_from_slice(&count.to_be_bytes());
        for object in &self.0 {
            let kind: u8 = match object.kind {
                Kind::Commit => 1,
                Kind::Tree => 2,
                Kind::Blob => 3,
                Kind::Tag => 4,
            };
            let mut size = object.data.len() as u64;
            let mut byte = kind << 4 | (size & 15) as u8;
            size >>= 4;
            while size > 0 {
                pack.push(byte | 0x80);
                byte = (size & 0x7f) as u8;
                size >>= 7;
            }
            pack.push(byte);
            let mut deflate = flate2::write::ZlibEncoder::new(&mut pack, flate2::Compression::default());
            deflate.write_all(&object.data)?;
            deflate.finish()?;
        }
        let mut hasher = gix::hash::hasher(gix::hash::Kind::Sha1);
        hasher.update(&pack);
        let digest = hasher
            .try_finalize()
            .map_err(|error| std::io::Error::other(error.to_string()))?;
        pack.extend_from_slice(digest.as_bytes());
        Ok(pack)
    }

    /// Writes the objects into a repository.
    pub(crate) fn write(&self, repository: &gix::Repository) -> Result<(), gix::Error> {
        for object in &self.0 {
            if !repository.has_object(object.id) {
                gix::objs::Write::write_buf(&repository.objects, object.kind, &object.data)?;
            }
        }
        Ok(())
    }
}

/// Names in a header have no angle brackets and no line breaks.
fn in_header(text: &str) -> String {
    let allowed = |c: char| !matches!(c, '<' | '>') && !c.is_control();
    let cleaned: String = text.chars().filter(|c| allowed(*c)).collect();
    cleaned.trim().to_owned()
}

struct TreeEntry {
    mode: Vec<u8>,
    name: Vec<u8>,
    id: ObjectId,
}

impl TreeEntry {
    fn is_tree(&self) -> bool {
        self.mode == b"40000"
    }

    fn is_file(&self) -> bool {
        self.mode.starts_with(b"100")
    }
}

fn read_tree(store: &Store, id: ObjectId) -> Result<Vec<TreeEntry>, ObjectsError> {
    let failed = |source| ObjectsError::Read {
        id: id.to_string(),
        source,
    };
    store.with(|repository| {
        let object = repository.find_object(id).map_err(failed)?;
        let mut entries = Vec::new();
        let mut rest = object.data.as_slice();
        let damaged = || ObjectsError::Read {
            id: id.to_string(),
            source: gix::Error::from_error(std::io::Error::other("the tree is damaged")),
        };
        while !rest.is_empty() {
            let space = rest.iter().position(|byte| *byte == b' ').ok_or_else(damaged)?;
            let null = rest.iter().position(|byte| *byte == 0).ok_or_else(damaged)?;
            let hash = rest.get(null + 1..null + 21).ok_or_else(damaged)?;
            entries.push(TreeEntry {
                mode: rest[..space].to_vec(),
                name: rest.get(space + 1..null).ok_or_else(damaged)?.to_vec(),
                id: ObjectId::from_bytes_or_panic(hash),
            });
            rest = &rest[null + 21..];
        }
        Ok(entries)
    })
}
