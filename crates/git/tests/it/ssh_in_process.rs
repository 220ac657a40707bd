//! SSH against the server of `testkit`, without `ssh`, `sshd` or `ssh-keygen`. [`crate::ssh`] tests a real
//! `sshd`.

use std::time::{Duration, Instant};

use equate_egress::Silence;
use equate_git::{Credentials, Kind, Limits, Mirrors, Proxy, Reference, Remote, Secret, SshAlgorithms};
use equate_testkit::{
    eventually::eventually,
    git::{self as proxy, Repository, SshAgent, SshFault, SshKey, SshServer},
};

use crate::{Fixture, chain};

const KEYS: &str = include_str!("../../testdata/ssh_keys.txt");

fn fixture(name: &str) -> &'static str {
    let (_, rest) = KEYS.split_once(&format!("\n== {name}\n")).unwrap();
    rest.split("\n== ").next().unwrap()
}

fn repository() -> Repository {
    let repository = Repository::init_bare().unwrap();
    repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    repository
}

fn key(identity: &str, known_hosts: &str, passphrase: Option<&str>) -> Credentials {
    Credentials::Ssh {
        identity: Secret::from(identity),
        known_hosts: known_hosts.as_bytes().to_vec(),
        passphrase: passphrase.map(Secret::from),
    }
}

/// The server's valid credentials.
fn right(server: &SshServer) -> Credentials {
    key(&server.identity(), &server.known_hosts(), None)
}

/// The number of files, or the failure.
fn pull(mirrors: &Mirrors, remote: &Remote) -> Result<usize, (Kind, String)> {
    let revision = mirrors
        .resolve(remote, &Reference::branch("main"))
        .map_err(|error| (error.kind(), chain(&error)))?;
    let commit = mirrors
        .fetch(remote, &revision)
        .map_err(|error| (error.kind(), chain(&error)))?;
    Ok(commit.tree().entries().unwrap().len())
}

#[track_caller]
fn refused(remote: &Remote, kind: Kind, want: &str) {
    let (got, text) = pull(&Fixture::new().mirrors, remote).unwrap_err();
    assert_eq!(got, kind, "{text}");
    let text = text.replace(&remote.url, "URL");
    assert!(text.contains(want), "{text}\nand not {want}");
}

#[test]
fn fetch_runs_one_upload_pack() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let check = |user: &str, path: &str, want: &str| {
        let remote = Remote::new(server.url_of(user, path)).with_credentials(right(&server));
        assert_eq!(pull(&Fixture::new().mirrors, &remote), Ok(1), "{path}");
        let all = server.take();
        assert_eq!(all.len(), 2, "to resolve, and to fetch: {all:?}");
        for asked in all {
            assert_eq!(format!("{} {}", asked.user, asked.command), want);
            assert_eq!(asked.protocol.as_deref(), Some("version=2"));
            assert_eq!(asked.algorithm, "ssh-ed25519");
        }
    };
    check("git@", "/fleet.git", "git git-upload-pack '/fleet.git'");
    check("", "/fleet.git", "git git-upload-pack '/fleet.git'");
    check("me@", "/~me/fleet", "me git-upload-pack '~me/fleet'");
    check("git@", "/fleet%20it's", r"git git-upload-pack '/fleet it'\''s'");
    check("git@", "/fleet$(id)", "git git-upload-pack '/fleet$(id)'");

    let remote = Remote::new(server.url_of("git@", "/fleet.git")).with_credentials(right(&server));
    let both = Fixture::new()
        .mirrors
        .resolve_and_fetch(&remote, &Reference::branch("main"), |_| true);
    let (_, commit) = both.unwrap();
    assert_eq!(commit.unwrap().unwrap().tree().entries().unwrap().len(), 1);
    assert_eq!(server.take().len(), 1, "both in one session");
}

#[test]
fn keys_of_an_agent_authenticate() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let (stranger, right) = (SshKey::ed25519(77), SshKey::parse(&server.identity()).unwrap());
    let remote = |agent: &SshAgent| {
        Remote::new(server.url()).with_credentials(Credentials::SshAgent {
            socket: agent.socket(),
            known_hosts: server.known_hosts().into_bytes(),
        })
    };
    let agent = SshAgent::start(&[stranger.clone(), right]).unwrap();
    assert_eq!(pull(&Fixture::new().mirrors, &remote(&agent)), Ok(1));
    let agent = SshAgent::start(&[stranger]).unwrap();
    refused(
        &remote(&agent),
        Kind::Authentication,
        "the host refused the keys of the ssh agent",
    );
    let agent = SshAgent::start(&[]).unwrap();
    refused(&remote(&agent), Kind::Authentication, "the ssh agent has no key");
    let gone = remote(&agent);
    drop(agent);
    refused(&gone, Kind::Authentication, "the ssh agent does not answer");
}

