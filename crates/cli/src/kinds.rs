//! The kinds the commands know, by every name people have for them.
//!
//! Flux's own command line says `sources git`, kubectl `gitrepositories` or
//! `gitrepo`, a manifest `GitRepository`: all are understood, in any case.

use crate::failure::Failure;
use kube::core::ApiResource;
use kube::core::gvk::GroupVersionKind;

/// A kind, and what the commands may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    group: &'static str,
    version: &'static str,
    /// Its name in manifests.
    pub(crate) kind: &'static str,
    /// Its name in URLs, and in what the commands print of several.
    pub(crate) plural: &'static str,
    names: &'static [&'static str],
    family: Option<Family>,
    /// Whether Equate has a controller for it.
    pub(crate) controller: bool,
    /// Whether it has `spec.suspend`.
    pub(crate) suspends: bool,
    /// Whether it has a status, in which a controller reports.
    pub(crate) reports: bool,
}

/// Kinds that Flux's command line lists together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Sources,
    Images,
    Artifacts,
}

const SOURCE: Kind = Kind {
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    kind: "",
    plural: "",
    names: &[],
    family: Some(Family::Sources),
    controller: false,
    suspends: true,
    reports: true,
};
const NOTIFICATION: Kind = Kind {
    group: "notification.toolkit.fluxcd.io",
    version: "v1beta3",
    family: None,
    reports: false,
    ..SOURCE
};
const IMAGE: Kind = Kind {
    group: "image.toolkit.fluxcd.io",
    family: Some(Family::Images),
    ..SOURCE
};

/// All of them, in the order `get all` lists them.
pub(crate) const KINDS: [Kind; 15] = [
    Kind {
        kind: "GitRepository",
        plural: "gitrepositories",
        names: &["gitrepo", "git"],
        controller: true,
        ..SOURCE
    },
    Kind {
        kind: "OCIRepository",
        plural: "ocirepositories",
        names: &["ocirepo", "oci"],
        ..SOURCE
    },
    Kind {
        kind: "HelmRepository",
        plural: "helmrepositories",
        names: &["helmrepo", "helm"],
        ..SOURCE
    },
    Kind {
        kind: "HelmChart",
        plural: "helmcharts",
        names: &["hc", "chart"],
        ..SOURCE
    },
    Kind {
        kind: "Bucket",
        plural: "buckets",
        names: &[],
        ..SOURCE
    },
    Kind {
        kind: "ExternalArtifact",
        plural: "externalartifacts",
        names: &["ea", "external"],
        suspends: false,
        ..SOURCE
    },
    Kind {
        group: "source.extensions.fluxcd.io",
        version: "v1beta1",
        kind: "ArtifactGenerator",
        plural: "artifactgenerators",
        names: &["ag", "generators", "generator"],
        family: Some(Family::Artifacts),
        suspends: false,
        ..SOURCE
    },
    Kind {
        group: "kustomize.toolkit.fluxcd.io",
        kind: "Kustomization",
        plural: "kustomizations",
        names: &["ks"],
        family: None,
        controller: true,
        ..SOURCE
    },
    Kind {
        group: "helm.toolkit.fluxcd.io",
        version: "v2",
        kind: "HelmRelease",
        plural: "helmreleases",
        names: &["hr"],
        family: None,
        ..SOURCE
    },
    Kind {
        kind: "Alert",
        plural: "alerts",
        ..NOTIFICATION
    },
    Kind {
        kind: "Provider",
        plural: "providers",
        names: &["alert-provider", "alert-providers"],
        ..NOTIFICATION
    },
    Kind {
        version: "v1",
        kind: "Receiver",
        plural: "receivers",
        reports: true,
        ..NOTIFICATION
    },
    Kind {
        kind: "ImageRepository",
        plural: "imagerepositories",
        names: &["imgrepo", "imagerepo", "repository"],
        ..IMAGE
    },
    Kind {
        kind: "ImagePolicy",
        plural: "imagepolicies",
        names: &["imgpol", "imagepol", "policy"],
        ..IMAGE
    },
    Kind {
        kind: "ImageUpdateAutomation",
        plural: "imageupdateautomations",
        names: &["iua", "imgupd", "imgauto", "update"],
        ..IMAGE
    },
];

/// Names that are clear only after `sources`, `images` or `artifacts`.
const ONLY_IN_FAMILY: [&str; 11] = [
    "git",
    "oci",
    "helm",
    "chart",
    "external",
    "repository",
    "policy",
    "update",
    "generator",
    "generators",
    "all",
];

/// What is not a kind, or not a name of an object.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KindError {
    /// No kind has this name.
    #[error("{0:?} is no kind Equate knows")]
    Unknown(String),
    /// The family has no such kind.
    #[error("{family} has no {name:?}; it has {known}")]
    NotInFamily {
        /// The family, as written.
        family: String,
        /// The name.
        name: String,
        /// What it has.
        known: String,
    },
    /// One object has to be named.
    #[error("{0:?} names no single kind")]
    Several(String),
    /// More words than a kind and a name.
    #[error("{0:?} is one word too many")]
    TooMany(String),
}

impl Failure for KindError {
    fn hint(&self) -> Option<&'static str> {
        Some("kinds are called as in Flux and kubectl: kustomizations or ks, sources git or gitrepo, hr, ...")
    }
}

