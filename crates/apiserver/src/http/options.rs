//! Query options and their validation, with upstream's texts.

use crate::field::FieldError;
use crate::status::ApiError;
use serde_json::{Value, json};

/// A parsed query string. Repeated keys keep all values, in order.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: Option<&str>) -> Self {
        Self(
            form_urlencoded::parse(query.unwrap_or_default().as_bytes())
                .into_owned()
                .collect(),
        )
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(k, _)| k == key)
            .map(|(_, v)| v.as_str())
    }

    /// Go's `strconv.ParseBool` as the query decoder uses it: anything but a false word is true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key)
            .is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    fn has(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !v.is_empty())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FieldValidation {
    Ignore,
    Warn,
    Strict,
}

#[derive(Debug, Clone)]
pub(crate) struct WriteOptions {
    pub dry_run: bool,
    pub field_validation: FieldValidation,
    /// The `fieldManager` parameter; `Some("")` when it was given and empty.
    pub field_manager: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OptionsKind {
    Create,
    Update,
    Patch { apply: bool },
}

impl OptionsKind {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch { .. } => "PatchOptions",
        }
    }
}

/// apimachinery, `FieldManagerMaxLength`.
const FIELD_MANAGER_MAX: usize = 128;

pub(crate) fn write_options(query: &Query, kind: OptionsKind) -> Result<WriteOptions, ApiError> {
    let mut errors = Vec::new();
    let manager = query.get("fieldManager");
    if let OptionsKind::Patch { apply } = kind {
        if apply {
            if manager.unwrap_or_default().is_empty() {
                errors.push(FieldError::required(
                    "fieldManager",
                    "is required for apply patch",
                ));
            }
        } else if query.has("force") {
            errors.push(FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            ));
        }
    }
    if let Some(manager) = manager {
        errors.extend(manager_errors(manager));
    }
    let dry_run = dry_run(query, &mut errors);
    let field_validation = match query.get("fieldValidation").unwrap_or_default() {
        "" | "Warn" => FieldValidation::Warn,
        "Strict" => FieldValidation::Strict,
        "Ignore" => FieldValidation::Ignore,
        other => {
            errors.push(FieldError::not_supported(
                "fieldValidation",
                &json!(other),
                &["", "Ignore", "Strict", "Warn"],
            ));
            FieldValidation::Warn
        }
    };
    if errors.is_empty() {
        Ok(WriteOptions {
            dry_run,
            field_validation,
            field_manager: manager.map(str::to_owned),
        })
    } else {
        Err(ApiError::invalid("meta.k8s.io", kind.name(), "", &errors))
    }
}

fn manager_errors(manager: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long("fieldManager", FIELD_MANAGER_MAX));
    }
    if let Some(bad) = manager.chars().find(|c| c.is_control()) {
        errors.push(FieldError::invalid(
            "fieldManager",
            &json!(manager),
            format!(
                "should only contain printable characters, found {:?}",
                bad.to_string()
            ),
        ));
    }
    errors
}

fn dry_run(query: &Query, errors: &mut Vec<FieldError>) -> bool {
    let values: Vec<&str> = query.all("dryRun").filter(|v| !v.is_empty()).collect();
    if values.iter().any(|v| *v != "All") {
        errors.push(dry_run_error(&values));
    }
    !values.is_empty()
}

fn dry_run_error(values: &[&str]) -> FieldError {
    FieldError::not_supported("dryRun", &json!(values), &["All"])
}

/// `metav1.DeleteOptions`, from the body or, without one, from the query.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub grace_period_seconds: Option<i64>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub orphan_dependents: Option<bool>,
    pub propagation: Option<String>,
    pub dry_run: bool,
}

impl DeleteOptions {
    pub(crate) fn from_query(query: &Query) -> Result<Self, ApiError> {
        let number = |key: &str| -> Result<Option<i64>, ApiError> {
            match query.get(key) {
                None | Some("") => Ok(None),
                Some(text) => text.parse().map(Some).map_err(|_| {
                    ApiError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
                }),
            }
        };
        let mut options = Self {
            grace_period_seconds: number("gracePeriodSeconds")?,
            orphan_dependents: query
                .get("orphanDependents")
                .map(|_| query.flag("orphanDependents")),
            propagation: query
                .get("propagationPolicy")
                .filter(|p| !p.is_empty())
                .map(str::to_owned),
            ..Self::default()
        };
        let values: Vec<&str> = query.all("dryRun").filter(|v| !v.is_empty()).collect();
        options.check(&values)?;
        options.dry_run = !values.is_empty();
        Ok(options)
    }

