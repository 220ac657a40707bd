//! Git repositories for tests, made without the git program, and servers that speak git over HTTP and SSH.
//!
//! Commits are deterministic: the same calls give the same ids, for the clock is a counter. The
//! servers ([`serve`], [`ssh`]) run the real `git upload-pack`, so what a client learns from them is
//! what git says.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicI64, Ordering},
};

use gix::{
    ObjectId,
    objs::tree::EntryKind,
    refs::{
        Target,
        transaction::{PreviousValue, RefEdit},
    },
};
use tempfile::TempDir;

mod answers;
mod github;
mod proxy;
pub mod serve;
pub mod ssh;
mod tls;

pub use github::GithubApi;
pub use proxy::{Proxy, SocksProxy};
pub use serve::{Answered, Fault, Guard, HttpServer};
pub use ssh::{SshAsked, SshFault, SshKey, SshServer};
pub use tls::Identity;

/// The first commit's second; each one after it is a second later.
const EPOCH: i64 = 1_700_000_000;

/// Why a repository is not as a test wanted it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Files of the repository or of its worktree.
    #[error("cannot write {}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Objects or refs.
    #[error("git refuses")]
    Git(#[from] gix::Error),
    /// A name or id a test wrote.
    #[error("{text:?} is not {what}")]
    Name {
        /// What was written.
        text: String,
        /// What it should have been.
        what: &'static str,
    },
    /// The server.
    #[error("the git server cannot start")]
    Serve(#[source] io::Error),
}

/// A file of a commit: its path and content, or `None` for a file that goes.
pub type Change<'a> = (&'a str, Option<&'a str>);

/// A git repository in a temporary directory. HEAD is on `main`.
#[derive(Debug)]
pub struct Repository {
    path: PathBuf,
    inner: gix::ThreadSafeRepository,
    clock: AtomicI64,
    // last: nothing uses the directory any more
    _directory: TempDir,
}

impl Repository {
    /// A repository with a worktree, which follows what is committed to the branch of HEAD.
    pub fn init() -> Result<Self, Error> {
        Self::create(gix::create::Kind::WithWorktree)
    }

    /// A bare repository.
    pub fn init_bare() -> Result<Self, Error> {
        Self::create(gix::create::Kind::Bare)
    }

    fn create(kind: gix::create::Kind) -> Result<Self, Error> {
        let directory = tempfile::Builder::new()
            .prefix("equate-git-")
            .tempdir()
            .map_err(|source| Error::Write {
                path: std::env::temp_dir(),
                source,
            })?;
        let path = directory.path().join("repository");
        let inner = gix::ThreadSafeRepository::init_opts(
            &path,
            kind,
            gix::create::Options::default(),
            gix::open::Options::isolated().config_overrides([
                "core.autocrlf=false",
                // Whose name the reflog gets.
                "user.name=Test",
                "user.email=test@example.org",
            ]),
        )?;
        Ok(Self {
            path,
            inner,
            clock: AtomicI64::new(EPOCH),
            _directory: directory,
        })
    }

    /// The repository's directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Commits to `main`.
    pub fn commit(&self, files: &[Change<'_>]) -> Result<String, Error> {
        self.commit_to("main", "change", files)
    }

    /// Commits on top of a branch, or begins the branch, and gives the commit's id. Everything
    /// the branch has and `files` does not name stays. A content that begins with `#!` is made
    /// executable.
    pub fn commit_to(&self, branch: &str, message: &str, files: &[Change<'_>]) -> Result<String, Error> {
        let kind = |content: &str| match content.starts_with("#!") {
            true => EntryKind::BlobExecutable,
            false => EntryKind::Blob,
        };
        self.write(branch, message, files, kind)
    }

    /// Commits a symbolic link to `main`, wherever it leads.
    pub fn link(&self, path: &str, target: &str) -> Result<String, Error> {
        self.write("main", "link", &[(path, Some(target))], |_| EntryKind::Link)
    }

    fn write(
        &self,
        branch: &str,
        message: &str,
        files: &[Change<'_>],
        kind: impl Fn(&str) -> EntryKind,
    ) -> Result<String, Error> {
        let repository = self.inner.to_thread_local();
        let name = format!("refs/heads/{branch}");
        let parent = match repository.try_find_reference(name.as_str())? {
            Some(mut found) => Some(found.peel_to_id()?.detach()),
            None => None,
        };
        let tree = match parent {
            Some(parent) => repository.find_commit(parent)?.tree_id()?.detach(),
            None => ObjectId::empty_tree(repository.object_hash()),
        };
        let mut editor = repository.edit_tree(tree)?;
        for (path, content) in files {
            match content {
                Some(content) => {
                    editor.upsert(*path, kind(content), repository.write_blob(content)?)?;
                }
                None => {
                    editor.remove(*path)?;
                }
            }
        }
        let tree = editor.write()?.detach();
        let signature = self.signature();
        let time = signature.time.to_string();
        let signature = gix::actor::SignatureRef {
            name: "Test".into(),
            email: "test@example.org".into(),
            time: &time,
        };
        let commit = repository
            .new_commit_as(signature, signature, message, tree, parent)?
            .id;
        set(&repository, &name, Target::Object(commit))?;
        let head = repository.head_name()?.is_some_and(|head| head.as_bstr() == name);
        if head && !repository.is_bare() {
            self.check_out(&repository, tree, files)?;
        }
        Ok(commit.to_string())
    }

    /// Files of the worktree and the index, as a commit by git leaves them.
    fn check_out(
        &self,
        repository: &gix::Repository,
        tree: ObjectId,
        files: &[Change<'_>],
    ) -> Result<(), Error> {
        for (path, content) in files {
            let path = self.path.join(path);
            let written = match content {
                Some(content) => path
                    .parent()
                    .map_or(Ok(()), fs::create_dir_all)
                    .and_then(|()| fs::write(&path, content)),
                None if path.exists() => fs::remove_file(&path),
                None => Ok(()),
            };
            written.map_err(|source| Error::Write { path, source })?;
        }
        let mut index = repository.index_from_tree(&tree)?;
        index.write(gix::index::write::Options::default())?;
        Ok(())
    }

    fn signature(&self) -> gix::actor::Signature {
        let seconds = self.clock.fetch_add(1, Ordering::Relaxed);
        gix::actor::Signature {
            name: "Test".into(),
            email: "test@example.org".into(),
            time: gix::date::Time::new(seconds, 0),
        }
    }

    /// Puts a branch at a commit, wherever it was before: what a forced push leaves.
    pub fn set_branch(&self, branch: &str, commit: &str) -> Result<(), Error> {
        self.set_ref(&format!("refs/heads/{branch}"), commit)
    }

    /// Puts any ref, by its full name, at an object.
    pub fn set_ref(&self, name: &str, commit: &str) -> Result<(), Error> {
        set(&self.inner.to_thread_local(), name, Target::Object(id(commit)?))
    }

    /// Deletes a branch.
    pub fn delete_branch(&self, branch: &str) -> Result<(), Error> {
        let edit = RefEdit::delete(full(&format!("refs/heads/{branch}"))?, PreviousValue::MustExist);
        self.inner.to_thread_local().edit_reference(edit)?;
        Ok(())
    }

    /// A lightweight tag.
    pub fn tag(&self, tag: &str, commit: &str) -> Result<(), Error> {
        self.set_ref(&format!("refs/tags/{tag}"), commit)
    }

    /// An annotated tag; gives the tag object's id.
    pub fn annotated_tag(&self, tag: &str, commit: &str) -> Result<String, Error> {
        let repository = self.inner.to_thread_local();
        let object = gix::objs::Tag {
            target: id(commit)?,
            target_kind: gix::objs::Kind::Commit,
            name: tag.into(),
            tagger: Some(self.signature()),
            message: tag.into(),
            signature: None,
        };
        let object = repository.write_object(&object)?.detach();
        set(&repository, &format!("refs/tags/{tag}"), Target::Object(object))?;
        Ok(object.to_string())
    }

    /// Puts HEAD on a branch. The worktree stays as it is.
    pub fn set_head(&self, branch: &str) -> Result<(), Error> {
        let target = Target::Symbolic(full(&format!("refs/heads/{branch}"))?);
        set(&self.inner.to_thread_local(), "HEAD", target)
    }

    /// Sets a key of the repository's own configuration.
    pub fn configure(&self, section: &str, key: &str, value: &str) -> Result<(), Error> {
        let path = self.inner.git_dir().join("config");
        let written = fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut file| {
                io::Write::write_all(&mut file, format!("[{section}]\n\t{key} = {value}\n").as_bytes())
            });
        written.map_err(|source| Error::Write { path, source })
    }

    /// Serves the repository by HTTP on a loopback port, or prints why not and gives `None`
    /// where the git program is absent.
    pub fn serve_http(&self) -> Result<Option<HttpServer>, Error> {
        self.serve(Guard::Open, false)
    }

    /// The same for callers with these credentials only, by TLS where that is asked for.
    pub fn serve(&self, guard: Guard, tls: bool) -> Result<Option<HttpServer>, Error> {
        HttpServer::start(self.inner.git_dir(), guard, tls).map_err(Error::Serve)
    }

    /// Serves the repository by SSH on a loopback port, or prints why not and gives `None` where the git
    /// program is absent. The host has an Ed25519 key, and [`SshServer::identity`] opens.
    pub fn serve_ssh(&self) -> Result<Option<SshServer>, Error> {
        self.serve_ssh_as(&[SshKey::ed25519(0)])
    }

    /// The same with these host keys.
    pub fn serve_ssh_as(&self, hosts: &[SshKey]) -> Result<Option<SshServer>, Error> {
        SshServer::start(self.inner.git_dir(), hosts).map_err(Error::Serve)
    }
}

fn set(repository: &gix::Repository, name: &str, target: Target) -> Result<(), Error> {
    repository.edit_reference(RefEdit::update(full(name)?, target, PreviousValue::Any, "test"))?;
    Ok(())
}

fn full(name: &str) -> Result<gix::refs::FullName, Error> {
    gix::refs::FullName::try_from(name).map_err(|_| Error::Name {
        text: name.to_owned(),
        what: "a full ref name",
    })
}

fn id(hex: &str) -> Result<ObjectId, Error> {
    ObjectId::from_hex(hex.as_bytes()).map_err(|_| Error::Name {
        text: hex.to_owned(),
        what: "a commit's id",
    })
}

#[cfg(test)]
mod tests {
    use super::Repository;

    #[test]
    fn the_same_calls_give_the_same_commits() {
        let make = || {
            let repository = Repository::init().unwrap();
            repository
                .commit(&[("a/b.yaml", Some("x: 1\n")), ("run", Some("#!/bin/sh\n"))])
                .unwrap();
            let last = repository
                .commit(&[("a/b.yaml", None), ("c", Some("3"))])
                .unwrap();
            assert!(!repository.path().join("a/b.yaml").exists());
            assert_eq!(std::fs::read_to_string(repository.path().join("c")).unwrap(), "3");
            last
        };
        assert_eq!(make(), make());
    }
}
