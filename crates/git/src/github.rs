//! Tokens of GitHub App installations: a JWT signed with the app's key is exchanged for a token, which
//! GitHub accepts for one hour.
//!
//! Key and tokens are held in masking types. The exchange is one `POST`, preceded by a `GET` to find an
//! owner's installation, to the app's own API only: redirects are not followed. Tokens are kept in memory,
//! under a hash of all inputs of the request.

use std::{
    collections::HashMap,
    fmt,
    net::IpAddr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime},
};

use rustls::{
    SignatureScheme,
    pki_types::{PrivateKeyDer, pem::PemObject as _},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    kind::Kind,
    remote::Remote,
    secret::Secret,
    transport::{Answer, Ask, Clients, RemoteError},
};

pub(crate) const USERNAME: &str = "x-access-token";
const API: &str = "https://api.github.com";
const ACCEPT: &str = "application/vnd.github+json";
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// A fetch may take this long after it got a token.
const MARGIN: Duration = Duration::from_secs(5 * 60);
/// The lifetime where the answer states none, as on GitHub.
const LIFE: Duration = Duration::from_secs(60 * 60);
const SKEW: u64 = 30;
const JWT_SECONDS: u64 = 120;
const TOKENS_MAX: usize = 10_000;
/// Callers that want the same token share a failure this long.
const FAILURE_KEPT: Duration = Duration::from_secs(5);

/// A GitHub App and one of its installations. `Debug` masks the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GithubApp {
    /// The app's id.
    pub id: u64,
    /// The installation to use.
    pub installation: Installation,
    /// The private key, PEM.
    pub private_key: Secret,
    /// The API's address if it is not GitHub's own: `https://HOST/api/v3`.
    pub base_url: Option<String>,
}

/// An installation of an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Installation {
    /// An installation by its id.
    Id(u64),
    /// The installation of an organisation or user.
    Owner(String),
}

/// The reason why no token could be obtained.
#[derive(Debug, thiserror::Error)]
pub enum GithubError {
    /// The key cannot sign.
    #[error("could not parse private key: {problem}")]
    Key {
        /// The reason.
        problem: &'static str,
    },
    /// The address of the API is invalid.
    #[error("invalid API URL: {problem}")]
    BaseUrl {
        /// The reason.
        problem: &'static str,
    },
    /// The owner's name is invalid.
    #[error("installation owner {owner:?} is not a valid user or organisation name")]
    Owner {
        /// The given name.
        owner: String,
    },
    /// The API cannot be reached.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// The API refuses.
    #[error("the GitHub API failed to {doing} (HTTP {status}){}", quoted(message))]
    Refused {
        /// The operation.
        doing: &'static str,
        /// The HTTP status.
        status: u16,
        /// The API's message.
        message: String,
    },
    /// A concurrent request for the same token got no answer in time.
    #[error("timed out after {seconds}s waiting for a concurrent request for the same GitHub token")]
    Busy {
        /// The time waited.
        seconds: f64,
    },
    /// The failure of a concurrent request for the same token.
    #[error(transparent)]
    Shared(Arc<GithubError>),
    /// The API's answer is malformed.
    #[error("the GitHub API failed to {doing}: its answer is malformed")]
    Answer {
        /// The operation.
        doing: &'static str,
    },
}

impl GithubError {
    /// The class of the failure.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Remote(error) => error.kind(),
            Self::Key { .. } | Self::BaseUrl { .. } | Self::Owner { .. } | Self::Refused { .. } => {
                Kind::Authentication
            }
            Self::Busy { .. } => Kind::Timeout,
            Self::Shared(error) => error.kind(),
            Self::Answer { .. } => Kind::Protocol,
        }
    }
}

