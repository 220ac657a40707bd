//! The embedded Kubernetes API: a kube-apiserver in a tower service.
//!
//! One generic registry over JSON, driven by schemas and by one strategy
//! per kind; no handler per kind. The state is a set of persistent maps with a
//! single writer. It knows nothing of Equate's own kinds: their CRDs arrive by
//! POST like anyone's.
//!
//! | module | what it does |
//! |---|---|
//! | [`cluster`] | builds and serves a cluster |
//! | `http` | requests: parsing, negotiation, verbs, watch streams |
//! | `pipeline` | what happens to an object between request and store |
//! | `registry` | which resources exist and how each behaves |
//! | [`store`] | objects, revisions, snapshots, events, the journal |
//! | `builtin` | defaults, normal forms and validation of the built-in kinds |
//! | `crd` | custom resource definitions and what their schemas demand |
//! | `managed_fields` | who owns which field |
//! | `auth` | who asks, and whether they may |
//! | `controllers` | garbage collection, namespaces, CRDs: what must happen later |
//! | `discovery`, `openapi`, `table` | how the API describes and prints itself |

mod auth;
mod builtin;
mod catalog;
pub mod cluster;
mod controllers;
mod crd;
mod discovery;
mod field;
mod http;
mod managed_fields;
mod openapi;
mod pipeline;
mod registry;
mod selector;
mod status;
pub mod store;
mod table;

pub use auth::{Identity, Token};
pub use cluster::EmbeddedCluster;
pub use controllers::{Profile, Simulation};
