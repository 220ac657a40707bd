//! Conversion of custom resources by webhooks.
//!
//! A webhook converts on the way in and out of the store: an object is stored in the storage version of its
//! definition, and read in the version of the request. Order and texts are those of
//! `k8s.io/apiextensions-apiserver` 1.36. Unlike upstream, one review holds many objects of a list.
//!
//! As for admission, only webhooks with a URL on this machine are called; a definition with another webhook
//! converts as with the strategy `None`.

mod review;

use crate::builtin::tree::{get, has, items, text};
use crate::crd::CustomVersion;
use crate::pipeline::{Api, Object};
use crate::registry::Resource;
use crate::status::ApiError;
use crate::store::Entry;
use crate::webhooks;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The limit of upstream's webhook clients.
const SECONDS: i64 = 30;
/// The objects of one review, and their bytes; a larger object has a review of its own.
const REVIEW_OBJECTS_MAX: usize = 100;
const REVIEW_BYTES_MAX: usize = 1 << 20;
/// Converted objects are kept for so many; then all are forgotten.
const KEPT_MAX: usize = 1000;

/// The webhook of a definition, and what it converted.
pub(crate) struct Conversion {
    url: String,
    bundle: String,
    /// The versions of ConversionReview that the webhook speaks.
    reviews: Vec<String>,
    /// The `apiVersion` in which objects are stored.
    storage: String,
    /// By `apiVersion`.
    versions: HashMap<String, Arc<CustomVersion>>,
    /// Whether objects may be stored under an older schema.
    reshapes: bool,
    kept: Mutex<HashMap<Converted, Arc<Entry>>>,
}

/// Revision, namespace and name of a stored object, and the `apiVersion` that it was converted to.
type Converted = (u64, String, String, String);

impl std::fmt::Debug for Conversion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversion")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

/// Why the webhook of a definition is not called; `None` if it is, and without a webhook.
pub(crate) fn skipped(crd: &Value) -> Option<String> {
    if text(crd, "spec.conversion.strategy") != "Webhook" {
        return None;
    }
    let client = get(crd, "spec.conversion.webhook.clientConfig");
    let url = text(client, "url");
    let why = if has(client, "service") || url.is_empty() {
        let service = get(client, "service");
        format!(
            "this server runs no container for the Service {}/{}",
            text(service, "namespace"),
            text(service, "name")
        )
    } else if webhooks::is_local(url) {
        return None;
    } else {
        format!("{url} is not on the machine of this server")
    };
    Some(format!(
        "the conversion webhook of {} is skipped: {why}; objects of another version get its apiVersion, and the \
         fields that it knows",
        text(crd, "metadata.name")
    ))
}

impl Conversion {
    /// `None` if no webhook converts. `compiled` returns a version of the definition, served or not.
    pub(crate) fn of(
        crd: &Value,
        mut compiled: impl FnMut(&str) -> Option<Arc<CustomVersion>>,
    ) -> Option<Self> {
        if text(crd, "spec.conversion.strategy") != "Webhook" || skipped(crd).is_some() {
            return None;
        }
        let group = text(crd, "spec.group");
        let webhook = get(crd, "spec.conversion.webhook");
        let versions = items(crd, "spec.versions");
        let storage = versions.iter().find(|version| version["storage"] == true)?;
        let reviews = items(webhook, "conversionReviewVersions").iter();
        Some(Self {
            url: text(webhook, "clientConfig.url").to_owned(),
            bundle: text(webhook, "clientConfig.caBundle").to_owned(),
            reviews: reviews.filter_map(Value::as_str).map(str::to_owned).collect(),
            storage: format!("{group}/{}", text(storage, "name")),
            versions: versions
                .iter()
                .map(|version| text(version, "name"))
                .filter_map(|name| Some((format!("{group}/{name}"), compiled(name)?)))
                .collect(),
            reshapes: get(crd, "metadata.generation").as_i64() != Some(1),
            kept: Mutex::default(),
        })
    }

    fn key(object: &Value, revision: u64, api_version: &str) -> Converted {
        let meta = |field| text(object, field).to_owned();
        (
            revision,
            meta("metadata.namespace"),
            meta("metadata.name"),
            api_version.to_owned(),
        )
    }

    fn kept(&self, key: &Converted) -> Option<Arc<Entry>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.get(key).cloned()
    }

    fn keep(&self, key: Converted, entry: &Arc<Entry>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        kept.insert(key, Arc::clone(entry));
    }

    fn version(&self, api_version: &str, direction: &str) -> Result<&CustomVersion, ApiError> {
        let version = self.versions.get(api_version).map(|version| &**version);
        version.ok_or_else(|| {
            failed(format!(
                "request to convert CR {direction} an invalid group/version: {api_version}"
            ))
        })
    }

    /// Converts objects of other versions; each is pruned by its new schema.
    async fn convert(
        &self,
        hooks: &webhooks::Webhooks,
        objects: Vec<Value>,
        api_version: &str,
    ) -> Result<Vec<Value>, ApiError> {
        let schema = self.version(api_version, "to")?;
        for object in &objects {
            self.version(text(object, "apiVersion"), "from")?;
        }
        let Some(first) = objects.first() else {
            return Ok(Vec::new());
        };
        let calling = |why: String| {
            failed(format!(
                "conversion webhook for {} failed: {why}",
                review::kind(first)
            ))
        };
        let question = review::question(&self.reviews, &objects, api_version).map_err(failed)?;
        let bytes = hooks
            .post(&self.url, &self.bundle, SECONDS, question.body.clone())
            .await
            .map_err(calling)?;
        let answered = question.answer(&bytes).map_err(calling)?;
        let mut converted = review::checked(&objects, answered, api_version).map_err(failed)?;
        for object in &mut converted {
            schema.prune(object);
        }
        Ok(converted)
    }
}

