//! HTTP clients, one per combination of certificates and proxy, kept for their connections. They contain
//! secrets, so their number is limited and unused ones are dropped.

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use equate_egress::{Egress, HttpRefusal};
use reqwest::{
    Url,
    header::{ACCEPT, AUTHORIZATION},
};
use sha2::{Digest as _, Sha256};

use super::{authorization, classify};
use crate::{
    kind::Kind,
    remote::{Credentials, Proxy, ProxyProtocol, Remote},
    secret::Secret,
    transport::{AGENT, Failure, Shared, SshAlgorithms, watchdog::Watchdog},
};

const IDLE: Duration = Duration::from_secs(90);
const UNUSED_MAX: Duration = Duration::from_secs(60 * 60);
/// The editor of one Secret can request any number.
const CLIENTS_MAX: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Clients {
    inner: Mutex<Inner>,
    pub(in crate::transport) watchdog: Watchdog,
    ssh: SshAlgorithms,
    egress: Egress,
}

#[derive(Debug, Default)]
struct Inner {
    runtime: Option<Arc<Runtime>>,
    clients: HashMap<ClientKey, CachedClient>,
}

/// A hash of certificates and proxy; the secrets are in the client alone.
type ClientKey = [u8; 32];

#[derive(Debug)]
struct CachedClient {
    client: reqwest::Client,
    used: Instant,
}

fn client_key(remote: &Remote) -> ClientKey {
    let client = remote.client_certificate.as_ref().map(Secret::expose);
    let proxy = remote.proxy.as_ref().map(Proxy::fields);
    let fields = [remote.ca.as_deref(), client]
        .into_iter()
        .chain(proxy.iter().flatten().map(|field| Some(*field)));
    let mut hash = Sha256::new();
    for field in fields {
        let length = field.map_or(u64::MAX, |field| field.len() as u64);
        hash.update(length.to_be_bytes());
        hash.update(field.unwrap_or_default());
    }
    hash.finalize().into()
}

fn make_room(clients: &mut HashMap<ClientKey, CachedClient>, now: Instant) {
    clients.retain(|_, kept| now.saturating_duration_since(kept.used) < UNUSED_MAX);
    while clients.len() >= CLIENTS_MAX {
        let oldest = clients.iter().min_by_key(|(_, kept)| kept.used);
        let Some(oldest) = oldest.map(|(key, _)| *key) else {
            return;
        };
        clients.remove(&oldest);
    }
}

#[derive(Debug)]
pub(crate) struct Ask<'a> {
    pub(crate) post: bool,
    pub(crate) url: &'a str,
    pub(crate) accept: &'static str,
    pub(crate) bearer: &'a Secret,
    pub(crate) max: usize,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Secret,
}

/// May be dropped anywhere, even in an asynchronous task.
#[derive(Debug)]
pub(in crate::transport) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(in crate::transport) fn wait<T>(
        &self,
        shared: &Shared,
        what: impl Future<Output = T>,
    ) -> io::Result<T> {
        let Some(runtime) = &self.0 else {
            return Err(io::Error::other("the network thread has stopped"));
        };
        let deadline = tokio::time::Instant::from_std(shared.deadline);
        runtime.block_on(async {
            tokio::select! {
                biased;
                () = shared.held.over() => Err(shared.displaced()),
                done = tokio::time::timeout_at(deadline, what) => done.map_err(|_| shared.timed_out()),
            }
        })
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Clients {
    pub(crate) fn new(ssh: SshAlgorithms, egress: Egress) -> Self {
        Self {
            ssh,
            egress,
            ..Self::default()
        }
    }

    pub(in crate::transport) fn egress(&self) -> &Egress {
        &self.egress
    }

    pub(in crate::transport) fn ssh(&self) -> &SshAlgorithms {
        &self.ssh
    }

    /// Two threads: the computations of one ssh host must not block other sessions.
    pub(in crate::transport) fn runtime(&self) -> Result<Arc<Runtime>, Failure> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(runtime) = &inner.runtime {
            return Ok(Arc::clone(runtime));
        }
        let built = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("git-net")
            .enable_all()
            .build();
        let built = built.map_err(|error| {
            Failure::new(Kind::Storage, "cannot start a thread for the network").because(error)
        })?;
        let runtime = Arc::new(Runtime(Some(built)));
        inner.runtime = Some(Arc::clone(&runtime));
        Ok(runtime)
    }

    pub(super) fn get(&self, remote: &Remote) -> Result<(Arc<Runtime>, reqwest::Client), Failure> {
        let runtime = self.runtime()?;
        let look = || self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (key, now) = (client_key(remote), Instant::now());
        let mut inner = look();
        if let Some(kept) = inner.clients.get_mut(&key) {
            kept.used = now;
            return Ok((runtime, kept.client.clone()));
        }
        drop(inner);
        // reading certificates is slow, and other remotes must not wait for it
        let client = client(remote, &self.egress)?;
        let mut inner = look();
        make_room(&mut inner.clients, now);
        let kept = CachedClient {
            client: client.clone(),
            used: now,
        };
        inner.clients.insert(key, kept);
        Ok((runtime, client))
    }

    pub(in crate::transport) fn call(
        &self,
        remote: &Remote,
        ask: &Ask<'_>,
        deadline: Instant,
    ) -> Result<Answer, Failure> {
        let (runtime, client) = self.get(remote)?;
        let Some(runtime) = &runtime.0 else {
            return Err(Failure::new(Kind::Storage, "the network thread has stopped"));
        };
        let url = Url::parse(ask.url).map_err(|_| Failure::new(Kind::UrlInvalid, "the url is malformed"))?;
        self.egress.check(&url).map_err(refused)?;
        let request = match ask.post {
            true => client.post(url),
            false => client.get(url),
        };
        let authorization = authorization(&Credentials::Bearer(ask.bearer.clone()))?;
        let request = request.header(ACCEPT, ask.accept).headers(
            authorization
                .map(|value| (AUTHORIZATION, value))
                .into_iter()
                .collect(),
        );
        let exchange = async {
            let mut response = request.send().await.map_err(classify::transfer)?;
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(classify::transfer)? {
                body.extend_from_slice(&chunk);
                if body.len() > ask.max {
                    let problem = format!("its answer is larger than {} bytes", ask.max);
                    return Err(Failure::new(Kind::Limit, problem));
                }
            }
            Ok(Answer {
                status: response.status().as_u16(),
                body: Secret::new(body),
            })
        };
        let at = tokio::time::Instant::from_std(deadline);
        let answered = runtime.block_on(async { tokio::time::timeout_at(at, exchange).await });
        answered.unwrap_or_else(|_| Err(Failure::new(Kind::Timeout, "it took longer than allowed")))
    }
}

