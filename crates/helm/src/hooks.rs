//! Hooks: objects outside a release that run at some point of its life.
//!
//! Annotations mark a hook. The release record stores it in the form declared here. Unknown annotation
//! values are kept in Helm's places.

use crate::head::Head;
use crate::open::open_words;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::sync::Arc;

/// Marks an object as a hook: events, separated by commas.
pub const HOOK: &str = "helm.sh/hook";
/// The order among hooks of one event: a number.
pub const HOOK_WEIGHT: &str = "helm.sh/hook-weight";
/// When a hook is deleted: policies, separated by commas.
pub const HOOK_DELETE_POLICY: &str = "helm.sh/hook-delete-policy";
/// When the logs of a hook are printed: policies, separated by commas.
pub const HOOK_OUTPUT_LOG_POLICY: &str = "helm.sh/hook-output-log-policy";
/// Whether an obsolete object is kept: `keep`.
pub const RESOURCE_POLICY: &str = "helm.sh/resource-policy";

open_words! {
    /// When a hook runs.
    Event {
        /// Before the first objects are created.
        PreInstall = "pre-install",
        /// After all objects are created.
        PostInstall = "post-install",
        /// Before objects are deleted.
        PreDelete = "pre-delete",
        /// After they are deleted.
        PostDelete = "post-delete",
        /// Before an upgrade changes anything.
        PreUpgrade = "pre-upgrade",
        /// After an upgrade.
        PostUpgrade = "post-upgrade",
        /// Before a rollback changes anything.
        PreRollback = "pre-rollback",
        /// After a rollback.
        PostRollback = "post-rollback",
        /// When the release is tested.
        Test = "test",
    }
}

open_words! {
    /// When a hook is deleted. The default is before it is created again.
    DeletePolicy {
        /// When it has succeeded.
        HookSucceeded = "hook-succeeded",
        /// When it has failed.
        HookFailed = "hook-failed",
        /// Before its next run.
        BeforeHookCreation = "before-hook-creation",
    }
}

open_words! {
    /// When the logs of a hook are printed.
    OutputLogPolicy {
        /// When it has succeeded.
        HookSucceeded = "hook-succeeded",
        /// When it has failed.
        HookFailed = "hook-failed",
    }
}

open_words! {
    /// The phase of a hook's run.
    #[derive(Default)]
    Phase {
        /// It has not run.
        #[default]
        Never = "",
        /// The phase is unknown.
        Unknown = "Unknown",
        /// It is running.
        Running = "Running",
        /// It has succeeded.
        Succeeded = "Succeeded",
        /// It has failed.
        Failed = "Failed",
    }
}

/// A hook.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Hook {
    /// The object's name.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The object's kind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its template: `CHART/templates/job.yaml`.
    #[serde(skip_serializing_if = "str::is_empty", with = "crate::open::shared_text")]
    pub path: Arc<str>,
    /// The rendered object.
    #[serde(skip_serializing_if = "str::is_empty", with = "crate::open::shared_text")]
    pub manifest: Arc<str>,
    /// When it runs.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub events: Vec<Event>,
    /// Its last run.
    #[serde(deserialize_with = "or_default")]
    pub last_run: LastRun,
    /// Lower ones run first.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// When it is deleted.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub delete_policies: Vec<DeletePolicy>,
    /// When its logs are printed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "or_default")]
    pub output_log_policies: Vec<OutputLogPolicy>,
}

impl fmt::Debug for Hook {
    /// Without the manifest, which may be a Secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            name,
            path,
            events,
            weight,
            ..
        } = self;
        write!(f, "{kind} {name} of {path} on {events:?} ({weight})")
    }
}

/// The last run of a hook. Times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LastRun {
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "time")]
    pub started_at: Option<Box<str>>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "time")]
    pub completed_at: Option<Box<str>>,
    /// Its phase.
    #[serde(deserialize_with = "or_default")]
    pub phase: Phase,
}

/// The classification of a document.
pub(crate) enum DocumentKind {
    /// An object of the release.
    NoHook,
    /// A hook for unknown events, which is ignored.
    Unknown(String),
    /// A hook.
    Hook(Box<Hook>),
}

impl Hook {
    pub(crate) fn find(head: &Head, path: &Arc<str>, manifest: &Arc<str>) -> DocumentKind {
        let Some(events) = head.annotations.get(HOOK) else {
            return DocumentKind::NoHook;
        };
        let mut known = Vec::new();
        for word in words(events) {
            match Event::from(word.as_str()) {
                Event::Other(word) if &*word == "test-success" => known.push(Event::Test),
                Event::Other(_) => return DocumentKind::Unknown(events.clone()),
                event => known.push(event),
            }
        }
        let annotated = |name: &str| head.annotations.get(name).map(|text| words(text));
        let weight = head.annotations.get(HOOK_WEIGHT);
        DocumentKind::Hook(Box::new(Self {
            name: head.name.clone(),
            kind: head.kind.clone(),
            path: Arc::clone(path),
            manifest: Arc::clone(manifest),
            events: known,
            last_run: LastRun::default(),
            weight: weight.and_then(|text| text.parse().ok()).unwrap_or(0),
            delete_policies: annotated(HOOK_DELETE_POLICY)
                .map(|words| words.map(DeletePolicy::from).collect())
                .unwrap_or_default(),
            output_log_policies: annotated(HOOK_OUTPUT_LOG_POLICY)
                .map(|words| words.map(OutputLogPolicy::from).collect())
                .unwrap_or_default(),
        }))
    }

    /// Whether it runs on an event.
    pub fn runs_on(&self, event: &Event) -> bool {
        self.events.contains(event)
    }

    /// Whether it is deleted at this point. A CustomResourceDefinition never is: that would delete all
    /// its objects.
    pub fn is_deleted_on(&self, policy: &DeletePolicy) -> bool {
        if self.kind == "CustomResourceDefinition" {
            return false;
        }
        match self.delete_policies.is_empty() {
            true => *policy == DeletePolicy::BeforeHookCreation,
            false => self.delete_policies.contains(policy),
        }
    }
}

/// The hooks of an event in execution order: by weight, then name, then kind.
pub fn of_event<'h>(hooks: &'h [Hook], event: &Event) -> Vec<&'h Hook> {
    let mut hooks: Vec<_> = hooks.iter().filter(|hook| hook.runs_on(event)).collect();
    hooks.sort_by_key(|hook| (hook.weight, hook.name.as_str()));
    hooks
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(|word| word.trim().to_lowercase())
}

fn is_zero(weight: &i64) -> bool {
    *weight == 0
}

pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A time. Helm 3 writes an empty text for none, others the year 1.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<str>>, D::Error> {
    let text: Option<Box<str>> = Option::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty() && !text.starts_with("0001-01-01T00:00:00Z")))
}
