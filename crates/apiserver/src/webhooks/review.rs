//! AdmissionReview: the question to a webhook, and its answer.

use crate::builtin::tree::{items, text};
use crate::policies::Request;
use crate::status::ApiError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use equate_manifest::patch::json::Patch;
use serde_json::{Value, json};

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) patch: Option<Patch>,
    pub(super) warnings: Vec<String>,
    /// The status of a denial.
    pub(super) denied: Option<Value>,
}

/// The question's id, and its body, in the first version of the webhook that this server speaks.
pub(super) fn question(webhook: &Value, request: &Request<'_>) -> (String, Vec<u8>) {
    let id = uuid::Uuid::new_v4().to_string();
    let mut described = request.describe();
    described["uid"] = json!(id);
    described["object"] = json!(request.object);
    described["oldObject"] = json!(request.old);
    let options = match text(&described, "operation") {
        "CREATE" => "CreateOptions",
        "DELETE" => "DeleteOptions",
        _ => "UpdateOptions",
    };
    described["options"] = json!({ "kind": options, "apiVersion": "meta.k8s.io/v1" });
    let spoken = items(webhook, "admissionReviewVersions")
        .iter()
        .filter_map(Value::as_str)
        .find(|version| matches!(*version, "v1" | "v1beta1"));
    let review = json!({
        "kind": "AdmissionReview",
        "apiVersion": format!("admission.k8s.io/{}", spoken.unwrap_or("v1")),
        "request": described,
    });
    (id, review.to_string().into_bytes())
}

pub(super) fn answer(bytes: &[u8], id: &str) -> Result<Answer, String> {
    let review: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("the answer is not JSON: {error}"))?;
    let response = &review["response"];
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    let uid = text(response, "uid");
    if uid != id {
        return Err(format!("expected response.uid={id:?}, got {uid:?}"));
    }
    let warnings = items(response, "warnings").iter();
    let mut answer = Answer {
        warnings: warnings.filter_map(Value::as_str).map(str::to_owned).collect(),
        ..Answer::default()
    };
    if response["allowed"] != true {
        answer.denied = Some(response["status"].clone());
        return Ok(answer);
    }
    let (kind, patch) = (text(response, "patchType"), text(response, "patch"));
    match (kind, patch.is_empty()) {
        (_, true) => {}
        ("JSONPatch", false) => {
            let operations = STANDARD
                .decode(patch)
                .map_err(|error| format!("patch: {error}"))?;
            let operations: Value =
                serde_json::from_slice(&operations).map_err(|error| format!("patch: {error}"))?;
            answer.patch = Some(Patch::parse(&operations).map_err(|error| format!("patch: {error}"))?);
        }
        (kind, false) => return Err(format!("invalid response.patchType {kind:?}")),
    }
    Ok(answer)
}

/// As upstream's `ToStatusErr`.
pub(super) fn refusal(name: &str, status: &Value) -> ApiError {
    let code = status["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let (message, reason) = (text(status, "message"), text(status, "reason"));
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (message, reason) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = code.filter(|code| *code >= 400).unwrap_or(400);
    let reason = REASONS.iter().find(|known| **known == reason).copied();
    ApiError::new(code, reason.unwrap_or_default(), message, None)
}

/// The reasons of Kubernetes; others are left out.
const REASONS: [&str; 10] = [
    "AlreadyExists",
    "BadRequest",
    "Conflict",
    "Forbidden",
    "InternalError",
    "Invalid",
    "NotFound",
    "RequestEntityTooLarge",
    "TooManyRequests",
    "Unauthorized",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_strictly() {
        let check = |response: Value, expected: Result<(bool, bool), &str>| {
            let bytes = json!({ "response": response }).to_string();
            let got = answer(bytes.as_bytes(), "1");
            let got = got.map(|answer| (answer.denied.is_some(), answer.patch.is_some()));
            assert_eq!(got, expected.map_err(str::to_owned), "{bytes}");
        };
        let patch = STANDARD.encode(r#"[{"op":"add","path":"/a","value":1}]"#);
        check(json!({ "uid": "1", "allowed": true }), Ok((false, false)));
        check(json!({ "uid": "1" }), Ok((true, false)));
        check(
            json!({ "uid": "1", "allowed": true, "patchType": "JSONPatch", "patch": patch }),
            Ok((false, true)),
        );
        check(
            json!({ "uid": "1", "allowed": true, "patchType": "Other", "patch": patch }),
            Err("invalid response.patchType \"Other\""),
        );
        check(
            json!({ "uid": "2", "allowed": true }),
            Err("expected response.uid=\"1\", got \"2\""),
        );
        check(Value::Null, Err("webhook response was absent"));
    }

    #[test]
    fn refusal_has_upstreams_text() {
        let check = |status: Value, code: u16, message: &str| {
            let error = refusal("w.x.y", &status);
            assert_eq!((error.code, error.message.as_str()), (code, message));
        };
        let denied = "admission webhook \"w.x.y\" denied the request";
        check(Value::Null, 400, &format!("{denied} without explanation"));
        check(json!({ "reason": "No" }), 400, &format!("{denied}: No"));
        check(
            json!({ "code": 403, "message": "never" }),
            403,
            &format!("{denied}: never"),
        );
        check(
            json!({ "code": 200, "message": "never" }),
            400,
            &format!("{denied}: never"),
        );
    }
}
