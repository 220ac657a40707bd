//! A chart in memory.
//!
//! Cheap to clone: files are shared, so a chart that is read once is kept and rendered many times, and
//! a subchart that appears under two aliases is held once.

use crate::metadata::{Lock, Metadata};
use std::fmt;
use std::sync::Arc;

/// Values as templates and schemas see them. Numbers are what Helm's reader makes of them: `f64`
/// out of YAML and JSON files, `i64` from `--set`. A null is kept until values are coalesced.
pub type Values = serde_json::Map<String, serde_json::Value>;

/// A file of a chart: its path below the chart, with `/`, and its bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// The path below the chart's own directory: `templates/service.yaml`.
    pub name: Arc<str>,
    /// What is in it.
    pub data: Arc<[u8]>,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.name, self.data.len())
    }
}

/// A chart and its subcharts.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// `Chart.yaml`, with the dependencies of a `requirements.yaml` for charts of version 1.
    pub metadata: Arc<Metadata>,
    /// `Chart.lock` or `requirements.lock`.
    pub lock: Option<Arc<Lock>>,
    /// Everything below `templates/`.
    pub templates: Arc<[File]>,
    /// `values.yaml`, its documents merged.
    pub values: Arc<Values>,
    /// `values.schema.json`, as it is written.
    pub schema: Option<Arc<[u8]>>,
    /// What is none of the others, `crds/` included: what `.Files` shows.
    pub files: Arc<[File]>,
    /// What is in `charts/`, in the order of the files there.
    pub dependencies: Vec<Arc<Chart>>,
    /// SHA-256 over all of it, subcharts included: who has the digest has the chart.
    pub digest: [u8; 32],
}

impl Chart {
    /// The chart's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}
