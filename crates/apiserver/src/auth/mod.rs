//! Authentication and authorization.
//!
//! All decisions are pure: RBAC objects, an identity and a request's attributes in, a decision and its text
//! out. Not supported: webhooks, client certificates and OIDC.

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