/// A host that only the proxy can resolve, through a proxy that requires credentials.
#[test]
fn proxies_resolve_the_host() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let known_hosts = server.known_hosts().replace("127.0.0.1", "git.invalid");
    let url = server.url().replace("127.0.0.1", "git.invalid");
    let through = |address: &str, password: Option<&str>| Remote {
        proxy: Some(
            Proxy::new(
                address,
                password.map(|_| "me".to_owned()),
                password.map(Secret::from),
            )
            .unwrap(),
        ),
        ..Remote::new(&url).with_credentials(key(&server.identity(), &known_hosts, None))
    };
    let place = format!("git.invalid:{}", server.port());
    let http = proxy::Proxy::of_ssh(&server, "me", "s3cret").unwrap();
    let socks = proxy::SocksProxy::of_ssh(&server, "me", "s3cret").unwrap();
    for address in [http.url(), socks.url()] {
        let right = through(&address, Some("s3cret"));
        assert_eq!(pull(&Fixture::new().mirrors, &right), Ok(1), "{address}");
        assert_eq!(server.take().len(), 2, "to resolve, and to fetch");
        let wants = "the proxy requires credentials";
        refused(&through(&address, Some("wr0ng")), Kind::Authentication, wants);
        refused(&through(&address, None), Kind::Authentication, wants);
    }
    assert_eq!(socks.asked(), [place.clone(), place.clone()]);
    let heads = http.heads();
    let asked = format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n");
    assert_eq!(heads.len(), 4, "{heads:?}");
    assert!(heads.iter().all(|head| head.starts_with(&asked)), "{heads:?}");

    let closed = "http://127.0.0.1:1";
    refused(
        &through(closed, None),
        Kind::Unreachable(Silence::Unconnected),
        "the proxy cannot be reached",
    );
    // an ssh server is not a SOCKS proxy
    let other = format!("127.0.0.1:{}", server.port());
    let no_answer = "the proxy does not support SOCKS version 5";
    refused(
        &through(&format!("socks5h://{other}"), None),
        Kind::RemoteFailure,
        no_answer,
    );
    refused(
        &through("https://127.0.0.1:1", None),
        Kind::UrlInvalid,
        "not reached through a proxy of scheme \"https\"",
    );
}

#[test]
fn every_key_type_authenticates() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let check = |name: &str, passphrase: Option<&str>, want: &str| {
        let credentials = key(fixture(name), &server.known_hosts(), passphrase);
        let remote = Remote::new(server.url()).with_credentials(credentials);
        assert_eq!(pull(&Fixture::new().mirrors, &remote), Ok(1), "{name}");
        let algorithms: Vec<String> = server.take().into_iter().map(|asked| asked.algorithm).collect();
        assert_eq!(algorithms, [want, want], "to resolve, and to fetch");
    };
    let open = Some("open sesame");
    for name in ["ed25519", "ecdsa 256", "ecdsa 384", "ecdsa 521", "rsa"] {
        server.authorize(&SshKey::parse(fixture(name)).unwrap());
    }
    check("ed25519", None, "ssh-ed25519");
    check("ed25519 locked", open, "ssh-ed25519");
    check("ecdsa 256 sec1", None, "ecdsa-sha2-nistp256");
    check("ecdsa 384 pkcs8", None, "ecdsa-sha2-nistp384");
    check("ecdsa 521", None, "ecdsa-sha2-nistp521");
    check("rsa", None, "rsa-sha2-512");
    check("rsa pkcs1 locked", open, "rsa-sha2-512");

    let check = |name: &str, passphrase: Option<&str>, want: &str| {
        let credentials = key(fixture(name), &server.known_hosts(), passphrase);
        let remote = Remote::new(server.url()).with_credentials(credentials);
        let want = format!("cannot connect to URL: the private key cannot be used{want}");
        refused(&remote, Kind::Authentication, &want);
    };
    let hint = " (check the credentials and their read permissions)";
    check(
        "ed25519 locked",
        None,
        &format!("{hint}: it is encrypted and no passphrase is given"),
    );
    check(
        "ed25519 locked",
        Some("open barley"),
        &format!("{hint}: the passphrase does not decrypt it"),
    );
}

