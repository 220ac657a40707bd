//! The flags of Flux's controllers that Equate does not implement.
//!
//! Flags that only control Flux's internals are accepted with a warning, so that arguments need no edits.
//! Flags that would change the result are refused.

use clap::{Arg, ArgAction, ArgMatches, Command};

#[derive(Debug)]
struct Flag {
    name: &'static str,
    /// Whether it is a switch without a value.
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

const NO_MEMORY_WATCH: &str = "an operation that is killed is resumed, so nothing watches the memory";

/// Accepted with a warning.
const IGNORED: [Flag; 13] = [
    flag(
        "kube-api-qps",
        "requests are few, and the API server's priority and fairness limits them",
    ),
    flag(
        "kube-api-burst",
        "requests are few, and the API server's priority and fairness limits them",
    ),
    flag("concurrent-ssa", "objects of a stage are applied together"),
    flag(
        "token-cache-max-size",
        "tokens are cached per credential until they expire",
    ),
    flag(
        "token-cache-max-duration",
        "tokens are cached per credential until they expire",
    ),
    flag(
        "helm-cache-max-size",
        "parsed indexes stay in memory, up to 96 MiB together",
    ),
    flag(
        "helm-cache-purge-interval",
        "unused indexes are dropped when another one is used",
    ),
    flag("http-timeout", "downloads have Equate's own deadlines"),
    flag("graceful-shutdown-timeout", "an interrupted operation is resumed"),
    flag("oom-watch-memory-threshold", NO_MEMORY_WATCH),
    flag("oom-watch-interval", NO_MEMORY_WATCH),
    flag("oom-watch-max-memory-path", NO_MEMORY_WATCH),
    flag("oom-watch-current-memory-path", NO_MEMORY_WATCH),
];

/// Refused: without them the result would differ from the request.
const REFUSED: [Flag; 5] = [
    flag(
        "sops-vault-configmap",
        "put the token into the Secret of spec.decryption.secretRef",
    ),
    flag(
        "override-manager",
        "Equate takes over the fields of kubectl and before-first-apply only",
    ),
    flag(
        "watch-configs-label-selector",
        "the label is always reconcile.fluxcd.io/watch: Enabled",
    ),
    flag("snapshot-digest-algo", "digests of releases are always sha256"),
    flag("custom-apply-stage-kinds", "stages are Flux's default ones"),
];

#[derive(Debug, Default)]
pub(crate) struct IgnoredFluxFlags {
    given: Vec<&'static Flag>,
    refused: Option<&'static Flag>,
}

impl IgnoredFluxFlags {
    pub(crate) fn warnings(&self) -> impl Iterator<Item = String> {
        let given = self.given.iter();
        given.map(|flag| format!("--{} has no effect: {}", flag.name, flag.why))
    }

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
            given: IGNORED.iter().filter(given).collect(),
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
        IGNORED.iter().chain(&REFUSED).fold(command, |command, flag| {
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
