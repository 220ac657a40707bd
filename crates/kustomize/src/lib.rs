//! kustomize build, pure: a tree and a spec in, objects out.