#[test]
fn untrusted_hosts_are_refused() {
    let repository = repository();
    let hosts = [
        SshKey::ed25519(0),
        SshKey::ecdsa(256).unwrap(),
        SshKey::parse(fixture("rsa")).unwrap(),
    ];
    let Some(server) = repository.serve_ssh_as(&hosts).unwrap() else {
        return;
    };
    let remote = |known_hosts: &str| {
        let credentials = key(&server.identity(), known_hosts, None);
        Remote::new(server.url()).with_credentials(credentials)
    };
    let name = format!("[127.0.0.1]:{}", server.port());
    // Each of a host's keys is enough, whichever it prefers.
    for host in &hosts {
        let known_hosts = format!("{name} {}\n", host.public());
        assert_eq!(
            pull(&Fixture::new().mirrors, &remote(&known_hosts)),
            Ok(1),
            "{known_hosts}"
        );
    }
    assert_eq!(
        pull(
            &Fixture::new().mirrors,
            &remote(&format!("127.0.0.* {}\n", hosts[0].public()))
        ),
        Ok(1)
    );

    let check = |known_hosts: &str, want: &str| {
        let problem = "the host's key does not match known_hosts";
        let hint = "(check the credentials and their read permissions)";
        let want = format!("cannot connect to URL: {problem} {hint}: {want}");
        refused(&remote(known_hosts), Kind::Authentication, &want);
    };
    let shown = "the host presented ssh-ed25519 SHA256:";
    check("", &format!("no line is for {name}; {shown}"));
    check(
        &format!("{name} {}\n", SshKey::ed25519(9).public()),
        &format!("line 1 has another ssh-ed25519 key for {name}; {shown}"),
    );
    check(
        &format!("{name} {key}\n@revoked * {key}\n", key = hosts[0].public()),
        "line 2 revokes ssh-ed25519 SHA256:",
    );
    assert_eq!(
        server.take().len(),
        8,
        "a host that is not trusted is asked for nothing"
    );
}

#[test]
fn refusals_have_their_own_errors() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let at = |path: &str| Remote::new(server.url_of("git@", path)).with_credentials(right(&server));
    let stranger = key(&SshKey::ed25519(9).private(), &server.known_hosts(), None);
    refused(
        &Remote::new(server.url()).with_credentials(stranger),
        Kind::Authentication,
        "cannot connect to URL: the host refused the key (check the credentials and their read \
         permissions): of user \"git\"; it accepts ",
    );
    refused(
        &at("/nowhere"),
        Kind::RepositoryNotFound,
        "no such repository (check the path; hosts also answer this when credentials are missing or lack read \
         access): fatal: '/nowhere' does not appear to be a git repository",
    );
    let check = |fault: SshFault, kind: Kind, want: &str| {
        server.set(fault);
        refused(&at("/fleet.git"), kind, want);
    };
    let ended = "the host ended the session: ";
    check(
        SshFault::Refuse("ERROR: Repository not found.\n"),
        Kind::RepositoryNotFound,
        ": ERROR: Repository not found.",
    );
    check(
        SshFault::Refuse("ERROR: Permission to x denied to y\n"),
        Kind::Authentication,
        "the host refused the key",
    );
    check(
        SshFault::Refuse("\x1b[2Jbusy\r\n"),
        Kind::RemoteFailure,
        &format!("{ended}[2Jbusy"),
    );
    check(
        SshFault::Exit(3),
        Kind::RemoteFailure,
        &format!("{ended}its git ended with status 3"),
    );
    check(
        SshFault::Exit(0),
        Kind::RemoteFailure,
        &format!("{ended}it closed the connection"),
    );
    check(SshFault::Cut(20), Kind::RemoteFailure, ended);
}

#[test]
fn unusual_answers_are_handled() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let remote = Remote::new(server.url()).with_credentials(right(&server));
    // protocol version 1
    server.set(SshFault::Old);
    assert_eq!(pull(&Fixture::new().mirrors, &remote), Ok(1));
    let protocols: Vec<_> = server.take().into_iter().map(|asked| asked.protocol).collect();
    assert_eq!(protocols, [None, None], "to resolve, and to fetch");
    // more error output than a window and every queue hold
    server.set(SshFault::Flood(8 << 20));
    assert_eq!(pull(&Fixture::new().mirrors, &remote), Ok(1));
}

