//! An object of any kind, for code that lists all kinds (`equate up`) and knows none.

use equate_api::kustomize::InventoryEntry;
use equate_api::meta::Condition;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::controller::{Reconcilable, Status};

/// An object that a controller follows, of any kind.
pub trait Listed: Send + Sync {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Whether it is suspended.
    fn is_suspended(&self) -> bool;

    /// Whether nothing is done for it, so that it never gets conditions.
    fn is_static(&self) -> bool;

    /// `status.conditions`, and their `status.observedGeneration`.
    fn observed(&self) -> (&[Condition], Option<i64>);

    /// The current revision.
    fn revision(&self) -> Option<&str>;

    /// The time since when it has its revision, if its status tells.
    fn revision_time(&self) -> Option<Timestamp>;

    /// The inventory in its status.
    fn inventory(&self) -> &[InventoryEntry];
}

impl<K: Reconcilable> Listed for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn is_suspended(&self) -> bool {
        Reconcilable::is_suspended(self)
    }

    fn is_static(&self) -> bool {
        Reconcilable::is_static(self)
    }

    fn observed(&self) -> (&[Condition], Option<i64>) {
        self.status().map_or((&[], None), Status::observed)
    }

    fn revision(&self) -> Option<&str> {
        Reconcilable::revision(self)
    }

    fn revision_time(&self) -> Option<Timestamp> {
        Reconcilable::revision_time(self)
    }

    fn inventory(&self) -> &[InventoryEntry] {
        Reconcilable::inventory(self)
    }
}
