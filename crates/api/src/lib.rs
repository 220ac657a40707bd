//! The custom resource types and their definitions.