impl Api {
    /// Stored objects in the version of a resource.
    pub(crate) async fn entries_as(
        &self,
        resource: &Resource,
        mut entries: Vec<Arc<Entry>>,
    ) -> Result<Vec<Arc<Entry>>, ApiError> {
        let Some(conversion) = resource.conversion() else {
            return Ok(entries);
        };
        let wanted = resource.api_version();
        let (mut waiting, mut bytes): (Vec<(usize, Converted)>, usize) = (Vec::new(), 0);
        let mut objects = Vec::new();
        for at in 0..entries.len() {
            let entry = Arc::clone(&entries[at]);
            let stored = entry.api_version().unwrap_or_default();
            if stored == wanted && !conversion.reshapes {
                continue;
            }
            let mut object = entry.view().into_owned();
            let key = Conversion::key(&object, entry.revision, &wanted);
            if let Some(kept) = conversion.kept(&key) {
                entries[at] = kept;
                continue;
            }
            if conversion.reshapes {
                conversion.version(stored, "from")?.default(&mut object);
            }
            if stored == wanted {
                conversion.version(stored, "from")?.prune(&mut object);
                entries[at] = entry.with(object);
                continue;
            }
            let size = entry.encoded().len();
            if objects.len() >= REVIEW_OBJECTS_MAX || (bytes + size > REVIEW_BYTES_MAX && !objects.is_empty())
            {
                let asked = std::mem::take(&mut objects);
                let waited = std::mem::take(&mut waiting);
                self.fill(conversion, &mut entries, waited, asked, &wanted)
                    .await?;
                bytes = 0;
            }
            bytes += size;
            objects.push(object);
            waiting.push((at, key));
        }
        self.fill(conversion, &mut entries, waiting, objects, &wanted)
            .await?;
        Ok(entries)
    }

    async fn fill(
        &self,
        conversion: &Conversion,
        entries: &mut [Arc<Entry>],
        waiting: Vec<(usize, Converted)>,
        objects: Vec<Value>,
        wanted: &str,
    ) -> Result<(), ApiError> {
        let converted = conversion.convert(&self.webhooks, objects, wanted).await?;
        for ((at, key), object) in waiting.into_iter().zip(converted) {
            entries[at] = entries[at].with(object);
            conversion.keep(key, &entries[at]);
        }
        Ok(())
    }

    pub(crate) async fn entry_as(
        &self,
        resource: &Resource,
        entry: &Arc<Entry>,
    ) -> Result<Arc<Entry>, ApiError> {
        if resource.conversion().is_none() {
            return Ok(Arc::clone(entry));
        }
        let mut shown = self.entries_as(resource, vec![Arc::clone(entry)]).await?;
        shown
            .pop()
            .ok_or_else(|| ApiError::internal("a conversion returned no object"))
    }

    /// An object to return, in the version of a resource.
    pub(crate) async fn object_as(&self, resource: &Resource, object: Object) -> Result<Object, ApiError> {
        match object {
            Object::Stored(entry) => self.entry_as(resource, &entry).await.map(Object::Stored),
            Object::Built(value) => {
                let value = self.value_as(resource, *value, &resource.api_version()).await?;
                Ok(Object::Built(Box::new(value)))
            }
        }
    }

    /// An object as the store keeps it.
    pub(crate) async fn to_storage(&self, resource: &Resource, object: Value) -> Result<Value, ApiError> {
        match resource.conversion() {
            Some(conversion) => self.value_as(resource, object, &conversion.storage).await,
            None => Ok(object),
        }
    }

    async fn value_as(
        &self,
        resource: &Resource,
        object: Value,
        api_version: &str,
    ) -> Result<Value, ApiError> {
        match resource.conversion() {
            Some(conversion) if text(&object, "apiVersion") != api_version => {
                let mut converted = conversion
                    .convert(&self.webhooks, vec![object], api_version)
                    .await?;
                converted
                    .pop()
                    .ok_or_else(|| ApiError::internal("a conversion returned no object"))
            }
            _ => Ok(object),
        }
    }
}

impl Resource {
    /// The webhook that converts between its versions.
    pub(crate) fn conversion(&self) -> Option<&Conversion> {
        self.derived.conversion.as_deref()
    }

    /// Whether a write of the same object would store it in another version.
    pub(crate) fn moves(&self, entry: &Entry) -> bool {
        self.conversion()
            .is_some_and(|conversion| entry.api_version() != Some(&conversion.storage))
    }
}

/// Upstream answers these with 500 and no reason.
fn failed(message: String) -> ApiError {
    ApiError::new(500, "", message, None)
}
