//! Failures of a Bucket. Reasons and the beginnings of messages are those of Flux's `bucket_controller.go`
//! (v1.9).

use equate_api::meta::{ConditionType, Reason};
use equate_bucket::{Error, PlaceError, Reason as Class, TokenServiceError};
use equate_source::TreeError;

use super::declared::Declared;
use crate::kit::processors::JobError;
use crate::kit::read::chain;
use crate::kit::time_limit::TimeLimit;
use crate::sources::failure::Failure;

/// The endpoint or the name of the bucket is malformed: only another spec helps.
pub(super) fn names(error: &PlaceError) -> Failure {
    Failure::stalling(ConditionType::FetchFailed, Reason::UrlInvalid, chain(error))
}

/// `spec.sts` does not fit the provider: only another spec helps.
pub(super) fn token_service(message: String) -> Failure {
    Failure::stalling(
        ConditionType::FetchFailed,
        Reason::InvalidStsConfiguration,
        message,
    )
}

pub(super) fn token_service_url(endpoint: &str, error: &TokenServiceError) -> Failure {
    let endpoint: String = endpoint.chars().take(200).collect();
    let message = format!("failed to parse STS endpoint '{endpoint}': {error}");
    Failure::stalling(ConditionType::FetchFailed, Reason::UrlInvalid, message)
}

/// This process gets no keys of AWS.
pub(super) fn identity(why: &str) -> Failure {
    let doing = "AWS authentication failed: failed to create provider access token for the controller";
    access(format!("{doing}: {why}"), false)
}

pub(super) fn authenticate(error: &Error, limit: TimeLimit) -> Failure {
    identity(&told(error, limit))
}

/// The credentials, certificates or the proxy cannot be used.
pub(super) fn access(message: String, is_final: bool) -> Failure {
    match is_final {
        true => Failure::stalling(ConditionType::FetchFailed, Reason::AuthenticationFailed, message),
        false => Failure::passing(ConditionType::FetchFailed, Reason::AuthenticationFailed, message),
    }
}

pub(super) fn operation(message: String) -> Failure {
    Failure::passing(ConditionType::FetchFailed, Reason::BucketOperationFailed, message)
}

fn told(error: &Error, limit: TimeLimit) -> String {
    match error.reason() {
        Class::Timeout => format!("{}{}", chain(error), limit.operators()),
        _ => chain(error),
    }
}

pub(super) fn exists(bucket: &str, error: &Error, limit: TimeLimit) -> Failure {
    let why = told(error, limit);
    operation(format!("failed to confirm existence of '{bucket}' bucket: {why}"))
}

/// Work with the objects did not end.
pub(super) fn unfinished(declared: &Declared, error: &JobError, doing: &str) -> Failure {
    let doing = format!("failed to {doing} of bucket '{}'", declared.bucket);
    Failure::unfinished(error, Reason::BucketOperationFailed, &declared.key, &doing)
}

pub(super) fn absent(bucket: &str) -> Failure {
    operation(format!("bucket '{bucket}' not found"))
}

pub(super) fn ignore_file(error: &Error, limit: TimeLimit) -> Failure {
    let why = told(error, limit);
    operation(format!("failed to get Etag for '.sourceignore' object: {why}"))
}

pub(super) fn list(bucket: &str, error: &Error, limit: TimeLimit) -> Failure {
    let why = told(error, limit);
    operation(format!(
        "indexation of objects from bucket '{bucket}' failed: {why}"
    ))
}

pub(super) fn fetch(bucket: &str, key: &str, error: &Error, limit: TimeLimit) -> Failure {
    let key: String = key.chars().take(300).collect();
    let why = told(error, limit);
    unfetched(bucket, &format!("failed to get '{key}' object: {why}"))
}

pub(super) fn unfetched(bucket: &str, why: &str) -> Failure {
    operation(format!("fetch from bucket '{bucket}' failed: {why}"))
}

pub(super) fn tree(bucket: &str, error: &TreeError) -> Failure {
    unfetched(bucket, &chain(error))
}
