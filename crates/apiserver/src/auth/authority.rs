//! Access decisions over a store: the RBAC objects of a snapshot, parsed once per change.

use super::escalation::check_write;
use super::identity::{Identity, MASTERS};
use super::rbac::{Attributes, Decision, GROUP, RbacView, authorize, forbidden};
use super::{Authenticator, impersonate};
use crate::status::{ApiError, GroupResource};
use crate::store::{ResourceId, Snapshot};
use http::{Extensions, HeaderMap};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

/// Who may do what in one cluster.
#[derive(Debug)]
pub(crate) struct Authority {
    authenticator: Authenticator,
    resources: [ResourceId; 4],
    /// The newest view, by the revisions at which its four resources last changed.
    cached: Mutex<Option<([u64; 4], Arc<RbacView>)>>,
}

impl Authority {
    /// Identities by `authenticator`, rights by the RBAC objects of the snapshots it is shown.
    pub(crate) fn new(authenticator: Authenticator) -> Self {
        let plurals = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
        Self {
            authenticator,
            resources: plurals.map(|plural| ResourceId::new(GROUP, plural)),
            cached: Mutex::new(None),
        }
    }

    /// Who a request comes from, before impersonation.
    ///
    /// # Errors
    /// 401.
    pub(crate) fn authenticate(
        &self,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Identity, ApiError> {
        self.authenticator.authenticate(headers, extensions)
    }

    /// Who the request goes on as: the caller, or whom its headers ask to act as if it may.
    ///
    /// # Errors
    /// 400 for headers that name no user; 403.
    pub(crate) fn impersonate(
        &self,
        snapshot: &Snapshot,
        caller: Identity,
        headers: &HeaderMap,
        request: &Attributes,
    ) -> Result<Identity, ApiError> {
        match impersonate::wanted(headers)? {
            None => Ok(caller),
            Some(wanted) => impersonate::impersonate(&self.view(snapshot), &caller, &wanted, request),
        }
    }

    /// Whether `who` may do what `request` asks, and why.
    pub(crate) fn decide(&self, snapshot: &Snapshot, who: &Identity, request: &Attributes) -> Decision {
        if who.in_group(MASTERS) {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        authorize(&self.view(snapshot), who, request)
    }

    /// [`decide`](Self::decide), with the 403 of a denial.
    ///
    /// # Errors
    /// 403.
    pub(crate) fn require(
        &self,
        snapshot: &Snapshot,
        who: &Identity,
        request: &Attributes,
    ) -> Result<(), ApiError> {
        let decision = self.decide(snapshot, who, request);
        if decision.allowed {
            Ok(())
        } else {
            Err(forbidden(who, request, &decision.reason))
        }
    }

    /// Whether writing `object` to a role or binding grants no more than `who` holds; other resources pass.
    ///
    /// `name` is the one in the URL: empty for a POST.
    ///
    /// # Errors
    /// 403, or 404 for a binding to an absent role.
    pub(crate) fn check_escalation(
        &self,
        snapshot: &Snapshot,
        who: &Identity,
        (resource, namespace, name): (&GroupResource, &str, &str),
        object: &Value,
        stored: Option<&Value>,
    ) -> Result<(), ApiError> {
        if resource.group != GROUP || who.in_group(MASTERS) {
            return Ok(());
        }
        let request = Attributes {
            group: resource.group.clone(),
            resource: resource.resource.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        };
        check_write(&self.view(snapshot), who, &request, object, stored)
    }

    fn view(&self, snapshot: &Snapshot) -> Arc<RbacView> {
        let revisions = self.resources.each_ref().map(|r| snapshot.modified(r));
        let mut cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, view)) = &*cached
            && *at == revisions
        {
            return Arc::clone(view);
        }
        let [cluster_roles, roles, cluster_bindings, bindings] = self
            .resources
            .each_ref()
            .map(|r| snapshot.list(r, None).map(|(_, entry)| entry.object()));
        let view = Arc::new(RbacView::new(cluster_roles, roles, cluster_bindings, bindings));
        *cached = Some((revisions, Arc::clone(&view)));
        view
    }
}
