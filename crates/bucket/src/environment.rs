//! The identity of this process at AWS, as its environment names it; pure.
//!
//! The order is that of AWS's SDK for Go, which Flux uses: keys, a web identity, a container's endpoint, the
//! metadata service of the machine. Files of profiles are not read.

use std::net::IpAddr;
use std::path::PathBuf;

use reqwest::Url;
use secrecy::SecretString;

use crate::access::Credentials;
use crate::identity::{Keys, service};

const METADATA: &str = "http://169.254.169.254";
const CONTAINER: &str = "http://169.254.170.2";
/// The endpoints of containers that may have plain HTTP, beside loopback: those of ECS and EKS.
const CONTAINER_HOSTS: [&str; 3] = ["169.254.170.2", "169.254.170.23", "fd00:ec2::23"];

/// The environment. `Debug` shows no secret.
#[derive(Debug, Clone)]
pub struct AwsEnvironment {
    pub(crate) region: Option<String>,
    /// The token service that the operator names.
    pub(crate) token_service: Option<Url>,
    pub(crate) source: Source,
}

/// The first source of keys that the environment names.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Keys(Keys),
    WebIdentity {
        token_file: PathBuf,
        role: String,
        session: Option<String>,
    },
    Container {
        url: Url,
        token: Option<SecretString>,
        token_file: Option<PathBuf>,
    },
    /// The metadata service of the machine.
    Machine(Url),
    /// The operator turned the last one off.
    None,
    /// A variable cannot be used.
    Unusable(&'static str),
}

impl Default for AwsEnvironment {
    /// Without variables: the metadata service of the machine.
    fn default() -> Self {
        Self::read(|_| None)
    }
}

impl AwsEnvironment {
    /// Reads variables.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let variable = |name: &str| variable(name).filter(|value| !value.is_empty());
        let named = |names: [&'static str; 2]| {
            let mut found = names.into_iter().filter_map(|name| Some((name, variable(name)?)));
            found.next()
        };
        let (mut token_service, mut source) = (None, source(&variable));
        if let Some((name, text)) = named(["AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"]) {
            match service(&text) {
                Ok(url) => token_service = Some(url),
                Err(_) => source = Source::Unusable(name),
            }
        }
        Self {
            region: variable("AWS_REGION"),
            token_service,
            source,
        }
    }
}

fn source(variable: &impl Fn(&str) -> Option<String>) -> Source {
    let either = |names: [&str; 2]| names.into_iter().find_map(variable);
    let access_key = either(["AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY"]);
    let secret_key = either(["AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY"]);
    if let (Some(access_key), Some(secret_key)) = (access_key, secret_key) {
        return Source::Keys(Keys {
            credentials: Credentials {
                access_key,
                secret_key: secret_key.into(),
            },
            session: variable("AWS_SESSION_TOKEN").map(SecretString::from),
        });
    }
    if let Some(token_file) = variable("AWS_WEB_IDENTITY_TOKEN_FILE") {
        let Some(role) = variable("AWS_ROLE_ARN") else {
            return Source::Unusable("AWS_ROLE_ARN");
        };
        return Source::WebIdentity {
            token_file: token_file.into(),
            role,
            session: variable("AWS_ROLE_SESSION_NAME"),
        };
    }
    let relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI").map(|path| {
        let url = Some(path).filter(|path| path.starts_with('/'));
        let url = url.and_then(|path| Url::parse(&format!("{CONTAINER}{path}")).ok());
        ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", url)
    });
    let full = variable("AWS_CONTAINER_CREDENTIALS_FULL_URI").map(|text| {
        let url = service(&text).ok().filter(may_be_plain);
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url)
    });
    match relative.or(full) {
        Some((_, Some(url))) => {
            return Source::Container {
                url,
                token: variable("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(SecretString::from),
                token_file: variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(PathBuf::from),
            };
        }
        Some((name, None)) => return Source::Unusable(name),
        None => {}
    }
    let is_off = variable("AWS_EC2_METADATA_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    let metadata = variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    match service(metadata.as_deref().unwrap_or(METADATA)) {
        _ if is_off => Source::None,
        Ok(url) => Source::Machine(url),
        Err(_) => Source::Unusable("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
    }
}

/// As AWS's SDKs: without TLS, keys come from this machine or from the platform.
fn may_be_plain(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let address: Option<IpAddr> = host.parse().ok();
    url.scheme() == "https"
        || host == "localhost"
        || CONTAINER_HOSTS.contains(&host)
        || address.is_some_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_source_of_the_chain_is_used() {
        let check = |variables: &[(&str, &str)], expected: &str| {
            let find = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let environment = AwsEnvironment::read(find);
            let shown = match &environment.source {
                Source::Keys(keys) => {
                    format!("keys {} {}", keys.credentials.access_key, keys.session.is_some())
                }
                Source::WebIdentity { role, session, .. } => format!("web identity {role} {session:?}"),
                Source::Container { url, token_file, .. } => {
                    format!("container {url} {}", token_file.is_some())
                }
                Source::Machine(url) => format!("machine {url}"),
                Source::None => "none".to_owned(),
                Source::Unusable(name) => format!("unusable {name}"),
            };
            assert_eq!(shown, expected);
            assert!(!format!("{environment:?}").contains("h1dden"));
        };
        let keys = [("AWS_ACCESS_KEY_ID", "AKIA"), ("AWS_SECRET_ACCESS_KEY", "h1dden")];
        let web = [
            ("AWS_WEB_IDENTITY_TOKEN_FILE", "/token"),
            ("AWS_ROLE_ARN", "arn:aws:iam::1:role/r"),
        ];
        let relative = ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/keys");
        let full = |url| ("AWS_CONTAINER_CREDENTIALS_FULL_URI", url);
        let eks = "http://169.254.170.23/v1/credentials";
        check(&[keys[0], keys[1], web[0], web[1]], "keys AKIA false");
        check(
            &[keys[0], keys[1], ("AWS_SESSION_TOKEN", "h1dden")],
            "keys AKIA true",
        );
        check(
            &[keys[0], web[0], web[1], relative],
            "web identity arn:aws:iam::1:role/r None",
        );
        check(&[web[0]], "unusable AWS_ROLE_ARN");
        check(
            &[relative, full(eks)],
            "container http://169.254.170.2/v2/keys false",
        );
        check(
            &[full(eks), ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "/token")],
            "container http://169.254.170.23/v1/credentials true",
        );
        check(
            &[
                full("https://keys.example/"),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "h1dden"),
            ],
            "container https://keys.example/ false",
        );
        check(
            &[full("http://[fd00:ec2::23]/v1")],
            "container http://[fd00:ec2::23]/v1 false",
        );
        for url in [
            "http://keys.example/",
            "ftp://127.0.0.1/",
            "http://169.254.169.254/",
        ] {
            check(&[full(url)], "unusable AWS_CONTAINER_CREDENTIALS_FULL_URI");
        }
        check(
            &[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "@example.org/")],
            "unusable AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        );
        check(&[], "machine http://169.254.169.254/");
        check(&[("AWS_EC2_METADATA_DISABLED", "true")], "none");
        let other = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://[::1]:1338/");
        check(&[other], "machine http://[::1]:1338/");
        check(&[("AWS_ENDPOINT_URL_STS", "x")], "unusable AWS_ENDPOINT_URL_STS");
    }
}
