//! `matchOIDCIdentity`: regular expressions for the issuer and the subject of a certificate.

use equate_manifest::regexp;
use regex::Regex;

/// The memory for one compiled expression.
const EXPRESSION_BYTES_MAX: usize = 1 << 20;

/// An expression is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("malformed {field} in identity: {expression} : {problem}")]
pub struct IdentityError {
    field: &'static str,
    expression: String,
    problem: String,
}

/// One identity. An empty expression matches every text.
#[derive(Debug, Clone)]
pub struct Identity {
    issuer: Option<Regex>,
    subject: Option<Regex>,
}

impl Identity {
    /// Compiles the expressions, which are in Go's syntax and match a part of the text.
    ///
    /// # Errors
    /// One of them is invalid or too large.
    pub fn new(issuer: &str, subject: &str) -> Result<Self, IdentityError> {
        Ok(Self {
            issuer: compile("issuer", issuer)?,
            subject: compile("subject", subject)?,
        })
    }

    pub(super) fn matches(&self, issuer: &str, subjects: &[String]) -> bool {
        let is_issuer = self.issuer.as_ref().is_none_or(|regex| regex.is_match(issuer));
        let is_subject = self
            .subject
            .as_ref()
            .is_none_or(|regex| subjects.iter().any(|subject| regex.is_match(subject)));
        is_issuer && is_subject
    }
}

fn compile(field: &'static str, expression: &str) -> Result<Option<Regex>, IdentityError> {
    if expression.is_empty() {
        return Ok(None);
    }
    let failed = |problem| IdentityError {
        field,
        expression: expression.to_owned(),
        problem,
    };
    match regexp::compile(expression, EXPRESSION_BYTES_MAX) {
        Ok(Some(regex)) => Ok(Some(regex)),
        Ok(None) => Err(failed(format!(
            "it needs more than {EXPRESSION_BYTES_MAX} bytes of memory"
        ))),
        Err(problem) => Err(failed(problem)),
    }
}
