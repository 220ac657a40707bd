//! Git repositories for tests, made without the git program, and git servers over HTTP and SSH.
//!
//! Commits are deterministic: a counter replaces the clock, so the same calls give the same ids. The
//! servers ([`serve`], [`ssh`]) run the real `git upload-pack`.

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

#[cfg(unix)]
mod agent;
mod answers;
mod github;
mod proxy;
pub mod serve;
pub mod ssh;
pub(crate) mod tls;

#[cfg(unix)]
pub use agent::SshAgent;
pub use github::GithubApi;
pub use proxy::{Proxy, SocksProxy};
pub use serve::{Answered, Fault, Guard, HttpServer};
pub use ssh::{SshFault, SshKey, SshRequest, SshServer};
pub use tls::Identity;

/// The time of the first commit; each later one adds a second.
const EPOCH: i64 = 1_700_000_000;

/// A repository or server cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the repository or worktree was not written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// An object or ref was not written.
    #[error("git failed")]
    Git(#[from] gix::Error),
    /// A test passed an invalid name or id.
    #[error("{text:?} is not {what}")]
    Name {
        /// The text.
        text: String,
        /// The expected form.
        what: &'static str,
    },
    /// The server failed.
    #[error("the git server cannot start")]
    Serve(#[source] io::Error),
}

/// A file of a commit: its path and content, or `None` to delete it.
pub type Change<'a> = (&'a str, Option<&'a str>);

/// A git repository in a temporary directory. HEAD is on `main`.
#[derive(Debug)]
pub struct Repository {
    path: PathBuf,
    inner: gix::ThreadSafeRepository,
    clock: AtomicI64,
    // last: the directory must outlive its users
    _directory: TempDir,
}

impl Repository {
    /// A repository with a worktree at the branch of HEAD.
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
                // the identity of reflog entries
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

    /// Commits to `main` and returns the commit's id.
    pub fn commit(&self, files: &[Change<'_>]) -> Result<String, Error> {
        self.commit_to("main", "change", files)
    }

    /// Commits to a branch, creating it if missing, and returns the commit's id. Files that are not in
    /// `files` stay. A content that starts with `#!` is executable.
    pub fn commit_to(&self, branch: &str, message: &str, files: &[Change<'_>]) -> Result<String, Error> {
        let kind = |content: &str| match content.starts_with("#!") {
            true => EntryKind::BlobExecutable,
            false => EntryKind::Blob,
        };
        self.write(branch, message, files, kind)
    }

    /// Commits a symbolic link to `main`.
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

    /// Updates the worktree and the index like git's own commit.
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

    /// Moves a branch to a commit, as a forced push does.
    pub fn set_branch(&self, branch: &str, commit: &str) -> Result<(), Error> {
        self.set_ref(&format!("refs/heads/{branch}"), commit)
    }

    /// Sets a ref, by its full name.
    pub fn set_ref(&self, name: &str, commit: &str) -> Result<(), Error> {
        set(&self.inner.to_thread_local(), name, Target::Object(id(commit)?))
    }

    /// Deletes a branch.
    pub fn delete_branch(&self, branch: &str) -> Result<(), Error> {
        let edit = RefEdit::delete(full(&format!("refs/heads/{branch}"))?, PreviousValue::MustExist);
        self.inner.to_thread_local().edit_reference(edit)?;
        Ok(())
    }

    /// Creates a lightweight tag.
    pub fn tag(&self, tag: &str, commit: &str) -> Result<(), Error> {
        self.set_ref(&format!("refs/tags/{tag}"), commit)
    }

    /// Creates an annotated tag and returns the tag object's id.
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

    /// Sets HEAD to a branch, without changing the worktree.
    pub fn set_head(&self, branch: &str) -> Result<(), Error> {
        let target = Target::Symbolic(full(&format!("refs/heads/{branch}"))?);
        set(&self.inner.to_thread_local(), "HEAD", target)
    }

    /// Sets a key of the repository's configuration.
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

    /// Serves the repository over HTTP on a loopback port. Without the git program prints so and returns
    /// `None`.
    pub fn serve_http(&self) -> Result<Option<HttpServer>, Error> {
        self.serve(Guard::Open, false)
    }

    /// Serves over HTTP with credentials, optionally over TLS.
    pub fn serve(&self, guard: Guard, tls: bool) -> Result<Option<HttpServer>, Error> {
        HttpServer::start(self.inner.git_dir(), guard, tls).map_err(Error::Serve)
    }

    /// Serves the repository over SSH on a loopback port. Without the git program prints so and returns
    /// `None`. The host key is Ed25519, and [`SshServer::identity`] is authorised.
    pub fn serve_ssh(&self) -> Result<Option<SshServer>, Error> {
        self.serve_ssh_as(&[SshKey::ed25519(0)])
    }

    /// Serves over SSH with these host keys.
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
