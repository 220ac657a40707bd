//! Kustomization.

mod apply;
mod build;
mod decrypt;
mod depend;
mod health;
mod object;
mod status;
mod substitute;
