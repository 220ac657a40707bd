//! Identities that a token service exchanges for temporary keys of S3, and its answers; pure.
//!
//! A user of LDAP asks MinIO: its document "AssumeRoleWithLDAPIdentity". This process asks AWS: "Credential
//! provider chain", "AssumeRoleWithWebIdentity", "Container credential provider" and "IMDS credential provider".
//! Flux's clients are minio-go and `auth/aws` of `fluxcd/pkg`.

use std::time::Duration;

use jiff::Timestamp;
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use crate::access::Credentials;
use crate::answer;
use crate::error::{Problem, Reason};
use crate::tokens::{self, joined};

/// The version of the API of token services.
const VERSION: &str = "2011-06-15";
/// As Flux says it.
const AWS_ENDPOINT: &str = r"^https://(.+\.)?sts(-fips)?(\.[^.]+)?(\.vpce)?\.amazonaws\.com$";

/// An identity. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub enum Identity {
    /// A user of LDAP, for a store of MinIO.
    Ldap(Ldap),
    /// This process, for AWS.
    Aws(Aws),
}

/// A user of LDAP, and the token service of MinIO that knows it.
#[derive(Debug, Clone)]
pub struct Ldap {
    pub(crate) endpoint: Url,
    /// The name of the user.
    pub username: String,
    /// The password of the user.
    pub password: SecretString,
    /// Certificates, PEM, trusted in addition to the machine's.
    pub ca: Option<Vec<u8>>,
    /// The client's certificate and its key, PEM.
    pub identity: Option<SecretString>,
}

/// The identity of this process at AWS.
#[derive(Debug, Clone)]
pub struct Aws {
    /// The region of the token service; that of the environment if none.
    pub region: Option<String>,
    endpoint: Option<Url>,
}

/// The address of a token service cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenServiceError {
    /// It is not a URL.
    #[error("it is not an http or https URL of a host")]
    Url,
    /// It is no service of AWS. A token of this process goes to no other host.
    #[error("invalid STS endpoint: '{0}'. must match {AWS_ENDPOINT}")]
    Aws(String),
}

/// The URL of a token service.
///
/// # Errors
/// It is none.
pub(crate) fn service(endpoint: &str) -> Result<Url, TokenServiceError> {
    let url = Url::parse(endpoint).map_err(|_| TokenServiceError::Url)?;
    match matches!(url.scheme(), "http" | "https") && url.has_host() {
        true => Ok(url),
        false => Err(TokenServiceError::Url),
    }
}

impl Ldap {
    /// Without certificates.
    ///
    /// # Errors
    /// The endpoint is not a URL.
    pub fn new(endpoint: &str, username: &str, password: SecretString) -> Result<Self, TokenServiceError> {
        Ok(Self {
            endpoint: service(endpoint)?,
            username: username.to_owned(),
            password,
            ca: None,
            identity: None,
        })
    }

    /// Checks the address of a token service.
    ///
    /// # Errors
    /// It is not a URL.
    pub fn check(endpoint: &str) -> Result<(), TokenServiceError> {
        service(endpoint).map(drop)
    }

    pub(crate) fn form(&self) -> Vec<(&'static str, String)> {
        vec![
            ("Action", "AssumeRoleWithLDAPIdentity".to_owned()),
            ("Version", VERSION.to_owned()),
            ("LDAPUsername", self.username.clone()),
            ("LDAPPassword", self.password.expose_secret().to_owned()),
        ]
    }
}

impl Aws {
    /// `endpoint` is that of the token service of AWS; without one, it is that of the region.
    ///
    /// # Errors
    /// It is no token service of AWS.
    pub fn new(region: Option<String>, endpoint: Option<&str>) -> Result<Self, TokenServiceError> {
        let endpoint = endpoint.map(|text| {
            let shown = || TokenServiceError::Aws(text.chars().take(200).collect());
            let url = service(text).map_err(|_| shown())?;
            match is_of_aws(&url) {
                true => Ok(url),
                false => Err(shown()),
            }
        });
        Ok(Self {
            region: region.filter(|region| !region.is_empty()),
            endpoint: endpoint.transpose()?,
        })
    }

