//! An open repository: its base URL, its time limit, and its credentials.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_egress::HeldAnswer;
use reqwest::header::{self, HeaderValue};
use reqwest::{Method, StatusCode, Url};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use tokio::time::Instant;

use crate::access::{Access, Key};
use crate::credentials::Credentials;
use crate::error::{Error, Problem, Reason};
use crate::exchange::{Answer, accepted, host, speaks_no_tls};
use crate::limits::Limits;
use crate::local::Local;
use crate::name::Repository;
use crate::registries::{Inner, Registries};

/// The time of a token whose server names none (distribution's token specification).
const TOKEN_SECONDS: u64 = 60;
/// A token is not used in its last seconds.
const TOKEN_MARGIN: Duration = Duration::from_secs(10);
const TOKEN_MAX: Duration = Duration::from_secs(60 * 60);
/// Basic credentials are sent unasked for this long.
const BASIC_MAX: Duration = Duration::from_secs(60 * 60);
const TOKEN_REDIRECTS_MAX: usize = 3;

/// The permission that a request needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Pull,
    Push,
}

impl Scope {
    fn actions(self) -> &'static str {
        match self {
            Self::Pull => "pull",
            Self::Push => "pull,push",
        }
    }
}

/// An open repository.
#[derive(Debug)]
pub struct Remote {
    registries: Registries,
    repository: Repository,
    access: Access,
    client: reqwest::Client,
    deadline: Mutex<Instant>,
    local: Option<Local>,
}

impl Remote {
    pub(crate) fn new(
        registries: Registries,
        repository: Repository,
        access: Access,
        client: reqwest::Client,
    ) -> Self {
        let deadline = Mutex::new(Instant::now() + access.timeout);
        Self {
            local: registries.local(&repository),
            registries,
            repository,
            access,
            client,
            deadline,
        }
    }

