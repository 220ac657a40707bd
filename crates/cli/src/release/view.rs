//! The newest commit of a repository with its environments built, as the commands that only read see it.

use super::ReleaseError;
use super::past::{self, Newest};
use super::repository::{Place, Repository, tree_of};
use super::snapshot::Snapshot;
use equate_git::Commit;
use equate_release::config::{Config, Services};
use equate_release::fleet::Fleet;
use equate_release::history::History;
use equate_release::plan;
use std::collections::HashSet;

/// The newest commit, its environments and the services of interest.
pub(crate) struct View {
    pub(crate) repository: Repository,
    pub(crate) commit: Commit,
    pub(crate) tree: Snapshot,
    pub(crate) config: Config,
    pub(crate) fleet: Fleet,
    pub(crate) services: Vec<String>,
    pub(crate) history: History,
}

impl View {
    /// Fetches, and builds named services. All services are of interest if none is named.
    ///
    /// # Errors
    /// The repository or `equate.yaml` cannot be read, or a service is unknown.
    pub(crate) fn open(place: &Place, services: &[String]) -> Result<Self, ReleaseError> {
        let repository = place.open()?;
        let commit = repository.tip()?;
        let tree = tree_of(&commit);
        let config = plan::config(&tree)?;
        let history = past::history(&repository, &commit, &config)?;
        let named: Vec<&str> = services.iter().map(String::as_str).collect();
        let fleet = match (&config.services, named.is_empty()) {
            (Services::Versions(_), true) => Fleet::of_history(&tree, &config, &history),
            _ => Fleet::of_services(&tree, &config, &named),
        };
        if !named.is_empty() {
            let names = fleet.names(&tree, &config);
            for service in &named {
                plan::check_service(names.iter().map(String::as_str), service)?;
            }
        }
        let services = match named.is_empty() {
            true => fleet.services().into_iter().map(str::to_owned).collect(),
            false => services.to_vec(),
        };
        Ok(Self {
            repository,
            commit,
            tree,
            config,
            fleet,
            services,
            history,
        })
    }

    /// The environments of a name; all without one.
    pub(crate) fn environments(&self, name: Option<&str>) -> Result<Vec<String>, ReleaseError> {
        match name {
            Some(name) => Ok(plan::environments(&self.config, name)?),
            None => Ok(self.config.environments().map(str::to_owned).collect()),
        }
    }

    /// The changes that brought the versions of the services to the environments.
    pub(crate) fn newest(&self) -> Newest {
        let services: HashSet<&str> = self.services.iter().map(String::as_str).collect();
        Newest::of(&self.history, |service, environment| {
            // a service without a version has no history
            let artifact = || self.fleet.artifact(environment, service);
            services.contains(service) && artifact().is_some_and(|artifact| !artifact.is_empty())
        })
    }
}
