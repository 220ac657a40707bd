//! Who asks, and whether they may.
//!
//! | module | what it answers |
//! |---|---|
//! | [`identity`] | who a caller is |
//! | [`authenticate`] | which identity a request carries |
//! | `issued` | which identities the tokens have that were asked for here |
//! | `impersonate` | whether one identity may act as another |
//! | `rbac` | whether an identity may do what it asks |
//! | `escalation` | whether writing a role or binding grants more than the writer has |
//! | `aggregate` | the rules of a ClusterRole that gathers others |
//! | `authority` | all of it over a store, parsed once per change |
//! | `bootstrap` | the roles and bindings a new cluster starts with |
//!
//! All decisions are pure: a view of the RBAC objects, an identity and the
//! attributes of a request in, a decision and its text out. Nothing here
//! writes. It refuses webhooks, client certificates, OIDC and the review APIs.

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
