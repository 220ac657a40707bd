//! `equate stats`: counts the Flux objects of each kind.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::{Kind, Kinds};
use crate::objects::{self, RequestError, condition, text};
use crate::table::{self, Table, Value};
use kube::Client;
use kube::api::DynamicObject;
use std::io::Write;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  # Count the Flux objects in flux-system
  equate stats
  # Count those of the whole cluster
  equate stats -A")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: connection::Options,
    #[command(flatten)]
    scope: Scope,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StatsError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for StatsError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::Output(_) => None,
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), StatsError> {
    let connection = args.cluster.connect_and_print().await?;
    let kinds = kinds.in_up(connection.is_up());
    let text = stats(&connection.client, &kinds, &args, table::colour()).await?;
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(StatsError::Output)
}

pub(super) async fn stats(
    client: &Client,
    kinds: &Kinds,
    args: &Args,
    colour: bool,
) -> Result<String, StatsError> {
    let namespaces = args.scope.namespaces();
    let mut rows = Vec::new();
    for kind in kinds.iter() {
        let found = match objects::list(client, kind, &namespaces, None, None).await {
            Ok(found) => found,
            Err(RequestError::NotServed(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        rows.push(Counts::of(kinds, kind, &found));
    }
    let has_unsupported = rows.iter().any(|row| row.unsupported > 0);
    let mut header = vec!["RECONCILERS", "RUNNING", "FAILING", "SUSPENDED", "STORAGE"];
    header.extend(has_unsupported.then_some("UNSUPPORTED"));
    let mut table = Table::new(header, colour);
    for row in rows {
        let counts = [row.running, row.failing, row.suspended].map(|count| Value::plain(count.to_string()));
        let unsupported = has_unsupported.then(|| Value::plain(row.unsupported.to_string()));
        let cells = std::iter::once(Value::plain(row.kind)).chain(counts);
        let cells = cells.chain([Value::plain(size(row.bytes))]).chain(unsupported);
        table.row(cells.collect());
    }
    Ok(table.take())
}

/// The objects of one kind.
struct Counts {
    kind: &'static str,
    running: usize,
    failing: usize,
    suspended: usize,
    /// Stored, and nothing in the cluster reconciles them.
    unsupported: usize,
    bytes: u64,
}

impl Counts {
    fn of(kinds: &Kinds, kind: &Kind, found: &[DynamicObject]) -> Self {
        let is_suspended = |one: &&DynamicObject| one.data["spec"]["suspend"] == true;
        let suspended = found.iter().filter(is_suspended).count();
        let is_failing = |one: &&DynamicObject| text(condition(one, "Ready"), "status") == "False";
        let active = found.len() - suspended;
        let (running, unsupported) = match kinds.is_unreconciled(kind.group, kind.kind) {
            true => (0, active),
            false => (active, 0),
        };
        let sizes = found
            .iter()
            .filter_map(|one| one.data["status"]["artifact"]["size"].as_u64());
        Self {
            kind: kind.kind,
            running,
            failing: found.iter().filter(is_failing).count(),
            suspended,
            unsupported,
            bytes: sizes.sum(),
        }
    }
}

/// Bytes in the largest binary unit below them.
pub(super) fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes == 0 {
        return "-".to_owned();
    }
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let at = (bytes.ilog2() / 10) as usize - 1;
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let amount = bytes as f64 / (1024_u64 << (10 * at)) as f64;
    format!("{amount:.1} {}", UNITS[at])
}
