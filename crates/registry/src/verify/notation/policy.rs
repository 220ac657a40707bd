//! `trustpolicy.json`, version 1.0: which artifacts need which signatures.

use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};

use super::distinguished_name::{DistinguishedName, NameProblem};

/// The most bytes of a trust policy.
pub const POLICY_BYTES_MAX: usize = 1 << 20;
const WILDCARD: &str = "*";
const SUBJECT: &str = "x509.subject";
const STORE_KINDS: [&str; 3] = ["ca", "signingAuthority", "tsa"];

/// A trust policy is invalid, or does not apply. The texts are notation's.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It is too large.
    #[error("the trust policy has {bytes} bytes, more than {POLICY_BYTES_MAX}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// It is not the expected JSON.
    #[error("error occurred while parsing trustpolicy.json")]
    Json(#[source] serde_json::Error),
    /// A rule of the format is broken.
    #[error("{0}")]
    Invalid(String),
    /// A trusted identity is malformed.
    #[error(
        "trust policy: trust policy statement \"{statement}\" has trusted identity \"{identity}\" with invalid identity value"
    )]
    Identity {
        /// The statement.
        statement: String,
        /// The identity.
        identity: String,
        /// The cause.
        source: NameProblem,
    },
    /// No statement is about the artifact.
    #[error(
        "artifact \"{0}\" has no applicable trust policy statement. Trust policy applicability for a given \
         artifact is determined by registryScopes"
    )]
    NotApplicable(String),
}

/// The effect of a failed check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Enforce,
    Log,
    Skip,
}

/// The effects of the checks. Integrity is always enforced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Level {
    pub(super) authenticity: Action,
    pub(super) authentic_timestamp: Action,
    pub(super) expiry: Action,
    pub(super) revocation: Action,
}

impl Level {
    /// The effects of a named level; `None` if there is no such level.
    fn named(name: &str) -> Option<Self> {
        let (authenticity, others) = match name {
            "strict" => (Action::Enforce, Action::Enforce),
            "permissive" => (Action::Enforce, Action::Log),
            "audit" => (Action::Log, Action::Log),
            "skip" => (Action::Skip, Action::Skip),
            _ => return None,
        };
        Some(Self {
            authenticity,
            authentic_timestamp: others,
            expiry: others,
            revocation: others,
        })
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    version: String,
    trust_policies: Vec<StatementText>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatementText {
    name: String,
    registry_scopes: Vec<String>,
    signature_verification: Verification,
    trust_stores: Vec<String>,
    trusted_identities: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Verification {
    level: String,
    r#override: BTreeMap<String, String>,
    verify_timestamp: String,
}

/// A checked trust policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustPolicy {
    statements: Vec<Statement>,
}

/// One statement of a trust policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    name: String,
    scopes: Vec<String>,
    is_skipped: bool,
    level: Level,
    always_timestamp: bool,
    store_kinds: HashSet<String>,
    /// `None` trusts every identity.
    identities: Option<Vec<DistinguishedName>>,
}

impl Statement {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_skipped(&self) -> bool {
        self.is_skipped
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    pub(super) fn has_store(&self, kind: &str) -> bool {
        self.store_kinds.contains(kind)
    }

    pub(super) fn always_needs_timestamp(&self) -> bool {
        self.always_timestamp
    }

    /// The identities, of which the signer must have one; `None` if every signer counts.
    pub(super) fn trusted_identities(&self) -> Option<&[DistinguishedName]> {
        self.identities.as_deref()
    }
}

impl TrustPolicy {
    /// Parses and checks a trust policy. As in source-controller, a statement that skips verification loses
    /// its trust stores and identities.
    ///
    /// # Errors
    /// It is too large, malformed, or breaks a rule of the format.
    pub fn parse(json: &[u8]) -> Result<Self, PolicyError> {
        if json.len() > POLICY_BYTES_MAX {
            return Err(PolicyError::TooLarge { bytes: json.len() });
        }
        let document: Document = serde_json::from_slice(json).map_err(PolicyError::Json)?;
        match document.version.as_str() {
            "1.0" => {}
            "" => return invalid("trust policy document has empty version, version must be specified"),
            other => {
                return invalid(format!(
                    "trust policy document uses unsupported version \"{other}\""
                ));
            }
        }
        if document.trust_policies.is_empty() {
            return invalid("trust policy document can not have zero trust policy statements");
        }
        let mut names = HashSet::new();
        let mut scopes = HashSet::new();
        let mut statements = Vec::new();
        for text in document.trust_policies {
            if !names.insert(text.name.clone()) {
                return invalid(format!(
                    "multiple trust policy statements use the same name \"{}\", statement names must be unique",
                    text.name
                ));
            }
            let statement = statement(text)?;
            for scope in &statement.scopes {
                if !scopes.insert(scope.clone()) {
                    return invalid(format!(
                        "registry scope \"{scope}\" is present in multiple trust policy statements, one \
                         registry scope value can only be associated with one statement"
                    ));
                }
            }
            statements.push(statement);
        }
        Ok(Self { statements })
    }

