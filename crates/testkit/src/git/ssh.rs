//! Git over SSH for tests: `git upload-pack` and `git receive-pack` behind our own server on a loopback
//! port, with keys and faults. It needs no `ssh`, `sshd` or `ssh-keygen`.
//!
//! The server runs in its own thread, so blocking and asynchronous tests may use it. A fault applies to
//! requests after it was set. Only public keys and these programs are accepted.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, Shutdown, SocketAddr},
    path::{Path, PathBuf},
    process::Stdio,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use russh::{
    Channel, ChannelId, ChannelMsg,
    keys::{
        Algorithm, EcdsaCurve, PrivateKey, PublicKey,
        ssh_key::{self, private::Ed25519Keypair},
    },
    server::{Auth, ChannelOpenHandle, Handler, Msg, Session, VerifiedPublicKey},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    sync::{oneshot, watch},
};

use super::serve::git;

/// Rounds of the key derivation: the fewest, for fast tests.
const ROUNDS: u32 = 1;

/// A host or user key pair.
#[derive(Debug, Clone)]
pub struct SshKey(PrivateKey);

impl SshKey {
    /// The Ed25519 key of a seed.
    pub fn ed25519(seed: u8) -> Self {
        Self(Ed25519Keypair::from_seed(&[seed; 32]).into())
    }

    /// A new ECDSA key on the curve of 256, 384 or 521 bits.
    pub fn ecdsa(bits: u16) -> io::Result<Self> {
        let curve = match bits {
            256 => EcdsaCurve::NistP256,
            384 => EcdsaCurve::NistP384,
            521 => EcdsaCurve::NistP521,
            _ => return Err(io::Error::other(format!("no curve has {bits} bits"))),
        };
        let mut chance = russh::keys::key::safe_rng();
        let key = PrivateKey::random(&mut chance, Algorithm::Ecdsa { curve });
        key.map(Self).map_err(io::Error::other)
    }

    /// Parses OpenSSH's format or PEM, without a passphrase.
    pub fn parse(text: &str) -> io::Result<Self> {
        russh::keys::decode_secret_key(text, None)
            .map(Self)
            .map_err(io::Error::other)
    }

    pub(super) fn key(&self) -> &PrivateKey {
        &self.0
    }

    /// The private key in OpenSSH's format.
    pub fn private(&self) -> String {
        written(&self.0)
    }

    /// The private key, encrypted with a passphrase.
    pub fn locked(&self, passphrase: &str) -> io::Result<String> {
        let kdf = ssh_key::Kdf::Bcrypt {
            salt: vec![7; 16],
            rounds: ROUNDS,
        };
        let cipher = ssh_key::Cipher::Aes256Ctr;
        let locked = self.0.encrypt_with(cipher, kdf, 7, passphrase);
        locked.map(|key| written(&key)).map_err(io::Error::other)
    }

    /// The public key: type and base64, as in `authorized_keys` and `known_hosts`.
    pub fn public(&self) -> String {
        self.0.public_key().to_openssh().unwrap_or_default()
    }
}

fn written(key: &PrivateKey) -> String {
    let text = key.to_openssh(ssh_key::LineEnding::LF);
    text.map(|text| text.to_string()).unwrap_or_default()
}

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SshFault {
    /// Nothing.
    None,
    /// Accept connections and send nothing.
    Silence,
    /// Accept the command, then neither read nor write; not even a disconnect is noticed.
    Deaf,
    /// Accept the command and send nothing.
    Stall,
    /// Send this many bytes on stderr before git runs.
    Flood(usize),
    /// Drop the connection after this many bytes of the answer.
    Cut(usize),
    /// Refuse the environment: git uses its first protocol.
    Old,
    /// Exit with this status and no output.
    Exit(u32),
    /// Print this on stderr and exit with status 1.
    Refuse(&'static str),
    /// Open a channel of each kind before git runs: see [`SshServer::opened`].
    Opens,
}

/// A received command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshRequest {
    /// The user.
    pub user: String,
    /// The signature algorithm of the authentication.
    pub algorithm: String,
    /// The command line.
    pub command: String,
    /// `GIT_PROTOCOL`, if sent.
    pub protocol: Option<String>,
}

