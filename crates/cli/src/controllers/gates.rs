//! `--feature-gates`: the gates of Flux's controllers.
//!
//! Each gate is listed with its effect. An unknown gate is refused, and so is a value that Equate does not
//! implement.

use super::value::boolean;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Accepts both values: the gate controls Flux's internals, not the result.
    Internal(&'static str),
    /// Refuses the other value.
    Fixed(bool, &'static str),
    /// Accepts the other value with a warning: this one is better.
    Always(bool, &'static str),
    /// Implements both values.
    Choice,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// Warnings about gates without effect.
    pub(crate) warnings: Vec<String>,
    /// `ExternalArtifact`: whether Kustomizations may read ExternalArtifacts.
    pub(crate) external_artifacts: bool,
    /// `ObjectLevelWorkloadIdentity`: whether tokens of ServiceAccounts open clusters.
    pub(crate) workload_identity: bool,
}

const EXTERNAL_ARTIFACT: &str = "ExternalArtifact";
const WORKLOAD_IDENTITY: &str = "ObjectLevelWorkloadIdentity";

const GATES: [(&str, Meaning); 20] = [
    (
        "CacheSecretsAndConfigMaps",
        Meaning::Internal(
            "only objects labelled reconcile.fluxcd.io/watch are watched, and their content is not cached",
        ),
    ),
    (
        "DisableStatusPollerCache",
        Meaning::Internal("health comes from watches, nothing is polled"),
    ),
    (
        "GroupChangeLog",
        Meaning::Internal("events list each change on its own line"),
    ),
    (
        "DirectSourceFetch",
        Meaning::Internal("sources are read from a watch only"),
    ),
    (
        "MigrateAPIVersion",
        Meaning::Internal("field managers keep the applied API version"),
    ),
    (
        "CancelHealthCheckOnNewRevision",
        Meaning::Always(true, "a new revision ends the health checks of the old one"),
    ),
    (
        "DisableConfigWatchers",
        Meaning::Always(false, "objects labelled reconcile.fluxcd.io/watch are watched"),
    ),
    (
        "DisableFailFastBehavior",
        Meaning::Always(false, "failures are reported at once, and repairs are noticed"),
    ),
    (
        "StrictPostBuildSubstitutions",
        Meaning::Fixed(
            true,
            "a variable with neither a value nor a default fails the build",
        ),
    ),
    (
        "AdditiveCELDependencyCheck",
        Meaning::Fixed(false, "a readyExpr replaces the built-in check"),
    ),
    (
        "OOMWatch",
        Meaning::Always(false, "an operation that is killed is resumed"),
    ),
    (
        "AdoptLegacyReleases",
        Meaning::Internal("helm-controller ignores it too"),
    ),
    (
        "AllowDNSLookups",
        Meaning::Fixed(false, "templates of charts cannot resolve names"),
    ),
    (
        "DetectDrift",
        Meaning::Fixed(false, "set spec.driftDetection.mode"),
    ),
    (
        "CorrectDrift",
        Meaning::Fixed(false, "set spec.driftDetection.mode"),
    ),
    (
        "DisableChartDigestTracking",
        Meaning::Fixed(false, "a new digest of a chart is a new version"),
    ),
    (
        "UseHelm3Defaults",
        Meaning::Fixed(
            false,
            "set spec.install.serverSideApply and spec.upgrade.serverSideApply",
        ),
    ),
    (
        "DefaultToRetryOnFailure",
        Meaning::Fixed(false, "set spec.install.strategy and spec.upgrade.strategy"),
    ),
    (EXTERNAL_ARTIFACT, Meaning::Choice),
    (WORKLOAD_IDENTITY, Meaning::Choice),
];

pub(crate) fn read(text: &str) -> Result<Gates, String> {
    let mut gates = Gates::default();
    let warnings = &mut gates.warnings;
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part
            .split_once('=')
            .ok_or_else(|| format!("{part:?} has no value: expected {part}=true or {part}=false"))?;
        let (name, value) = (name.trim(), boolean(value.trim())?);
        let known = GATES.iter().find(|(known, _)| *known == name);
        let Some((_, meaning)) = known else {
            return Err(format!("unknown feature gate {name:?}; known gates: {}", names()));
        };
        match *meaning {
            Meaning::Internal(why) => {
                warnings.push(format!("feature gate {name} has no effect: {why}"));
            }
            Meaning::Choice if name == WORKLOAD_IDENTITY => gates.workload_identity = value,
            Meaning::Choice => gates.external_artifacts = value,
            Meaning::Fixed(is, why) | Meaning::Always(is, why) if is == value => {
                tracing::debug!(name, why, "a feature gate has its only value");
            }
            Meaning::Fixed(_, why) => {
                return Err(format!("feature gate {name}={value} is not supported: {why}"));
            }
            Meaning::Always(is, why) => {
                warnings.push(format!("feature gate {name} is always {is}: {why}"));
            }
        }
    }
    Ok(gates)
}

fn names() -> String {
    let names: Vec<&str> = GATES.iter().map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_implemented_or_refused() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let read = read(text).map(|gates| gates.warnings);
            match (&read, expected) {
                (Ok(warnings), Ok(expected)) => {
                    let begin = |(warning, start): (&String, &&str)| warning.starts_with(start);
                    assert!(
                        warnings.len() == expected.len() && warnings.iter().zip(expected).all(begin),
                        "{text}: {warnings:?}"
                    );
                }
                (Err(error), Err(expected)) => assert!(error.contains(expected), "{text}: {error}"),
                _ => panic!("{text}: {read:?}"),
            }
        };
        check("", Ok(&[]));
        check(
            "GroupChangeLog=true,StrictPostBuildSubstitutions=true",
            Ok(&["feature gate GroupChangeLog has no effect"]),
        );
        check(
            "CancelHealthCheckOnNewRevision=false",
            Ok(&["feature gate CancelHealthCheckOnNewRevision is always true"]),
        );
        check(
            "StrictPostBuildSubstitutions=false",
            Err("feature gate StrictPostBuildSubstitutions=false is not supported: a variable"),
        );
        check(
            "Unheard=true",
            Err("unknown feature gate \"Unheard\"; known gates: CacheSecrets"),
        );
        for (text, expected) in [
            ("", (false, false)),
            ("ExternalArtifact=true", (true, false)),
            ("ObjectLevelWorkloadIdentity=true", (false, true)),
            (
                "ExternalArtifact=true,ObjectLevelWorkloadIdentity=true",
                (true, true),
            ),
            (
                "ExternalArtifact=false,ObjectLevelWorkloadIdentity=false",
                (false, false),
            ),
        ] {
            let gates = read(text).unwrap();
            let open = (gates.external_artifacts, gates.workload_identity);
            assert_eq!(open, expected, "{text}");
        }
        check("GroupChangeLog", Err("expected GroupChangeLog=true"));
        check("GroupChangeLog=yes", Err("expected true or false"));
    }
}
