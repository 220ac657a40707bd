//! The Kustomization that stands for this very process (`equate up`): the manifests of the engine in its
//! directory are understood as this process, never applied.

/// The Kustomization of this very process (`equate up`), whose directory may hold the manifests of
/// the engine that is asked to run here: they are understood as this one, never applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnLoop {
    /// Its name, `flux-system`.
    pub name: String,
    /// Its namespace, `flux-system`.
    pub namespace: String,
    /// Its `spec.path`.
    pub path: String,
}

impl OwnLoop {
    /// Whether a file of the source declares the loop itself, as `flux bootstrap` writes it.
    pub(crate) fn declares(&self, file: &str) -> bool {
        let root = inside(&self.path);
        let below = match root.as_str() {
            "" => Some(file),
            root => file.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')),
        };
        matches!(
            below,
            Some("flux-system/gotk-components.yaml" | "flux-system/gotk-sync.yaml")
        )
    }
}

/// A path as trees have it: `./clusters/dev/` is `clusters/dev`. It stays inside the source whatever it
/// says: `../apps` is `apps`, as in Flux.
pub(crate) fn inside(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_inside_the_source() {
        for (path, expected) in [
            ("", ""),
            ("./", ""),
            ("./clusters//dev/", "clusters/dev"),
            ("/clusters/./dev", "clusters/dev"),
            ("clusters/../apps", "apps"),
            ("../apps/dev", "apps/dev"),
            ("../../..", ""),
        ] {
            assert_eq!(inside(path), expected, "{path}");
        }
    }
}
