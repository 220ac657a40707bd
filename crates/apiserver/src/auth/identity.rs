//! The identity of a caller, and the groups that follow from its name.

use std::collections::BTreeMap;

/// Its members may do anything; authorization is skipped.
pub(crate) const MASTERS: &str = "system:masters";
pub(crate) const AUTHENTICATED: &str = "system:authenticated";
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";
pub(crate) const ANONYMOUS: &str = "system:anonymous";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// The identity of a caller. Put one into a request's `http::Extensions` to call in-process as that
/// identity.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// The user name: `alice`, `system:serviceaccount:flux-system:kustomize-controller`.
    pub name: String,
    /// An id that survives a change of name; may be empty.
    pub uid: String,
    /// The groups, in the order given.
    pub groups: Vec<String>,
    /// More attributes from the authenticator, by lowercase key.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    /// A user in `groups`, and in the groups that follow from its name.
    pub fn user<G: Into<String>>(name: impl Into<String>, groups: impl IntoIterator<Item = G>) -> Self {
        Self {
            name: name.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
        .completed()
    }

    /// A ServiceAccount of a namespace.
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::user(
            format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"),
            Vec::<String>::new(),
        )
    }

    /// The administrator: a member of `system:masters`.
    pub fn admin() -> Self {
        Self::user("kubernetes-admin", [MASTERS])
    }

    /// An anonymous caller.
    pub fn anonymous() -> Self {
        Self {
            name: ANONYMOUS.to_owned(),
            groups: vec![UNAUTHENTICATED.to_owned()],
            ..Self::default()
        }
    }

    /// Whether it is a member of `group`.
    pub fn in_group(&self, group: &str) -> bool {
        self.groups.iter().any(|g| g == group)
    }

    /// Namespace and name, if it is a ServiceAccount.
    pub fn as_service_account(&self) -> Option<(&str, &str)> {
        split_service_account(&self.name)
    }

    /// Adds the groups that follow from the name and from having one. Idempotent.
    #[must_use]
    pub fn completed(mut self) -> Self {
        let service_account = split_service_account(&self.name).map(|(ns, _)| service_account_groups(ns));
        for group in service_account.into_iter().flatten() {
            self.add_group(&group);
        }
        if !self.in_group(UNAUTHENTICATED) {
            self.add_group(AUTHENTICATED);
        }
        self
    }

    pub(crate) fn add_group(&mut self, group: &str) {
        if !self.in_group(group) {
            self.groups.push(group.to_owned());
        }
    }
}

pub(crate) fn service_account_groups(namespace: &str) -> [String; 2] {
    [
        "system:serviceaccounts".to_owned(),
        format!("system:serviceaccounts:{namespace}"),
    ]
}

/// Namespace and name of `system:serviceaccount:NAMESPACE:NAME`; `None` unless both are valid names.
pub(crate) fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    (is_label(namespace) && is_subdomain(name)).then_some((namespace, name))
}

pub(crate) fn split_node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:")
        .filter(|name| is_subdomain(name))
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_of_any_length(text)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
}
