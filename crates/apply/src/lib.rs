//! Plan, inventory, prune and health; and the executor that talks to the cluster.

pub mod health;
