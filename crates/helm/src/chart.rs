//! A chart in memory.
//!
//! Clones share files, so a cached chart is rendered many times. A subchart with two aliases is stored
//! once.

use crate::metadata::{Lock, Metadata};
use std::fmt;
use std::sync::Arc;

/// Values as templates and schemas see them. Numbers follow Helm's decoders: `f64` from YAML and JSON
/// files, `i64` from `--set`. A null is kept until values are coalesced.
pub type Values = serde_json::Map<String, serde_json::Value>;

/// A file of a chart.
#[derive(Clone, PartialEq, Eq)]
pub struct File {
    /// The path below the chart's directory: `templates/service.yaml`.
    pub name: Arc<str>,
    /// The content.
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
    /// `Chart.yaml`; for charts of version 1 with the dependencies of `requirements.yaml`.
    pub metadata: Arc<Metadata>,
    /// `Chart.lock` or `requirements.lock`.
    pub lock: Option<Arc<Lock>>,
    /// Everything below `templates/`.
    pub templates: Arc<[File]>,
    /// `values.yaml`, with its documents merged.
    pub values: Arc<Values>,
    /// `values.schema.json`, verbatim.
    pub schema: Option<Arc<[u8]>>,
    /// All other files, `crds/` included: `.Files` shows them.
    pub files: Arc<[File]>,
    /// The charts in `charts/`, in file order.
    pub dependencies: Vec<Arc<Chart>>,
    /// SHA-256 over the whole chart, subcharts included.
    pub digest: [u8; 32],
}

impl Chart {
    /// The chart's name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }
}
