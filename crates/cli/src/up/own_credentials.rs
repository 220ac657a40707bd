//! The user's own credentials, for REPO and for the hosts of `--credentials-for`.
//!
//! They come from places that git and ssh use, too. Nothing prompts, and no place is changed.

use super::repository::Repository;
use equate_git::{CredentialSource, Credentials, OwnCredentials, OwnRemote, Secret};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

const KEYS: [&str; 3] = ["id_ed25519", "id_ecdsa", "id_rsa"];
/// A helper may start an agent or unlock a key ring.
const HELPER_TIMEOUT: Duration = Duration::from_secs(30);
const HELPER_BYTES_MAX: u64 = 64 << 10;
const PASSWORD_BYTES_MAX: u64 = 64 << 10;
/// GitHub ignores the name beside a token, except that it may not be empty.
const TOKEN_USER: &str = "x-access-token";

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct Options {
    /// User name for REPO over https, with --password-file.
    #[arg(
        long,
        value_name = "NAME",
        requires = "password_file",
        default_value = "git",
        hide_default_value = true
    )]
    username: String,
    /// File with the password or token for REPO over https.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Use your own git and ssh credentials also for the repositories of this host that objects declare (can be repeated).
    #[arg(long, value_name = "HOST")]
    credentials_for: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum CredentialsError {
    #[error("--password-file: could not read {}", path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("--password-file: {} is empty", path.display())]
    Empty { path: PathBuf },
    #[error("--password-file: {} is larger than {PASSWORD_BYTES_MAX} bytes", path.display())]
    Size { path: PathBuf },
    #[error("--password-file is for a URL; REPO is a directory, so name the host with --credentials-for")]
    NoHost,
    #[error("--password-file is for https, and {url} is read over ssh; use a key, or the https URL")]
    Ssh { url: String },
    #[error("--credentials-for {given} is not a host such as github.com or git.example.org:8443")]
    Host { given: String },
}

/// The places of this machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    home: Option<PathBuf>,
    netrc: Option<PathBuf>,
    github_token: Option<String>,
    github_server: Option<String>,
    agent: Option<PathBuf>,
}

impl Places {
    pub(crate) fn of_process() -> Self {
        let text = |name: &str| std::env::var(name).ok().filter(|text| !text.is_empty());
        let home = std::env::home_dir().filter(|home| !home.as_os_str().is_empty());
        Self {
            netrc: text("NETRC")
                .map(PathBuf::from)
                .or_else(|| Some(home.as_ref()?.join(".netrc"))),
            github_token: text("GITHUB_TOKEN"),
            github_server: text("GITHUB_SERVER_URL"),
            agent: text("SSH_AUTH_SOCK").map(PathBuf::from),
            home,
        }
    }
}

impl Options {
    /// The credentials that REPO and the named hosts may have.
    pub(crate) fn credentials(
        &self,
        repository: &Repository,
        places: Places,
    ) -> Result<OwnCredentials, CredentialsError> {
        let hosts: Vec<String> = self
            .credentials_for
            .iter()
            .map(|given| host(given))
            .collect::<Result<_, _>>()?;
        let mut sources = Vec::new();
        let url = repository.directory.is_none().then_some(repository.url.as_str());
        if let Some(path) = &self.password_file {
            let named = match url {
                Some(url) if url.starts_with("ssh://") => {
                    return Err(CredentialsError::Ssh { url: url.to_owned() });
                }
                Some(url) => equate_git::host(url).into_iter().collect(),
                None if hosts.is_empty() => return Err(CredentialsError::NoHost),
                None => hosts.clone(),
            };
            sources.push(self.password(path, named)?);
        }
        sources.extend(own_sources(places));
        let mut own = OwnCredentials::new(sources);
        if let Some(url) = url {
            own = own.for_repository(url);
        }
        Ok(hosts.iter().fold(own, |own, host| own.for_host(host)))
    }

