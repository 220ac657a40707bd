//! Impersonation: the `Impersonate-*` headers and the right to use them.
//!
//! kube-apiserver 1.36 tries the constrained modes first (KEP 5284: the verb `impersonate:MODE` on the
//! identity together with `impersonate-on:MODE:VERB` on the target), then the verb `impersonate`, which
//! permits everything. A denial has the text of the first mode that applied.
//!
//! Upstream remembers per caller which mode last succeeded and reports that mode's error first. This server
//! does not.

use super::identity::{ANONYMOUS, AUTHENTICATED, Identity, MASTERS, UNAUTHENTICATED};
use super::identity::{service_account_groups, split_node, split_service_account};
use super::rbac::{Attributes, RbacView, forbidden, require};
use crate::field::{FieldError, go_quote};
use crate::status::ApiError;
use http::HeaderMap;
use serde_json::Value;
use std::collections::BTreeMap;

const AUTHENTICATION: &str = "authentication.k8s.io";
const EXTRA_PREFIX: &str = "impersonate-extra-";
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";
const NODES: &str = "system:nodes";
/// From this many values on, one check for all of them is tried before one for each.
const MANY: usize = 4;

/// The identity in the headers, unchanged; `None` without such headers.
pub(crate) fn wanted(headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA_PREFIX) {
            extra.entry(unescape(key)).or_default().push(text(value));
        }
    }
    let asked = Identity {
        name: first("impersonate-user"),
        uid: first("impersonate-uid"),
        groups: headers.get_all("impersonate-group").iter().map(text).collect(),
        extra,
    };
    if !asked.name.is_empty() {
        return Ok(Some(asked));
    }
    if asked.uid.is_empty() && asked.groups.is_empty() && asked.extra.is_empty() {
        return Ok(None);
    }
    Err(ApiError::bad_request(format!(
        "requested {} without impersonating a user name",
        go_struct(&asked)
    )))
}

fn unescape(key: &str) -> String {
    let bytes = key.as_bytes();
    let escape_is_whole = |i: usize| matches!(bytes.get(i + 1..i + 3), Some([a, b]) if a.is_ascii_hexdigit() && b.is_ascii_hexdigit());
    let well_formed = (0..bytes.len()).all(|i| bytes[i] != b'%' || escape_is_whole(i));
    if well_formed {
        percent_encoding::percent_decode_str(key)
            .decode_utf8_lossy()
            .into_owned()
    } else {
        key.to_owned()
    }
}

