//! The servers of scenarios about sources: a chart repository, a registry and a store of objects.

use std::collections::BTreeMap;

use equate_api::source::{Bucket, HelmChart, HelmRepository, OciRepository};
use equate_testkit::bucket::BucketServer;
use equate_testkit::registry::RegistryServer;
use equate_testkit::web::{WebOptions, WebServer};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde::Deserialize;
use serde_json::json;

use crate::fields::objects::{index, packed};
use crate::fields::oci_repository::{CONTENT, archive};

/// The media types of charts in registries.
const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Served from a step on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Served {
    /// The charts of the repository, `name version` each, with an index of them.
    charts: Vec<String>,
    /// Files of the chart repository by path; null removes one.
    web: BTreeMap<String, Option<String>>,
    images: Vec<Image>,
    /// Objects of the bucket `apps` by key; null removes one.
    objects: BTreeMap<String, Option<String>>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Image {
    /// The repository.
    name: String,
    tag: String,
    /// The files of its layer.
    #[serde(default)]
    files: BTreeMap<String, String>,
    /// The layer is a packed chart, `name version`.
    #[serde(default)]
    chart: Option<String>,
}

pub(super) struct Ground {
    web: WebServer,
    registry: RegistryServer,
    bucket: BucketServer,
    /// By tag.
    digests: BTreeMap<String, String>,
}

impl Ground {
    /// Empty servers. The password of the user `git` is that of the chart repository.
    pub(super) fn open(password: Option<&str>) -> Self {
        let login = password.map(|password| ("git".to_owned(), password.to_owned()));
        let web = WebServer::start(WebOptions {
            login,
            ..WebOptions::default()
        });
        Self {
            web: web.unwrap(),
            registry: RegistryServer::open().unwrap(),
            bucket: BucketServer::open().unwrap(),
            digests: BTreeMap::new(),
        }
    }

    /// The placeholders in objects.
    pub(super) fn places(&self) -> Vec<(String, String)> {
        let tags = self.digests.iter();
        let digests = tags.map(|(tag, digest)| (format!("@digest:{tag}"), digest.clone()));
        [
            ("@web".to_owned(), self.web.url()),
            ("@oci".to_owned(), self.registry.url()),
            ("@bucket".to_owned(), self.bucket.endpoint()),
        ]
        .into_iter()
        .chain(digests)
        .collect()
    }

    pub(super) fn serve(&mut self, served: &Served) {
        self.charts(&served.charts);
        for (path, text) in &served.web {
            match text {
                Some(text) => self.web.put(path, text.clone()),
                None => self.web.remove(path),
            }
        }
        for image in &served.images {
            let digest = match &image.chart {
                Some(chart) => self.push(image, chart),
                None => {
                    let files = image.files.iter();
                    let files: Vec<(&str, &str)> = files.map(|(path, text)| (&**path, &**text)).collect();
                    let layers: [(&str, &[u8]); 1] = [(CONTENT, &archive(&files))];
                    self.registry.artifact(&image.name, &image.tag, &layers, &[])
                }
            };
            self.digests.insert(image.tag.clone(), digest);
        }
        for (key, text) in &served.objects {
            match text {
                Some(text) => drop(self.bucket.put(key, text.clone())),
                None => self.bucket.remove(key),
            }
        }
    }

    /// Stores a chart as `helm push` does. Returns the digest of its manifest.
    fn push(&self, image: &Image, chart: &str) -> String {
        let (name, version) = chart.split_once(' ').unwrap();
        let config = json!({ "apiVersion": "v2", "name": name, "version": version });
        let config = self.registry.blob(CONFIG, config.to_string());
        let layer = self.registry.blob(CHART, pack(chart));
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": config,
            "layers": [layer],
        });
        let stored = self.registry.manifest(&image.name, Some(&image.tag), &manifest);
        stored["digest"].as_str().unwrap().to_owned()
    }

    fn charts(&self, charts: &[String]) {
        if charts.is_empty() {
            return;
        }
        let files: Vec<String> = charts
            .iter()
            .map(|chart| format!("{}.tgz", chart.replace(' ', "-")))
            .collect();
        let mut entries = Vec::new();
        for (chart, file) in charts.iter().zip(&files) {
            self.web.put(&format!("/{file}"), pack(chart));
            let (name, version) = chart.split_once(' ').unwrap();
            entries.push((name, version, &**file));
        }
        self.web.put("/index.yaml", index(&entries));
    }
}

/// A chart with the values file `prod.yaml`.
fn pack(chart: &str) -> Vec<u8> {
    let (name, version) = chart.split_once(' ').unwrap();
    packed(name, version, &[("prod.yaml", "value: prod\n")])
}

/// The kinds of sources beyond git.
pub(super) fn kinds() -> Vec<CustomResourceDefinition> {
    vec![
        HelmRepository::crd(),
        HelmChart::crd(),
        OciRepository::crd(),
        Bucket::crd(),
    ]
}
