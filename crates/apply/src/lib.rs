//! Plan, inventory, prune and health; and the executor that talks to the cluster.
//!
//! Planning is pure: what git wants, what was applied before and what the cluster holds go in, a
//! [`plan::Plan`] comes out, which is plain data and says for every object what happens to it and
//! why. Only [`cluster`] does anything, and only it can say that something was applied. This crate
//! refuses to know where objects come from, to keep them, and to watch: its callers do.
//!
//! | module | what it answers |
//! |---|---|
//! | [`id`], [`inventory`] | what an object is called; what was applied |
//! | [`owner`], [`policy`] | whose it is; how it wants to be treated |
//! | [`desired`], [`observed`] | an object as git wants it; as the cluster has it |
//! | [`owned`] | the digest of the fields that are ours |
//! | [`health`] | whether an object does what it was applied for |
//! | [`rules`], [`pointer`](mod@pointer) | an owner's own words for that, and the fields it does not mind |
//! | [`order`] | what is applied before what |
//! | [`container`] | what else goes when an object is deleted |
//! | [`plan`] | what to do, and why |
//! | [`difference`] | which fields would change |
//! | [`segment`] | a name in the address of a request |
//! | [`cluster`] | doing it |

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