fn go_struct(who: &Identity) -> String {
    let list = |items: &[String]| {
        let quoted: Vec<String> = items.iter().map(|s| go_quote(s)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if who.groups.is_empty() {
        "[]string(nil)".to_owned()
    } else {
        list(&who.groups)
    };
    let extra = if who.extra.is_empty() {
        "map[string][]string(nil)".to_owned()
    } else {
        let entries: Vec<String> = who
            .extra
            .iter()
            .map(|(key, values)| format!("{}:{}", go_quote(key), list(values)))
            .collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    format!(
        "&user.DefaultInfo{{Name:{}, UID:{}, Groups:{groups}, Extra:{extra}}}",
        go_quote(&who.name),
        go_quote(&who.uid)
    )
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    AssociatedNode,
    ArbitraryNode,
    ServiceAccount,
    UserInfo,
    Legacy,
}

impl Mode {
    const ALL: [Self; 5] = [
        Self::AssociatedNode,
        Self::ArbitraryNode,
        Self::ServiceAccount,
        Self::UserInfo,
        Self::Legacy,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => "",
        }
    }

    fn verb(self) -> String {
        match self {
            Self::Legacy => "impersonate".to_owned(),
            _ => format!("impersonate:{}", self.name()),
        }
    }

    fn applies(self, wanted: &Identity, requestor: &Identity) -> bool {
        let only_name = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let node = split_node(&wanted.name);
        let service_account = wanted.as_service_account().is_some();
        match self {
            Self::AssociatedNode => only_name && node.is_some_and(|node| runs_on(requestor, node)),
            Self::ArbitraryNode => only_name && node.is_some(),
            Self::ServiceAccount => only_name && service_account,
            Self::UserInfo => node.is_none() && !service_account,
            Self::Legacy => true,
        }
    }
}

fn runs_on(requestor: &Identity, node: &str) -> bool {
    requestor.as_service_account().is_some()
        && matches!(requestor.extra.get(NODE_NAME).map(Vec::as_slice), Some([one]) if one == node)
}

/// The identity that the request continues with, if `requestor` may impersonate `wanted` for `request`.
pub(crate) fn impersonate(
    view: &RbacView,
    requestor: &Identity,
    wanted: &Identity,
    request: &Attributes,
) -> Result<Identity, ApiError> {
    let mut first = None;
    for mode in Mode::ALL {
        if !mode.applies(wanted, requestor) {
            continue;
        }
        let check = Check {
            view,
            requestor,
            mode,
        };
        match check.run(wanted, request) {
            Ok(identity) => return Ok(identity),
            Err(error) => first = first.or(Some(error)),
        }
    }
    // The legacy mode always applies and leaves an error here; should it not, refuse.
    Err(first.unwrap_or_else(|| forbidden(requestor, request, "")))
}

struct Check<'a> {
    view: &'a RbacView,
    requestor: &'a Identity,
    mode: Mode,
}

impl Check<'_> {
    fn run(&self, wanted: &Identity, request: &Attributes) -> Result<Identity, ApiError> {
        if self.constrained() {
            self.require(&Attributes {
                verb: format!("impersonate-on:{}:{}", self.mode.name(), request.verb),
                ..request.clone()
            })?;
        }
        let mut actual = wanted.clone();
        self.name(wanted, &mut actual)?;
        if !wanted.uid.is_empty() {
            self.require(&self.attributes(AUTHENTICATION, "uids", &wanted.uid))?;
        }
        self.groups(&wanted.groups)?;
        self.extra(&wanted.extra)?;
        if actual.name == ANONYMOUS {
            actual.add_group(UNAUTHENTICATED);
        } else if !actual.in_group(UNAUTHENTICATED) {
            actual.add_group(AUTHENTICATED);
        }
        Ok(actual)
    }

    fn constrained(&self) -> bool {
        self.mode != Mode::Legacy
    }

    fn require(&self, attributes: &Attributes) -> Result<(), ApiError> {
        require(self.view, self.requestor, attributes)
    }

    fn attributes(&self, group: &str, resource: &str, name: &str) -> Attributes {
        Attributes {
            verb: self.mode.verb(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            name: name.to_owned(),
            ..Attributes::default()
        }
    }

    /// The group of users and groups: the legacy verb has them in the core group.
    fn user_group(&self) -> &'static str {
        if self.constrained() { AUTHENTICATION } else { "" }
    }

    fn name(&self, wanted: &Identity, actual: &mut Identity) -> Result<(), ApiError> {
        let mut attributes = self.attributes(self.user_group(), "users", &wanted.name);
        if let Some(node) = split_node(&wanted.name).filter(|_| self.constrained()) {
            attributes.resource = "nodes".to_owned();
            // The right is for whichever node the caller runs on.
            attributes.name = if self.mode == Mode::AssociatedNode {
                "*"
            } else {
                node
            }
            .to_owned();
            actual.groups = vec![NODES.to_owned()];
        } else if let Some((namespace, name)) = split_service_account(&wanted.name) {
            attributes.resource = "serviceaccounts".to_owned();
            attributes.namespace = namespace.to_owned();
            attributes.name = name.to_owned();
            if wanted.groups.is_empty() {
                actual.groups = service_account_groups(namespace).into();
            }
        }
        self.require(&attributes)
    }

    fn groups(&self, groups: &[String]) -> Result<(), ApiError> {
        let mut attributes = self.attributes(self.user_group(), "groups", "");
        if self.constrained() {
            if groups.iter().any(String::is_empty) {
                let why = "impersonating the empty string group is not allowed";
                return Err(forbidden(self.requestor, &attributes, why));
            }
            if groups.iter().any(|g| g == MASTERS) {
                attributes.name = MASTERS.to_owned();
                let why = "impersonating the system:masters group is not allowed";
                return Err(forbidden(self.requestor, &attributes, why));
            }
            attributes.name = "*".to_owned();
            if groups.len() >= MANY && self.require(&attributes).is_ok() {
                return Ok(());
            }
        }
        for group in groups {
            attributes.name.clone_from(group);
            self.require(&attributes)?;
        }
        Ok(())
    }

    fn extra(&self, extra: &BTreeMap<String, Vec<String>>) -> Result<(), ApiError> {
        let mut attributes = self.attributes(AUTHENTICATION, "userextras", "");
        if self.constrained() {
            if let Some(why) = extra_refused(extra) {
                return Err(forbidden(self.requestor, &attributes, &why));
            }
            let values: usize = extra.values().map(Vec::len).sum();
            if extra.len().max(values) >= MANY {
                attributes.subresource = "*".to_owned();
                attributes.name = "*".to_owned();
                if self.require(&attributes).is_ok() {
                    return Ok(());
                }
            }
        }
        for (key, values) in extra {
            attributes.subresource.clone_from(key);
            for value in values {
                attributes.name.clone_from(value);
                self.require(&attributes)?;
            }
        }
        Ok(())
    }
}

/// The constrained modes refuse some extras. Header names are lowercase already.
fn extra_refused(extra: &BTreeMap<String, Vec<String>>) -> Option<String> {
    extra.iter().find_map(|(key, values)| {
        if key.is_empty() {
            return Some("impersonating the empty string key in extra is not allowed".to_owned());
        }
        let prefixed = key.split_once('/');
        if !prefixed.is_some_and(|(domain, path)| !domain.is_empty() && !path.is_empty()) {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            let error = FieldError::invalid("extra.key", &Value::from(key.as_str()), why);
            return Some(format!(
                "impersonating an invalid key in extra is not allowed: {error}"
            ));
        }
        let empty = values.iter().any(String::is_empty);
        empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
    })
}