fn quoted(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

impl GithubApp {
    /// An identity independent of the current token. It includes the key, so other callers cannot guess it.
    pub(crate) fn principal(&self) -> Secret {
        let installation = match &self.installation {
            Installation::Id(id) => format!("id {id}"),
            Installation::Owner(owner) => format!("owner {owner}"),
        };
        let id = self.id.to_string();
        let base = self.base_url.as_deref().unwrap_or(API);
        let fields: [&[u8]; 4] = [
            id.as_bytes(),
            installation.as_bytes(),
            base.as_bytes(),
            self.private_key.expose(),
        ];
        let mut hash = Sha256::new_with_prefix("github app\0");
        for field in fields {
            hash.update((field.len() as u64).to_be_bytes());
            hash.update(field);
        }
        Secret::new(hash.finalize().to_vec())
    }

    fn base(&self) -> Result<String, GithubError> {
        let problem = |problem| GithubError::BaseUrl { problem };
        let text = self.base_url.as_deref().unwrap_or(API);
        let url = reqwest::Url::parse(text).map_err(|_| problem("it is malformed"))?;
        if !is_confidential(&url) {
            return Err(problem(
                "use https: the request carries a token that is valid for two minutes",
            ));
        }
        if url.password().is_some() || !url.username().is_empty() {
            return Err(problem("it contains credentials"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(problem("it has a query"));
        }
        Ok(url.as_str().trim_end_matches('/').to_owned())
    }

    fn jwt(&self, now: SystemTime) -> Result<Secret, GithubError> {
        let problem = |problem| GithubError::Key { problem };
        let key = PrivateKeyDer::from_pem_slice(self.private_key.expose())
            .map_err(|_| problem("it is not a PEM private key"))?;
        let key = rustls::crypto::ring::sign::any_supported_type(&key)
            .map_err(|_| problem("its type is not supported"))?;
        let signer = key
            .choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256])
            .ok_or_else(|| problem("it is not an RSA key"))?;
        let since = now
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let issued = since.saturating_sub(SKEW);
        let header = json!({ "alg": "RS256", "typ": "JWT" }).to_string();
        let claims = json!({ "iat": issued, "exp": issued + JWT_SECONDS, "iss": self.id.to_string() });
        let text = format!(
            "{}.{}",
            base64url(header.as_bytes()),
            base64url(claims.to_string().as_bytes())
        );
        let signature = signer
            .sign(text.as_bytes())
            .map_err(|_| problem("it cannot sign"))?;
        Ok(Secret::new(format!("{text}.{}", base64url(&signature))))
    }
}

/// Whether data is protected on the way: https, or this machine itself.
fn is_confidential(url: &reqwest::Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<IpAddr>();
    let here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
    url.scheme() == "https" || (url.scheme() == "http" && here)
}

/// Whether an app's token may be sent to a URL: https, or this machine itself.
pub fn accepts_token(url: &str) -> bool {
    reqwest::Url::parse(url).is_ok_and(|url| is_confidential(&url))
}

#[derive(Default)]
pub(crate) struct Tokens {
    // one slot per installation, so that concurrent callers share one request
    all: Mutex<HashMap<Secret, Arc<Slot>>>,
}

#[derive(Default)]
struct Slot {
    // locked only briefly, never during a request
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Default)]
struct State {
    asking: bool,
    token: Option<Token>,
    failed: Option<(Instant, Arc<GithubError>)>,
}

/// The right to request a token.
struct PendingRequest<'s>(&'s Slot);

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.0.look().asking = false;
        self.0.answered.notify_all();
    }
}

