//! Logs in Flux's format: one JSON object per line with `level`, `ts` and `msg`, and the fields by which
//! `flux logs` and log pipelines find an object.

use std::collections::BTreeMap;
use std::fmt;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

#[derive(Debug, clap::Args)]
pub(crate) struct Flags {
    /// Most detailed level to log; `RUST_LOG` overrides it.
    #[arg(long, value_enum, default_value = "info", value_name = "LEVEL")]
    log_level: Verbosity,
    /// Log format.
    #[arg(long, value_enum, default_value = "json", value_name = "FORMAT")]
    log_encoding: Encoding,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Verbosity {
    /// All messages
    Trace,
    /// Decisions, reconciliations and failures
    Debug,
    /// Reconciliations and failures
    Info,
    /// Failures only
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Encoding {
    /// One JSON object per line
    Json,
    /// Plain text
    Console,
}

/// Starts to log to standard error. `RUST_LOG` overrides the level.
pub(crate) fn start(flags: &Flags) {
    let level = match flags.log_level {
        Verbosity::Trace => LevelFilter::TRACE,
        Verbosity::Debug => LevelFilter::DEBUG,
        Verbosity::Info => LevelFilter::INFO,
        // Equate's warnings are errors in Flux, which has no level between
        Verbosity::Error => LevelFilter::WARN,
    };
    let ours = [
        "equate",
        "equate_controllers",
        "equate_git",
        "equate_source",
        "equate_apply",
    ];
    let filter = Targets::new()
        .with_default(LevelFilter::WARN)
        // its only warning quotes a whole answer, also one of a tenant's cluster
        .with_target("kube_client", LevelFilter::ERROR)
        .with_targets(ours.map(|target| (target, level)));
    let filter = crate::environment_filter().unwrap_or(filter);
    let builder = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(std::io::stderr);
    match flags.log_encoding {
        Encoding::Json => builder.event_format(Json).finish().with(filter).init(),
        Encoding::Console => builder.with_ansi(false).finish().with(filter).init(),
    }
}

struct Json;

impl<S, N> FormatEvent<S, N> for Json
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let line = line(*event.metadata().level(), fields, jiff::Timestamp::now());
        writeln!(writer, "{line}")
    }
}

#[derive(Default)]
struct Fields(BTreeMap<&'static str, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name(), value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.insert(field.name(), value.into());
    }
}

/// `level`, `ts` and `msg` first, then the rest by name; splits `key` into `namespace` and `name`.
fn line(level: Level, Fields(mut fields): Fields, now: jiff::Timestamp) -> String {
    let level = match level {
        Level::TRACE => "trace",
        Level::DEBUG => "debug",
        Level::INFO => "info",
        Level::WARN | Level::ERROR => "error",
    };
    let message = fields.remove("message").unwrap_or_default();
    if let Some(Value::String(key)) = fields.remove("key") {
        if let Some((namespace, name)) = key.split_once('/') {
            fields.insert("namespace", namespace.into());
            fields.insert("name", name.into());
        } else {
            fields.insert("key", key.into());
        }
    }
    let rest: Map<String, Value> = fields
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let ts = now.strftime("%Y-%m-%dT%H:%M:%S.%3fZ");
    let mut line = format!(r#"{{"level":"{level}","ts":"{ts}","msg":{message}"#);
    for (name, value) in rest {
        line.push_str(&format!(",{}:{value}", Value::String(name)));
    }
    line.push('}');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_the_format_of_flux() {
        let now = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        let check = |level: Level, fields: &[(&'static str, Value)], expected: &str| {
            let fields = Fields(fields.iter().cloned().collect());
            let line = line(level, fields, now);
            assert_eq!(line, expected);
            serde_json::from_str::<Value>(&line).unwrap();
        };
        check(
            Level::INFO,
            &[
                ("message", "Reconciliation finished in 1s".into()),
                ("revision", "main@sha1:1".into()),
                ("key", "flux-system/apps".into()),
                ("controller", "kustomization".into()),
            ],
            r#"{"level":"info","ts":"2026-01-02T03:04:05.678Z","msg":"Reconciliation finished in 1s","controller":"kustomization","name":"apps","namespace":"flux-system","revision":"main@sha1:1"}"#,
        );
        check(
            Level::WARN,
            &[
                ("message", "line\n\"two\"".into()),
                ("error", "no".into()),
                ("count", 2.into()),
            ],
            r#"{"level":"error","ts":"2026-01-02T03:04:05.678Z","msg":"line\n\"two\"","count":2,"error":"no"}"#,
        );
    }
}
