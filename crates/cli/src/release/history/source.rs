//! The source commits of images, as the registry has them.
//!
//! An image says the commit that it was built from in its labels, or in the annotations of its manifest. Nothing
//! is fetched from the source repository.

use crate::artifact::open_at;
use crate::failure::chain;
use equate_egress::Egress;
use equate_registry::{Access, Limits, Registries, Repository};
use equate_release::artifact::{Artifact, Subject, Version};
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

const REVISION: &str = "org.opencontainers.image.revision";
const SOURCE: &str = "org.opencontainers.image.source";

/// The time for all images together.
const TIMEOUT: Duration = Duration::from_secs(20);
const AT_ONCE: usize = 8;
const CONFIG_BYTES_MAX: u64 = 4 << 20;

/// The same image in two versions.
pub(super) struct Pair {
    pub(super) service: String,
    /// The name of the newer one.
    pub(super) image: String,
    before: String,
    after: String,
}

/// The commit that an image was built from.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Revision {
    commit: String,
    source: Option<String>,
}

/// The answers of registries. An error is the reason, in one line.
#[derive(Default)]
pub(super) struct Revisions(BTreeMap<String, Result<Revision, String>>);

/// The images of two artifacts that have one version each, and not the same.
pub(super) fn pairs(service: &str, one: &Artifact, other: &Artifact) -> Vec<Pair> {
    let images = other.subjects().filter_map(|subject| {
        let before = one.counterpart(subject)?;
        let (Subject::Image(image), [new]) = (subject, other.of(subject)) else {
            return None;
        };
        let [old] = one.of(before) else { return None };
        (old != new).then(|| Pair {
            service: service.to_owned(),
            image: image.clone(),
            before: reference(before.name(), old),
            after: reference(image, new),
        })
    });
    images.collect()
}

fn reference(name: &str, version: &Version) -> String {
    match version.digest.as_str() {
        "" => format!("{name}:{}", version.tag),
        digest => format!("{name}@{digest}"),
    }
}

/// Asks the registries.
pub(super) async fn ask(pairs: &[Pair]) -> Revisions {
    let registries = &Registries::new(Egress::default(), Limits::default());
    let end = Instant::now() + TIMEOUT;
    let images: BTreeSet<&String> = pairs
        .iter()
        .flat_map(|pair| [&pair.before, &pair.after])
        .collect();
    let asked = images.into_iter().map(|image| async move {
        let answer = timeout_at(end, revision(registries, image)).await;
        let late = |_| Err(format!("no answer within {} s", TIMEOUT.as_secs()));
        (image.clone(), answer.unwrap_or_else(late))
    });
    Revisions(
        futures::stream::iter(asked)
            .buffer_unordered(AT_ONCE)
            .collect()
            .await,
    )
}

async fn revision(registries: &Registries, image: &str) -> Result<Revision, String> {
    let (repository, version) = Repository::parse_version(image).map_err(|error| chain(&error))?;
    let remote = open_at(registries, &repository, Access::new("", TIMEOUT));
    let remote = remote.map_err(|error| chain(&error))?;
    let found = remote.image(&version).await.map_err(|error| chain(&error))?;
    let config = remote.small_blob(found.manifest.config(), CONFIG_BYTES_MAX).await;
    let config = config.map_err(|error| chain(&error))?;
    let config: Value = serde_json::from_slice(&config)
        .map_err(|error| format!("the configuration of {image} is malformed: {error}"))?;
    let said = |key: &str| -> Option<String> {
        let label = config["config"]["Labels"][key].as_str().map(str::to_owned);
        let annotation = || found.manifest.annotations().as_ref()?.get(key).cloned();
        label.or_else(annotation).filter(|text| !text.is_empty())
    };
    let commit = said(REVISION)
        .ok_or_else(|| "its image has no label org.opencontainers.image.revision".to_owned())?;
    Ok(Revision {
        commit,
        source: said(SOURCE),
    })
}

impl Revisions {
    fn of(&self, image: &str) -> Result<&Revision, &str> {
        match self.0.get(image) {
            Some(Ok(revision)) => Ok(revision),
            Some(Err(reason)) => Err(reason),
            None => Err("it was not asked for"),
        }
    }

    /// `1a2b3c4..5d6e7f8`, as `git log` takes it, and the source repository.
    pub(super) fn range(&self, pair: &Pair) -> Result<(String, String), &str> {
        let (before, after) = (self.of(&pair.before)?, self.of(&pair.after)?);
        let source = after.source.as_ref().or(before.source.as_ref());
        let range = format!("{}..{}", short(&before.commit), short(&after.commit));
        Ok((range, source.cloned().unwrap_or_else(|| "-".to_owned())))
    }

    pub(super) fn data(&self, pair: &Pair) -> Value {
        let side = |image: &str| match self.of(image) {
            Ok(Revision { commit, source }) => json!({"image": image, "revision": commit, "source": source}),
            Err(reason) => json!({"image": image, "error": reason}),
        };
        json!({"before": side(&pair.before), "after": side(&pair.after)})
    }

    /// The services without an answer, by reason.
    pub(super) fn unknown(&self, pairs: &[Pair]) -> BTreeMap<String, BTreeSet<String>> {
        let mut unknown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for pair in pairs {
            if let Err(reason) = self.range(pair) {
                let services = unknown.entry(reason.to_owned()).or_default();
                services.insert(pair.service.clone());
            }
        }
        unknown
    }
}

/// The first digits of a commit; any other text is left as it is.
fn short(commit: &str) -> &str {
    const DIGITS: usize = 7;
    let is_id = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { &commit[..DIGITS] } else { commit }
}