    pub(crate) fn endpoint(&self) -> Option<&Url> {
        self.endpoint.as_ref()
    }
}

impl Identity {
    pub(crate) fn hash(&self) -> [u8; 32] {
        match self {
            Self::Ldap(ldap) => {
                let fields: [&str; 4] = [
                    "ldap",
                    ldap.endpoint.as_str(),
                    &ldap.username,
                    ldap.password.expose_secret(),
                ];
                let trust = [
                    ldap.ca.as_deref().unwrap_or_default(),
                    ldap.identity
                        .as_ref()
                        .map_or(&[], |pem| pem.expose_secret().as_bytes()),
                ];
                tokens::hash(fields.map(str::as_bytes).into_iter().chain(trust))
            }
            Self::Aws(aws) => {
                let fields: [&str; 3] = [
                    "aws",
                    aws.region.as_deref().unwrap_or_default(),
                    aws.endpoint.as_ref().map_or("", Url::as_str),
                ];
                tokens::hash(fields.map(str::as_bytes))
            }
        }
    }
}

/// Whether it is a URL of a token service of AWS and nothing more: the expression of Flux, which also admits
/// `https://other.example/.sts.amazonaws.com`.
fn is_of_aws(url: &Url) -> bool {
    let is_bare = url.scheme() == "https"
        && url.port().is_none()
        && url.username().is_empty()
        && url.password().is_none()
        && url.path() == "/"
        && url.query().is_none()
        && url.fragment().is_none();
    let host = url.host_str().unwrap_or_default();
    let Some(name) = host.strip_suffix(".amazonaws.com").filter(|_| is_bare) else {
        return false;
    };
    let name = name.strip_suffix(".vpce").unwrap_or(name);
    // the name of the service is the last part, or a region follows it
    let (rest, last) = name.rsplit_once('.').unwrap_or(("", name));
    let service = match is_region_of_aws(last) {
        true => rest.rsplit('.').next(),
        false => Some(last),
    };
    matches!(service, Some("sts" | "sts-fips"))
}

/// Whether it is a region, and no other service: a bucket `sts` has the host `sts.s3-us-west-2.amazonaws.com`.
pub(crate) fn is_region_of_aws(name: &str) -> bool {
    let parts: Vec<&str> = name.split('-').collect();
    let [first, .., last] = parts[..] else {
        return false;
    };
    parts.len() >= 3
        && first.len() == 2
        && first.bytes().all(|byte| byte.is_ascii_lowercase())
        && last.bytes().all(|byte| byte.is_ascii_digit())
}

/// The form that exchanges a web identity for keys.
pub(crate) fn web_identity_form(role: &str, session: &str, token: &str) -> Vec<(&'static str, String)> {
    vec![
        ("Action", "AssumeRoleWithWebIdentity".to_owned()),
        ("Version", VERSION.to_owned()),
        ("RoleArn", role.to_owned()),
        ("RoleSessionName", session.to_owned()),
        ("WebIdentityToken", token.to_owned()),
    ]
}

/// Keys that sign requests.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    pub(crate) credentials: Credentials,
    /// Sent with each request.
    pub(crate) session: Option<SecretString>,
}

/// Keys of a token service, and how long they can be used.
#[derive(Debug)]
pub(crate) struct Lent {
    pub(crate) keys: Keys,
    /// Four fifths of their time, as in Flux and minio-go.
    pub(crate) life: Duration,
}

#[derive(Deserialize)]
struct Assumed {
    #[serde(
        rename = "AssumeRoleWithLDAPIdentityResult",
        alias = "AssumeRoleWithWebIdentityResult"
    )]
    result: AssumedResult,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct AssumedResult {
    credentials: Answer,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    #[serde(default)]
    code: Option<String>,
    #[serde(default)]
    access_key_id: String,
    #[serde(default)]
    secret_access_key: String,
    #[serde(default, alias = "Token")]
    session_token: String,
    #[serde(default)]
    expiration: String,
}

