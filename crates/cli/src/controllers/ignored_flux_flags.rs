//! The flags of Flux's source-controller and kustomize-controller that have no meaning here.
//!
//! Those that only steer how Flux does its work are taken, so that arguments need not be edited, and
//! the log says why they mean nothing. Those that would change what is done are refused.

use clap::{Arg, ArgAction, ArgMatches, Command};

/// A flag of Flux.
#[derive(Debug)]
struct Flag {
    name: &'static str,
    /// Whether it is written without a value.
    switch: bool,
    why: &'static str,
}

const fn flag(name: &'static str, why: &'static str) -> Flag {
    Flag {
        name,
        switch: false,
        why,
    }
}

/// Taken, with a word about why it means nothing.
const IDLE: [Flag; 11] = [
    flag(
        "kube-api-qps",
        "requests are few, and the API server's own fairness bounds them",
    ),
    flag(
        "kube-api-burst",
        "requests are few, and the API server's own fairness bounds them",
    ),
    flag("concurrent-ssa", "objects of a stage are applied together"),
    flag(
        "token-cache-max-size",
        "tokens are kept per credential, until they expire",
    ),
    flag(
        "token-cache-max-duration",
        "tokens are kept per credential, until they expire",
    ),
    flag(
        "helm-index-max-size",
        "there is no controller for Helm repositories",
    ),
    flag("helm-chart-max-size", "there is no controller for Helm charts"),
    flag(
        "helm-chart-file-max-size",
        "there is no controller for Helm charts",
    ),
    flag(
        "helm-cache-max-size",
        "there is no controller for Helm repositories",
    ),
    flag("helm-cache-ttl", "there is no controller for Helm repositories"),
    flag(
        "helm-cache-purge-interval",
        "there is no controller for Helm repositories",
    ),
];

/// Refused, for without it something else would be done than is asked for.
const REFUSED: [Flag; 4] = [
    flag(
        "sops-vault-configmap",
        "give a token in the Secret of spec.decryption.secretRef",
    ),
    flag(
        "override-manager",
        "the managers whose fields are taken over are kubectl's and before-first-apply",
    ),
    flag(
        "watch-configs-label-selector",
        "the label is reconcile.fluxcd.io/watch: Enabled",
    ),
    flag("custom-apply-stage-kinds", "stages are those of Flux without it"),
];

/// What of them is on the command line.
#[derive(Debug, Default)]
pub(crate) struct IgnoredFluxFlags {
    given: Vec<&'static Flag>,
    refused: Option<&'static Flag>,
}

impl IgnoredFluxFlags {
    /// Sentences about those that mean nothing.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let given = self.given.iter();
        given.map(|flag| format!("--{} means nothing here: {}", flag.name, flag.why))
    }

    /// A sentence about the first that is not carried out.
    pub(crate) fn refusal(&self) -> Option<String> {
        let flag = self.refused?;
        Some(format!("--{} is not supported: {}", flag.name, flag.why))
    }
}

impl clap::FromArgMatches for IgnoredFluxFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given =
            |flag: &&Flag| matches.value_source(flag.name) == Some(clap::parser::ValueSource::CommandLine);
        Ok(Self {
            given: IDLE.iter().filter(given).collect(),
            refused: REFUSED.iter().find(given),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for IgnoredFluxFlags {
    fn augment_args(command: Command) -> Command {
        IDLE.iter().chain(&REFUSED).fold(command, |command, flag| {
            let arg = Arg::new(flag.name).long(flag.name).hide(true).help(flag.why);
            command.arg(match flag.switch {
                true => arg
                    .num_args(0..=1)
                    .require_equals(true)
                    .default_missing_value("true"),
                false => arg.action(ArgAction::Append),
            })
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}
