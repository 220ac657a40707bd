//! Environments, versions and promotions of a repository.
//!
//! Everything here is a function of a tree, a request, facts and a time. The crate does no I/O, and knows
//! neither git nor a cluster: callers adapt their tree and give commits and observations as values.
//!
//! | module | purpose |
//! |---|---|
//! | [`config`] | `equate.yaml`: environments, services, rules; understood by convention without the file |
//! | [`layout`] | directories of a tree that look like environments |
//! | [`artifact`] | immutable sets of versions, and their ids |
//! | [`field`] | version fields of built objects |
//! | [`site`] | places in files that set a version |
//! | [`fleet`] | all environments, built |
//! | [`edit`] | the smallest edits that set a version, proven by building again |
//! | [`overlay`] | a tree with edited files |
//! | [`rules`] | soak, freeze windows, holds, required health: verdicts with file and line |
//! | [`hold`] | holds as files |
//! | [`plan`] | a promotion as data |
//! | [`doctor`] | checks of a repository before a promotion surprises |
//! | [`record`] | commit messages, trailers and notes |
//! | [`history`] | the history of versions, from commits alone |

pub mod artifact;
pub mod config;
pub mod doctor;
pub mod edit;
pub mod field;
pub mod fleet;
pub mod history;
pub mod hold;
pub mod layout;
pub mod overlay;
pub mod plan;
pub mod record;
pub mod rules;
pub mod site;
