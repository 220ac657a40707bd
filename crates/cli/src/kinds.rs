//! The kinds of the commands, by all their names.
//!
//! The controllers of this program define the names of their kinds. A table adds Flux's kinds without a
//! controller in this program. Flux's command line says `sources git`, kubectl `gitrepositories` or
//! `gitrepo`, a manifest `GitRepository`: all are accepted, in any case.

use crate::failure::Failure;
use equate_controllers::kit::about::About;
use kube::core::ApiResource;
use kube::core::gvk::GroupVersionKind;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    /// The name in URLs, and in output about several objects.
    pub(crate) plural: &'static str,
    aliases: &'static [&'static str],
    /// The word that groups kinds on Flux's command line, such as `sources`.
    family: Option<&'static str>,
    pub(crate) suspends: bool,
    /// Whether it has a status with conditions.
    pub(crate) reports: bool,
    /// The controller in this program, if any.
    pub(crate) controller: Option<&'static About>,
}

#[derive(Debug, Clone)]
pub(crate) struct Kinds {
    all: Vec<Kind>,
    /// Whether no other controllers may serve them, as in the cluster of `equate up`.
    alone: bool,
}

/// Flux's groups, in the order of `get all`; kinds of other groups come last.
const GROUPS: [&str; 6] = [
    "source.toolkit.fluxcd.io",
    "source.extensions.fluxcd.io",
    "kustomize.toolkit.fluxcd.io",
    "helm.toolkit.fluxcd.io",
    "notification.toolkit.fluxcd.io",
    "image.toolkit.fluxcd.io",
];

const SOURCE: Kind = Kind {
    group: "source.toolkit.fluxcd.io",
    version: "v1",
    kind: "",
    plural: "",
    aliases: &[],
    family: Some("sources"),
    suspends: true,
    reports: true,
    controller: None,
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
    family: Some("images"),
    ..SOURCE
};

/// Flux's kinds that Equate may have no controller for. A controller's own definition replaces an entry, so
/// the author of a controller need not edit this table.
const WITHOUT_CONTROLLER: [Kind; 13] = [
    Kind {
        kind: "OCIRepository",
        plural: "ocirepositories",
        aliases: &["ocirepo", "oci"],
        ..SOURCE
    },
    Kind {
        kind: "HelmRepository",
        plural: "helmrepositories",
        aliases: &["helmrepo", "helm"],
        ..SOURCE
    },
    Kind {
        kind: "HelmChart",
        plural: "helmcharts",
        aliases: &["hc", "chart"],
        ..SOURCE
    },
    Kind {
        kind: "Bucket",
        plural: "buckets",
        aliases: &[],
        ..SOURCE
    },
    Kind {
        kind: "ExternalArtifact",
        plural: "externalartifacts",
        aliases: &["ea", "external"],
        suspends: false,
        ..SOURCE
    },
    Kind {
        group: "source.extensions.fluxcd.io",
        version: "v1beta1",
        kind: "ArtifactGenerator",
        plural: "artifactgenerators",
        aliases: &["ag", "generators", "generator"],
        family: Some("artifacts"),
        suspends: false,
        ..SOURCE
    },
    Kind {
        group: "helm.toolkit.fluxcd.io",
        version: "v2",
        kind: "HelmRelease",
        plural: "helmreleases",
        aliases: &["hr"],
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
        aliases: &["alert-provider", "alert-providers"],
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
        aliases: &["imgrepo", "imagerepo", "repository"],
        ..IMAGE
    },
    Kind {
        kind: "ImagePolicy",
        plural: "imagepolicies",
        aliases: &["imgpol", "imagepol", "policy"],
        ..IMAGE
    },
    Kind {
        kind: "ImageUpdateAutomation",
        plural: "imageupdateautomations",
        aliases: &["iua", "imgupd", "imgauto", "update"],
        ..IMAGE
    },
];

