//! The list of Equate's controllers.
//!
//! The engine, the CLI, metrics, Leases and the manifests of `equate install` use it. A new kind is a
//! folder beside this file and a line in [`all`].

use std::sync::Arc;

use crate::artifact_generator::ArtifactGenerators;
use crate::bucket::Buckets;
use crate::git_repository::GitRepositories;
use crate::helm_chart::HelmCharts;
use crate::helm_release::HelmReleases;
use crate::helm_repository::HelmRepositories;
use crate::kit::about::About;
use crate::kit::controller::Controller;
use crate::kit::runner::{Pace, Run, Runner};
use crate::kit::services::Kit;
use crate::kustomization::Kustomizations;
use crate::oci_repository::OciRepositories;

/// All controllers of Equate, in display order.
pub fn all() -> ControllerSet {
    ControllerSet::new()
        .with::<GitRepositories>()
        .with::<OciRepositories>()
        .with::<HelmRepositories>()
        .with::<HelmCharts>()
        .with::<Buckets>()
        .with::<Kustomizations>()
        .with::<HelmReleases>()
        .with::<ArtifactGenerators>()
}

/// Controllers, each as data and as a function that starts it.
#[derive(Debug, Clone, Default)]
pub struct ControllerSet {
    entries: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    about: &'static About,
    start: fn(&Arc<Kit>, Pace) -> Arc<dyn Run>,
}

impl ControllerSet {
    /// The empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a controller.
    #[must_use]
    pub fn with<C: Controller>(mut self) -> Self {
        self.entries.push(Entry {
            about: C::ABOUT,
            start: |kit, pace| Arc::new(Runner::<C>::new(kit, pace)),
        });
        self
    }

    /// The controllers as data.
    pub fn iter(&self) -> impl Iterator<Item = &'static About> {
        self.entries.iter().map(|entry| entry.about)
    }

    /// The names of the Flux controllers of these kinds, each once.
    pub fn components(&self) -> Vec<&'static str> {
        let mut components = Vec::new();
        for about in self.iter() {
            if !components.contains(&about.component) {
                components.push(about.component);
            }
        }
        components
    }

    /// Only the controllers of these Flux controllers.
    #[must_use]
    pub fn only<S: AsRef<str>>(&self, components: &[S]) -> Self {
        let entries = self.entries.iter().filter(|entry| {
            let mut named = components.iter();
            named.any(|component| component.as_ref() == entry.about.component)
        });
        Self {
            entries: entries.copied().collect(),
        }
    }

    pub(crate) fn start(&self, kit: &Arc<Kit>, pace: Pace) -> Vec<Arc<dyn Run>> {
        let entries = self.entries.iter();
        entries.map(|entry| (entry.start)(kit, pace)).collect()
    }
}
