//! The requests for temporary keys: of a user of LDAP at MinIO, of this process at AWS.
//!
//! Hosts that the operator or the platform names may have any address, and no proxy of a tenant sees their plain
//! answers. A certificate of the store's Secret counts at no token service.

use std::io::Read as _;
use std::path::Path;

use equate_egress::Egress;
use jiff::Timestamp;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::task::spawn_blocking;

use crate::access::Access;
use crate::environment::Source;
use crate::error::{Problem, Reason};
use crate::identity::{self, Aws, Identity, Keys, Ldap, Lent};
use crate::place::{encoded, is_region};
use crate::store::{Bucket, Refused};

const FORM: &str = "application/x-www-form-urlencoded";
const FILE_BYTES_MAX: u64 = 64 << 10;
/// A token of the metadata service is for one exchange.
const METADATA_SECONDS: &str = "60";
const ROLES: &str = "latest/meta-data/iam/security-credentials/";

const LDAP_HINT: &str = "check username and password of spec.sts.secretRef, and spec.sts";
const AWS_HINT: &str = "check the identity of the controller and its environment, or set spec.secretRef";

impl Bucket {
    /// Keys of a token service; the last ones while they are valid.
    pub(crate) async fn keys(&self, identity: &Identity) -> Result<Keys, Refused> {
        let (inner, key) = (self.inner(), identity.hash());
        if let Some(keys) = inner.keys.get(&key) {
            return Ok(keys);
        }
        let lent = match identity {
            Identity::Ldap(ldap) => {
                let lent = self.keys_of_ldap(ldap).await;
                lent.map_err(|refused| refused.at("the token service of spec.sts", LDAP_HINT))?
            }
            Identity::Aws(aws) => match self.keys_of_process(aws).await? {
                Given::Always(keys) => return Ok(keys),
                Given::Lent(lent) => lent,
            },
        };
        inner.keys.insert(key, lent.keys.clone(), lent.life);
        Ok(lent.keys)
    }

    async fn keys_of_ldap(&self, ldap: &Ldap) -> Result<Lent, Refused> {
        let url = &ldap.endpoint;
        if url.scheme() != "https" && !self.access.insecure {
            let text = "its URL is not https, and spec.insecure is not set";
            return Err(Problem::new(Reason::Authentication, text).into());
        }
        let access = self.access.trusting(ldap.ca.clone(), ldap.identity.clone());
        self.assume(self.inner().egress(), &access, url, &ldap.form())
            .await
    }

    async fn keys_of_process(&self, aws: &Aws) -> Result<Given, Refused> {
        let environment = &self.inner().environment;
        let at = |service: &'static str| move |refused: Refused| refused.at(service, AWS_HINT);
        // as in Flux, whatever the source
        let region = aws.region.as_ref().or(environment.region.as_ref());
        let region = region.ok_or_else(|| {
            let text = "neither spec.region nor the controller's environment variable AWS_REGION is set";
            Problem::new(Reason::Configuration, text)
        })?;
        match &environment.source {
            Source::Keys(keys) => Ok(Given::Always(keys.clone())),
            Source::WebIdentity {
                token_file,
                role,
                session,
            } => {
                let token = read(token_file).await;
                let lent = async {
                    let token = token?;
                    let session = session.clone().unwrap_or_else(session_name);
                    let form = identity::web_identity_form(role, &session, &token);
                    self.assume_role(aws, region, &form).await
                };
                lent.await
                    .map(Given::Lent)
                    .map_err(at("the token service of AWS"))
            }
            Source::Container {
                url,
                token,
                token_file,
            } => {
                let lent = self.keys_of_container(url, token.as_ref(), token_file.as_deref());
                let lent = lent.await.map(Given::Lent);
                lent.map_err(at("the credentials endpoint of the container"))
            }
            Source::Machine(url) => {
                let lent = self.keys_of_machine(url).await.map(Given::Lent);
                lent.map_err(at("the metadata service of the machine"))
            }
            Source::None => {
                let text =
                    "the controller's environment names no identity, and AWS_EC2_METADATA_DISABLED is set";
                Err(Problem::new(Reason::Configuration, text).into())
            }
            Source::Unusable(name) => {
                let text = format!("the controller's environment variable {name} is missing or malformed");
                Err(Problem::new(Reason::Configuration, text).into())
            }
        }
    }