/// Names that are ambiguous without `sources`, `images` or `artifacts`.
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

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KindError {
    #[error("unknown kind {0:?}")]
    Unknown(String),
    #[error("{family} has no {name:?}; it has {known}")]
    NotInFamily {
        family: String,
        name: String,
        known: String,
    },
    #[error("{0:?} does not name a single kind")]
    Several(String),
    #[error("unexpected argument {0:?}")]
    TooMany(String),
    #[error("{name} is in namespace {namespace}, and --namespace says {given}")]
    OtherNamespace {
        name: String,
        namespace: String,
        given: String,
    },
}

impl Failure for KindError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::OtherNamespace { .. } => Some("leave out --namespace, or the namespace before the name"),
            Self::Unknown(_) | Self::NotInFamily { .. } | Self::Several(_) | Self::TooMany(_) => Some(
                "use the names of Flux or kubectl: kustomizations or ks, sources git or gitrepo, hr, ...",
            ),
        }
    }
}

impl Kind {
    fn of(about: &'static About) -> Self {
        let About {
            kind,
            plural,
            group,
            version,
            aliases,
            family,
            suspends,
            ..
        } = *about;
        Self {
            group,
            version,
            kind,
            plural,
            aliases,
            family,
            suspends,
            reports: true,
            controller: Some(about),
        }
    }

    pub(crate) fn resource(&self) -> ApiResource {
        let gvk = GroupVersionKind::gvk(self.group, self.version, self.kind);
        ApiResource::from_gvk_with_plural(&gvk, self.plural)
    }

    pub(crate) fn singular(&self) -> String {
        self.kind.to_lowercase()
    }

    /// The singular with its group, like kubectl's `-o name`.
    pub(crate) fn qualified(&self) -> String {
        format!("{}.{}", self.singular(), self.group)
    }

    /// Whether nothing in this program writes the status of its objects. ExternalArtifacts have no
    /// controller: their publishers do.
    pub(crate) fn is_unsupported(&self) -> bool {
        self.controller.is_none() && self.kind != "ExternalArtifact"
    }

    /// Whether its status lists the applied objects.
    pub(crate) fn has_inventory(&self) -> bool {
        self.controller.is_some_and(|about| about.owner.is_some())
    }

    fn is(&self, group: &str, kind: &str) -> bool {
        self.group == group && self.kind == kind
    }

    fn is_called(&self, name: &str) -> bool {
        name == self.plural
            || name == self.singular()
            || self.aliases.contains(&name)
            || name == self.qualified()
    }
}

impl Kinds {
    /// The groups and kinds that nothing here reconciles.
    pub(crate) fn without_controller(&self) -> impl Iterator<Item = (String, String)> {
        let kinds = self.all.iter().filter(|kind| kind.is_unsupported());
        kinds.map(|kind| (kind.group.to_owned(), kind.kind.to_owned()))
    }

    pub(crate) fn of(controllers: impl IntoIterator<Item = &'static About>) -> Self {
        let mut kinds: Vec<Kind> = controllers.into_iter().map(Kind::of).collect();
        for other in WITHOUT_CONTROLLER {
            if !kinds.iter().any(|kind| kind.is(other.group, other.kind)) {
                kinds.push(other);
            }
        }
        kinds.sort_by_key(|kind| {
            GROUPS
                .iter()
                .position(|group| *group == kind.group)
                .unwrap_or(GROUPS.len())
        });
        Self {
            all: kinds,
            alone: false,
        }
    }

    /// The same kinds in a cluster that `equate up` serves, or in another one.
    #[must_use]
    pub(crate) fn in_up(&self, in_up: bool) -> Self {
        Self {
            alone: in_up,
            ..self.clone()
        }
    }

    pub(crate) fn are_in_up(&self) -> bool {
        self.alone
    }

    /// Whether objects of this kind are stored, and nothing in the cluster reconciles them.
    pub(crate) fn is_unreconciled(&self, group: &str, kind: &str) -> bool {
        self.alone && self.find(group, kind).is_some_and(Kind::is_unsupported)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.all.iter()
    }

