//! Observes the artifact in the store, and the revision of the reference. It only reads, except that the
//! store removes a damaged archive, and that the session goes on with the fetch of a new revision.

use std::future::ready;
use std::sync::Arc;

use equate_api::source::GitRepositoryStatus;
use equate_git::{Remote, Revision};
use tokio::sync::oneshot;

use super::Context;
use super::credentials::{self, SecretError};
use super::decide::{Artifact, Observed};
use super::declared::Declared;
use super::failure::Failure;
use super::host::{Fetching, outcome};
use super::includes;
use crate::sources::secrets::{SecretData, SecretReadError, read_secret};
use crate::sources::store::{Form, is_stored};

/// Observes the store, then the repository.
pub(super) async fn observe(
    cx: Arc<Context>,
    declared: Arc<Declared>,
    status: GitRepositoryStatus,
) -> Observed {
    let artifact = artifact(&cx, &declared, status.clone()).await;
    let stored = status.artifact.as_ref().filter(|_| artifact == Artifact::Stored);
    let stored = stored.map(|artifact| artifact.revision.clone());
    let seen = |revision, included, remote, fetching| Observed {
        status,
        artifact,
        revision,
        included,
        remote,
        fetching,
    };
    let remote = match remote(&cx, &declared).await {
        Ok(remote) => remote,
        Err(failure) => return seen(Err(failure), Vec::new(), None, None),
    };
    // while an included artifact is missing, no host is contacted
    let included = match includes::artifacts(&cx.repositories, &declared) {
        Ok(included) => included,
        Err(failure) => return seen(Err(failure), Vec::new(), None, None),
    };
    let (resolved, fetching) = resolve(&cx, &declared, remote.clone(), stored).await;
    seen(resolved, included, Some(remote), fetching)
}

/// With `spec.verify`, the keys come before the fetch.
async fn resolve(
    cx: &Arc<Context>,
    declared: &Arc<Declared>,
    remote: Remote,
    stored: Option<String>,
) -> (Result<Revision, Failure>, Option<Fetching>) {
    let (found, mut new) = oneshot::channel();
    let fetches = declared.verify.is_none();
    // an exact commit is resolved without the host
    let is_listed = declared.reference.commit.as_deref().is_none_or(str::is_empty);
    let (own, context, limit) = (Arc::clone(declared), Arc::clone(cx), cx.limit(declared));
    let session = move || {
        let is_new = |revision: &Revision| {
            let is_new = fetches && stored != Some(revision.to_string());
            is_new && found.send(revision.clone()).is_ok()
        };
        match context.git.resolve_and_fetch(&remote, &own.reference, is_new) {
            Ok((revision, None)) => (Ok((revision, None)), outcome(None)),
            Ok((revision, Some(Ok(commit)))) => (Ok((revision, Some(commit))), outcome(None)),
            Ok((_, Some(Err(error)))) => {
                let failed = (!is_listed).then(|| error.kind());
                (Err(Failure::fetch(&error, limit)), outcome(failed))
            }
            Err(error) => (Err(Failure::resolve(&error, limit)), outcome(Some(error.kind()))),
        }
    };
    let (cx, declared) = (Arc::clone(cx), Arc::clone(declared));
    let mut session = Box::pin(async move { cx.at_host(&declared, session).await });
    let ended = tokio::select! {
        biased;
        Ok(revision) = &mut new => return (Ok(revision), Some(Fetching::new(session))),
        ended = session.as_mut() => ended,
    };
    match new.try_recv() {
        Ok(revision) => (Ok(revision), Some(Fetching::new(ready(ended)))),
        Err(_) => (ended.map(|(revision, _)| revision), None),
    }
}

async fn artifact(cx: &Arc<Context>, declared: &Arc<Declared>, status: GitRepositoryStatus) -> Artifact {
    let Some(artifact) = status.artifact else {
        return Artifact::None;
    };
    match is_stored(&cx.storage, &declared.publisher, artifact, Form::Tree).await {
        true => Artifact::Stored,
        false => Artifact::Lost,
    }
}

/// A directory that replaces the URL needs no credentials.
async fn remote(cx: &Arc<Context>, declared: &Arc<Declared>) -> Result<Remote, Failure> {
    let timeout = cx.limit(declared).time;
    if cx.git.substitute(&declared.url).is_some() {
        return Ok(Remote::new(&declared.url).with_timeout(timeout));
    }
    let namespace = &declared.key.namespace;
    let owner = cx.tenants.mirror_owner(namespace).await;
    let failed = |error| Failure::secret(&error);
    let proxy = match &declared.proxy {
        Some(name) => {
            let data = secret(cx, namespace, name).await;
            let data = data.map_err(|error| failed(SecretError::ProxySecret(Box::new(error))))?;
            Some(credentials::proxy(namespace, name, &data).map_err(failed)?)
        }
        None => None,
    };
    let own = cx.git.has_own_credentials(&declared.url);
    let data = match &declared.secret {
        Some(name) => match secret(cx, namespace, name).await {
            Ok(data) => Some(data),
            // the Secret is on another machine, and the user's own credentials take its place
            Err(SecretError::Absent { .. }) if own => None,
            Err(error @ SecretError::Absent { .. }) => {
                return Err(failed(error).advised(cx.git.own_credentials_advice(&declared.url)));
            }
            Err(error) => return Err(failed(error)),
        },
        None => None,
    };
    let app = match &data {
        None if own => None,
        data => credentials::github_app(declared, data.as_ref()).map_err(failed)?,
    };
    let opened = match &data {
        None if own => Ok(Remote::new(&declared.url)),
        data => credentials::remote(declared, data.as_ref()),
    };
    let remote = match opened {
        Err(error @ SecretError::NoSecret) => {
            return Err(failed(error).advised(cx.git.own_credentials_advice(&declared.url)));
        }
        opened => Remote {
            proxy,
            timeout,
            tenant: Some(owner),
            ..opened.map_err(failed)?
        },
    };
    let Some(app) = app else {
        return Ok(remote);
    };
    let own = Arc::clone(cx);
    let opening = move || {
        let opened = own.git.with_github_app(remote, &app);
        (opened.map_err(|error| Failure::github(&error)), None)
    };
    cx.at_host(declared, opening).await
}

pub(super) async fn secret(cx: &Context, namespace: &str, name: &str) -> Result<SecretData, SecretError> {
    let read = read_secret(&cx.client, namespace, name).await;
    read.map_err(|error| {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        match error {
            SecretReadError::Read(source) => SecretError::Read {
                namespace,
                name,
                source,
            },
            SecretReadError::Absent(_) => SecretError::Absent { namespace, name },
        }
    })
}