    /// From a body decoded by its schema: a field that is absent here was not sent.
    pub(crate) fn from_body(body: &Value) -> Result<Self, ApiError> {
        let preconditions = &body["preconditions"];
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let mut options = Self {
            grace_period_seconds: body["gracePeriodSeconds"].as_i64(),
            uid: text(&preconditions["uid"]),
            resource_version: text(&preconditions["resourceVersion"]),
            orphan_dependents: body["orphanDependents"].as_bool(),
            propagation: text(&body["propagationPolicy"]),
            dry_run: false,
        };
        let values: Vec<&str> = body["dryRun"]
            .as_array()
            .map(|a| a.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        options.check(&values)?;
        options.dry_run = !values.is_empty();
        Ok(options)
    }

    fn check(&self, dry_run: &[&str]) -> Result<(), ApiError> {
        let mut errors = Vec::new();
        if self.propagation.is_some() && self.orphan_dependents.is_some() {
            errors.push(FieldError::invalid(
                "propagationPolicy",
                &json!(self.propagation),
                "orphanDependents and deletionPropagation cannot be both set",
            ));
        }
        if let Some(policy) = &self.propagation
            && !matches!(policy.as_str(), "Foreground" | "Background" | "Orphan")
        {
            errors.push(FieldError::not_supported(
                "propagationPolicy",
                &json!(policy),
                &["Foreground", "Background", "Orphan", "nil"],
            ));
        }
        if dry_run.iter().any(|v| *v != "All") {
            errors.push(dry_run_error(dry_run));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(ApiError::invalid("meta.k8s.io", "DeleteOptions", "", &errors))
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Newest,
    /// Any state; the limit is ignored, as upstream's cache does.
    Any,
    NotOlderThan(u64),
    Exactly(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct ListOptions {
    pub at: At,
    pub limit: Option<usize>,
    pub continue_token: Option<String>,
    pub label_selector: String,
    pub field_selector: String,
    pub watch: bool,
    pub bookmarks: bool,
    pub send_initial_events: Option<bool>,
    pub timeout_seconds: Option<u64>,
}

pub(crate) fn list_options(query: &Query, watch: bool) -> Result<ListOptions, ApiError> {
    let version = query.get("resourceVersion").unwrap_or_default();
    let matching = query.get("resourceVersionMatch").unwrap_or_default();
    let token = query.get("continue").filter(|t| !t.is_empty()).map(str::to_owned);
    let initial = query
        .get("sendInitialEvents")
        .map(|_| query.flag("sendInitialEvents"));
    let errors = list_errors(watch, version, matching, token.is_some(), initial);
    if !errors.is_empty() {
        return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", &errors));
    }
    let number = |key: &str| -> Result<Option<u64>, ApiError> {
        match query.get(key) {
            None | Some("") => Ok(None),
            Some(text) => text
                .parse::<i64>()
                .map(|n| u64::try_from(n).ok().filter(|n| *n > 0))
                .map_err(|_| {
                    ApiError::bad_request(format!("strconv.ParseInt: parsing \"{text}\": invalid syntax"))
                }),
        }
    };
    let at = match (version, matching) {
        ("", _) => At::Newest,
        ("0", _) => At::Any,
        (text, how) => {
            let revision = if watch {
                parse_revision(text)?
            } else {
                parse_list_revision(text)?
            };
            if how == "Exact" {
                At::Exactly(revision)
            } else {
                At::NotOlderThan(revision)
            }
        }
    };
    Ok(ListOptions {
        at,
        limit: number("limit")?.map(|n| usize::try_from(n).unwrap_or(usize::MAX)),
        continue_token: token,
        label_selector: query.get("labelSelector").unwrap_or_default().to_owned(),
        field_selector: query.get("fieldSelector").unwrap_or_default().to_owned(),
        watch,
        bookmarks: query.flag("allowWatchBookmarks"),
        send_initial_events: initial,
        timeout_seconds: number("timeoutSeconds")?,
    })
}

/// A `resourceVersion` as a number. An invalid one is a server error upstream, except in a list.
pub(crate) fn parse_revision(text: &str) -> Result<u64, ApiError> {
    text.parse().map_err(|_| {
        let why = format!(
            "resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        );
        ApiError::new(500, "", why, None)
    })
}

fn parse_list_revision(text: &str) -> Result<u64, ApiError> {
    parse_revision(text)
        .map_err(|error| ApiError::bad_request(format!("invalid resource version: {}", error.message)))
}

fn list_errors(
    watch: bool,
    version: &str,
    matching: &str,
    paging: bool,
    initial: Option<bool>,
) -> Vec<FieldError> {
    const FIELD: &str = "resourceVersionMatch";
    let mut errors = Vec::new();
    if watch {
        if initial.is_some() {
            if matching != "NotOlderThan" {
                errors.push(FieldError::forbidden(
                    FIELD,
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                ));
            }
        } else if !matching.is_empty() {
            errors.push(FieldError::forbidden(
                FIELD,
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            ));
        }
        if paging {
            errors.push(FieldError::forbidden(
                "continue",
                "continue is forbidden for watch",
            ));
        }
        return errors;
    }
    if initial.is_some() {
        errors.push(FieldError::forbidden(
            "sendInitialEvents",
            "sendInitialEvents is forbidden for list",
        ));
    }
    if matching.is_empty() {
        return errors;
    }
    if version.is_empty() {
        errors.push(FieldError::forbidden(
            FIELD,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ));
    }
    if paging {
        errors.push(FieldError::forbidden(
            FIELD,
            "resourceVersionMatch is forbidden when continue is provided",
        ));
    }
    if !matches!(matching, "Exact" | "NotOlderThan") {
        errors.push(FieldError::not_supported(
            FIELD,
            &json!(matching),
            &["Exact", "NotOlderThan", ""],
        ));
    }
    if matching == "Exact" && version == "0" {
        errors.push(FieldError::forbidden(
            FIELD,
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        ));
    }
    errors
}