/// A running server; dropping it stops it.
#[derive(Debug)]
pub struct SshServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    identity: SshKey,
    hosts: Vec<SshKey>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    git: PathBuf,
    git_dir: PathBuf,
    authorized: Mutex<Vec<PublicKey>>,
    fault: watch::Sender<SshFault>,
    asked: Mutex<Vec<SshRequest>>,
    opened: Mutex<Vec<(&'static str, bool)>>,
    connections: AtomicUsize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SshServer {
    pub(super) fn start(git_dir: &Path, hosts: &[SshKey]) -> io::Result<Option<Self>> {
        let Some(git) = git() else {
            eprintln!("skipped: the git program is not installed");
            return Ok(None);
        };
        let identity = SshKey::ed25519(1);
        let shared = Arc::new(Shared {
            git,
            git_dir: git_dir.to_owned(),
            authorized: Mutex::new(vec![identity.0.public_key().clone()]),
            fault: watch::channel(SshFault::None).0,
            asked: Mutex::default(),
            opened: Mutex::default(),
            connections: AtomicUsize::new(0),
        });
        let config = Arc::new(russh::server::Config {
            keys: hosts.iter().map(|key| key.0.clone()).collect(),
            auth_rejection_time: Duration::ZERO,
            auth_rejection_time_initial: Some(Duration::ZERO),
            ..russh::server::Config::default()
        });
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("git-ssh-test".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        () = accept(listener, config, serving) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            })?;
        Ok(Some(Self {
            address,
            shared,
            identity,
            hosts: hosts.to_vec(),
            stop: Some(stop),
            thread: Some(thread),
        }))
    }

    /// The repository's URL, for the user `git`.
    pub fn url(&self) -> String {
        self.url_of("git@", "/fleet.git")
    }

    /// A URL on this server: `user` is empty or ends with `@`. Paths that start with `/fleet` or `~` are
    /// the repository; others do not exist.
    pub fn url_of(&self, user: &str, path: &str) -> String {
        format!("ssh://{user}127.0.0.1:{}{path}", self.address.port())
    }

    /// An authorised private key, in OpenSSH's format.
    pub fn identity(&self) -> String {
        self.identity.private()
    }

    /// The `known_hosts` lines of this server.
    pub fn known_hosts(&self) -> String {
        let line = |key: &SshKey| format!("[127.0.0.1]:{} {}\n", self.address.port(), key.public());
        self.hosts.iter().map(line).collect()
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Authorises another key.
    pub fn authorize(&self, key: &SshKey) {
        lock(&self.shared.authorized).push(key.0.public_key().clone());
    }

    /// Sets the fault of later requests.
    pub fn set(&self, fault: SshFault) {
        self.shared.fault.send_replace(fault);
    }

    /// The commands since the last call.
    pub fn take(&self) -> Vec<SshRequest> {
        std::mem::take(&mut *lock(&self.shared.asked))
    }

    /// The channels the server tried to open since the last call, and whether the client accepted.
    pub fn opened(&self) -> Vec<(&'static str, bool)> {
        std::mem::take(&mut *lock(&self.shared.opened))
    }

    /// The number of open connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop.send(()).ok();
        }
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn accept(listener: std::net::TcpListener, config: Arc<russh::server::Config>, shared: Arc<Shared>) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else {
        return;
    };
    while let Ok((stream, _)) = listener.accept().await {
        let (config, shared) = (Arc::clone(&config), Arc::clone(&shared));
        tokio::spawn(async move {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            // a disconnect is the client's business
            converse(stream, config, Arc::clone(&shared)).await.ok();
            shared.connections.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

async fn converse(
    mut stream: tokio::net::TcpStream,
    config: Arc<russh::server::Config>,
    shared: Arc<Shared>,
) -> Result<(), russh::Error> {
    if *shared.fault.borrow() == SshFault::Silence {
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await?;
        return Ok(());
    }
    let stream = stream.into_std()?;
    let wire = Arc::new(stream.try_clone()?);
    let stream = tokio::net::TcpStream::from_std(stream)?;
    let person = Connection {
        shared,
        wire,
        user: String::new(),
        algorithm: String::new(),
        protocol: None,
        channels: HashMap::new(),
    };
    russh::server::run_stream(config, stream, person).await?.await
}

struct Connection {
    shared: Arc<Shared>,
    /// Drops the connection.
    wire: Arc<std::net::TcpStream>,
    user: String,
    algorithm: String,
    protocol: Option<String>,
    channels: HashMap<ChannelId, Channel<Msg>>,
}

impl Handler for Connection {
    type Error = russh::Error;

    async fn auth_publickey(&mut self, user: &str, key: VerifiedPublicKey<'_>) -> Result<Auth, Self::Error> {
        user.clone_into(&mut self.user);
        self.algorithm = key.algorithm.to_string();
        let known = lock(&self.shared.authorized)
            .iter()
            .any(|authorized| authorized.key_data() == key.public_key.key_data());
        Ok(if known { Auth::Accept } else { Auth::reject() })
    }

    async fn channel_open_session(
        &mut self,
        channel: Channel<Msg>,
        reply: ChannelOpenHandle,
        _session: &mut Session,
    ) -> Result<(), Self::Error> {
        self.channels.insert(channel.id(), channel);
        reply.accept().await;
        Ok(())
    }

    async fn env_request(
        &mut self,
        channel: ChannelId,
        name: &str,
        value: &str,
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        if name != "GIT_PROTOCOL" || *self.shared.fault.borrow() == SshFault::Old {
            return session.channel_failure(channel);
        }
        self.protocol = Some(value.to_owned());
        session.channel_success(channel)
    }

    async fn exec_request(
        &mut self,
        id: ChannelId,
        command: &[u8],
        session: &mut Session,
    ) -> Result<(), Self::Error> {
        let Some(channel) = self.channels.remove(&id) else {
            return session.channel_failure(id);
        };
        let command = String::from_utf8_lossy(command).into_owned();
        lock(&self.shared.asked).push(SshRequest {
            user: self.user.clone(),
            algorithm: self.algorithm.clone(),
            command: command.clone(),
            protocol: self.protocol.clone(),
        });
        session.channel_success(id)?;
        let fault = *self.shared.fault.borrow();
        if fault == SshFault::Deaf {
            // the loop that reads and writes waits for this
            std::future::pending::<()>().await;
        }
        let run = Run {
            shared: Arc::clone(&self.shared),
            wire: Arc::clone(&self.wire),
            session: session.handle(),
            protocol: self.protocol.clone(),
            fault,
        };
        tokio::spawn(async move {
            // a disconnected client receives nothing
            run.command(channel, &command).await.ok();
        });
        Ok(())
    }
}

struct Run {
    shared: Arc<Shared>,
    wire: Arc<std::net::TcpStream>,
    session: russh::server::Handle,
    protocol: Option<String>,
    fault: SshFault,
}

impl Run {
    async fn command(&self, channel: Channel<Msg>, command: &str) -> io::Result<()> {
        let broken = io::Error::other::<russh::Error>;
        let (mut incoming, outgoing) = channel.split();
        let say = async |text: &str| outgoing.extended_data(1, text.as_bytes()).await;
        let (program, path) = command.split_once(' ').unwrap_or_default();
        let program = program.strip_prefix("git-").unwrap_or_default();
        let path = matches!(program, "upload-pack" | "receive-pack").then(|| path.replace(['\'', '\\'], ""));
        let status = match (path, self.fault) {
            (_, SshFault::Stall) => {
                while incoming.wait().await.is_some() {}
                return Ok(());
            }
            (_, SshFault::Exit(status)) => status,
            (_, SshFault::Refuse(text)) => {
                say(text).await.map_err(broken)?;
                1
            }
            (Some(path), fault) if path.starts_with("/fleet") || path.starts_with('~') => {
                if let SshFault::Flood(bytes) = fault {
                    let words = tokio::io::repeat(b'.').take(bytes as u64);
                    outgoing.extended_data(1, words).await.map_err(broken)?;
                }
                if fault == SshFault::Opens {
                    self.open_all().await;
                }
                let mut child = self.pack(program)?;
                let (mut input, output, errors) =
                    (child.stdin.take(), child.stdout.take(), child.stderr.take());
                let feed = async {
                    while let Some(message) = incoming.wait().await {
                        match (message, &mut input) {
                            (ChannelMsg::Data { data }, Some(input)) => input.write_all(&data).await?,
                            (ChannelMsg::Eof | ChannelMsg::Close, _) => break,
                            _ => {}
                        }
                    }
                    drop(input.take());
                    std::future::pending::<io::Result<()>>().await
                };
                let answer = async {
                    let (output, errors) = (some(output)?, some(errors)?);
                    match fault {
                        SshFault::Cut(bytes) => {
                            // an unknown part of it is sent, never the whole
                            outgoing.data(output.take(bytes as u64)).await.map_err(broken)?;
                            self.wire.shutdown(Shutdown::Both)?;
                        }
                        _ => outgoing.data(output).await.map_err(broken)?,
                    }
                    outgoing.extended_data(1, errors).await.map_err(broken)?;
                    child.wait().await
                };
                let status = tokio::select! {
                    answered = answer => answered?,
                    fed = feed => return fed,
                };
                u32::try_from(status.code().unwrap_or(255)).unwrap_or(255)
            }
            (Some(path), _) => {
                let text = format!("fatal: '{path}' does not appear to be a git repository\n");
                say(&text).await.map_err(broken)?;
                128
            }
            (None, _) => {
                say("this server reads git repositories\n")
                    .await
                    .map_err(broken)?;
                127
            }
        };
        outgoing.exit_status(status).await.map_err(broken)?;
        outgoing.eof().await.map_err(broken)?;
        outgoing.close().await.map_err(broken)
    }

    /// Opens every kind of channel that a client without forwarding must refuse.
    async fn open_all(&self) {
        let session = &self.session;
        let opened = [
            ("session", session.channel_open_session().await),
            (
                "direct-tcpip",
                session.channel_open_direct_tcpip("h", 1, "from", 2).await,
            ),
            (
                "direct-streamlocal",
                session.channel_open_direct_streamlocal("/s").await,
            ),
            (
                "forwarded-tcpip",
                session.channel_open_forwarded_tcpip("h", 1, "from", 2).await,
            ),
            (
                "forwarded-streamlocal",
                session.channel_open_forwarded_streamlocal("/s").await,
            ),
            ("x11", session.channel_open_x11("from", 2).await),
            ("agent", session.channel_open_agent().await),
        ];
        let told = opened.map(|(kind, opened)| (kind, opened.is_ok()));
        lock(&self.shared.opened).extend(told);
    }

    fn pack(&self, program: &str) -> io::Result<tokio::process::Child> {
        let mut command = tokio::process::Command::new(&self.shared.git);
        command
            .args(["-c", "safe.directory=*", program])
            .arg(&self.shared.git_dir)
            .env_clear()
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("LC_ALL", "C")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        if let Some(protocol) = &self.protocol {
            command.env("GIT_PROTOCOL", protocol);
        }
        command.spawn()
    }
}

fn some<T: AsyncRead>(pipe: Option<T>) -> io::Result<T> {
    pipe.ok_or_else(|| io::Error::other("git has no pipe"))
}
