//! The tree of a commit, with git's ids; contents are read on demand.
//!
//! Nothing is checked out, and only `.sourceignore` files are read. A directory with the same git id and
//! ignore rules as in an earlier tree is shared, so a commit costs only the directories on the way to its
//! changes.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use equate_git::{Child, Mode, Node as GitNode, TreeId};

use super::build::{Directory, File, Node, Origin};
use super::ignored::IgnoreFiles;
use super::{Source, Tree, TreeError};
use crate::ignore::{IGNORE_FILE, Ignore, IgnoreDecision, Rules};
use crate::limits::{LimitExceeded, Limits};
use crate::pauses::{ENTRY, Pauses};

impl Tree {
    /// The tree of a commit without the files that `ignore` and its `.sourceignore` files exclude. Symbolic
    /// links are left out. A submodule is an empty directory, as in a plain checkout.
    ///
    /// # Errors
    /// A limit is exceeded, a name is invalid, or an object cannot be read.
    pub fn from_git(git: &equate_git::Tree, ignore: &Ignore, limits: &Limits) -> Result<Tree, TreeError> {
        Tree::from_git_after(git, ignore, limits, None, &Pauses::none())
    }

    /// Like [`Tree::from_git`], sharing unchanged directories with an earlier tree.
    ///
    /// # Errors
    /// As [`Tree::from_git`].
    pub fn from_git_after(
        git: &equate_git::Tree,
        ignore: &Ignore,
        limits: &Limits,
        previous: Option<&Tree>,
        pauses: &Pauses<'_>,
    ) -> Result<Tree, TreeError> {
        let mut walk = Walk {
            limits,
            pauses,
            listings: HashMap::new(),
            plain: HashMap::new(),
            found: IgnoreFiles::new(limits),
            entries: 0,
        };
        let before = previous.map(|tree| &tree.root);
        walk.survey(git, &mut Vec::new(), before.map(|directory| &**directory))?;
        let rules = walk.found.rules(ignore)?;
        walk.entries = 0;
        let same_rules = previous.is_some_and(|tree| match &tree.source {
            Source::Git { rules: own, .. } => *own == rules.id(),
            Source::Memory => false,
        });
        let before = before.filter(|_| same_rules);
        let root = walk.build(
            git,
            &mut Vec::new(),
            IgnoreDecision::default(),
            false,
            &rules,
            before,
        )?;
        Ok(Tree {
            root,
            source: Source::Git {
                tree: git.clone(),
                rules: rules.id(),
                kept: Arc::default(),
            },
        })
    }
}

struct Walk<'a> {
    limits: &'a Limits,
    pauses: &'a Pauses<'a>,
    listings: HashMap<TreeId, Rc<Vec<Child>>>,
    plain: HashMap<TreeId, bool>,
    found: IgnoreFiles<'a>,
    entries: usize,
}