/// Nothing is forwarded: channels that a host opens are refused, and the session goes on.
#[test]
fn channels_opened_by_the_host_are_refused() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let remote = Remote::new(server.url()).with_credentials(right(&server));
    server.set(SshFault::Opens);
    assert_eq!(pull(&Fixture::new().mirrors, &remote), Ok(1));
    let kinds = [
        "session",
        "direct-tcpip",
        "direct-streamlocal",
        "forwarded-tcpip",
        "forwarded-streamlocal",
        "x11",
        "agent",
    ];
    let refused = kinds.map(|kind| (kind, false));
    assert_eq!(
        server.opened(),
        [refused, refused].concat(),
        "to resolve, and to fetch"
    );
}

#[test]
fn a_truncated_pack_is_an_error() {
    let repository = repository();
    let filling: String = (0_u32..40_000)
        .map(|n| format!("x{:x}\n", n.wrapping_mul(2_654_435_761)))
        .collect();
    repository.commit(&[("b.yaml", Some(&filling))]).unwrap();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let remote = Remote::new(server.url()).with_credentials(right(&server));
    let fixture = Fixture::new();
    let revision = fixture
        .mirrors
        .resolve(&remote, &Reference::branch("main"))
        .unwrap();
    server.set(SshFault::Cut(60_000));
    let error = fixture.mirrors.fetch(&remote, &revision).unwrap_err();
    assert_eq!(error.kind(), Kind::RemoteFailure, "{}", chain(&error));
    let told = chain(&error);
    assert!(told.contains("the host ended the session: "), "{told}");
    server.set(SshFault::None);
    assert_eq!(pull(&fixture.mirrors, &remote), Ok(2));
    // an answer larger than a window arrives complete
    let more: String = (0_u32..1_000_000)
        .map(|n| format!("x{:x}\n", n.wrapping_mul(2_654_435_761)))
        .collect();
    repository.commit(&[("c.yaml", Some(&more))]).unwrap();
    assert_eq!(pull(&fixture.mirrors, &remote), Ok(3));
}

/// Waits until the server has no connection.
async fn all_gone(server: &SshServer) {
    eventually("all connections are closed", Duration::from_secs(120), || async {
        match server.connections() {
            0 => Ok(()),
            open => Err(open),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deadline_ends_every_wait_and_connection() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let remote = Remote::new(server.url()).with_credentials(right(&server));
    let fixture = Fixture::new();
    let mirrors = fixture.mirrors.clone();
    let asked = remote.clone();
    let pulled = tokio::task::spawn_blocking(move || pull(&mirrors, &asked))
        .await
        .unwrap();
    assert_eq!(pulled, Ok(1));
    all_gone(&server).await;
    // a server that notices nothing is the last
    for fault in [SshFault::Silence, SshFault::Stall, SshFault::Deaf] {
        server.set(fault);
        let remote = remote.clone().with_timeout(Duration::from_secs(2));
        let (mirrors, begun) = (fixture.mirrors.clone(), Instant::now());
        let pulled = tokio::task::spawn_blocking(move || pull(&mirrors, &remote))
            .await
            .unwrap();
        let (kind, told) = pulled.unwrap_err();
        assert_eq!(kind, Kind::Timeout, "{told}");
        assert!(told.contains("it took longer than 2s"), "{told}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        if fault != SshFault::Deaf {
            all_gone(&server).await;
        }
    }
}

#[test]
fn only_configured_algorithms_are_offered() {
    let repository = repository();
    let Some(server) = repository.serve_ssh().unwrap() else {
        return;
    };
    let remote = Remote::new(server.url()).with_credentials(right(&server));
    let pull = |kex: &[&str], host_keys: &[&str]| {
        let fixture = Fixture::new();
        let algorithms = SshAlgorithms::new(kex, host_keys).unwrap();
        let root = fixture.directory.path().join("named");
        pull(&Mirrors::with_ssh(root, Limits::default(), algorithms), &remote)
    };
    assert_eq!(pull(&["curve25519-sha256"], &["ssh-ed25519"]), Ok(1));
    let (kind, told) = pull(&[], &["rsa-sha2-512"]).unwrap_err();
    assert_eq!(kind, Kind::RemoteFailure);
    assert!(
        told.contains("it has no accepted host key algorithm: it offers ssh-ed25519"),
        "{told}"
    );
    let (_, told) = pull(&["ecdh-sha2-nistp256"], &[]).unwrap_err();
    assert!(
        told.contains("it has no accepted key exchange algorithm: it offers "),
        "{told}"
    );
}