    /// Whether the policy skips an artifact, so that its signatures need not be fetched.
    ///
    /// # Errors
    /// No statement applies.
    pub fn skips(&self, reference: &str) -> Result<bool, PolicyError> {
        Ok(self.statement_for(reference)?.is_skipped)
    }

    /// The statement for an artifact: the one that names its repository, or the one for all.
    pub(super) fn statement_for(&self, reference: &str) -> Result<&Statement, PolicyError> {
        let (path, _) = reference.rsplit_once('@').ok_or_else(|| {
            PolicyError::Invalid(format!(
                "artifact URI \"{reference}\" could not be parsed, make sure it is the fully qualified oci \
                 artifact URI without the scheme/protocol"
            ))
        })?;
        let with = |scope: &str| {
            self.statements
                .iter()
                .find(|statement| statement.scopes.iter().any(|other| other == scope))
        };
        with(path)
            .or_else(|| with(WILDCARD))
            .ok_or_else(|| PolicyError::NotApplicable(reference.to_owned()))
    }
}

fn invalid<T>(text: impl Into<String>) -> Result<T, PolicyError> {
    Err(PolicyError::Invalid(text.into()))
}

fn statement(text: StatementText) -> Result<Statement, PolicyError> {
    let name = text.name;
    if name.is_empty() {
        return invalid(
            "trust policy: a trust policy statement is missing a name, every statement requires a name",
        );
    }
    let verification = text.signature_verification;
    let level = level(&name, &verification)?;
    let is_skipped = verification.level == "skip";
    let always_timestamp = match verification.verify_timestamp.as_str() {
        "" | "always" => true,
        "afterCertExpiry" => false,
        other => {
            return invalid(format!(
                "trust policy: trust policy statement \"{name}\" has invalid signatureVerification: verifyTimestamp \
                 must be \"always\" or \"afterCertExpiry\", but got \"{other}\""
            ));
        }
    };
    let (mut store_kinds, mut identities) = (HashSet::new(), None);
    if !is_skipped {
        if text.trust_stores.is_empty() || text.trusted_identities.is_empty() {
            return invalid(format!(
                "trust policy: trust policy statement \"{name}\" is either missing trust stores or trusted \
                 identities, both must be specified"
            ));
        }
        for store in &text.trust_stores {
            store_kinds.insert(store_kind(&name, store)?);
        }
        identities = trusted_identities(&name, &text.trusted_identities)?;
    }
    check_scopes(&name, &text.registry_scopes)?;
    Ok(Statement {
        name,
        scopes: text.registry_scopes,
        is_skipped,
        level,
        always_timestamp,
        store_kinds,
        identities,
    })
}

fn level(name: &str, verification: &Verification) -> Result<Level, PolicyError> {
    let prefix =
        format!("trust policy: trust policy statement \"{name}\" has invalid signatureVerification: ");
    let wrong = |text: String| invalid(format!("{prefix}{text}"));
    if verification.level.is_empty() {
        return wrong(
            "signature verification level is empty or missing in the trust policy statement".to_owned(),
        );
    }
    let Some(mut level) = Level::named(&verification.level) else {
        return wrong(format!(
            "invalid signature verification level \"{}\"",
            verification.level
        ));
    };
    if verification.level == "skip" && !verification.r#override.is_empty() {
        return wrong(
            "signature verification level \"skip\" can't be used to customize signature verification"
                .to_owned(),
        );
    }
    for (check, action) in &verification.r#override {
        let place = match check.as_str() {
            "authenticity" => &mut level.authenticity,
            "authenticTimestamp" => &mut level.authentic_timestamp,
            "expiry" => &mut level.expiry,
            "revocation" => &mut level.revocation,
            "integrity" => {
                return wrong(
                    "\"integrity\" verification can not be overridden in custom signature verification"
                        .to_owned(),
                );
            }
            other => {
                return wrong(format!(
                    "verification type \"{other}\" in custom signature verification is not supported"
                ));
            }
        };
        *place = match action.as_str() {
            "enforce" => Action::Enforce,
            "log" => Action::Log,
            "skip" if check == "revocation" => Action::Skip,
            "skip" => {
                return wrong(format!(
                    "\"{check}\" verification can not be skipped in custom signature verification"
                ));
            }
            other => {
                return wrong(format!(
                    "verification action \"{other}\" in custom signature verification is not supported"
                ));
            }
        };
    }
    Ok(level)
}

