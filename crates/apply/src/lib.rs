//! Plan, inventory, prune and health; and the executor that talks to the cluster.
//!
//! Planning is pure. Its inputs are the desired objects, the inventory and the observed cluster. Its
//! output is a [`plan::Plan`]: plain data with a step and a reason for every object. Only [`cluster`]
//! acts, and only it can report an object as applied. This crate neither loads, stores nor watches
//! objects: its callers do.
//!
//! | module | contents |
//! |---|---|
//! | [`id`], [`inventory`] | object ids; applied objects |
//! | [`owner`], [`policy`] | owner labels; annotations for apply and prune |
//! | [`desired`], [`observed`] | desired and live objects |
//! | [`owned`] | the digest of the fields we own |
//! | [`health`] | kstatus |
//! | [`rules`], [`pointer`](mod@pointer) | an owner's own health checks and ignored fields |
//! | [`order`] | the order of apply |
//! | [`container`] | objects deleted with another |
//! | [`plan`] | steps and their reasons |
//! | [`difference`] | differing fields |
//! | [`segment`] | names in URL paths |
//! | [`cluster`] | execution |

pub mod cluster;
pub mod container;
pub mod desired;
pub mod difference;
pub mod health;
pub mod id;
mod ignored;
pub mod inventory;
mod normal;
pub mod observed;
pub mod order;
pub mod owned;
pub mod owner;
pub mod plan;
pub mod pointer;
pub mod policy;
pub mod rules;
pub mod segment;
mod takeover;
