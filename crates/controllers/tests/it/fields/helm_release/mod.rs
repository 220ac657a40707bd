//! HelmRelease.
