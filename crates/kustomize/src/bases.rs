//! Resolves the entries of `resources`, `bases` and `components`: a file, a directory, or a URL.
//!
//! kustomize tries every entry as a file first, then as a directory or repository. A URL that looks like a
//! repository's (`?ref=`, `//`, `.git`) is tried as a repository first, because a forge answers such a URL
//! with an HTML page.

use crate::error::{BuildError, Fault, Place};
use crate::field_spec::Tables;
use crate::kustomization::{self, Kustomization};
use crate::loader::{at, may_be_repository};
use crate::manifests;
use crate::notes::{FileOrigin, Note, Provenance};
use crate::path;
use crate::pipeline::{Accumulated, Build};
use crate::remote::{self, RemoteRepository};
use crate::resource::Resource;
use std::sync::Arc;

/// The steps to find and check a kustomization.
const ENTER_STEPS: usize = 600;

#[derive(Debug)]
pub(crate) struct Visited {
    directory: String,
    url: Option<String>,
    pub(crate) namespace: String,
}

impl Visited {
    pub(crate) fn root(kustomization: &Kustomization) -> Self {
        Self {
            directory: kustomization.root.clone(),
            url: None,
            namespace: kustomization.fields.namespace.clone(),
        }
    }
}

#[derive(Clone, Copy)]
enum DirectoryReference<'a> {
    Path(&'a Kustomization),
    Url(&'a RemoteRepository),
}

impl Build<'_, '_> {
    /// Adds one entry of `resources` or of a configuration list: a file if it can be read as one, else a
    /// directory.
    pub(crate) fn resource(
        &mut self,
        kustomization: &Kustomization,
        entry: &str,
        place: Place,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let checked = self.loader.budget.check().map_err(Fault::from);
        checked.map_err(at(place.clone()))?;
        if remote::is_remote(entry) {
            return self.elsewhere(kustomization, entry, place, so_far);
        }
        if entry.is_empty() {
            return Err(at(place)(Fault::EmptyRoot));
        }
        let root = &kustomization.root;
        let file = match self.loader.read_text(root, entry) {
            Ok((path, text)) => {
                let budget = &self.loader.budget;
                let resources = manifests::parse_by(budget.workers(), &text, &path, budget)?;
                return self.append(kustomization, resources, entry, place, so_far);
            }
            Err(
                fault @ (Fault::Files(_) | Fault::Bytes(_) | Fault::FileBytes { .. } | Fault::NotText { .. }),
            ) => {
                return Err(at(place)(fault));
            }
            Err(fault) => fault,
        };
        let directory = match self.loader.resolve_base(root, entry) {
            Ok(directory) => directory,
            Err(
                Fault::NoFile { .. }
                | Fault::Links { .. }
                | Fault::LinkAway { .. }
                | Fault::OutsideTree { .. }
                | Fault::NotDirectory { .. },
            ) => {
                return Err(at(place)(file));
            }
            Err(fault @ (Fault::OutsideRepository { .. } | Fault::AbsolutePath { .. })) => {
                return Err(at(place)(fault));
            }
            Err(fault) => {
                return Err(at(place)(Fault::Accumulate {
                    file: Box::new(file),
                    directory: Box::new(fault),
                }));
            }
        };
        self.base(&directory, DirectoryReference::Path(kustomization), place, so_far)
    }

    fn elsewhere(
        &mut self,
        kustomization: &Kustomization,
        entry: &str,
        place: Place,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let repository = RemoteRepository::parse(entry).ok();
        let marked = repository.as_ref().is_some_and(RemoteRepository::is_marked);
        let mut refused = None;
        if let Some(repository) = repository.as_ref().filter(|_| marked || !remote::is_http(entry)) {
            match self.fetch(kustomization, repository) {
                Ok(directory) => {
                    return self.base(&directory, DirectoryReference::Url(repository), place, so_far);
                }
                Err(fault @ Fault::Fetch { .. }) if remote::is_http(entry) => refused = Some(fault),
                Err(fault) => return Err(at(place)(fault)),
            }
        }
        let file = match self.loader.read_text(&kustomization.root, entry) {
            Ok((url, text)) => match manifests::parse(&text, &url, &self.loader.budget) {
                Ok(resources) => return self.append(kustomization, resources, entry, place, so_far),
                Err(error) => error,
            },
            Err(fault) => at(place.clone())(fault),
        };
        // an entry that is not a file was tried as a repository already, or is tried now
        if let Some(fault) = refused {
            return Err(at(place)(fault));
        }
        let Some(repository) = repository.filter(|_| may_be_repository(&file.fault)) else {
            return Err(file);
        };
        match self.fetch(kustomization, &repository) {
            Ok(directory) => self.base(&directory, DirectoryReference::Url(&repository), place, so_far),
            // the file exists but is not a manifest: its error says more
            Err(_) if !matches!(*file.fault, Fault::Download { .. }) => Err(file),
            Err(fault) => Err(at(place)(Fault::Accumulate {
                file: file.fault,
                directory: Box::new(fault),
            })),
        }
    }

    /// Fetches a repository and returns the directory its URL names. Refuses one that is already being built.
    fn fetch(
        &mut self,
        kustomization: &Kustomization,
        repository: &RemoteRepository,
    ) -> Result<String, Fault> {
        if remote::is_file(&repository.clone_url()) && self.loader.is_foreign(&kustomization.root) {
            return Err(Fault::LocalBase {
                url: remote::shown(repository.raw()),
                repository: path::split_label(&kustomization.root)
                    .0
                    .trim_end_matches('/')
                    .to_owned(),
            });
        }
        let urls = self.visited.iter().filter_map(|visited| visited.url.as_deref());
        let mut cycles = urls.filter(|url| url.starts_with(repository.raw()));
        if let Some(previous) = cycles.next() {
            return Err(Fault::RepositoryCycle {
                url: remote::shown(repository.raw()),
                previous: remote::shown(previous),
            });
        }
        self.loader.fetch(repository)
    }

    fn base(
        &mut self,
        directory: &str,
        way: DirectoryReference<'_>,
        place: Place,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        let base = self.enter(directory, way, place.clone())?;
        if base.is_component() {
            return Err(at(place)(Fault::IsComponent {
                path: directory.to_owned(),
            }));
        }
        let mut below = Accumulated::empty(&self.loader.budget);
        let built = self.kustomize(&base, &mut below);
        built.map_err(|error| error.included_from(place.clone()))?;
        self.visited.pop();
        let schema = self.schema.get();
        let absorbed = so_far.resources.append_all(below.resources.into_items(), schema);
        absorbed.map_err(at(place.clone()))?;
        Tables::absorb(&mut so_far.tables, &below.tables, &self.loader.budget).map_err(at(place.clone()))?;
        so_far.variables.absorb(below.variables).map_err(at(place))
    }

    pub(crate) fn components(
        &mut self,
        kustomization: &Kustomization,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        for (index, entry) in kustomization.fields.components.iter().enumerate() {
            let place = kustomization.item("components", index);
            let repository = RemoteRepository::parse(entry).ok();
            let (directory, way) = match &repository {
                Some(repository) => (
                    self.fetch(kustomization, repository),
                    DirectoryReference::Url(repository),
                ),
                None => (
                    self.loader.resolve_base(&kustomization.root, entry),
                    DirectoryReference::Path(kustomization),
                ),
            };
            let directory = directory.map_err(at(place.clone()))?;
            let component = self.enter(&directory, way, place.clone())?;
            if !component.is_component() {
                return Err(at(place)(Fault::NotComponent {
                    path: directory,
                    kind: component.fields.kind,
                }));
            }
            let built = self.kustomize(&component, so_far);
            built.map_err(|error| error.included_from(place))?;
            self.visited.pop();
        }
        Ok(())
    }

    /// Reads the kustomization of a directory, refusing a directory that is already being built.
    fn enter(
        &mut self,
        directory: &str,
        way: DirectoryReference<'_>,
        place: Place,
    ) -> Result<Kustomization, BuildError> {
        if let DirectoryReference::Path(_) = way {
            self.refuse_cycle(directory).map_err(at(place.clone()))?;
        }
        let limit = self.loader.limits.depth_max;
        if self.visited.len() >= limit {
            return Err(at(place)(Fault::Depth(limit)));
        }
        let limit = self.loader.limits.kustomizations_max;
        self.loader.entered += 1;
        if self.loader.entered > limit {
            return Err(at(place)(Fault::Kustomizations(limit)));
        }
        let spent = self.loader.budget.spend(ENTER_STEPS).map_err(Fault::from);
        spent.map_err(at(place.clone()))?;
        let Some(name) = kustomization::find(self.loader, directory)? else {
            return Err(at(place)(Fault::NoKustomization {
                root: directory.to_owned(),
            }));
        };
        let included = |error: BuildError| error.included_from(place);
        let mut base = kustomization::read(self.loader, directory, &name).map_err(included.clone())?;
        base.provenance = match way {
            DirectoryReference::Path(above) => above.provenance.clone(),
            DirectoryReference::Url(repository) => Some(Arc::new(Provenance::new(repository))),
        };
        base.refuse_empty().map_err(included.clone())?;
        let url = match way {
            DirectoryReference::Path(_) => None,
            DirectoryReference::Url(repository) => Some(repository.raw().to_owned()),
        };
        self.visited.push(Visited {
            directory: directory.to_owned(),
            url,
            namespace: base.fields.namespace.clone(),
        });
        self.choose_schema(&base).map_err(included)?;
        Ok(base)
    }

    /// Refuses a directory that is being built, or that contains one. kustomize clones a repository anew for
    /// each reference, so directories outside the current clone do not count.
    fn refuse_cycle(&self, directory: &str) -> Result<(), Fault> {
        for visited in self.visited.iter().rev() {
            if path::is_within(&visited.directory, directory) {
                return Err(Fault::Cycle {
                    candidate: directory.to_owned(),
                    visited: visited.directory.clone(),
                });
            }
            if visited.url.is_some() {
                break;
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        kustomization: &Kustomization,
        mut resources: Vec<Resource>,
        entry: &str,
        place: Place,
        so_far: &mut Accumulated,
    ) -> Result<(), BuildError> {
        if self.tracks {
            let note = match RemoteRepository::parse(entry) {
                Ok(repository) => FileOrigin::of_url(&repository),
                Err(_) => {
                    let path = path::join(&kustomization.root, entry).unwrap_or_default();
                    FileOrigin::new(&self.root, kustomization, &path)
                }
            };
            for resource in &mut resources {
                resource.note = Some(Note::File(note.clone()));
            }
        }
        so_far
            .resources
            .append_all(resources, self.schema.get())
            .map_err(at(place))
    }
}