pub(super) fn refused(error: HttpRefusal) -> Failure {
    Failure::new(Kind::UrlInvalid, "the host may not be dialled").because(error)
}

fn client(remote: &Remote, egress: &Egress) -> Result<reqwest::Client, Failure> {
    // reqwest panics in a process without a default provider. If there is one, this changes nothing.
    if rustls::crypto::CryptoProvider::get_default().is_none() {
        rustls::crypto::ring::default_provider().install_default().ok();
    }
    let mut builder = egress.http().pool_idle_timeout(IDLE).user_agent(AGENT);
    if let Some(pem) = &remote.ca {
        let certificates = reqwest::Certificate::from_pem_bundle(pem).map_err(|error| {
            Failure::new(Kind::Tls, "the given ca is not a PEM certificate").because(error)
        })?;
        builder = builder.tls_certs_merge(certificates);
    }
    if let Some(pem) = &remote.client_certificate {
        let identity = reqwest::Identity::from_pem(pem.expose())
            .map_err(|_| Failure::new(Kind::Tls, "the client certificate and its key are not valid PEM"))?;
        builder = builder.identity(identity);
    }
    if let Some(proxy) = &remote.proxy {
        // a proxy given for this remote overrides the environment's exceptions
        builder = builder.proxy(reqwest_proxy(proxy, egress)?);
    }
    builder
        .build()
        .map_err(|error| Failure::new(Kind::Tls, "cannot build an http client").because(error))
}

fn reqwest_proxy(proxy: &Proxy, egress: &Egress) -> Result<reqwest::Proxy, Failure> {
    let unusable = || Failure::new(Kind::UrlInvalid, "the proxy's address is invalid");
    let mut address = Url::parse(proxy.address()).map_err(|_| unusable())?;
    egress.check(&address).map_err(refused)?;
    let mut header = None;
    if let Some((username, password)) = proxy.credentials() {
        let password = std::str::from_utf8(password)
            .map_err(|_| Failure::new(Kind::Authentication, "the proxy's password is not UTF-8"))?;
        match proxy.protocol() {
            ProxyProtocol::Http | ProxyProtocol::Https => header = Some((username, password)),
            // SOCKS has no headers: the client takes credentials from the address
            ProxyProtocol::Socks5 => address
                .set_username(username)
                .and_then(|()| address.set_password(Some(password)))
                .map_err(|()| unusable())?,
        }
    }
    let through = reqwest::Proxy::all(address).map_err(|_| unusable())?;
    Ok(match header {
        Some((username, password)) => through.basic_auth(username, password),
        None => through,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_clients_are_dropped() {
        let begun = Instant::now();
        let made = client(&Remote::new("https://h/x"), &Egress::default()).unwrap();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let mut clients = HashMap::new();
        let fill = |clients: &mut HashMap<ClientKey, CachedClient>, names: std::ops::Range<u16>, seconds| {
            for name in names {
                make_room(clients, at(seconds));
                let mut key = [0; 32];
                key[..2].copy_from_slice(&name.to_be_bytes());
                let (client, used) = (made.clone(), at(seconds + u64::from(name)));
                clients.insert(key, CachedClient { client, used });
            }
        };
        fill(&mut clients, 0..300, 0);
        assert_eq!(clients.len(), CLIENTS_MAX);
        // the oldest went first
        assert!(clients.values().all(|kept| kept.used >= at(44)));
        fill(&mut clients, 400..401, 4_000);
        assert_eq!(clients.len(), 1);
    }

    #[test]
    fn certificates_and_proxy_identify_a_client() {
        let remote = Remote::new("https://h/x");
        let proxy = |password: &str| Remote {
            proxy: Proxy::new("http://p:1", Some("me".to_owned()), Some(password.into())).ok(),
            ..remote.clone()
        };
        let ca = Remote {
            ca: Some(b"c".to_vec()),
            ..remote.clone()
        };
        let certificate = Remote {
            client_certificate: Some("c".into()),
            ..remote.clone()
        };
        let all = [
            client_key(&remote),
            client_key(&ca),
            client_key(&certificate),
            client_key(&proxy("a")),
            client_key(&proxy("b")),
        ];
        let distinct: std::collections::HashSet<_> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
        assert_eq!(client_key(&remote), client_key(&Remote::new("https://else/y")));
    }
}