fn store_kind(name: &str, store: &str) -> Result<String, PolicyError> {
    let Some((kind, named)) = store.split_once(':') else {
        return invalid(format!(
            "trust policy: trust policy statement \"{name}\" has malformed trust store value \"{store}\". The \
             required format is <TrustStoreType>:<TrustStoreName>"
        ));
    };
    if !STORE_KINDS.contains(&kind) {
        return invalid(format!(
            "trust policy: trust policy statement \"{name}\" uses an unsupported trust store type \"{kind}\" in \
             trust store value \"{store}\""
        ));
    }
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    if named.is_empty() || !named.bytes().all(is_name) {
        return invalid(format!(
            "trust policy: trust policy statement \"{name}\" uses an unsupported trust store name \"{named}\" in \
             trust store value \"{store}\". Named store name needs to follow [a-zA-Z0-9_.-]+ format"
        ));
    }
    Ok(kind.to_owned())
}

fn trusted_identities(name: &str, texts: &[String]) -> Result<Option<Vec<DistinguishedName>>, PolicyError> {
    let has_wildcard = texts.iter().any(|text| text == WILDCARD);
    if has_wildcard && texts.len() > 1 {
        return invalid(format!(
            "trust policy: trust policy statement \"{name}\" uses a wildcard trusted identity '*', a wildcard \
             identity cannot be used in conjunction with other values"
        ));
    }
    if has_wildcard {
        return Ok(None);
    }
    let mut parsed: Vec<(&String, DistinguishedName)> = Vec::new();
    for text in texts {
        if text.is_empty() {
            return invalid(format!(
                "trust policy: trust policy statement \"{name}\" has an empty trusted identity"
            ));
        }
        let Some((kind, value)) = text.split_once(':') else {
            return invalid(format!(
                "trust policy: trust policy statement \"{name}\" has trusted identity \"{text}\" missing separator"
            ));
        };
        if kind != SUBJECT {
            continue;
        }
        if value.is_empty() {
            return invalid(format!(
                "trust policy: trust policy statement \"{name}\" has trusted identity \"{text}\" without an identity \
                 value"
            ));
        }
        let value = DistinguishedName::parse(value).map_err(|source| PolicyError::Identity {
            statement: name.to_owned(),
            identity: text.clone(),
            source,
        })?;
        for (other, parsed) in &parsed {
            if parsed.is_part_of(&value) || value.is_part_of(parsed) {
                return invalid(format!(
                    "trust policy: trust policy statement \"{name}\" has overlapping x509 trustedIdentities, \
                     \"{other}\" overlaps with \"{text}\""
                ));
            }
        }
        parsed.push((text, value));
    }
    Ok(Some(parsed.into_iter().map(|(_, value)| value).collect()))
}

fn check_scopes(name: &str, scopes: &[String]) -> Result<(), PolicyError> {
    if scopes.is_empty() {
        return invalid(format!(
            "trust policy statement \"{name}\" has zero registry scopes, it must specify registry scopes with at \
             least one value"
        ));
    }
    if scopes.len() > 1 && scopes.iter().any(|scope| scope == WILDCARD) {
        return invalid(format!(
            "trust policy statement \"{name}\" uses wildcard registry scope '*', a wildcard scope cannot be used \
             in conjunction with other scope values"
        ));
    }
    let malformed = scopes.iter().find(|scope| *scope != WILDCARD && !is_scope(scope));
    match malformed {
        None => Ok(()),
        Some(scope) => invalid(format!(
            "registry scope \"{scope}\" is not valid, make sure it is a fully qualified repository without the \
             scheme, protocol or tag. For example domain.com/my/repository or a local scope like \
             local/myOCILayout"
        )),
    }
}

/// A host with an optional port, and a repository.
fn is_scope(scope: &str) -> bool {
    let Some((domain, repository)) = scope.split_once('/') else {
        return false;
    };
    let (host, port) = match domain.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (domain, None),
    };
    let is_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_label = |label: &str| {
        let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !label.is_empty() && label.bytes().all(is_inner) && !label.starts_with('-') && !label.ends_with('-')
    };
    is_port && host.split('.').all(is_label) && repository.split('/').all(is_segment)
}

/// Lowercase letters and digits, separated by a dot, one or two underscores, or dashes.
fn is_segment(segment: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = segment.as_bytes();
    let is_edge = |byte: Option<&u8>| byte.is_some_and(|byte| is_word(*byte));
    let separators = segment.split(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let is_separator =
        |text: &str| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-');
    is_edge(bytes.first()) && is_edge(bytes.last()) && separators.into_iter().all(is_separator)
}
