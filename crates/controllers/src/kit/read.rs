//! Reads one object of the API server by its name: a Secret, a ConfigMap.
//!
//! A name that no object can have is refused, because it would be part of an address. Errors of an answer
//! are not shown: its text may quote a Secret.

use std::error::Error;
use std::fmt::{self, Write as _};
use std::future::Future;
use std::time::Duration;

use kube::api::Api;
use kube::core::{NamespaceResourceScope, ObjectMeta};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use crate::key::{Key, is_name};

const TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("that is not a name that a {0} can have")]
    Name(String),
    #[error("the answer is not a {0}")]
    Malformed(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Unreachable(String),
}

impl ReadError {
    pub(crate) fn passes(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }
}

/// Reads an object; `None` if it does not exist.
pub(crate) async fn read<K>(client: &Client, namespace: &str, name: &str) -> Result<Option<K>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug,
{
    let kind = K::kind(&());
    if !is_name(name) {
        return Err(ReadError::Name(kind.into_owned()));
    }
    let api: Api<K> = Api::namespaced(client.clone(), namespace);
    answer(&kind, api.get_opt(name)).await
}

/// Reads the metadata of an object; `None` if it does not exist.
pub(crate) async fn metadata<K>(client: &Client, of: &Key) -> Result<Option<ObjectMeta>, ReadError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + fmt::Debug,
{
    let kind = K::kind(&());
    if !is_name(&of.name) {
        return Err(ReadError::Name(kind.into_owned()));
    }
    let api: Api<K> = Api::namespaced(client.clone(), &of.namespace);
    let found = answer(&kind, api.get_metadata_opt(&of.name)).await?;
    Ok(found.map(|found| found.metadata))
}

/// Waits for an answer, which must be a `kind`.
pub(crate) async fn answer<T>(
    kind: &str,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ReadError> {
    match tokio::time::timeout(TIMEOUT, asked).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(kube::Error::Api(status))) if status.code == 429 || status.code >= 500 => {
            Err(ReadError::Unreachable(status.message))
        }
        Ok(Err(kube::Error::Api(status))) => Err(ReadError::Refused(status.message)),
        Ok(Err(kube::Error::SerdeError(_))) => Err(ReadError::Malformed(kind.to_owned())),
        Ok(Err(other)) => Err(ReadError::Unreachable(chain(&other))),
        Err(_elapsed) => {
            let why = format!("no answer within {}s", TIMEOUT.as_secs());
            Err(ReadError::Unreachable(why))
        }
    }
}

/// An error and its causes in one line; repeated causes are left out.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            // writing to a String does not fail
            let _ = write!(text, ": {more}");
        }
        cause = error.source();
    }
    text
}