    /// The plural of each kind and its shortest name, for completion.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        let mut names = vec!["all"];
        for kind in &self.all {
            names.extend(kind.family);
            names.push(kind.plural);
            let short = kind.aliases.iter().filter(|name| !ONLY_IN_FAMILY.contains(name));
            names.extend(short.min_by_key(|name| name.len()));
        }
        let mut seen = std::collections::HashSet::new();
        names.retain(|name| seen.insert(*name));
        names
    }

    pub(crate) fn named(&self, kind: &str) -> Option<&Kind> {
        self.all.iter().find(|known| known.kind == kind)
    }

    pub(crate) fn find(&self, group: &str, kind: &str) -> Option<&Kind> {
        self.all.iter().find(|known| known.is(group, kind))
    }

    /// Parses kinds and an optional name: `all`, `sources`, `sources git [NAME]`, `ks [NAME]`, `ks/NAME`,
    /// `ks/NAMESPACE/NAME`, whose name is `NAMESPACE/NAME`.
    pub(crate) fn parse(&self, words: &[String]) -> Result<(Vec<Kind>, Option<String>), KindError> {
        let mut words = words.iter().flat_map(|word| match word.split_once('/') {
            Some((kind, name)) => vec![kind.to_owned(), name.to_owned()],
            None => vec![word.clone()],
        });
        let Some(first) = words.next() else {
            return Ok((self.all.clone(), None));
        };
        let name = first.to_lowercase();
        let family = self.family(&name);
        let kinds = if name == "all" {
            self.all.clone()
        } else if family.is_empty() {
            let mut known = self.all.iter();
            let known = known.find(|kind| kind.is_called(&name) && !ONLY_IN_FAMILY.contains(&name.as_str()));
            vec![*known.ok_or(KindError::Unknown(first))?]
        } else {
            match words.next().map(|word| word.to_lowercase()) {
                Some(word) if word != "all" => vec![in_family(&family, &first, &word)?],
                _ => family,
            }
        };
        let object = words.next();
        match words.next() {
            Some(extra) => Err(KindError::TooMany(extra)),
            None => Ok((kinds, object)),
        }
    }

    pub(crate) fn parse_one(&self, words: &[String]) -> Result<(Kind, Option<String>), KindError> {
        match self.parse(words)? {
            (kinds, object) if kinds.len() == 1 => Ok((kinds[0], object)),
            _ => Err(KindError::Several(words.join(" "))),
        }
    }

    /// The kinds of a family, named in the singular or plural; empty if there is no such family.
    fn family(&self, name: &str) -> Vec<Kind> {
        let is = |family: &str| family == name || family.strip_suffix('s') == Some(name);
        let kinds = self.all.iter().filter(|kind| kind.family.is_some_and(is));
        kinds.copied().collect()
    }
}

/// Splits `NAMESPACE/NAME`, as in output, or a name alone. The namespace must be the given one.
pub(crate) fn split_name<'n>(
    name: &'n str,
    given: Option<&str>,
) -> Result<(Option<&'n str>, &'n str), KindError> {
    let Some((namespace, own)) = name.split_once('/') else {
        return Ok((None, name));
    };
    // another slash in a name would be a subresource
    if own.is_empty() || own.contains('/') {
        return Err(KindError::TooMany(name.to_owned()));
    }
    match given.filter(|given| *given != namespace) {
        Some(given) => Err(KindError::OtherNamespace {
            name: own.to_owned(),
            namespace: namespace.to_owned(),
            given: given.to_owned(),
        }),
        None => Ok((Some(namespace), own)),
    }
}

/// A kind with its article: `an Alert`, `a Receiver`.
pub(crate) fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['A', 'E', 'I', 'O', 'U']) {
        "an"
    } else {
        "a"
    };
    format!("{article} {kind}")
}

