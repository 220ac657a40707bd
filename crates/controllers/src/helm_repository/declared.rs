//! A HelmRepository as this controller reads it: parsed once.

use std::time::Duration;

use equate_api::source::{HelmRepository, HelmRepositoryType};
use equate_source::{Place, PlaceError, Publisher};
use reqwest::Url;

use super::{ABOUT, INTERVAL};
use crate::Key;
use crate::kit::controller::Reconcilable as _;
use crate::sources::charts::{AccessSpec, home, timeout};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Declared {
    pub(crate) key: Key,
    pub(crate) publisher: Publisher,
    pub(crate) generation: i64,
    pub(crate) deleting: bool,
    /// Whether it is of type `oci`.
    pub(crate) is_static: bool,
    /// As in the spec.
    pub(crate) url: String,
    /// Without an index.yaml; the text says why there is none.
    pub(crate) home: Result<Url, String>,
    pub(crate) interval: Duration,
    pub(crate) timeout: Duration,
    pub(crate) access: AccessSpec,
}

impl TryFrom<&HelmRepository> for Declared {
    type Error = PlaceError;

    /// Fails for names that no API server accepts.
    fn try_from(object: &HelmRepository) -> Result<Self, PlaceError> {
        let (meta, spec) = (&object.metadata, &object.spec);
        let key = Key::of(meta);
        Ok(Self {
            publisher: Publisher::new(
                Place::new(ABOUT.kind, &key.namespace, &key.name)?,
                meta.uid.clone().unwrap_or_default(),
            ),
            key,
            generation: meta.generation.unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
            is_static: spec.kind == Some(HelmRepositoryType::Oci),
            url: spec.url.clone(),
            home: home(&spec.url),
            interval: object.interval(),
            timeout: timeout(spec),
            access: spec.into(),
        })
    }
}

impl Declared {
    pub(crate) fn interval_or_default(&self) -> Duration {
        match self.interval.is_zero() {
            true => INTERVAL,
            false => self.interval,
        }
    }
}