    fn password(&self, path: &Path, hosts: Vec<String>) -> Result<CredentialSource, CredentialsError> {
        let failed = |source| CredentialsError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = Vec::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(PASSWORD_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(failed)?;
        if text.len() as u64 > PASSWORD_BYTES_MAX {
            return Err(CredentialsError::Size {
                path: path.to_owned(),
            });
        }
        let line = text
            .split(|byte| matches!(byte, b'\n' | b'\r'))
            .next()
            .unwrap_or_default();
        if line.is_empty() {
            return Err(CredentialsError::Empty {
                path: path.to_owned(),
            });
        }
        let credentials = basic(self.username.clone(), line);
        Ok(CredentialSource::new("--password-file", move |remote| {
            (is_http(remote) && hosts.contains(&remote.host)).then(|| credentials.clone())
        }))
    }
}

/// A host, also if it is given as a URL.
fn host(given: &str) -> Result<String, CredentialsError> {
    let (_, rest) = given.split_once("://").unwrap_or(("", given));
    let rest = rest.trim_end_matches('/').to_ascii_lowercase();
    let rest = rest.rsplit_once('@').map_or(rest.as_str(), |(_, host)| host);
    match equate_git::host(&format!("https://{rest}/x")) {
        Some(host) if !rest.contains('/') => Ok(host),
        _ => Err(CredentialsError::Host {
            given: given.to_owned(),
        }),
    }
}

fn basic(username: impl Into<String>, password: impl Into<Vec<u8>>) -> Credentials {
    Credentials::Basic {
        username: username.into(),
        password: Secret::new(password),
    }
}

fn is_http(remote: &OwnRemote) -> bool {
    matches!(remote.scheme, "http" | "https")
}

/// The places of the user's own credentials, in the order in which they are tried.
pub(crate) fn own_sources(places: Places) -> Vec<CredentialSource> {
    let Places {
        home,
        netrc,
        github_token,
        github_server,
        agent,
    } = places;
    let mut sources = Vec::new();
    if let Some(token) = github_token {
        let server = github_server.unwrap_or_else(|| "https://github.com".to_owned());
        let forge = equate_git::host(&format!("{}/x", server.trim_end_matches('/')));
        sources.push(CredentialSource::new("GITHUB_TOKEN", move |remote| {
            let is_forge = is_http(remote) && forge.as_ref() == Some(&remote.host);
            is_forge.then(|| basic(TOKEN_USER, token.as_bytes()))
        }));
    }
    if let Some(path) = netrc {
        sources.push(CredentialSource::new(path.display().to_string(), move |remote| {
            let text = is_http(remote).then(|| std::fs::read_to_string(&path).ok())??;
            let (login, password) = login(&text, &remote.host, remote.user.as_deref())?;
            Some(basic(login, password))
        }));
    }
    let directory = home.clone();
    sources.push(CredentialSource::new("git's credential helper", move |remote| {
        is_http(remote).then(|| from_helper(remote, directory.as_deref()))?
    }));
    if let Some(ssh) = home.map(|home| home.join(".ssh")) {
        sources.extend(keys(&ssh, agent));
    }
    sources
}

fn keys(ssh: &Path, agent: Option<PathBuf>) -> Vec<CredentialSource> {
    let mut sources = Vec::new();
    if let Some(socket) = agent {
        let ssh = ssh.to_owned();
        sources.push(CredentialSource::new("the ssh agent", move |remote| {
            (remote.scheme == "ssh").then(|| Credentials::SshAgent {
                socket: socket.clone(),
                known_hosts: known_hosts(&ssh),
            })
        }));
    }
    sources.extend(KEYS.map(|name| {
        let (path, ssh) = (ssh.join(name), ssh.to_owned());
        CredentialSource::new(path.display().to_string(), move |remote| {
            let identity = (remote.scheme == "ssh").then(|| std::fs::read(&path).ok())??;
            Some(Credentials::Ssh {
                identity: Secret::new(identity),
                known_hosts: known_hosts(&ssh),
                passphrase: None,
            })
        })
    }));
    sources
}

/// The files that OpenSSH reads by default.
fn known_hosts(ssh: &Path) -> Vec<u8> {
    let own = ["known_hosts", "known_hosts2"].map(|name| ssh.join(name));
    let all = own.into_iter().chain([PathBuf::from("/etc/ssh/ssh_known_hosts")]);
    let mut text = Vec::new();
    for file in all.filter_map(|path| std::fs::read(path).ok()) {
        text.extend(file);
        text.push(b'\n');
    }
    text
}

/// The login and password of a host in the text of a netrc file; its ports are not distinguished.
fn login(text: &str, host: &str, user: Option<&str>) -> Option<(String, String)> {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let words = words(text);
    let starts: Vec<usize> = (0..words.len())
        .filter(|&place| words[place] == "default" || words[place] == "machine")
        .collect();
    starts.iter().enumerate().find_map(|(index, &start)| {
        let end = starts.get(index + 1).copied().unwrap_or(words.len());
        let entry = words.get(start..end)?;
        let fields = match entry {
            [word, fields @ ..] if word == "default" => fields,
            [_, machine, fields @ ..] if machine.eq_ignore_ascii_case(name) => fields,
            _ => return None,
        };
        let field = |name: &str| {
            let mut pairs = fields
                .chunks(2)
                .filter(|pair| pair.first().is_some_and(|word| word == name));
            pairs.next().and_then(|pair| pair.get(1).cloned())
        };
        let login = field("login")?;
        (user.is_none_or(|user| user == login)).then(|| Some((login, field("password")?)))?
    })
}

/// The words of a netrc file, without comments and macros.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut macro_lines = false;
    for line in text.lines() {
        macro_lines = macro_lines && !line.trim().is_empty();
        if macro_lines {
            continue;
        }
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = match rest.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
                None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
            };
            if word == "macdef" {
                macro_lines = true;
                break;
            }
            words.push(word.to_owned());
            rest = after.trim_start();
        }
    }
    words
}