    /// The repository.
    #[must_use]
    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// Whether a directory stands for the repository.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.local.is_some()
    }

    pub(crate) fn local(&self) -> Option<&Local> {
        self.local.as_ref()
    }

    pub(crate) fn shared(&self) -> &Inner {
        &self.registries.0
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.registries.0.limits
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    pub(crate) fn client(&self) -> &reqwest::Client {
        &self.client
    }

    pub(crate) fn deadline(&self) -> Instant {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Extends the time limit, by a time in which no answer was awaited.
    pub fn extend(&self, by: Duration) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) += by;
    }

    /// The memory of one more answer.
    pub(crate) fn hold(&self) -> HeldAnswer {
        self.shared().egress.memory().hold(&self.access.namespace)
    }

    pub(crate) fn late(&self) -> Problem {
        let seconds = self.access.timeout.as_secs_f64();
        Problem::new(Reason::Timeout, format!("it took longer than {seconds}s"))
    }

    pub(crate) fn token_key(&self, scope: Scope) -> Key {
        let scope = format!("{}:{}", self.repository.path(), scope.actions());
        self.access.token_key(self.repository.registry(), &scope)
    }

    /// Whether a URL is one of the registry, which gets the credentials.
    pub(crate) fn is_own(&self, url: &Url) -> bool {
        let own = Url::parse(&format!("{}://{}/", url.scheme(), self.repository.registry()));
        own.is_ok_and(|own| {
            own.host_str() == url.host_str() && own.port_or_known_default() == url.port_or_known_default()
        })
    }

    /// The URL of a path below the repository, such as `manifests/v1`.
    pub(crate) async fn url(&self, below: &str) -> Result<Url, Problem> {
        let scheme = match self.may_be_plain() && self.is_plain().await? {
            true => "http",
            false => "https",
        };
        let (registry, path) = (self.repository.registry(), self.repository.path());
        let url = Url::parse(&format!("{scheme}://{registry}/v2/{path}/{below}"));
        url.map_err(|error| Problem::new(Reason::Malformed, "its url is malformed").because(error))
    }

    pub(crate) fn may_be_plain(&self) -> bool {
        self.access.insecure || self.repository.is_local()
    }

    /// As go-containerregistry: TLS comes first.
    async fn is_plain(&self) -> Result<bool, Problem> {
        let (key, registry) = (self.access.client_key(), self.repository.registry());
        if let Some(plain) = self.shared().is_plain(key, registry) {
            return Ok(plain);
        }
        let plain = match self.ping("https").await {
            Ok(()) => false,
            Err(problem) if speaks_no_tls(&problem) => {
                // the failure of TLS says more than that of a plain connection to the same port
                match self.ping("http").await {
                    Ok(()) => true,
                    // it speaks no TLS, and the time limit ended the attempt without
                    Err(late) if late.reason == Reason::Timeout => return Err(late),
                    Err(_) => return Err(problem),
                }
            }
            Err(problem) => return Err(problem),
        };
        self.shared().keep_plain(key, registry, plain);
        Ok(plain)
    }

    async fn ping(&self, scheme: &str) -> Result<(), Problem> {
        let url = Url::parse(&format!("{scheme}://{}/v2/", self.repository.registry()));
        let url =
            url.map_err(|error| Problem::new(Reason::Malformed, "its url is malformed").because(error))?;
        let request = self.client.get(url.clone());
        self.exchange(request, url).await.map(drop)
    }

    /// Adds operation and URL to a failure.
    pub(crate) fn told<T>(
        &self,
        doing: &'static str,
        name: &str,
        done: Result<T, Problem>,
    ) -> Result<T, Error> {
        done.map_err(|problem| problem.of(doing, name))
    }

    pub(crate) fn authorize_basic(&self, scope: Scope) -> Result<bool, Problem> {
        let Some(Credentials::Basic { username, password }) = &self.access.credentials else {
            return Ok(false);
        };
        let value = basic(username, password)?;
        self.shared().keep_token(self.token_key(scope), value, BASIC_MAX);
        Ok(true)
    }

    /// Gets a token from the server that the registry names.
    pub(crate) async fn authorize_bearer(
        &self,
        realm: &str,
        service: Option<&str>,
        wanted: Option<&str>,
        scope: Scope,
    ) -> Result<bool, Problem> {
        if let Some(Credentials::Bearer(token)) = &self.access.credentials {
            let value = header_value("Bearer ", token.expose_secret())?;
            self.shared().keep_token(self.token_key(scope), value, TOKEN_MAX);
            return Ok(true);
        }
        let realm = self.realm(realm).await?;
        let default = format!("repository:{}:{}", self.repository.path(), scope.actions());
        // some token servers read the first scope only
        let mut scopes: Vec<&str> = wanted.into_iter().collect();
        if wanted != Some(default.as_str()) {
            scopes.push(&default);
        }
        let answer = match &self.access.credentials {
            Some(Credentials::Identity(token)) => {
                match self.exchange_identity(&realm, service, &scopes, token).await? {
                    // not every token server knows the newer way
                    None => self.ask_token(&realm, service, &scopes).await?,
                    Some(answer) => answer,
                }
            }
            _ => self.ask_token(&realm, service, &scopes).await?,
        };
        let token = answer.access_token.filter(|token| !token.is_empty());
        let token = token.or(answer.token).filter(|token| !token.is_empty());
        let Some(token) = token.map(SecretString::from) else {
            return Err(Problem::new(
                Reason::Malformed,
                format!("its token server {} sends no token", host(&realm)),
            ));
        };
        let lasts = Duration::from_secs(answer.expires_in.unwrap_or(TOKEN_SECONDS).max(1));
        let lasts = lasts.saturating_sub(TOKEN_MARGIN.min(lasts / 2)).min(TOKEN_MAX);
        let value = header_value("Bearer ", token.expose_secret())?;
        self.shared().keep_token(self.token_key(scope), value, lasts);
        Ok(true)
    }

    /// The rules of go-containerregistry (`validateRealmURL`): a registry cannot send credentials over plain
    /// HTTP, unless it is served so itself, nor to a private address that is not its own.
    async fn realm(&self, text: &str) -> Result<Url, Problem> {
        let refuse = |why: &str| {
            let text: String = text.chars().take(200).collect();
            Problem::new(
                Reason::Refused,
                format!("its token server {text:?} is refused: {why}"),
            )
        };
        let url = Url::parse(text).map_err(|_| refuse("that is no url"))?;
        match url.scheme() {
            "https" => {}
            "http" if self.may_be_plain() && self.is_plain().await? => {}
            "http" => return Err(refuse("it has no TLS, and the registry has")),
            _ => return Err(refuse("it must be https")),
        }
        let own = host(&url) == self.repository.registry() || self.is_own(&url);
        let literal = url
            .host_str()
            .unwrap_or_default()
            .trim_matches(['[', ']'])
            .to_owned();
        let is_private = literal.parse().is_ok_and(|address| match address {
            std::net::IpAddr::V4(address) => address.is_private() || address.is_loopback(),
            std::net::IpAddr::V6(address) => address.is_unique_local() || address.is_loopback(),
        });
        if is_private && !own {
            return Err(refuse("it is a private address that is not the registry's"));
        }
        let (name, password) = (url.username().is_empty(), url.password().is_none());
        match name && password {
            true => Ok(url),
            false => Err(refuse("it contains credentials")),
        }
    }

    async fn ask_token(
        &self,
        realm: &Url,
        service: Option<&str>,
        scopes: &[&str],
    ) -> Result<TokenAnswer, Problem> {
        let mut at = realm.clone();
        {
            let mut query = at.query_pairs_mut();
            for scope in scopes {
                query.append_pair("scope", scope);
            }
            if let Some(service) = service {
                query.append_pair("service", service);
            }
        }
        let login = match &self.access.credentials {
            Some(Credentials::Basic { username, password }) => Some(basic(username, password)?),
            _ => None,
        };
        let first = at.clone();
        for _ in 0..=TOKEN_REDIRECTS_MAX {
            let mut request = self.client.get(at.clone());
            let same =
                (at.scheme(), at.host_str(), at.port()) == (first.scheme(), first.host_str(), first.port());
            if let Some(login) = login.clone().filter(|_| same) {
                request = request.header(header::AUTHORIZATION, login);
            }
            let answer = self.exchange(request, at.clone()).await?;
            if !answer.status().is_redirection() {
                return self.token(answer).await;
            }
            let next = answer.header(header::LOCATION).and_then(|to| at.join(to).ok());
            let Some(next) = next else { break };
            at = accepted(&at, next)?;
        }
        let text = format!("its token server {} redirects to no token", host(realm));
        Err(Problem::new(Reason::Refused, text))
    }

    /// The newer way, for refresh tokens. `None` if the server does not know it.
    async fn exchange_identity(
        &self,
        realm: &Url,
        service: Option<&str>,
        scopes: &[&str],
        token: &SecretString,
    ) -> Result<Option<TokenAnswer>, Problem> {
        let mut form =
            Url::parse("x:").map_err(|error| Problem::new(Reason::Malformed, "no form").because(error))?;
        form.query_pairs_mut()
            .append_pair("grant_type", "refresh_token")
            .append_pair("refresh_token", token.expose_secret())
            .append_pair("client_id", "equate")
            .append_pair("service", service.unwrap_or_default())
            .append_pair("scope", &scopes.join(" "));
        let body = form.query().unwrap_or_default().to_owned();
        let request = self.client.request(Method::POST, realm.clone());
        let request = request
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        let answer = self.exchange(request, realm.clone()).await?;
        match answer.status() {
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            _ => self.token(answer).await.map(Some),
        }
    }

    async fn token(&self, mut answer: Answer<'_>) -> Result<TokenAnswer, Problem> {
        let server = host(&answer.url);
        if !answer.status().is_success() {
            let problem = answer.problem().await;
            let text = format!("its token server {server}: {}", problem.text);
            return Err(Problem { text, ..problem });
        }
        let body = answer.bytes("token", self.limits().token_bytes_max).await?;
        // serde_json's own text may quote a token
        serde_json::from_slice(&body).map_err(|_| {
            Problem::new(
                Reason::Malformed,
                format!("its token server {server} sends no token"),
            )
        })
    }
}

#[derive(Deserialize)]
struct TokenAnswer {
    token: Option<String>,
    access_token: Option<String>,
    expires_in: Option<u64>,
}

fn basic(username: &str, password: &SecretString) -> Result<HeaderValue, Problem> {
    let pair = SecretString::from(format!("{username}:{}", password.expose_secret()));
    header_value("Basic ", &STANDARD.encode(pair.expose_secret()))
}

fn header_value(scheme: &str, secret: &str) -> Result<HeaderValue, Problem> {
    let text = SecretString::from(format!("{scheme}{secret}"));
    let mut value = HeaderValue::from_str(text.expose_secret()).map_err(|_| {
        Problem::new(
            Reason::Authentication,
            "the token contains bytes that a header cannot carry",
        )
    })?;
    value.set_sensitive(true);
    Ok(value)
}