impl Slot {
    fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the known token after any running request, or `None` if the caller must make one.
    fn known(&self, timeout: Duration) -> Result<Option<Secret>, GithubError> {
        let began = Instant::now();
        let mut state = self.look();
        loop {
            let now = SystemTime::now();
            if let Some(token) = state.token.as_ref().filter(|token| token.until > now) {
                return Ok(Some(token.text.clone()));
            }
            if let Some((at, error)) = &state.failed
                && at.elapsed() < FAILURE_KEPT
            {
                return Err(GithubError::Shared(Arc::clone(error)));
            }
            if !state.asking {
                state.asking = true;
                return Ok(None);
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(GithubError::Busy {
                    seconds: timeout.as_secs_f64(),
                });
            }
            let waited = self.answered.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Token {
    text: Secret,
    until: SystemTime,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").finish_non_exhaustive()
    }
}

impl Tokens {
    pub(crate) fn get(
        &self,
        clients: &Clients,
        remote: &Remote,
        app: &GithubApp,
    ) -> Result<Secret, GithubError> {
        let slot = {
            let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            make_room(&mut all, TOKENS_MAX);
            Arc::clone(all.entry(app.principal()).or_default())
        };
        if let Some(token) = slot.known(remote.timeout)? {
            return Ok(token);
        }
        let asking = PendingRequest(&slot);
        let answer = request(clients, remote, app, SystemTime::now());
        let mut state = slot.look();
        let told = match answer {
            Ok(token) => {
                let text = token.text.clone();
                (state.token, state.failed) = (Some(token), None);
                Ok(text)
            }
            Err(error) => {
                let error = Arc::new(error);
                (state.token, state.failed) = (None, Some((Instant::now(), Arc::clone(&error))));
                Err(GithubError::Shared(error))
            }
        };
        drop(state);
        drop(asking);
        told
    }

    pub(crate) fn refused(&self, principal: &Secret, refused: &Secret) {
        let slot = {
            let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
            all.get(principal).cloned()
        };
        if let Some(slot) = slot {
            slot.look().token.take_if(|token| token.text == *refused);
        }
    }
}

fn make_room(all: &mut HashMap<Secret, Arc<Slot>>, max: usize) {
    if all.len() < max {
        return;
    }
    let now = SystemTime::now();
    let used = |slot: &Arc<Slot>| Arc::strong_count(slot) > 1;
    all.retain(|_, slot| used(slot) || slot.look().token.as_ref().is_some_and(|token| token.until > now));
    if all.len() >= max {
        all.retain(|_, slot| used(slot));
    }
}

fn request(
    clients: &Clients,
    remote: &Remote,
    app: &GithubApp,
    now: SystemTime,
) -> Result<Token, GithubError> {
    let base = app.base()?;
    let jwt = app.jwt(now)?;
    let deadline = Instant::now() + remote.timeout;
    let ask = |post: bool, path: &str| {
        let ask = Ask {
            post,
            url: &format!("{base}/{path}"),
            accept: ACCEPT,
            bearer: &jwt,
            max: ANSWER_BYTES_MAX,
        };
        clients.ask(remote, &ask, deadline)
    };
    let id = match &app.installation {
        Installation::Id(id) => *id,
        Installation::Owner(owner) => {
            const DOING: &str = "find the owner's installation";
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if owner.is_empty() || !owner.chars().all(plain) {
                return Err(GithubError::Owner { owner: owner.clone() });
            }
            let mut answer = ask(false, &format!("orgs/{owner}/installation"))?;
            if answer.status == 404 {
                answer = ask(false, &format!("users/{owner}/installation"))?;
            }
            let found = understood(&answer, DOING)?;
            let id = found.get("id").and_then(Value::as_u64);
            id.ok_or(GithubError::Answer { doing: DOING })?
        }
    };
    const DOING: &str = "issue an installation token";
    let answer = understood(
        &ask(true, &format!("app/installations/{id}/access_tokens"))?,
        DOING,
    )?;
    let text = answer
        .get("token")
        .and_then(Value::as_str)
        .filter(|token| !token.is_empty());
    let text = text.ok_or(GithubError::Answer { doing: DOING })?;
    let end = answer.get("expires_at").and_then(Value::as_str).and_then(instant);
    // the host cannot extend how long a token is kept
    let end = end.unwrap_or(now + LIFE).min(now + LIFE);
    Ok(Token {
        text: Secret::from(text),
        until: end.checked_sub(MARGIN).unwrap_or(now),
    })
}

fn understood(answer: &Answer, doing: &'static str) -> Result<Value, GithubError> {
    const SHOWN_MAX: usize = 200;
    let body = serde_json::from_slice::<Value>(answer.body.expose()).ok();
    if !(200..300).contains(&answer.status) {
        let message = body.as_ref().and_then(|body| body.get("message")?.as_str());
        let message = message.unwrap_or_default().chars().filter(|c| !c.is_control());
        return Err(GithubError::Refused {
            doing,
            status: answer.status,
            message: message.take(SHOWN_MAX).collect(),
        });
    }
    body.ok_or(GithubError::Answer { doing })
}

/// `2016-07-11T22:14:10Z`, as GitHub writes times.
fn instant(text: &str) -> Option<SystemTime> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, by: char| -> Option<[i64; 3]> {
        let mut parts = text
            .split(by)
            .map(|part| part.parse::<i64>().ok().filter(|part| *part >= 0));
        let all = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(all)
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    // days since 1970, in years that begin in March
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let (era, of_era) = (year / 400, year % 400);
    let days =
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + (153 * month + 2) / 5 + day - 1 - 719_468;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).ok()?))
}

