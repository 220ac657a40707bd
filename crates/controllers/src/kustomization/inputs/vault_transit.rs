//! Asks Vault's or OpenBao's transit engine to decrypt a data key.
//!
//! The address comes from an encrypted file, so anybody who writes to a repository chooses it. The token
//! belongs to the author of the Secret. So a token is only sent to allowed addresses: those in the Secret
//! (`sops.vault-address`), else those of this process (`VAULT_ADDR`). Redirects are refused, and answers
//! are limited in time and size.
//!
//! Not supported: tokens for ServiceAccounts (Flux's `--sops-vault-configmap`), Vault's namespaces.

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use equate_egress::{Egress, Outcome};
use equate_sops::{TRANSIT_ANSWER_BYTES_MAX, TransitError, TransitRequest};
use futures::StreamExt as _;
use reqwest::Url;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use zeroize::Zeroizing;

use super::decryption::{Answers, KeyRing};
use crate::kit::queue::without_worker;
use crate::kit::read::chain;

/// Limit for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Concurrent requests of one build.
const AT_ONCE: usize = 4;
/// The most questions of one build: each is a file of a repository.
pub(in crate::kustomization) const QUESTIONS_MAX: usize = 200;

/// The settings of transit engines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TransitSettings {
    /// The addresses for tokens of Secrets that name none: `https://vault.example.com:8200`.
    pub addresses: Vec<String>,
    /// Trusted CA certificates beside the usual ones, in PEM.
    pub ca: Option<Vec<u8>>,
}

/// The client of transit engines, made for the first question.
#[derive(Clone, Default)]
pub(crate) struct Transits {
    settings: Arc<TransitSettings>,
    egress: Egress,
    client: Arc<OnceLock<Result<reqwest::Client, String>>>,
}

impl fmt::Debug for Transits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transits")
            .field("addresses", &self.settings.addresses)
            .finish_non_exhaustive()
    }
}

impl Transits {
    /// `egress` must exempt the hosts of the settings.
    pub(crate) fn new(settings: TransitSettings, egress: Egress) -> Self {
        Self {
            settings: Arc::new(settings),
            egress,
            client: Arc::default(),
        }
    }

    /// Whether the token of these keys may be sent to an address.
    pub(in crate::kustomization) fn allows(&self, ring: &KeyRing, address: &str) -> bool {
        let Some((_, own)) = ring.token() else {
            return false;
        };
        let allowed = if own.is_empty() {
            &self.settings.addresses
        } else {
            own
        };
        let wanted = place(address);
        wanted.is_some() && allowed.iter().any(|address| place(address) == wanted)
    }

    /// Asks the questions, and adds the answers.
    pub(in crate::kustomization) async fn ask(
        &self,
        ring: &KeyRing,
        namespace: &str,
        questions: Vec<TransitRequest>,
        answers: &mut Answers,
    ) {
        let Some((token, _)) = ring.token() else { return };
        let mut distinct: HashSet<_> = questions.into_iter().collect();
        distinct.retain(|question| !answers.contains_key(question));
        let asked = futures::stream::iter(distinct).map(async |question| {
            let answer = self.answer(token, namespace, &question).await;
            (question, answer)
        });
        let answered: Vec<_> = without_worker(asked.buffer_unordered(AT_ONCE).collect()).await;
        answers.extend(answered);
    }

