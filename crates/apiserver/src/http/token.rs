//! `serviceaccounts/NAME/token`: tokens of ServiceAccounts.

use super::options::OptionsKind;
use super::{Call, decoded};
use crate::auth::issued::{AUDIENCE, TokenGrant};
use crate::field::FieldError;
use crate::pipeline::Target;
use crate::status::{ApiError, Details};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

const TOKEN_REQUEST: &str = "io.k8s.api.authentication.v1.TokenRequest";
/// Default, minimum and maximum lifetime.
const TOKEN_SECONDS: i64 = 3600;
const TOKEN_SECONDS_MIN: i64 = 600;
const TOKEN_SECONDS_MAX: i64 = (1 << 32) + 1;

impl Call<'_> {
    pub(super) async fn token(&self, target: &Target, body: axum::body::Body) -> Result<Response, ApiError> {
        let reply = self.reply()?;
        let cx = self.writer(OptionsKind::Create)?;
        let (request, _) = self.body(body).await?.parse()?;
        let mut request = decoded(TOKEN_REQUEST, request)?;
        let account = self.stored(target).await?;
        let spec = &request["spec"];
        let refused = |error| ApiError::invalid("authentication.k8s.io", "TokenRequest", "", &[error]);
        if !spec["boundObjectRef"].is_null() {
            let why = "tokens that are bound to an object are not given out here";
            return Err(refused(FieldError::forbidden("spec.boundObjectRef", why)));
        }
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
        let uid = account.object()["metadata"]["uid"].as_str().unwrap_or_default();
        let grant = TokenGrant::new(
            &target.namespace,
            &target.name,
            uid,
            audiences.clone(),
            (now, seconds),
        );
        request["kind"] = json!("TokenRequest");
        request["apiVersion"] = json!("authentication.k8s.io/v1");
        request["metadata"] = json!({
            "name": target.name, "namespace": target.namespace, "creationTimestamp": self.api().now(),
        });
        request["spec"]["audiences"] = json!(audiences);
        request["spec"]["expirationSeconds"] = json!(seconds);
        if !cx.dry_run() {
            let expires = grant.expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let token = self.api().auth.issued().issue(grant, now)?;
            let token = token.ok_or_else(|| {
                let why = "more tokens are in use than this server keeps; ask again when some have expired";
                ApiError::new(429, "TooManyRequests", why, Some(Details::default()))
            })?;
            request["status"] = json!({ "token": token.expose(), "expirationTimestamp": expires });
        }
        Ok(reply.value(StatusCode::CREATED, &request))
    }
}
