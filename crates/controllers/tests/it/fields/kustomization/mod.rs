//! Kustomization.

pub(in crate::fields) mod access;
mod apply;
mod build;
mod decrypt;
mod depend;
mod health;
mod ignore;
mod object;
mod sources;
mod status;
mod substitute;