fn in_family(family: &[Kind], family_name: &str, word: &str) -> Result<Kind, KindError> {
    let found = family.iter().find(|kind| kind.is_called(word)).copied();
    found.ok_or_else(|| KindError::NotInFamily {
        family: family_name.to_owned(),
        name: word.to_owned(),
        known: family
            .iter()
            .map(|kind| kind.plural)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use equate_controllers::kit::about::Concurrency;

    #[test]
    fn names_of_flux_kubectl_and_manifests_are_accepted() {
        let kinds = Kinds::of(equate_controllers::all().iter());
        let check = |text: &str, expected: &str| {
            let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
            let parsed = match kinds.parse(&words) {
                Ok((kinds, object)) => {
                    let kinds: Vec<&str> = kinds.iter().map(|kind| kind.kind).collect();
                    format!("{} {}", kinds.join(","), object.as_deref().unwrap_or("-"))
                }
                Err(error) => error.to_string(),
            };
            assert_eq!(parsed, expected, "{text}");
        };
        check("ks", "Kustomization -");
        check("kustomizations apps", "Kustomization apps");
        check("Kustomization/apps", "Kustomization apps");
        check("sources git", "GitRepository -");
        check("source git fleet", "GitRepository fleet");
        check("gitrepo/fleet", "GitRepository fleet");
        check("hc", "HelmChart -");
        check("helm", "unknown kind \"helm\"");
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
        check(
            "kustomization.kustomize.toolkit.fluxcd.io/apps",
            "Kustomization apps",
        );
        check("pods", "unknown kind \"pods\"");
        check("ks a b", "unexpected argument \"b\"");
    }

    const IMAGE_REPOSITORIES: About = About {
        kind: "ImageRepository",
        plural: "imagerepositories",
        group: "image.toolkit.fluxcd.io",
        version: "v1",
        aliases: &["imgrepo", "registry"],
        family: Some("images"),
        component: "image-reflector-controller",
        finalizer: None,
        owner: None,
        status_manager: "gotk-image-reflector-controller",
        concurrency: Concurrency::Computes,
        suspends: true,
        columns: &[],
    };

    #[test]
    fn controller_replaces_the_kind_of_the_table() {
        let set = equate_controllers::all();
        let list = |kinds: &Kinds| -> Vec<&str> { kinds.all.iter().map(|kind| kind.kind).collect() };
        let before = Kinds::of(set.iter());
        let after = Kinds::of(set.iter().chain([&IMAGE_REPOSITORIES]));
        assert_eq!(list(&before), list(&after));
        let repository = |kinds: &Kinds| *kinds.named("ImageRepository").unwrap();
        assert_eq!(repository(&before).controller, None);
        assert_eq!(repository(&after).controller, Some(&IMAGE_REPOSITORIES));
        assert!(repository(&after).is_called("registry"));
    }

    #[test]
    fn kinds_are_listed_by_group() {
        let scratch = About {
            kind: "Scratch",
            plural: "scratches",
            group: "example.org",
            family: None,
            ..IMAGE_REPOSITORIES
        };
        let scratch: &'static About = Box::leak(Box::new(scratch));
        let kinds = Kinds::of([scratch].into_iter().chain(equate_controllers::all().iter()));
        let listed: Vec<&str> = kinds.all.iter().map(|kind| kind.kind).collect();
        assert_eq!(
            listed.join(" "),
            "GitRepository OCIRepository HelmRepository HelmChart Bucket ExternalArtifact ArtifactGenerator \
             Kustomization HelmRelease Alert Provider Receiver ImageRepository ImagePolicy \
             ImageUpdateAutomation Scratch"
        );
    }

    #[test]
    fn kinds_match_the_definitions() {
        let kinds = Kinds::of(equate_controllers::all().iter()).all;
        let mut ours: Vec<String> = kinds
            .iter()
            .map(|kind| format!("{}.{}", kind.plural, kind.group))
            .collect();
        ours.sort();
        let defined: Vec<&str> = equate_api::definitions().iter().map(|d| d.name).collect();
        assert_eq!(ours, defined);
        for (kind, definition) in kinds.iter().filter_map(|kind| {
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
