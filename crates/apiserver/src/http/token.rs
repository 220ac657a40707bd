//! `serviceaccounts/NAME/token`: tokens of ServiceAccounts.

use super::options::OptionsKind;
use super::{Call, decoded};
use crate::auth::issued::{AUDIENCE, Bound, TokenGrant};
use crate::builtin::tree::text;
use crate::field::FieldError;
use crate::pipeline::Target;
use crate::status::{ApiError, GroupResource};
use crate::store::{Entry, Key, ResourceId};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use std::sync::Arc;

const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// Default, minimum and maximum lifetime.
const TOKEN_SECONDS: i64 = 3600;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = (1 << 32) + 1;

impl Call<'_> {
    pub(super) async fn token(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply()?;
        let cx = self.writer(OptionsKind::Create)?;
        let request = self.body(body).await?.parse()?.value;
        let mut request = decoded(TOKEN_REQUEST, request)?;
        let account = self.stored(target).await?;
        let spec = &request["spec"];
        let refused = |error| ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]);
        let seconds = spec["expirationSeconds"].as_i64().unwrap_or(TOKEN_SECONDS);
        let why = match seconds {
            ..TOKEN_SECONDS_MIN => Some("may not specify a duration less than 10 minutes"),
            TOKEN_SECONDS_MAX.. => Some("may not specify a duration larger than 2^32 seconds"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(refused(FieldError::invalid(
                "spec.expirationSeconds",
                &json!(seconds),
                why,
            )));
        }
        let audiences = spec["audiences"].as_array().into_iter().flatten();
        let mut audiences: Vec<String> = audiences.filter_map(Value::as_str).map(str::to_owned).collect();
        if audiences.is_empty() {
            audiences.push(AUDIENCE.to_owned());
        }
        let now = (self.api().clock)();
        let uid = text(account.object(), "metadata.uid");
        let holder = (target.namespace.as_str(), target.name.as_str(), uid);
        let mut grant = TokenGrant::new(holder, audiences.clone(), (now, seconds));
        if !spec["boundObjectRef"].is_null() {
            self.bind(&mut grant, &spec["boundObjectRef"])?;
        }
        request["kind"] = json!("TokenRequest");
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        request["metadata"] = json!({
            "name": target.name, "namespace": target.namespace, "creationTimestamp": self.api().now(),
        });
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = json!(seconds);
        if !cx.dry_run() {
            let expires = grant.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let token = self.api().auth.issued().issue(&grant)?;
            request["status"] = json!({ "token": token.expose(), "expirationTimestamp": expires });
        }
        Ok(reply.value(StatusCode::CREATED, &request))
    }

    /// Binds a token to an object: it ends with it. Errors as in `registry/core/serviceaccount/storage`.
    fn bind(&self, grant: &mut TokenGrant, reference: &Value) -> Result<(), ApiError> {
        let (version, kind, name) = (
            text(reference, "apiVersion"),
            text(reference, "kind"),
            text(reference, "name"),
        );
        let (plural, namespace) = match (version, kind) {
            ("v1", "Pod") => ("pods", grant.namespace.as_str()),
            ("v1", "Secret") => ("secrets", grant.namespace.as_str()),
            ("v1", "Node") => ("nodes", ""),
            _ => {
                let (group, version) = version.split_once('/').unwrap_or(("", version));
                let why = format!("cannot bind token to object of type {group}/{version}, Kind={kind}");
                return Err(ApiError::bad_request(why));
            }
        };
        let entry = self
            .find(plural, namespace, name)
            .ok_or_else(|| ApiError::not_found(&GroupResource::new("", plural), name))?;
        let object = entry.object();
        if kind == "Pod" {
            if text(object, "spec.serviceAccountName") != grant.name {
                return Err(ApiError::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    grant.name
                )));
            }
            let node = text(object, "spec.nodeName");
            if !node.is_empty() {
                let found = self.find("nodes", "", node);
                let uid = found.map(|node| text(node.object(), "metadata.uid").to_owned());
                grant.node = Some((node.to_owned(), uid));
            }
        }
        let (uid, wanted) = (text(object, "metadata.uid"), text(reference, "uid"));
        if !wanted.is_empty() && wanted != uid {
            return Err(ApiError::conflict(
                &GroupResource::new("", kind),
                name,
                format_args!(
                    "the UID in the bound object reference ({wanted}) does not match the UID in record. The object might have been deleted and then recreated"
                ),
            ));
        }
        grant.bound = Some(Bound {
            kind: kind.to_lowercase(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        });
        Ok(())
    }

    fn find(&self, plural: &str, namespace: &str, name: &str) -> Option<Arc<Entry>> {
        let key = Key::new(&ResourceId::new("", plural), namespace, name);
        self.view.snapshot.get(&key).cloned()
    }
}