impl Walk<'_> {
    /// Finds `.sourceignore` files, parents before children, siblings by name. Returns whether there are
    /// none.
    fn survey(
        &mut self,
        git: &equate_git::Tree,
        path: &mut Vec<String>,
        before: Option<&Directory>,
    ) -> Result<bool, TreeError> {
        let id = git.id();
        let known = before
            .and_then(|directory| directory.origin)
            .is_some_and(|own| own.id == id && own.plain);
        if known || self.plain.get(&id) == Some(&true) {
            self.plain.insert(id, true);
            return Ok(true);
        }
        let mut plain = true;
        for child in &*self.children(git, path)? {
            self.pauses.count(ENTRY)?;
            self.count(path, 1)?;
            match child.node {
                GitNode::Leaf(Mode::File | Mode::Executable, blob) if child.name == IGNORE_FILE => {
                    plain = false;
                    self.ignore_file(git, &blob, path)?;
                }
                GitNode::Leaf(Mode::Symlink, _) if child.name == IGNORE_FILE => {
                    path.push(child.name.clone());
                    let why = "a .sourceignore that is a symbolic link is not followed: make it a file";
                    return Err(TreeError::Path {
                        path: path.join("/"),
                        why,
                    });
                }
                GitNode::Leaf(..) => {}
                GitNode::Directory(below) => {
                    if before.is_some_and(|directory| directory.hides(&child.name, below)) {
                        self.plain.insert(below, true);
                        continue;
                    }
                    let before = before.and_then(|directory| directory.directory(&child.name));
                    path.push(child.name.clone());
                    plain &= self.survey(&git.at(below), path, before.map(|directory| &**directory))?;
                    path.pop();
                }
            }
        }
        self.plain.insert(id, plain);
        Ok(plain)
    }

    fn ignore_file(
        &mut self,
        git: &equate_git::Tree,
        blob: &equate_git::BlobId,
        path: &[String],
    ) -> Result<(), TreeError> {
        let directory = path.join("/");
        let failed = |source| {
            let path: Vec<&str> = path.iter().map(String::as_str).chain([IGNORE_FILE]).collect();
            TreeError::Git {
                path: path.join("/"),
                source,
            }
        };
        self.found.count(&directory, git.size(blob).map_err(failed)?)?;
        self.found.add(&directory, &git.read(blob).map_err(failed)?)
    }

    fn build(
        &mut self,
        git: &equate_git::Tree,
        path: &mut Vec<String>,
        decision: IgnoreDecision,
        plain: bool,
        rules: &Rules,
        before: Option<&Arc<Directory>>,
    ) -> Result<Arc<Directory>, TreeError> {
        let id = git.id();
        if let Some(same) = before.filter(|directory| directory.origin.is_some_and(|own| own.id == id)) {
            self.count(path, same.count)?;
            return Ok(Arc::clone(same));
        }
        let plain = plain || self.plain.get(&id) == Some(&true);
        let (mut entries, mut links, mut hidden) = (Vec::new(), Vec::new(), Vec::new());
        for child in &*self.children(git, path)? {
            self.pauses.count(ENTRY)?;
            let name: Box<str> = child.name.as_str().into();
            path.push(child.name.clone());
            let names: Vec<&str> = path.iter().map(String::as_str).collect();
            let is_directory = matches!(
                child.node,
                GitNode::Directory(_) | GitNode::Leaf(Mode::Submodule, _)
            );
            let decision = rules.decide(decision, &names, is_directory, self.pauses)?;
            let excluded = decision.is_excluded();
            match child.node {
                GitNode::Directory(below)
                    if excluded && !rules.may_include_below(decision, &names, self.pauses)? =>
                {
                    if plain || self.plain.get(&below) == Some(&true) {
                        hidden.push((name, below));
                    }
                }
                GitNode::Directory(below) => {
                    self.count(path, 1)?;
                    let before = before.and_then(|directory| directory.directory(&child.name));
                    let directory = self.build(&git.at(below), path, decision, plain, rules, before)?;
                    if !excluded || !directory.entries.is_empty() {
                        entries.push((name, Node::Directory(directory)));
                    }
                }
                GitNode::Leaf(..) if excluded => {}
                GitNode::Leaf(mode, blob) => {
                    self.count(path, 1)?;
                    match mode {
                        Mode::File => entries.push((name, Node::File(File::in_git(blob, false)))),
                        Mode::Executable => entries.push((name, Node::File(File::in_git(blob, true)))),
                        Mode::Symlink => links.push(name),
                        Mode::Submodule => entries.push((name, Node::Directory(Arc::default()))),
                    }
                }
            }
            path.pop();
        }
        Ok(Arc::new(Directory::of_git(
            entries,
            links,
            Origin { id, plain },
            hidden,
        )))
    }

    /// Lists each git tree only once.
    fn children(&mut self, git: &equate_git::Tree, path: &[String]) -> Result<Rc<Vec<Child>>, TreeError> {
        let limit = |limit| TreeError::Limit {
            path: path.join("/"),
            limit,
        };
        if path.len() > self.limits.depth_max {
            return Err(limit(LimitExceeded::Depth(self.limits.depth_max)));
        }
        if path.iter().map(|name| name.len() + 1).sum::<usize>() > self.limits.path_bytes_max {
            return Err(limit(LimitExceeded::PathBytes(self.limits.path_bytes_max)));
        }
        if let Some(known) = self.listings.get(&git.id()) {
            return Ok(Rc::clone(known));
        }
        let failed = |source| TreeError::Git {
            path: path.join("/"),
            source,
        };
        let mut children = git.children().map_err(failed)?;
        // git sorts a directory as if its name ended in a slash
        children.sort_by(|one, other| one.name.cmp(&other.name));
        let children = Rc::new(children);
        self.listings.insert(git.id(), Rc::clone(&children));
        Ok(children)
    }

    fn count(&mut self, path: &[String], entries: usize) -> Result<(), TreeError> {
        self.entries = self.entries.saturating_add(entries);
        match self.entries > self.limits.entries_max {
            true => Err(TreeError::Limit {
                path: path.join("/"),
                limit: LimitExceeded::Entries(self.limits.entries_max),
            }),
            false => Ok(()),
        }
    }
}
