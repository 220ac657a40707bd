//! A client and the identity it impersonates.
//!
//! Impersonation is one header of a request, not another client: a thousand identities share connections.
//! Only the header's syntax is checked here; the API server authorises the impersonation.

use http::HeaderValue;
use kube::Client;
use kube::client::Body;

/// The impersonation header. Groups are omitted: the API server knows those of a ServiceAccount, and
/// impersonating it must not require the right to impersonate groups.
const ACTS_AS: &str = "impersonate-user";

#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: Client,
    user: Option<HeaderValue>,
}

/// A name that an HTTP header cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot impersonate {0:?}: the name does not fit into a header")]
pub struct InvalidUserName(pub String);

impl Caller {
    pub(super) fn new(client: Client) -> Self {
        Self { client, user: None }
    }

    pub(super) fn acting_as(&self, user: &str) -> Result<Self, InvalidUserName> {
        let value = HeaderValue::from_str(user).map_err(|_| InvalidUserName(user.to_owned()))?;
        Ok(Self {
            client: self.client.clone(),
            user: Some(value),
        })
    }

    pub(super) async fn send(
        &self,
        mut request: http::Request<Body>,
    ) -> Result<http::Response<Body>, kube::Error> {
        if let Some(user) = &self.user {
            request.headers_mut().insert(ACTS_AS, user.clone());
        }
        self.client.send(request).await
    }
}