/// RFC 4648, URL alphabet, no padding.
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or_default());
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for index in 0..=chunk.len() {
            text.push(char::from(ALPHABET[(bits >> (18 - 6 * index)) as usize & 63]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::{
        net::TcpListener,
        sync::Arc,
        time::{Duration, Instant, SystemTime},
    };

    use rustls::SignatureScheme;

    use super::{
        GithubApp, Installation, Slot, Token, Tokens, base64url, instant, is_confidential, make_room,
    };
    use crate::{kind::Kind, remote::Remote, secret::Secret, transport::Clients};

    const KEY: &str = include_str!("../testdata/github_app.pem");

    fn unbase64(text: &str) -> Vec<u8> {
        let (mut bytes, mut held, mut bits) = (Vec::new(), 0_u32, 0);
        for c in text.bytes().filter(|c| *c != b'=') {
            let value = match c {
                b'A'..=b'Z' => c - b'A',
                b'a'..=b'z' => c - b'a' + 26,
                b'0'..=b'9' => c - b'0' + 52,
                b'-' | b'+' => 62,
                _ => 63,
            };
            held = held << 6 | u32::from(value);
            bits += 6;
            if bits >= 8 {
                bits -= 8;
                bytes.push(u8::try_from(held >> bits & 255).unwrap());
            }
        }
        bytes
    }

    #[test]
    fn jwt_is_signed_with_the_apps_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        let arguments = ["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"];
        let made = std::process::Command::new("ssh-keygen")
            .args(arguments)
            .arg(&path)
            .status();
        let Ok(made) = made else {
            println!("skipped: ssh-keygen is not installed");
            return;
        };
        assert!(made.success());
        let app = |key: &str| GithubApp {
            id: 12,
            installation: Installation::Id(34),
            private_key: key.into(),
            base_url: None,
        };
        let app_of_key = app(&std::fs::read_to_string(&path).unwrap());
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_030);
        let jwt = app_of_key.jwt(now).unwrap();
        let jwt = std::str::from_utf8(jwt.expose()).unwrap();
        let (text, signature) = jwt.rsplit_once('.').unwrap();
        let claims = r#"{"exp":1000120,"iat":1000000,"iss":"12"}"#;
        assert_eq!(text.split('.').nth(1).unwrap(), base64url(claims.as_bytes()));

        let exported = std::process::Command::new("ssh-keygen")
            .args(["-e", "-m", "PEM", "-f"])
            .arg(&path)
            .output()
            .unwrap();
        let exported = String::from_utf8(exported.stdout).unwrap();
        let public: String = exported.lines().filter(|line| !line.starts_with('-')).collect();
        let known = rustls::crypto::ring::default_provider().signature_verification_algorithms;
        let (_, algorithms) = known
            .mapping
            .iter()
            .find(|(scheme, _)| *scheme == SignatureScheme::RSA_PKCS1_SHA256)
            .unwrap();
        let (public, signature) = (unbase64(&public), unbase64(signature));
        let holds = |text: &str| {
            algorithms
                .iter()
                .any(|own| own.verify_signature(&public, text.as_bytes(), &signature).is_ok())
        };
        assert!(holds(text));
        assert!(!holds(&format!("{text}x")));
        for key in [
            "junk",
            "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
        ] {
            let error = app(key).jwt(now).unwrap_err().to_string();
            assert!(error.starts_with("could not parse private key"), "{error}");
        }
        assert!(!format!("{app_of_key:?}").contains("BEGIN"));
    }

    #[test]
    fn github_times_are_parsed() {
        let check = |text: &str, want: Option<u64>| {
            let want = want.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(instant(text), want, "{text}");
        };
        check("1970-01-01T00:00:00Z", Some(0));
        check("2016-07-11T22:14:10Z", Some(1_468_275_250));
        check("2024-02-29T12:00:00Z", Some(1_709_208_000));
        check("2026-12-31T23:59:59Z", Some(1_798_761_599));
        for text in [
            "",
            "2016-07-11",
            "2016-13-11T22:14:10Z",
            "2016-07-11T22:14:10+02:00",
            "x-07-11T22:14:10Z",
            "2026-01-01T9223372036854775807:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:60:00Z",
            "2026-01-01T00:00:61Z",
        ] {
            check(text, None);
        }
    }

    fn app(base_url: String) -> GithubApp {
        GithubApp {
            id: 12,
            installation: Installation::Id(34),
            private_key: KEY.into(),
            base_url: Some(base_url),
        }
    }

    /// A silent host blocks callers for the same token once, not each in turn.
    #[test]
    fn concurrent_callers_share_one_request() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let app = app(format!("http://{}", silent.local_addr().unwrap()));
        let remote = Remote::new("https://host/repository").with_timeout(Duration::from_millis(500));
        let (tokens, clients) = (Tokens::default(), Clients::default());
        let began = Instant::now();
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| tokens.get(&clients, &remote, &app).unwrap_err().kind()))
                .collect();
            for one in all {
                assert_eq!(one.join().unwrap(), Kind::Timeout);
            }
        });
        // eight sequential timeouts of half a second would take four seconds
        assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
        silent.set_nonblocking(true).unwrap();
        let asked = std::iter::from_fn(|| silent.accept().ok()).count();
        assert!(asked <= 2, "{asked} asked");
    }

    #[test]
    fn tokens_are_kept_until_refused_or_expired() {
        let tokens = Tokens::default();
        let (soon, over) = (
            SystemTime::now() + Duration::from_secs(600),
            SystemTime::now() - Duration::from_secs(1),
        );
        let slot = |text: &str, until| {
            let slot = Slot::default();
            slot.look().token = Some(Token {
                text: text.into(),
                until,
            });
            Arc::new(slot)
        };
        let named = |name: &str| Secret::from(name);
        {
            let mut all = tokens.all.lock().unwrap();
            all.insert(named("kept"), slot("a", soon));
            all.insert(named("over"), slot("b", over));
            make_room(&mut all, 3);
            assert_eq!(all.len(), 2);
            make_room(&mut all, 2);
            assert_eq!(all.keys().collect::<Vec<_>>(), [&named("kept")]);
        }
        let known = |tokens: &Tokens| {
            let slot = Arc::clone(&tokens.all.lock().unwrap()[&named("kept")]);
            slot.look().token.is_some()
        };
        tokens.refused(&named("kept"), &named("another"));
        assert!(known(&tokens));
        tokens.refused(&named("kept"), &named("a"));
        assert!(!known(&tokens));
    }

    #[test]
    fn jwt_is_sent_over_confidential_connections_only() {
        for (url, confidential) in [
            ("https://api.example.com", true),
            ("http://127.0.0.1:1", true),
            ("http://[::1]:1", true),
            ("http://localhost:1", true),
            ("http://api.example.com", false),
            ("http://127.0.0.1.example.com", false),
            ("ftp://localhost", false),
        ] {
            let url = reqwest::Url::parse(url).unwrap();
            assert_eq!(is_confidential(&url), confidential, "{url}");
        }
    }

    #[test]
    fn base64url_has_no_padding() {
        for (bytes, want) in [
            (&b""[..], ""),
            (b"f", "Zg"),
            (b"fo", "Zm8"),
            (b"foo", "Zm9v"),
            (b"\xfb\xff\xfe", "-__-"),
        ] {
            assert_eq!(base64url(bytes), want);
        }
    }
}
