//! A real ssh server on a loopback port, where one is installed.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use equate_git::{Credentials, Kind, Reference, Remote, Secret};
use equate_testkit::git::Repository;

use crate::{Fixture, chain};

/// The number of attempts with another free port.
const PORT_ATTEMPTS: usize = 3;

struct Sshd {
    child: Child,
    port: u16,
    directory: tempfile::TempDir,
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn key(path: &Path, passphrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-f"])
        .arg(path)
        .status()
        .unwrap();
    assert!(made.success());
}

/// Starts a server. Prints a line and returns `None` where none can run.
fn sshd() -> Option<Sshd> {
    let program = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"]
        .iter()
        .map(Path::new)
        .find(|path| path.exists());
    let Some(program) = program else {
        eprintln!("skipped: no sshd is installed");
        return None;
    };
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let file = |name: &str| directory.path().join(name);
    key(&file("host"), "");
    key(&file("user"), "");
    key(&file("locked"), "open sesame");
    key(&file("stranger"), "");
    let public = |name: &str| fs::read_to_string(file(name)).unwrap();
    fs::write(file("authorized"), public("user.pub") + &public("locked.pub")).unwrap();
    fs::set_permissions(file("authorized"), fs::Permissions::from_mode(0o600)).unwrap();
    // Servers with privilege separation need this directory.
    fs::create_dir_all("/run/sshd").ok();
    // a free port may be taken before it is bound
    let found = (0..PORT_ATTEMPTS).find_map(|_| started(program, directory.path()));
    if found.is_none() {
        eprintln!("skipped: sshd does not start here");
    }
    let (child, port) = found?;
    Some(Sshd {
        child,
        port,
        directory,
    })
}

/// Starts a server on a free port; `None` if it exits.
fn started(program: &Path, directory: &Path) -> Option<(Child, u16)> {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let file = |name: &str| directory.join(name);
    let config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nAcceptEnv GIT_PROTOCOL\n",
        file("host").display(),
        file("authorized").display(),
    );
    fs::write(file("config"), config).unwrap();
    let mut child = Command::new(program)
        .args(["-D", "-e", "-f"])
        .arg(file("config"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let answers = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok();
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        if answers {
            return Some((child, port));
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            child.wait().unwrap();
            return None;
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

impl Sshd {
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap()
    }

    fn credentials(&self, identity: &str, host: &str, passphrase: Option<&str>) -> Credentials {
        let public = self.read(host);
        Credentials::Ssh {
            identity: Secret::from(self.read(identity)),
            known_hosts: format!("[127.0.0.1]:{} {public}", self.port).into_bytes(),
            passphrase: passphrase.map(Secret::from),
        }
    }

    fn url(&self, path: &Path) -> String {
        let user = std::env::var("USER").unwrap_or_else(|_| "root".to_owned());
        format!("ssh://{user}@127.0.0.1:{}{}", self.port, path.display())
    }
}

#[test]
fn keys_authenticate_and_unknown_hosts_are_refused() {
    let Some(server) = sshd() else { return };
    let repository = Repository::init_bare().unwrap();
    repository.commit(&[("a.yaml", Some("a: 1\n"))]).unwrap();
    let fixture = Fixture::new();
    let pull = |path: &Path, credentials: Credentials| -> Result<usize, (Kind, String)> {
        let remote = Remote::new(server.url(path)).with_credentials(credentials);
        let revision = fixture
            .mirrors
            .resolve(&remote, &Reference::branch("main"))
            .map_err(|error| (error.kind(), chain(&error)))?;
        let commit = fixture
            .mirrors
            .fetch(&remote, &revision)
            .map_err(|error| (error.kind(), chain(&error)))?;
        Ok(commit.tree().entries().unwrap().len())
    };
    let path = repository.path();
    assert_eq!(pull(path, server.credentials("user", "host.pub", None)), Ok(1));
    repository.commit(&[("b.yaml", Some("b: 1\n"))]).unwrap();
    assert_eq!(pull(path, server.credentials("user", "host.pub", None)), Ok(2));
    assert_eq!(
        pull(
            path,
            server.credentials("locked", "host.pub", Some("open sesame"))
        ),
        Ok(2)
    );

    let check = |path: PathBuf, credentials: Credentials, kind: Kind, want: &str| {
        let (got, text) = pull(&path, credentials).unwrap_err();
        assert_eq!(got, kind, "{text}");
        assert!(text.contains(want), "{text}");
    };
    let path = || path.to_owned();
    let key = "the host refused the key";
    check(
        path(),
        server.credentials("stranger", "host.pub", None),
        Kind::Authentication,
        key,
    );
    check(
        path(),
        server.credentials("locked", "host.pub", Some("wrong")),
        Kind::Authentication,
        "the private key cannot be used",
    );
    check(
        path(),
        server.credentials("user", "stranger.pub", None),
        Kind::Authentication,
        "the host's key does not match known_hosts",
    );
    check(
        PathBuf::from("/nowhere/x"),
        server.credentials("user", "host.pub", None),
        Kind::RepositoryNotFound,
        "no such repository",
    );
}