impl Answer {
    fn lent(self, now: Timestamp) -> Option<Lent> {
        let end: Timestamp = self.expiration.parse().ok()?;
        let life = Duration::try_from(end.duration_since(now)).unwrap_or_default();
        if self.access_key_id.is_empty() || self.secret_access_key.is_empty() {
            return None;
        }
        Some(Lent {
            keys: Keys {
                credentials: Credentials {
                    access_key: self.access_key_id,
                    secret_key: self.secret_access_key.into(),
                },
                session: Some(self.session_token)
                    .filter(|token| !token.is_empty())
                    .map(SecretString::from),
            },
            life: life / 5 * 4,
        })
    }
}

fn malformed() -> Problem {
    // an error of the parser may quote the keys
    Problem::new(Reason::Malformed, "the answer of the token service is malformed")
}

/// The answer of a token service in XML.
pub(crate) fn assumed(xml: &[u8], now: Timestamp) -> Result<Lent, Problem> {
    let text = std::str::from_utf8(xml).map_err(|_| malformed())?;
    let assumed: Assumed = quick_xml::de::from_str(text).map_err(|_| malformed())?;
    assumed.result.credentials.lent(now).ok_or_else(malformed)
}

/// Keys in JSON: of a container's or a machine's endpoint.
pub(crate) fn document(json: &[u8], now: Timestamp) -> Result<Lent, Problem> {
    let answer: Answer = serde_json::from_slice(json).map_err(|_| malformed())?;
    // the metadata service answers failures with 200
    let code = answer.code.clone().filter(|code| code != "Success");
    if let Some(code) = code {
        let text = format!("the service gives no keys{}", answer::shown(&code));
        return Err(Problem::new(Reason::Authentication, text));
    }
    answer.lent(now).ok_or_else(malformed)
}

