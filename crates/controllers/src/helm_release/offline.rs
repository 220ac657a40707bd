//! A release rendered outside of a controller: on a developer's machine, of a chart at hand.
//!
//! Values, post-renderers and labels are the controller's own code. With a cluster, its version, its APIs and its
//! objects (`lookup`) are those that templates see; without one, templates see Helm's defaults and no objects.

use std::fmt;
use std::sync::Arc;

use equate_api::helm::{CrdsPolicy, HelmRelease};
use equate_api::source::HelmChart;
use equate_apply::cluster::Cluster;
use equate_helm::cache::Cache;
use equate_helm::capabilities::Capabilities;
use equate_helm::{Chart, dependencies};
use equate_manifest::object::Object;
use kube::Client;

use super::act::crds;
use super::declared::{Action, Declared};
use super::objects;
use super::observe::chart;
use super::render::{Rendering, TemplateCluster};
use super::values::Composed;
use crate::kit::processors::{Processors, Threads};
use crate::kit::tenants::Tenants;

const PROGRAMS_BYTES_MAX: usize = 32 << 20;

/// A release to render.
#[derive(Debug)]
pub struct Offline<'a> {
    /// Its HelmRelease.
    pub release: &'a HelmRelease,
    /// Its chart.
    pub chart: Chart,
    /// Its values.
    pub values: &'a Composed,
    /// The cluster that templates see.
    pub cluster: ClusterSeen<'a>,
}

/// The cluster that templates see.
#[derive(Clone, Copy)]
pub enum ClusterSeen<'a> {
    /// This one, with its objects.
    Live(&'a Client),
    /// One with these versions and without objects.
    Assumed(&'a Capabilities),
}

impl fmt::Debug for ClusterSeen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live(_) => "Live",
            Self::Assumed(_) => "Assumed",
        })
    }
}

/// The objects of a rendered release, in the order of an install.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// The CRDs in `crds/`, unless the spec skips them.
    pub definitions: Vec<Object>,
    /// The objects that the release holds.
    pub held: Vec<Object>,
    /// The objects of its hooks.
    pub hooks: Vec<Object>,
}

/// The HelmChart that a HelmRelease makes of its template; none if it refers to a source.
pub fn chart_of(release: &HelmRelease) -> Option<HelmChart> {
    let declared = Declared::from(release);
    chart::template(&declared).filter(|_| declared.owns_chart)
}

impl Offline<'_> {
    /// Renders an install; with a history, the upgrade after its newest revision.
    ///
    /// # Errors
    /// The text of the failure, as a status has it: values of Secrets are masked.
    pub async fn render(self) -> Result<Objects, String> {
        let declared = Declared::from(self.release);
        let masks = &self.values.masks;
        let rendered = self.run(&declared).await;
        rendered.map_err(|why| masks.mask(&why))
    }

    async fn run(&self, declared: &Declared) -> Result<Objects, String> {
        let chart = Arc::new(self.chart.clone());
        let present = dependencies::check_installable(&chart);
        present.map_err(|error| error.to_string())?;
        dependencies::check_present(&chart).map_err(|error| error.to_string())?;
        let history = self.release.status.as_ref().map(|status| &*status.history);
        let latest = history.and_then(super::status::latest);
        let revision = latest.map_or(0, |latest| u64::try_from(latest.version).unwrap_or_default());
        let action = match latest {
            Some(_) => Action::Upgrade,
            None => Action::Install,
        };
        let live;
        let cluster = match self.cluster {
            ClusterSeen::Assumed(capabilities) => TemplateCluster::Assumed(capabilities),
            ClusterSeen::Live(client) => {
                live = Cluster::new(client.clone());
                TemplateCluster::Live(&live)
            }
        };
        let rendering = Rendering {
            cluster,
            processors: &Processors::new(1, Tenants::default(), Threads::Own),
            programs: &Cache::new(PROGRAMS_BYTES_MAX),
            declared,
            revision: revision + 1,
            is_upgrade: action == Action::Upgrade,
            skips_schema: declared.skips_schema(action),
            timeout: declared.timeout_of(action),
            throttled: &|| (),
        };
        let rendered = rendering.run(&chart, &self.values.values).await?;
        let definitions = match declared.crds(action) {
            CrdsPolicy::Skip => Vec::new(),
            CrdsPolicy::Create | CrdsPolicy::CreateReplace => crds::parsed(&chart, &self.values.values)?,
        };
        let mut hooks = Vec::new();
        for hook in &rendered.hooks {
            hooks.extend(objects::read(&hook.manifest)?);
        }
        Ok(Objects {
            definitions,
            held: objects::read(&rendered.manifest)?,
            hooks,
        })
    }
}