impl Kind {
    /// Where it is served.
    pub(crate) fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    /// Its name in what the commands print of one object.
    pub(crate) fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// The plural with its group, as kubectl's `-o name` has it for one object.
    pub(crate) fn qualified(&self) -> String {
        format!("{}.{}", self.singular(), self.group)
    }

    /// The kind of that name in manifests.
    pub(crate) fn of(kind: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|known| known.kind == kind)
    }

    fn is_called(&self, name: &str) -> bool {
        name == self.plural || name == self.singular() || self.names.contains(&name)
    }
}

impl Family {
    fn of(name: &str) -> Option<Self> {
        match name {
            "source" | "sources" => Some(Self::Sources),
            "image" | "images" => Some(Self::Images),
            "artifact" | "artifacts" => Some(Self::Artifacts),
            _ => None,
        }
    }

    fn kinds(self) -> Vec<&'static Kind> {
        KINDS.iter().filter(|kind| kind.family == Some(self)).collect()
    }
}

/// Kinds, and perhaps one object: `all`, `sources`, `sources git [NAME]`, `ks [NAME]`, `ks/NAME`.
pub(crate) fn parse(words: &[String]) -> Result<(Vec<&'static Kind>, Option<String>), KindError> {
    let mut words = words.iter().flat_map(|word| match word.split_once('/') {
        Some((kind, name)) => vec![kind.to_owned(), name.to_owned()],
        None => vec![word.clone()],
    });
    let Some(first) = words.next() else {
        return Ok((KINDS.iter().collect(), None));
    };
    let name = first.to_lowercase();
    let kinds = if name == "all" {
        KINDS.iter().collect()
    } else if let Some(family) = Family::of(&name) {
        match words.next().map(|word| word.to_lowercase()) {
            Some(word) if word != "all" => vec![in_family(family, &first, &word)?],
            _ => family.kinds(),
        }
    } else {
        let known = KINDS
            .iter()
            .find(|kind| kind.is_called(&name) && !ONLY_IN_FAMILY.contains(&name.as_str()));
        vec![known.ok_or(KindError::Unknown(first))?]
    };
    let object = words.next();
    match words.next() {
        Some(extra) => Err(KindError::TooMany(extra)),
        None => Ok((kinds, object)),
    }
}

/// One kind, and perhaps one object of it.
pub(crate) fn parse_one(words: &[String]) -> Result<(&'static Kind, Option<String>), KindError> {
    match parse(words)? {
        (kinds, object) if kinds.len() == 1 => Ok((kinds[0], object)),
        _ => Err(KindError::Several(words.join(" "))),
    }
}

fn in_family(family: Family, said: &str, word: &str) -> Result<&'static Kind, KindError> {
    let kinds = family.kinds();
    let found = kinds.iter().find(|kind| kind.is_called(word)).copied();
    found.ok_or_else(|| KindError::NotInFamily {
        family: said.to_owned(),
        name: word.to_owned(),
        known: kinds
            .iter()
            .map(|kind| kind.plural)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_people_have() {
        let check = |text: &str, expected: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let said = match parse(&words) {
                Ok((kinds, object)) => {
                    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.kind).collect();
                    format!("{} {}", kinds.join(","), object.as_deref().unwrap_or("-"))
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(said, expected, "{text}");
        };
        check("ks", "Kustomization -");
        check("kustomizations apps", "Kustomization apps");
        check("Kustomization/apps", "Kustomization apps");
        check("sources git", "GitRepository -");
        check("source git fleet", "GitRepository fleet");
        check("gitrepo/fleet", "GitRepository fleet");
        check("hc", "HelmChart -");
        check("helm", "\"helm\" is no kind Equate knows");
        check("images", "ImageRepository,ImagePolicy,ImageUpdateAutomation -");
        check(
            "images all",
            "ImageRepository,ImagePolicy,ImageUpdateAutomation -",
        );
        check("image update", "ImageUpdateAutomation -");
        check("artifacts generators", "ArtifactGenerator -");
        check("alert-providers slack", "Provider slack");
        check(
            "images git",
            "images has no \"git\"; it has imagerepositories, imagepolicies, imageupdateautomations",
        );
        check("pods", "\"pods\" is no kind Equate knows");
        check("ks a b", "\"b\" is one word too many");
    }

    #[test]
    fn the_kinds_are_those_of_the_definitions() {
        let mut ours: Vec<String> = KINDS
            .iter()
            .map(|kind| format!("{}.{}", kind.plural, kind.group))
            .collect();
        ours.sort();
        let defined: Vec<&str> = equate_api::definitions().iter().map(|d| d.name).collect();
        assert_eq!(ours, defined);
        for (kind, definition) in KINDS.iter().filter_map(|kind| {
            let name = format!("{}.{}", kind.plural, kind.group);
            Some((kind, equate_api::definitions().iter().find(|d| d.name == name)?))
        }) {
            assert!(
                definition.yaml.contains(&format!("\n    kind: {}\n", kind.kind)),
                "{kind:?}"
            );
            assert!(
                definition
                    .yaml
                    .contains(&format!("\n    name: {}\n", kind.version)),
                "{kind:?}"
            );
            let suspends = definition.yaml.contains("\n              suspend:\n");
            assert_eq!(suspends, kind.suspends, "{kind:?}");
            let reports = definition
                .yaml
                .contains("\n    subresources:\n      status: {}\n");
            assert_eq!(reports, kind.reports, "{kind:?}");
        }
    }
}
