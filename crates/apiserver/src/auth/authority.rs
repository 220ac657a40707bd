//! Access decisions over a store. The RBAC objects are parsed once per change.

use super::authenticate::bearer;
use super::escalation::check_write;
use super::identity::{Identity, MASTERS};
use super::issued::{AUDIENCE, IssuedTokens, TokenGrant};
use super::rbac::{Attributes, Decision, GROUP, RbacView, Rule, authorize, forbidden};
use super::{Authenticator, impersonate};
use crate::status::{ApiError, GroupResource};
use crate::store::{Key, ResourceId, Snapshot};
use http::{Extensions, HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct Authority {
    authenticator: Authenticator,
    issued: IssuedTokens,
    trusted: Vec<IssuedTokens>,
    accounts: ResourceId,
    resources: [ResourceId; 4],
    /// The newest view, with the revisions at which its four resources last changed.
    cached: Mutex<Option<([u64; 4], Arc<RbacView>)>>,
}

impl Authority {
    pub(crate) fn new(authenticator: Authenticator, issued: IssuedTokens) -> Self {
        let plurals = ["clusterroles", "roles", "clusterrolebindings", "rolebindings"];
        Self {
            authenticator,
            issued,
            trusted: Vec::new(),
            accounts: ResourceId::new("", "serviceaccounts"),
            resources: plurals.map(|plural| ResourceId::new(GROUP, plural)),
            cached: Mutex::new(None),
        }
    }

    #[must_use]
    pub(crate) fn trusting(mut self, trusted: Vec<IssuedTokens>) -> Self {
        self.trusted = trusted;
        self
    }

    pub(crate) fn issued(&self) -> &IssuedTokens {
        &self.issued
    }

    /// The identity of a request, before impersonation.
    pub(crate) fn authenticate(
        &self,
        snapshot: &Snapshot,
        now: Timestamp,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Identity, ApiError> {
        let unknown = match self.authenticator.authenticate(headers, extensions) {
            Ok(identity) => return Ok(identity),
            Err(unknown) => unknown,
        };
        let token = bearer(headers).ok_or(unknown)?;
        self.grant(snapshot, now, token, &[AUDIENCE])
            .map(|(grant, id)| grant.identity(&id))
            .ok_or_else(ApiError::unauthorized)
    }

    /// The grant and the id of a ServiceAccount's token.
    fn grant(
        &self,
        snapshot: &Snapshot,
        now: Timestamp,
        token: &str,
        audiences: &[&str],
    ) -> Option<(TokenGrant, String)> {
        let own = self
            .issued
            .find(token, audiences, now)
            .filter(|(grant, _)| is_alive(snapshot, &self.accounts, grant));
        own.or_else(|| {
            self.trusted
                .iter()
                .find_map(|issued| issued.find(token, audiences, now))
        })
    }

    /// The identity after impersonation: the caller's own if no headers ask for another.
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

    pub(crate) fn decide(&self, snapshot: &Snapshot, who: &Identity, request: &Attributes) -> Decision {
        if who.in_group(MASTERS) {
            return Decision {
                allowed: true,
                reason: String::new(),
            };
        }
        authorize(&self.view(snapshot), who, request)
    }

    /// The holder of a token, and those of `audiences` for which it is meant.
    pub(crate) fn holder(
        &self,
        snapshot: &Snapshot,
        now: Timestamp,
        token: &str,
        audiences: &[&str],
    ) -> Option<(Identity, Vec<String>)> {
        if let Some((grant, id)) = self.grant(snapshot, now, token, audiences) {
            let meant = grant.audiences.iter();
            let meant = meant.filter(|audience| audiences.contains(&audience.as_str()));
            return Some((grant.identity(&id), meant.cloned().collect()));
        }
        if !audiences.contains(&AUDIENCE) {
            return None;
        }
        let value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value)]);
        let identity = self
            .authenticator
            .authenticate(&headers, &Extensions::new())
            .ok()?;
        Some((identity, vec![AUDIENCE.to_owned()]))
    }

    /// The rules that apply in a namespace, and the roles that could not be read.
    pub(crate) fn rules(
        &self,
        snapshot: &Snapshot,
        who: &Identity,
        namespace: &str,
    ) -> (Vec<Rule>, Vec<String>) {
        let view = self.view(snapshot);
        let (rules, errors) = view.rules_for(who, namespace);
        (rules.into_iter().cloned().collect(), errors)
    }

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

    /// Checks that writing `object`, a role or binding, grants no more than `who` has. Other resources
    /// pass.
    ///
    /// `name` is the one in the URL: empty for a POST.
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

/// The ServiceAccount of a token, and the object that it is bound to, must still be the same.
fn is_alive(snapshot: &Snapshot, accounts: &ResourceId, grant: &TokenGrant) -> bool {
    let has = |resource: &ResourceId, namespace: &str, name: &str, uid: &str| {
        let entry = snapshot.get(&Key::new(resource, namespace, name));
        entry.is_some_and(|entry| entry.object()["metadata"]["uid"] == *uid)
    };
    let bound = grant.bound.as_ref().is_none_or(|bound| {
        let (plural, namespace) = match bound.kind.as_str() {
            "pod" => ("pods", grant.namespace.as_str()),
            "secret" => ("secrets", grant.namespace.as_str()),
            _ => ("nodes", ""),
        };
        has(&ResourceId::new("", plural), namespace, &bound.name, &bound.uid)
    });
    bound && has(accounts, &grant.namespace, &grant.name, &grant.uid)
}
