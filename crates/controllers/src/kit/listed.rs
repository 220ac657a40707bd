//! An object of any kind as a list shows it.
//!
//! What lists all kinds together (`equate up`) reads objects through this and knows no kind.

use equate_api::kustomize::InventoryEntry;
use equate_api::meta::Condition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::controller::{Reconcilable, Status};

/// An object that a controller follows, whatever its kind.
pub trait Listed: Send + Sync {
    /// Its metadata.
    fn metadata(&self) -> &ObjectMeta;

    /// Whether its controller leaves it alone.
    fn is_suspended(&self) -> bool;

    /// `status.conditions`, and the `status.observedGeneration` that they are of.
    fn observed(&self) -> (&[Condition], Option<i64>);

    /// The revision that it stands at.
    fn revision(&self) -> Option<&str>;

    /// What it applied, by its status.
    fn inventory(&self) -> &[InventoryEntry];
}

impl<K: Reconcilable> Listed for K {
    fn metadata(&self) -> &ObjectMeta {
        self.meta()
    }

    fn is_suspended(&self) -> bool {
        Reconcilable::is_suspended(self)
    }

    fn observed(&self) -> (&[Condition], Option<i64>) {
        self.status().map_or((&[], None), Status::observed)
    }

    fn revision(&self) -> Option<&str> {
        Reconcilable::revision(self)
    }

    fn inventory(&self) -> &[InventoryEntry] {
        Reconcilable::inventory(self)
    }
}