    async fn answer(
        &self,
        token: &str,
        namespace: &str,
        question: &TransitRequest,
    ) -> Result<Zeroizing<Vec<u8>>, TransitError> {
        let no_answer = |why: String| TransitError::NoAnswer {
            address: origin(&question.url),
            source: Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(why)),
        };
        let client = self.client.get_or_init(|| client(&self.settings, &self.egress));
        let client = client.as_ref().map_err(|why| no_answer(why.clone()))?;
        let mut token = HeaderValue::from_str(token)
            .map_err(|_| no_answer("the token has characters that an HTTP header cannot have".to_owned()))?;
        token.set_sensitive(true);
        let url = Url::parse(&question.url).map_err(|_| no_answer("the address is malformed".to_owned()))?;
        self.egress
            .check(&url)
            .map_err(|error| no_answer(chain(&error)))?;
        let admission = self.egress.enter(namespace, &origin(&question.url)).await;
        let mut admission = admission.map_err(|refusal| no_answer(refusal.to_string()))?;
        let request = client
            .post(url)
            .header("X-Vault-Token", token)
            .header("X-Vault-Request", "true")
            .header(CONTENT_TYPE, "application/json")
            .body(question.body.clone());
        let exchange = async {
            let mut response = request.send().await?;
            let mut body = Zeroizing::new(Vec::new());
            while let Some(chunk) = response.chunk().await? {
                body.extend_from_slice(&chunk);
                if body.len() > TRANSIT_ANSWER_BYTES_MAX {
                    break;
                }
            }
            Ok::<_, reqwest::Error>((response.status().as_u16(), body))
        };
        let exchanged = tokio::time::timeout(TIMEOUT, exchange).await;
        admission.report(match &exchanged {
            Ok(Ok(_)) => Outcome::Answered,
            _ => Outcome::Silent,
        });
        match exchanged {
            Ok(Ok((status, body))) => question.read(status, &body),
            // the error's text would repeat the URL
            Ok(Err(error)) => Err(no_answer(chain(&error.without_url()))),
            Err(_elapsed) => Err(no_answer(format!("no answer within {}s", TIMEOUT.as_secs()))),
        }
    }
}

/// The parts of an address that have to match: scheme, host, port and path.
fn place(address: &str) -> Option<(String, String, u16, String)> {
    let url = Url::parse(address).ok()?;
    let known = matches!(url.scheme(), "http" | "https");
    let plain = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    let host = url.host_str().filter(|_| known && plain)?.to_owned();
    let path = url.path().trim_end_matches('/').to_owned();
    Some((url.scheme().to_owned(), host, url.port_or_known_default()?, path))
}

fn origin(url: &str) -> String {
    Url::parse(url).map_or_else(
        |_| "the address".to_owned(),
        |url| url.origin().ascii_serialization(),
    )
}

fn client(settings: &TransitSettings, egress: &Egress) -> Result<reqwest::Client, String> {
    // reqwest panics without a default provider; this changes nothing where there is one
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        rustls::crypto::ring::default_provider().install_default().ok();
    }
    let mut builder = egress
        .http()
        .user_agent(concat!("equate/", env!("CARGO_PKG_VERSION")));
    if let Some(pem) = &settings.ca {
        let certificates = reqwest::Certificate::from_pem_bundle(pem)
            .map_err(|_| "its CA certificates are not valid PEM".to_owned())?;
        builder = builder.tls_certs_merge(certificates);
    }
    builder
        .build()
        .map_err(|error| format!("cannot create an HTTP client: {}", chain(&error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_engine_is_asked_a_few_times_whatever_the_number_of_questions() {
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = silent.local_addr().unwrap();
        let transits = Transits::new(TransitSettings::default(), Egress::default());
        let begun = tokio::time::Instant::now();
        let mut last = None;
        for number in 0..QUESTIONS_MAX {
            let question = TransitRequest {
                url: format!("http://{address}/v1/sops/decrypt/k{number}"),
                body: "{}".to_owned(),
            };
            last = transits.answer("token", "team-a", &question).await.err();
        }
        let last = last.map(|error| chain(&error)).unwrap_or_default();
        assert!(last.contains("did not answer 3 times in a row"), "{last}");
        assert!(begun.elapsed() <= 3 * TIMEOUT, "{:?}", begun.elapsed());
    }

    #[test]
    fn equivalent_addresses_are_equal() {
        let check = |one: &str, other: &str, same: bool| {
            let (one_place, other_place) = (place(one), place(other));
            assert_eq!(
                one_place.is_some() && one_place == other_place,
                same,
                "{one} {other}"
            );
        };
        check(
            "https://vault.example.com",
            "https://VAULT.example.com:443/",
            true,
        );
        check("http://vault:8200", "http://vault:8200/", true);
        check("https://vault:8200", "http://vault:8200", false);
        check("https://vault:8200", "https://vault:8201", false);
        check("https://vault", "https://vault.evil.example", false);
        check("https://vault@evil.example", "https://vault@evil.example", false);
        check("https://vault/?x", "https://vault/?x", false);
        check("https://gate/one", "https://gate/two", false);
        check("ftp://vault", "ftp://vault", false);
        check("vault", "vault", false);
    }
}
