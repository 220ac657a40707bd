//! `equate trace`: shows the way of an object from its source, like `flux trace`.

use crate::connection::ConnectError;
use crate::diagnosis::Reader;
use crate::explain::{ExplainError, Named, Target, labelled_owner};
use crate::failure::{Failure, is_broken_pipe};
use crate::kinds::{Kind, Kinds};
use crate::objects::{self, RequestError, condition, names, text};
use crate::reconcile::source;
use equate_apply::id::ObjectId;
use jiff::Timestamp;
use kube::Client;
use kube::api::DynamicObject;
use std::io::Write;

#[derive(Debug, clap::Args)]
#[command(
    override_usage = "equate trace [OPTIONS] <KIND> <NAME>",
    after_help = "Examples:
  # Show the Kustomization and source that a Deployment comes from
  equate trace deployment web -n shop"
)]
pub(crate) struct Args {
    #[command(flatten)]
    named: Named,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TraceError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Explain(#[from] ExplainError),
    #[error(transparent)]
    Request(#[from] RequestError),
    #[error("{0} is not managed by Flux: it has no labels of a Kustomization or HelmRelease")]
    NotManaged(ObjectId),
    #[error("could not write to standard output")]
    Output(#[source] std::io::Error),
}

impl Failure for TraceError {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Connect(error) => error.hint(),
            Self::Explain(error) => error.hint(),
            Self::Request(error) => error.hint(),
            Self::NotManaged(_) => Some("see its owners with `equate explain KIND NAME`"),
            Self::Output(_) => None,
        }
    }

    fn hint_with_names(&self) -> Option<String> {
        match self {
            Self::Explain(error) => error.hint_with_names(),
            Self::NotManaged(id) => {
                let namespace = match &*id.namespace {
                    "" => String::new(),
                    namespace => format!(" -n {namespace}"),
                };
                let kind = id.kind.to_lowercase();
                Some(format!(
                    "see its owners with `equate explain {kind} {}{namespace}`",
                    id.name
                ))
            }
            _ => self.hint().map(str::to_owned),
        }
    }

    fn is_reader_gone(&self) -> bool {
        matches!(self, Self::Output(error) if is_broken_pipe(error))
    }
}

pub(crate) async fn run(args: Args, kinds: &Kinds) -> Result<(), TraceError> {
    let connection = args.named.cluster.connect_and_print().await?;
    let text = trace(&connection.client, kinds, &args).await?;
    let written = std::io::stdout().write_all(text.as_bytes());
    written.map_err(TraceError::Output)
}

pub(super) async fn trace(client: &Client, kinds: &Kinds, args: &Args) -> Result<String, TraceError> {
    let Target { id, .. } = args.named.find(client, kinds).await?;
    let reader = Reader::new(client.clone());
    let found = reader
        .object(&id, "")
        .await
        .map_err(|source| ExplainError::Read {
            id: id.clone(),
            source: Box::new(source),
        })?;
    let object = found.ok_or_else(|| ExplainError::NotFound { id: id.clone() })?;
    let owner = labelled_owner(&reader, &object).await;
    let owner = owner.ok_or_else(|| TraceError::NotManaged(id.clone()))?;
    let mut page = Page::default();
    page.field("Object", &format!("{}/{}", id.kind, id.name));
    page.optional("Namespace", &id.namespace);
    page.field("Status", "Managed by Flux");
    let kind = *kinds
        .find(&owner.group, &owner.kind)
        .ok_or(RequestError::NotServed("kustomizations"))?;
    let owner = objects::get(client, &kind, &owner.namespace, &owner.name).await?;
    page.owner(&kind, &owner);
    let mut last = (kind, owner);
    // a release reads a chart, and the chart a repository
    while let Ok((kind, namespace, name)) = source(kinds, &last.0, &last.1) {
        let found = objects::get(client, &kind, &namespace, &name).await?;
        page.source(&kind, &found);
        last = (kind, found);
    }
    Ok(page.text)
}

#[derive(Debug, Default)]
struct Page {
    text: String,
}

impl Page {
    fn field(&mut self, name: &str, value: &str) {
        self.text.push_str(&format!("{:17}{value}\n", format!("{name}:")));
    }

    fn optional(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.field(name, value);
        }
    }

    fn title(&mut self, kind: &Kind, object: &DynamicObject) {
        let (namespace, name) = names(object);
        self.text.push_str("---\n");
        self.field(kind.kind, name);
        self.field("Namespace", namespace);
    }

    fn owner(&mut self, kind: &Kind, object: &DynamicObject) {
        let text = |field: &str| object.data["spec"][field].as_str().unwrap_or_default();
        self.title(kind, object);
        self.optional("Target", text("targetNamespace"));
        self.optional("Path", text("path"));
        self.optional("Revision", &crate::get::revision(object));
        self.status(object);
    }

    fn source(&mut self, kind: &Kind, object: &DynamicObject) {
        let spec = &object.data["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default();
        let reference = |field: &str| spec["ref"][field].as_str().unwrap_or_default();
        self.title(kind, object);
        self.optional("URL", text("url"));
        self.optional("Chart", text("chart"));
        self.optional("Version", text("version"));
        let wanted = [
            ("Name", "name"),
            ("Commit", "commit"),
            ("Tag", "tag"),
            ("Tag", "semver"),
            ("Digest", "digest"),
            ("Branch", "branch"),
        ];
        if let Some((name, field)) = wanted.into_iter().find(|(_, field)| !reference(field).is_empty()) {
            self.field(name, reference(field));
        }
        let artifact = &object.data["status"]["artifact"];
        self.optional("Revision", artifact["revision"].as_str().unwrap_or_default());
        self.status(object);
    }

    fn status(&mut self, object: &DynamicObject) {
        let ready = condition(object, "Ready");
        if ready.is_none() {
            return self.field("Status", "Unknown");
        }
        let when = text(ready, "lastTransitionTime");
        let when = when.parse().map_or_else(
            |_| when.to_owned(),
            |at: Timestamp| at.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string(),
        );
        let status = match text(ready, "status") {
            "False" => format!("Last reconciliation failed at {when}"),
            _ => format!("Last reconciled at {when}"),
        };
        self.field("Status", &status);
        self.field("Message", text(ready, "message"));
    }
}
