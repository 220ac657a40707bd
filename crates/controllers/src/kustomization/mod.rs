//! Keeps what a Kustomization declares applied: its source's objects, healthy, and nothing else.
//!
//! | file | answers |
//! |---|---|
//! | `declared` | what the custom resource asks for, and which of its fields have no meaning yet |
//! | `index` | who has to run when a Kustomization or a source changes |
//! | `decide` | what to do, from what was seen |
//! | `reasons` | why it is not ready, and when it is worth another try |
//! | `corrections` | how often drift is corrected |
//! | `report` | what the status says then |

pub mod corrections;
pub mod decide;
pub mod declared;
pub mod index;
pub mod reasons;
pub mod report;
#[cfg(test)]
mod tests;
pub mod tree;