    /// At the service that the spec names, which is one of AWS; else at the operator's; else at the region's.
    async fn assume_role(
        &self,
        aws: &Aws,
        region: &str,
        form: &[(&'static str, String)],
    ) -> Result<Lent, Refused> {
        let inner = self.inner();
        if let (None, Some(url)) = (aws.endpoint(), &inner.environment.token_service) {
            let access = Access::new(&self.access.namespace, self.access.timeout);
            return self.assume(&inner.trusting_egress(), &access, url, form).await;
        }
        let url = match aws.endpoint() {
            Some(url) => Some(url.clone()),
            None => regional(region),
        };
        let url = url.ok_or_else(|| {
            Problem::new(
                Reason::Configuration,
                format!("no token service is known for region {region:?}; set AWS_ENDPOINT_URL_STS"),
            )
        })?;
        // a certificate and a proxy of a tenant together could read the token
        let access = self.access.trusting(None, None);
        self.assume(inner.egress(), &access, &url, form).await
    }

    async fn assume(
        &self,
        egress: &Egress,
        access: &Access,
        url: &Url,
        form: &[(&'static str, String)],
    ) -> Result<Lent, Refused> {
        let client = self.inner().client(egress, access)?;
        let form: Vec<(&str, &str)> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let request = client.post(url.clone()).header(CONTENT_TYPE, FORM);
        let request = request.body(encoded(&form));
        let body = self.exchanged(egress, url, request, identity::told).await?;
        Ok(identity::assumed(&body, Timestamp::now())?)
    }

    async fn keys_of_container(
        &self,
        url: &Url,
        token: Option<&SecretString>,
        token_file: Option<&Path>,
    ) -> Result<Lent, Refused> {
        let token = match token_file {
            // the platform renews it
            Some(file) => Some(SecretString::from(read(file).await?)),
            None => token.cloned(),
        };
        let (egress, client) = self.own_client()?;
        let mut request = client.get(url.clone());
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, secret_header(token.expose_secret())?);
        }
        let body = self.exchanged(&egress, url, request, identity::told).await?;
        Ok(identity::document(&body, Timestamp::now())?)
    }

    /// The second version of the protocol alone.
    async fn keys_of_machine(&self, base: &Url) -> Result<Lent, Refused> {
        let (egress, client) = self.own_client()?;
        let at = |path: &str| {
            let base = base.as_str().trim_end_matches('/');
            let url = Url::parse(&format!("{base}/{path}"));
            url.map_err(|_| Problem::new(Reason::Malformed, "the name of the role is no part of a URL"))
        };
        let url = at("latest/api/token")?;
        let request = client.put(url.clone());
        let request = request.header("x-aws-ec2-metadata-token-ttl-seconds", METADATA_SECONDS);
        let token = self.exchanged(&egress, &url, request, |_| String::new()).await?;
        let token = secret_header(String::from_utf8_lossy(&token).trim())?;
        let get = async |path: &str| {
            let url = at(path)?;
            let request = client
                .get(url.clone())
                .header("x-aws-ec2-metadata-token", token.clone());
            self.exchanged(&egress, &url, request, |_| String::new()).await
        };
        let roles = String::from_utf8_lossy(&get(ROLES).await?).into_owned();
        let role = roles.lines().next().map(str::trim);
        let role = role.filter(|role| !role.is_empty() && !role.contains(['/', '?', '#']));
        let role = role.ok_or_else(|| Problem::new(Reason::Authentication, "the machine has no role"))?;
        let body = get(&format!("{ROLES}{role}")).await?;
        Ok(identity::document(&body, Timestamp::now())?)
    }

    /// A client for services of the platform, without a tenant's proxy and certificates.
    fn own_client(&self) -> Result<(Egress, reqwest::Client), Problem> {
        let egress = self.inner().trusting_egress();
        let access = Access::new(&self.access.namespace, self.access.timeout);
        let client = self.inner().client(&egress, &access)?;
        Ok((egress, client))
    }
}

enum Given {
    /// Without an end.
    Always(Keys),
    Lent(Lent),
}

/// The token service of a region.
fn regional(region: &str) -> Option<Url> {
    let domain = match region.starts_with("cn-") {
        true => "amazonaws.com.cn",
        false => "amazonaws.com",
    };
    // a host of another service is not asked
    let is_region = is_region(region) && identity::is_region_of_aws(region);
    Url::parse(&format!("https://sts.{region}.{domain}/"))
        .ok()
        .filter(|_| is_region)
}

/// As AWS's SDK: the sessions of one role differ.
fn session_name() -> String {
    format!("equate-{}", Timestamp::now().as_millisecond())
}

fn secret_header(text: &str) -> Result<HeaderValue, Problem> {
    let value = HeaderValue::from_str(text);
    let mut value = value.map_err(|_| Problem::new(Reason::Malformed, "its token is no text of a header"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// The text of a small file, without spaces around it.
async fn read(path: &Path) -> Result<String, Refused> {
    let shown = path.display().to_string();
    let path = path.to_owned();
    let reading = spawn_blocking(move || {
        let mut text = String::new();
        let file = std::fs::File::open(path)?;
        file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
        Ok::<_, std::io::Error>(text.trim().to_owned())
    });
    let text = reading.await.map_err(std::io::Error::other).and_then(|read| read);
    text.map_err(|error| {
        let text = format!("the token in {shown} cannot be read");
        Problem::new(Reason::Configuration, text).because(error).into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_has_a_token_service() {
        let url = |region: &str| regional(region).map(String::from);
        let of = |host: &str| Some(format!("https://{host}/"));
        assert_eq!(url("eu-west-1"), of("sts.eu-west-1.amazonaws.com"));
        assert_eq!(url("cn-north-1"), of("sts.cn-north-1.amazonaws.com.cn"));
        for other in ["", "x.example/", "us-a@b/-1", "EU-WEST-1", "s3-us-west-2", "s3"] {
            assert_eq!(url(other), None, "{other}");
        }
    }
}
