//! Authentication and authorization.
//!
//! | module | decides |
//! |---|---|
//! | [`identity`] | the groups of a caller |
//! | [`authenticate`] | the identity of a request |
//! | `issued` | the identity of a token issued here |
//! | `impersonate` | whether one identity may act as another |
//! | `rbac` | whether an identity may perform a request |
//! | `escalation` | whether writing a role or binding grants more than the writer has |
//! | `aggregate` | the rules of an aggregated ClusterRole |
//! | `authority` | all of it over a store, parsed once per change |
//! | `bootstrap` | the roles and bindings of a new cluster |
//!
//! All decisions are pure: RBAC objects, an identity and a request's attributes in, a decision and its text
//! out. Not supported: webhooks, client certificates, OIDC and the review APIs.

pub(crate) mod aggregate;
pub(crate) mod authenticate;
mod authority;
pub(crate) mod bootstrap;
pub(crate) mod escalation;
pub(crate) mod identity;
pub(crate) mod impersonate;
pub(crate) mod issued;
pub(crate) mod rbac;

pub(crate) use authenticate::Authenticator;
pub use authenticate::Token;
pub use identity::Identity;

pub(crate) use authority::Authority;
pub(crate) use rbac::Attributes;

#[cfg(test)]
mod tests;
