//! `equate stats`: counts the Flux objects of each kind.

use crate::connection::{self, ConnectError};
use crate::failure::{Failure, is_broken_pipe};
use crate::get::Scope;
use crate::kinds::Kinds;
use crate::objects::{self, RequestError, condition, text};
use crate::table::{self, Table, Value};
use kube::Client;
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
    let text = stats(&connection.client, kinds, &args, table::colour()).await?;
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
    let header = vec!["RECONCILERS", "RUNNING", "FAILING", "SUSPENDED", "STORAGE"];
    let mut table = Table::new(header, colour);
    for kind in kinds.iter() {
        let found = match objects::list(client, kind, &namespaces, None, None).await {
            Ok(found) => found,
            Err(RequestError::NotServed(_)) => Vec::new(),
            Err(error) => return Err(error.into()),
        };
        let suspended = found.iter().filter(|one| one.data["spec"]["suspend"] == true);
        let suspended = suspended.count();
        let failing = found
            .iter()
            .filter(|one| text(condition(one, "Ready"), "status") == "False");
        let sizes = found
            .iter()
            .filter_map(|one| one.data["status"]["artifact"]["size"].as_u64());
        table.row(vec![
            Value::plain(kind.kind),
            Value::plain((found.len() - suspended).to_string()),
            Value::plain(failing.count().to_string()),
            Value::plain(suspended.to_string()),
            Value::plain(size(sizes.sum())),
        ]);
    }
    Ok(table.take())
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
