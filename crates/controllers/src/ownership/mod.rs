//! Which owner wants and holds which objects, as values. Owners are of any kind that applies objects;
//! each controller hands over a [`Declaration`](declaration::Declaration).

pub mod access_reviews;
pub(crate) mod announcements;
pub(crate) mod arbitration;
pub mod claims;
pub mod contest;
pub mod declaration;
pub mod desired;
pub mod graph;
pub mod other_shards;
pub(crate) mod pending;
mod relations;
pub(crate) mod retained;
pub(crate) mod survey;
mod taken;
