//! The embedded Kubernetes API: a kube-apiserver in a tower service.
//!
//! One generic registry over JSON, driven by schemas and one strategy per kind; no handler per kind. The
//! state is a set of persistent maps with a single writer. Equate's own kinds are not special: their CRDs
//! arrive by POST.
//!
//! | module | contents |
//! |---|---|
//! | [`cluster`] | builds and serves a cluster |
//! | `http` | requests: parsing, negotiation, verbs, watch streams |
//! | `pipeline` | the steps between request and store |
//! | `registry` | the resources and their behaviour |
//! | [`store`] | objects, revisions, snapshots, events, the journal |
//! | `builtin` | defaults, normal forms and validation of the built-in kinds |
//! | `crd` | custom resource definitions, and validation by their schemas |
//! | `managed_fields` | field ownership |
//! | `auth` | authentication and authorization |
//! | `policies` | admission policies |
//! | `quota` | resource quotas and limit ranges |
//! | `controllers` | garbage collection, namespaces, CRDs |
//! | `discovery`, `openapi`, `table` | discovery, schemas and printed columns |

mod auth;
mod builtin;
mod catalog;
pub mod cluster;
mod controllers;
mod conversion;
mod crd;
mod discovery;
mod field;
mod http;
mod managed_fields;
mod openapi;
mod pipeline;
mod pod_security;
mod policies;
mod quota;
mod random;
mod registry;
mod selector;
mod status;
pub mod store;
mod table;
mod webhooks;

pub use auth::{Identity, Token};
pub use cluster::{EmbeddedCluster, Pace, serve_http};
pub use controllers::{Profile, Simulation};
pub use random::NoRandomNumbers;
