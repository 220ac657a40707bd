//! `--feature-gates`: the gates of Flux's source-controller and kustomize-controller.
//!
//! A gate is a promise of behaviour. Each is listed with what is done here; to ask for what is not
//! done is refused, as is a gate that nobody knows.

use super::value::boolean;

/// What becomes of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    /// Either value is taken: it steers how Flux works, not what comes of it.
    Internal(&'static str),
    /// Always this; the other value is refused.
    Fixed(bool, &'static str),
    /// Always this, which is better; the other value is taken with a word.
    Always(bool, &'static str),
    /// Either value is carried out.
    Choice,
}

/// What the gates ask for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Gates {
    /// Sentences about what means nothing.
    pub(crate) warnings: Vec<String>,
    /// `ExternalArtifact`: whether a source may be one.
    pub(crate) external_artifacts: bool,
}

const EXTERNAL_ARTIFACT: &str = "ExternalArtifact";

const GATES: [(&str, Meaning); 12] = [
    (
        "CacheSecretsAndConfigMaps",
        Meaning::Internal(
            "what is watched has the label reconcile.fluxcd.io/watch, and its content is not kept",
        ),
    ),
    (
        "DisableStatusPollerCache",
        Meaning::Internal("health is told by watches, nothing is polled"),
    ),
    (
        "GroupChangeLog",
        Meaning::Internal("changes are in events, one line each"),
    ),
    (
        "DirectSourceFetch",
        Meaning::Internal("sources are known by a watch, and read no other way"),
    ),
    (
        "MigrateAPIVersion",
        Meaning::Internal("field managers are kept at the version that is applied"),
    ),
    (
        "CancelHealthCheckOnNewRevision",
        Meaning::Always(true, "a new revision takes over at once"),
    ),
    (
        "DisableConfigWatchers",
        Meaning::Always(false, "what has the label reconcile.fluxcd.io/watch is watched"),
    ),
    (
        "DisableFailFastBehavior",
        Meaning::Always(
            false,
            "what has failed is said at once, and what repairs it is noticed",
        ),
    ),
    (
        "StrictPostBuildSubstitutions",
        Meaning::Fixed(true, "a variable without a value and a default fails the build"),
    ),
    (
        "AdditiveCELDependencyCheck",
        Meaning::Fixed(false, "a readyExpr stands in place of the built-in check"),
    ),
    (EXTERNAL_ARTIFACT, Meaning::Choice),
    (
        "ObjectLevelWorkloadIdentity",
        Meaning::Fixed(false, "identities of cloud providers are not supported"),
    ),
];

/// Reads `Name=true,Other=false`.
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
            return Err(format!(
                "there is no feature gate {name:?}; there are {}",
                names()
            ));
        };
        match *meaning {
            Meaning::Internal(why) => {
                warnings.push(format!("feature gate {name} means nothing here: {why}"));
            }
            Meaning::Choice => gates.external_artifacts = name == EXTERNAL_ARTIFACT && value,
            Meaning::Fixed(is, why) | Meaning::Always(is, why) if is == value => {
                tracing::debug!(name, why, "a feature gate is as it always is here");
            }
            Meaning::Fixed(_, why) => {
                return Err(format!("feature gate {name}={value} is not supported: {why}"));
            }
            Meaning::Always(is, why) => {
                warnings.push(format!("feature gate {name} is always {is} here: {why}"));
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
    fn gates_are_carried_out_or_refused() {
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
            Ok(&["feature gate GroupChangeLog means nothing here"]),
        );
        check(
            "CancelHealthCheckOnNewRevision=false",
            Ok(&["feature gate CancelHealthCheckOnNewRevision is always true here"]),
        );
        check(
            "StrictPostBuildSubstitutions=false",
            Err("feature gate StrictPostBuildSubstitutions=false is not supported: a variable"),
        );
        check(
            "Unheard=true",
            Err("there is no feature gate \"Unheard\"; there are CacheSecrets"),
        );
        for (text, expected) in [
            ("", false),
            ("ExternalArtifact=true", true),
            ("ExternalArtifact=false", false),
        ] {
            assert_eq!(read(text).unwrap().external_artifacts, expected, "{text}");
        }
        check("GroupChangeLog", Err("expected GroupChangeLog=true"));
        check("GroupChangeLog=yes", Err("expected true or false"));
    }
}
