//! Kustomization.

mod apply;
mod build;
mod depend;
mod health;
mod object;
mod status;
mod substitute;