/// Asks `git credential fill`, which reads the user's configuration and asks its helpers. The configuration of
/// a repository is not read.
fn from_helper(remote: &OwnRemote, home: Option<&Path>) -> Option<Credentials> {
    let OwnRemote {
        scheme,
        host,
        path,
        user,
    } = remote;
    let mut asked = format!("protocol={scheme}\nhost={host}\npath={path}\n");
    if let Some(user) = user {
        asked.push_str(&format!("username={user}\n"));
    }
    let mut command = Command::new("git");
    command
        .args(["-c", "core.askPass=", "credential", "fill"])
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "")
        .env("SSH_ASKPASS", "")
        .env("GCM_INTERACTIVE", "never")
        .env_remove("GIT_DIR")
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(home) = home {
        command.env("HOME", home);
    }
    let mut child = command.spawn().ok()?;
    let written = child
        .stdin
        .take()
        .map(|mut input| input.write_all(format!("{asked}\n").as_bytes()));
    let output = child.stdout.take()?;
    let (sender, answer) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = output.take(HELPER_BYTES_MAX).read_to_string(&mut text);
        // the receiver is gone after its time
        drop(sender.send(read.is_ok().then_some(text)));
    });
    let text = answer.recv_timeout(HELPER_TIMEOUT).ok().flatten();
    // all is said at the end of its output
    if let Err(error) = child.kill().and_then(|()| child.wait()) {
        tracing::debug!(%error, "cannot stop git's credential helper");
    }
    let text = text.filter(|_| written.is_some_and(|written| written.is_ok()))?;
    let field = |name: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_owned())
    };
    let (username, password) = (field("username")?, field("password")?);
    Some(basic(username, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logins_of_a_netrc_file() {
        let text = "# mine\nmachine git.example.org login me password \"p w\" # no\n\
                    machine GitHub.com\n  login a\n  password b\nmacdef init\nmachine x login no password no\n\n\
                    machine two login one password 1\nmachine two login other password 2\n\
                    default login any password rest\n";
        let check = |host: &str, user: Option<&str>, expected: Option<(&str, &str)>| {
            let found = login(text, host, user);
            let found = found
                .as_ref()
                .map(|(login, password)| (login.as_str(), password.as_str()));
            assert_eq!(found, expected, "{host}");
        };
        check("git.example.org:8443", None, Some(("me", "p w")));
        check("github.com", None, Some(("a", "b")));
        check("two", Some("other"), Some(("other", "2")));
        check("x", None, Some(("any", "rest")));
        check("x", Some("me"), None);
    }

    #[test]
    fn hosts_are_given_with_or_without_a_scheme() {
        for (given, expected) in [
            ("GitHub.com", Some("github.com")),
            ("https://github.com/", Some("github.com")),
            ("git@git.example.org:8443", Some("git.example.org:8443")),
            ("github.com/team", None),
            ("", None),
        ] {
            assert_eq!(host(given).ok().as_deref(), expected, "{given}");
        }
    }

    fn remote(url: &str) -> Repository {
        Repository::choose(url, None).unwrap()
    }

    #[test]
    fn a_password_needs_an_https_host() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("password");
        std::fs::write(&file, "secret\n").unwrap();
        let options = |file: &Path, hosts: &[&str]| Options {
            username: "git".into(),
            password_file: Some(file.to_owned()),
            credentials_for: hosts.iter().map(ToString::to_string).collect(),
        };
        let check = |options: &Options, repository: &Repository, expected: &str| {
            let made = options.credentials(repository, Places::default());
            let said = made.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                said.contains(expected) && said.is_empty() == expected.is_empty(),
                "{said}"
            );
        };
        let local = Repository {
            directory: Some(place.path().to_owned()),
            ..remote("https://h/x")
        };
        check(&options(&file, &[]), &remote("https://h/x"), "");
        check(&options(&file, &[]), &remote("git@h:x"), "is read over ssh");
        check(
            &options(&file, &[]),
            &local,
            "name the host with --credentials-for",
        );
        check(&options(&file, &["h"]), &local, "");
        check(
            &options(&place.path().join("absent"), &[]),
            &remote("https://h/x"),
            "could not read",
        );
        check(&options(&file, &["h/x"]), &local, "is not a host");
    }

    #[test]
    fn a_token_of_the_environment_goes_to_its_forge_only() {
        let forge = |server: Option<&str>| {
            let places = Places {
                github_token: Some("t".into()),
                github_server: server.map(str::to_owned),
                ..Places::default()
            };
            let sources = own_sources(places);
            let named = sources
                .into_iter()
                .find(|source| source.name == "GITHUB_TOKEN")
                .unwrap();
            ["github.com", "ghe.example.org", "github.com.evil.org"].map(|host| {
                let remote = OwnRemote {
                    scheme: "https",
                    host: host.to_owned(),
                    path: "a/b".to_owned(),
                    user: None,
                };
                named.find(&remote).is_some()
            })
        };
        assert_eq!(forge(None), [true, false, false]);
        assert_eq!(forge(Some("https://github.com")), [true, false, false]);
        assert_eq!(forge(Some("https://ghe.example.org/")), [false, true, false]);
    }
}
