//! Services of temporary keys, as their documents say: MinIO's for users of LDAP, AWS's for web identities,
//! containers and machines.

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::request::Parts;
use http::{Method, StatusCode};

use super::{Shared, decode};

/// The user of LDAP, and the password.
pub const LDAP_USER: (&str, &str) = ("ada", "l0ve&lace");
/// The token of a web identity.
pub const WEB_IDENTITY: &str = "web.identity.t0ken";
/// The role of a web identity.
pub const WEB_ROLE: &str = "arn:aws:iam::1:role/reader";
/// The token of a container, for `/container`.
pub const CONTAINER_TOKEN: &str = "container-t0ken";

const METADATA_TOKEN: &str = "metadata-t0ken";
const ROLES: &str = "/latest/meta-data/iam/security-credentials/";
const ROLE: &str = "reader-role";
const ACCESS: &str = "ASIA";

/// The number of temporary keys by their name.
pub(super) fn number(access_key: &str) -> Option<usize> {
    access_key.strip_prefix(ACCESS)?.parse().ok()
}

pub(super) fn secret(number: usize) -> String {
    format!("temporary/secret+{number}")
}

pub(super) fn session(number: usize) -> String {
    format!("session/t0ken+{number}==")
}

/// Makes keys; returns their number and end.
fn keys(shared: &Shared) -> (usize, String) {
    let mut state = shared.state();
    state.tokens.push(true);
    let life = state.life.unwrap_or(std::time::Duration::from_secs(3600));
    let end = jiff::Timestamp::now() + life;
    (state.tokens.len() - 1, end.to_string())
}

/// The answer of a service of keys; `None` for the requests of a store.
pub(super) fn route(shared: &Shared, parts: &Parts, body: &Bytes) -> Option<Response> {
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    match (&parts.method, parts.uri.path()) {
        (&Method::POST, "/") => Some(assume(shared, parts, &String::from_utf8_lossy(body))),
        (&Method::GET, "/container") => Some(match header("authorization") == Some(CONTAINER_TOKEN) {
            true => document(shared),
            false => {
                let text = "{\"code\":\"AccessDenied\",\"message\":\"Unauthorized token\"}";
                plain(StatusCode::UNAUTHORIZED, text)
            }
        }),
        (&Method::PUT, "/latest/api/token") => {
            let seconds = header("x-aws-ec2-metadata-token-ttl-seconds").and_then(|text| text.parse().ok());
            Some(match seconds {
                Some(1..=21600_u32) => plain(StatusCode::OK, METADATA_TOKEN),
                _ => plain(StatusCode::BAD_REQUEST, ""),
            })
        }
        (&Method::GET, path) if path.starts_with("/latest/") => Some(
            match (header("x-aws-ec2-metadata-token"), path.strip_prefix(ROLES)) {
                (Some(METADATA_TOKEN), Some("")) => plain(StatusCode::OK, ROLE),
                (Some(METADATA_TOKEN), Some(ROLE)) => document(shared),
                (Some(METADATA_TOKEN), _) => plain(StatusCode::NOT_FOUND, ""),
                _ => plain(StatusCode::UNAUTHORIZED, ""),
            },
        ),
        _ => None,
    }
}

fn assume(shared: &Shared, parts: &Parts, form: &str) -> Response {
    let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
    let pairs: Vec<(String, String)> = pairs.map(|(name, value)| (decode(name), decode(value))).collect();
    let field = |name: &str| {
        let found = pairs.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value.as_str())
    };
    let is_form = parts
        .headers
        .get("content-type")
        .is_some_and(|value| value == "application/x-www-form-urlencoded");
    if !is_form || field("Version") != "2011-06-15" {
        return refusal("InvalidAction", "no form of this version");
    }
    match field("Action") {
        action @ "AssumeRoleWithLDAPIdentity" => {
            match (field("LDAPUsername"), field("LDAPPassword")) == LDAP_USER {
                true => assumed(shared, action),
                false => refusal(
                    "InvalidParameterValue",
                    "LDAP server error: LDAP auth failed for DN",
                ),
            }
        }
        action @ "AssumeRoleWithWebIdentity" => {
            let session = field("RoleSessionName");
            let is_name = (2..=64).contains(&session.len());
            match (field("RoleArn"), field("WebIdentityToken"), is_name) == (WEB_ROLE, WEB_IDENTITY, true) {
                true => assumed(shared, action),
                false => refusal("InvalidIdentityToken", "the token is not valid"),
            }
        }
        _ => refusal("InvalidAction", "unknown action"),
    }
}

fn assumed(shared: &Shared, action: &str) -> Response {
    let (number, end) = keys(shared);
    let (secret, session) = (secret(number), session(number));
    plain(
        StatusCode::OK,
        &format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
             <{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result><Credentials>\
             <AccessKeyId>{ACCESS}{number}</AccessKeyId><SecretAccessKey>{secret}</SecretAccessKey>\
             <Expiration>{end}</Expiration><SessionToken>{session}</SessionToken></Credentials></{action}Result>\
             <ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></{action}Response>"
        ),
    )
}

fn document(shared: &Shared) -> Response {
    let (number, end) = keys(shared);
    let document = serde_json::json!({
        "Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": format!("{ACCESS}{number}"),
        "SecretAccessKey": secret(number), "Token": session(number), "Expiration": end,
    });
    plain(StatusCode::OK, &document.to_string())
}

fn refusal(code: &str, message: &str) -> Response {
    plain(
        StatusCode::BAD_REQUEST,
        &format!(
            "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
             <Code>{code}</Code><Message>{message}</Message></Error><RequestId>1</RequestId></ErrorResponse>"
        ),
    )
}

fn plain(status: StatusCode, text: &str) -> Response {
    let response = Response::builder().status(status);
    response.body(Body::from(text.to_owned())).unwrap_or_default()
}
