//! The Kustomization of this process itself (`equate up`): the engine's manifests in its directory stand
//! for this process and are never applied.

/// The Kustomization of this process itself. Its directory may hold the manifests of an engine, which
/// are never applied.
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
    /// Whether a file of the source declares the process itself, as `flux bootstrap` writes it.
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

/// Normalizes a path: `./clusters/dev/` is `clusters/dev`. It never leaves the source: `../apps` is
/// `apps`, as in Flux.
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