#[derive(Deserialize, Default)]
struct Refusal {
    #[serde(rename = "Error", default)]
    error: RefusalText,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct RefusalText {
    #[serde(alias = "Code")]
    code: String,
    #[serde(alias = "Message")]
    message: String,
}

/// The words of a token service that refuses: XML, as MinIO's store where that says nothing, or JSON.
pub(crate) fn told(body: &[u8]) -> String {
    let text = std::str::from_utf8(body).unwrap_or_default();
    // the status decides, whatever its body
    let refusal: Refusal = quick_xml::de::from_str(text).unwrap_or_default();
    let json: RefusalText = serde_json::from_slice(body).unwrap_or_default();
    let found = [refusal.error, json].map(|text| joined(text.code, text.message));
    let mut found = found.into_iter().chain([answer::told(body).0]);
    found.find(|text| !text.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[test]
    fn keys_are_those_of_the_documented_answers() {
        let xml = |action: &str| {
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                 <{action}Response xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><{action}Result>\
                 <AssumedRoleUser><Arn></Arn><AssumeRoleId></AssumeRoleId></AssumedRoleUser><Credentials>\
                 <AccessKeyId>ASIA1</AccessKeyId><SecretAccessKey>h1dden</SecretAccessKey>\
                 <Expiration>2026-01-01T01:00:00Z</Expiration><SessionToken>t0ken</SessionToken>\
                 </Credentials></{action}Result><ResponseMetadata><RequestId>1</RequestId></ResponseMetadata>\
                 </{action}Response>"
            )
        };
        let check = |lent: Lent| {
            assert_eq!(lent.keys.credentials.access_key, "ASIA1");
            assert_eq!(lent.keys.credentials.secret_key.expose_secret(), "h1dden");
            assert_eq!(lent.keys.session.as_ref().unwrap().expose_secret(), "t0ken");
            assert_eq!(lent.life, Duration::from_secs(48 * 60));
            let shown = format!("{lent:?}");
            assert!(!shown.contains("h1dden") && !shown.contains("t0ken"), "{shown}");
        };
        for action in ["AssumeRoleWithLDAPIdentity", "AssumeRoleWithWebIdentity"] {
            check(assumed(xml(action).as_bytes(), now()).unwrap());
        }
        let json = "{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"AccessKeyId\":\"ASIA1\",\
            \"SecretAccessKey\":\"h1dden\",\"Token\":\"t0ken\",\"Expiration\":\"2026-01-01T01:00:00Z\"}";
        check(document(json.as_bytes(), now()).unwrap());
        let late = document(json.as_bytes(), "2026-01-02T00:00:00Z".parse().unwrap());
        assert_eq!(late.unwrap().life, Duration::ZERO);
        for bad in [
            "",
            "<html>",
            "<a><AssumeRoleWithLDAPIdentityResult/></a>",
            "{}",
            "h1dden",
        ] {
            let problem = assumed(bad.as_bytes(), now()).unwrap_err();
            assert_eq!(
                problem.text, "the answer of the token service is malformed",
                "{bad}"
            );
            let problem = document(bad.as_bytes(), now()).unwrap_err();
            assert_eq!(
                problem.text, "the answer of the token service is malformed",
                "{bad}"
            );
        }
        let failed = document(b"{\"Code\":\"AssumeRoleUnauthorizedAccess\"}", now());
        assert_eq!(
            failed.unwrap_err().text,
            "the service gives no keys: AssumeRoleUnauthorizedAccess"
        );
    }

    #[test]
    fn a_refusal_says_what_the_service_says() {
        for (body, expected) in [
            (
                "<ErrorResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><Error><Type>Sender</Type>\
                 <Code>InvalidParameterValue</Code><Message>LDAP server error</Message></Error>\
                 <RequestId>1</RequestId></ErrorResponse>",
                "InvalidParameterValue: LDAP server error",
            ),
            (
                "<Error><Code>AccessDenied</Code><Message>no</Message></Error>",
                "AccessDenied: no",
            ),
            (
                "{\"code\":\"NotFound\",\"message\":\"no role\"}",
                "NotFound: no role",
            ),
            ("<html>", ""),
            ("", ""),
        ] {
            assert_eq!(told(body.as_bytes()), expected, "{body}");
        }
    }

    /// A token of this process must not reach another host.
    #[test]
    fn the_token_service_of_aws_is_a_host_of_aws() {
        for endpoint in [
            "https://sts.amazonaws.com",
            "https://sts.eu-west-1.amazonaws.com",
            "https://sts-fips.us-east-1.amazonaws.com",
            "https://vpce-002b7cc8966426bc6-njisq19r.sts.us-east-1.vpce.amazonaws.com",
            "https://vpce-002b7cc8966426bc6-njisq19r-us-east-1a.sts.us-east-1.vpce.amazonaws.com",
        ] {
            assert!(Aws::new(None, Some(endpoint)).is_ok(), "{endpoint}");
        }
        for endpoint in [
            "http://sts.amazonaws.com",
            "https://sts.amazonaws.com.example.org",
            "https://sts.amazonaws.com/x",
            "https://sts.amazonaws.com:8443",
            "https://sts.amazonaws.com@example.org",
            "https://example.org/.sts.amazonaws.com",
            "https://example.org#.sts.amazonaws.com",
            "https://example.org\\.sts.amazonaws.com",
            "https://s3.amazonaws.com",
            "https://sts.s3.amazonaws.com",
            "https://sts.s3-us-west-2.amazonaws.com",
            "https://sts.us-east-1.elb.amazonaws.com",
            "https://amazonaws.com",
            "sts.amazonaws.com",
            "",
        ] {
            let error = Aws::new(None, Some(endpoint)).unwrap_err();
            assert_eq!(error, TokenServiceError::Aws(endpoint.to_owned()));
        }
        assert_eq!(Ldap::check("ldap.example"), Err(TokenServiceError::Url));
        assert_eq!(Ldap::check("file:///x"), Err(TokenServiceError::Url));
        assert_eq!(Ldap::check("https://ldap.example/x"), Ok(()));
    }

    #[test]
    fn identities_hide_their_secrets_and_differ() {
        let ldap = |username: &str, password: &str| {
            Identity::Ldap(Ldap::new("https://ldap.example", username, password.into()).unwrap())
        };
        let aws = |region: &str| Identity::Aws(Aws::new(Some(region.to_owned()), None).unwrap());
        let all = [
            ldap("a", "h1dden"),
            ldap("ah", "1dden"),
            ldap("a", "other"),
            aws("x"),
            aws("y"),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!format!("{one:?}").contains("dden"));
            let same = all.iter().position(|other| other.hash() == one.hash());
            assert_eq!(same, Some(at));
        }
    }
}
