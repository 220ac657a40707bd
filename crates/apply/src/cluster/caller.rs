//! Who asks: a client, and whom it acts as.
//!
//! To act as another is one header of a request, not another client: a thousand identities share the
//! connections and cost nothing while they are not used. What a header may hold is all that is
//! checked here; whether the one behind the client may act as another, the API server decides.

use http::HeaderValue;
use kube::Client;
use kube::client::Body;

/// The header that names whom to act as. Groups are left out: the API server knows those of a
/// ServiceAccount, and who may impersonate one need not be allowed groups.
const ACTS_AS: &str = "impersonate-user";

/// Sends requests.
#[derive(Clone)]
pub(super) struct Caller {
    pub(super) client: Client,
    user: Option<HeaderValue>,
}

/// A name that no header can hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot be acted as: it is no name")]
pub struct NoSuchName(pub String);

impl Caller {
    pub(super) fn new(client: Client) -> Self {
        Self { client, user: None }
    }

    pub(super) fn acting_as(&self, user: &str) -> Result<Self, NoSuchName> {
        let value = HeaderValue::from_str(user).map_err(|_| NoSuchName(user.to_owned()))?;
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
