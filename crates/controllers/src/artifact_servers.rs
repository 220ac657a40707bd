//! The addresses from which artifacts of other processes are fetched.
//!
//! A tenant may forge the status of a source, so its URL must name a server of artifacts and the directory
//! of the source there. An ExternalArtifact may be anywhere but in the directory of another namespace.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use equate_api::kustomize::SourceKind;
use equate_source::Publisher;
use percent_encoding::percent_decode_str;
use reqwest::Url;

const STORED_KINDS: [&str; 6] = [
    "gitrepository",
    "ocirepository",
    "bucket",
    "helmrepository",
    "helmchart",
    "externalartifact",
];

/// The servers of artifacts; by default every host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ArtifactServers(Option<Allowed>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Allowed {
    namespace: String,
    named: Vec<ArtifactServer>,
    domains: BTreeSet<String>,
}

/// A host, at one port or at every port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactServer {
    host: String,
    port: Option<u16>,
}

/// The text is not `HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected HOST or HOST:PORT, such as source-controller.flux-system.svc.example.org")]
pub struct ArtifactServerError;

impl FromStr for ArtifactServer {
    type Err = ArtifactServerError;

    fn from_str(text: &str) -> Result<Self, ArtifactServerError> {
        let whole = Url::parse(&format!("http://{text}/")).map_err(|_| ArtifactServerError)?;
        let is_host = whole.path() == "/" && whole.query().is_none() && whole.fragment().is_none();
        let is_bare = whole.username().is_empty() && whole.password().is_none();
        let host = whole.host_str().filter(|_| is_host && is_bare);
        // the parser drops the port of the scheme
        let port = match text.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => Some(port.parse().map_err(|_| ArtifactServerError)?),
            _ => None,
        };
        Ok(Self {
            host: bare(host.ok_or(ArtifactServerError)?).to_owned(),
            port,
        })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error(
        "failed to download archive: {host} in status.artifact.url of the source is no server of artifacts: it is no \
         Service of namespace {namespace}; if it is one, start `equate controllers` with --artifact-server={host}"
    )]
    Host { host: String, namespace: String },
    #[error(
        "failed to download archive: the path of status.artifact.url of the source is not below /{expected}/, so the \
         source did not publish this artifact; reconcile the source"
    )]
    Path { expected: String },
}

impl ArtifactServers {
    /// The Services of a namespace, in the domains of those that are listed, and the listed servers.
    pub fn of(namespace: &str, named: impl IntoIterator<Item = ArtifactServer>) -> Self {
        let named: Vec<ArtifactServer> = named.into_iter().collect();
        let svc = format!(".{namespace}.svc.");
        let domains = named.iter().filter_map(|server| server.host.split_once(&svc));
        let domains = domains.map(|(_, domain)| domain.to_owned());
        Self(Some(Allowed {
            namespace: namespace.to_owned(),
            domains: domains.chain(["cluster.local".to_owned()]).collect(),
            named,
        }))
    }

    /// An invalid URL is refused later.
    pub(crate) fn check(&self, publisher: &Publisher, url: &str) -> Result<(), AddressError> {
        let Ok(url) = Url::parse(url) else {
            return Ok(());
        };
        let own = publisher.place().path();
        let is_external = publisher.place().kind() == SourceKind::ExternalArtifact.as_str().to_lowercase();
        let is_own = match is_external {
            true => !names_another(&url, publisher.place().namespace()),
            false => is_file_of(&url, &own),
        };
        if let Some(allowed) = self.0.as_ref().filter(|_| !is_external) {
            allowed.check(&url)?;
        }
        match is_own {
            true => Ok(()),
            false => Err(AddressError::Path { expected: own }),
        }
    }
}

impl Allowed {
    fn check(&self, url: &Url) -> Result<(), AddressError> {
        let host = bare(url.host_str().unwrap_or_default());
        let port = url.port_or_known_default();
        let is_named = self
            .named
            .iter()
            .any(|named| named.host == host && (named.port.is_none() || named.port == port));
        match is_named || self.is_service(host) {
            true => Ok(()),
            false => Err(AddressError::Host {
                host: host.chars().take(200).collect(),
                namespace: self.namespace.clone(),
            }),
        }
    }

    fn is_service(&self, host: &str) -> bool {
        let mut domains = self.domains.iter();
        let short = domains.find_map(|domain| host.strip_suffix(&**domain)?.strip_suffix('.'));
        let service = short.unwrap_or(host).strip_suffix(".svc");
        let service = service.and_then(|rest| rest.strip_suffix(&*self.namespace));
        let name = service.and_then(|rest| rest.strip_suffix('.'));
        name.is_some_and(|name| !name.is_empty())
    }
}

impl fmt::Display for ArtifactServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.host)?;
        self.port.iter().try_for_each(|port| write!(f, ":{port}"))
    }
}

fn bare(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// Escapes are refused, because a server may resolve them. Flux's files of OCIRepositories begin with `sha256:`.
fn is_file_of(url: &Url, directory: &str) -> bool {
    let file = url.path().strip_prefix('/');
    let file = file.and_then(|path| path.strip_prefix(directory));
    let file = file.and_then(|rest| rest.strip_prefix('/'));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.+:".contains(&byte);
    let is_whole = url.query().is_none() && url.fragment().is_none();
    file.is_some_and(|file| is_whole && !file.is_empty() && file.bytes().all(is_plain))
}

/// Whether a server may resolve a URL to an artifact of another namespace.
fn names_another(url: &Url, namespace: &str) -> bool {
    let decoded = percent_decode_str(url.path()).decode_utf8_lossy();
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded.split(['/', '\\']) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    match parts[..] {
        [kind, other, _, _] => STORED_KINDS.contains(&&*kind.to_lowercase()) && other != namespace,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use equate_source::Place;

    use super::*;

    fn servers(named: &[&str]) -> ArtifactServers {
        ArtifactServers::of("flux-system", named.iter().map(|text| text.parse().unwrap()))
    }

    fn checked(servers: &ArtifactServers, kind: &str, url: &str) -> Result<(), String> {
        let place = Place::new(kind, "team-a", "app").unwrap();
        let checked = servers.check(&Publisher::new(place, "1"), url);
        checked.map_err(|error| error.to_string())
    }

    const FILE: &str = "ocirepository/team-a/app/0123.tar.gz";

    #[test]
    fn only_servers_of_artifacts_are_asked() {
        let named = ["shard.example.org:8080", "10.1.2.3", "[fd00::1]:80"];
        let check = |host: &str, expected: bool| {
            let found = checked(
                &servers(&named),
                "OCIRepository",
                &format!("http://{host}/{FILE}"),
            );
            assert_eq!(found.is_ok(), expected, "{host}: {found:?}");
            let all = ArtifactServers::default();
            checked(&all, "OCIRepository", &format!("http://{host}/{FILE}")).unwrap();
        };
        check("source-controller.flux-system.svc.cluster.local.", true);
        check("source-controller.flux-system.svc.cluster.local", true);
        check("Source-Controller.flux-system.svc:9090", true);
        check("pod-0.source-controller.flux-system.svc", true);
        check("shard.example.org:8080", true);
        check("shard.example.org", false);
        check("10.1.2.3:9090", true);
        check("10.1.2.4", false);
        check("[fd00::1]", true);
        check("[fd00::1]:81", false);
        check("source-controller.team-a.svc", false);
        check("flux-system.svc", false);
        check("a.not-flux-system.svc", false);
        check("source-controller.flux-system.svc.example.org", false);
        check("kubernetes.default.svc", false);
        check("169.254.169.254", false);
        check("user:flux-system.svc@internal.example.org", false);
        let other = checked(
            &servers(&["shard.flux-system.svc.example.org."]),
            "OCIRepository",
            &format!("http://source-controller.flux-system.svc.example.org./{FILE}"),
        );
        assert_eq!(other, Ok(()), "the domain of a named Service is the cluster's");
        let refused = checked(
            &servers(&[]),
            "Bucket",
            "http://internal.example.org/bucket/team-a/app/x",
        );
        let refused = refused.unwrap_err();
        assert!(
            refused.ends_with("start `equate controllers` with --artifact-server=internal.example.org"),
            "{refused}"
        );
    }

    #[test]
    fn only_the_directory_of_the_source_is_read() {
        let check = |kind: &str, path: &str, expected: bool| {
            let url = format!("http://source-controller.flux-system.svc/{path}");
            let found = checked(&servers(&[]), kind, &url);
            assert_eq!(found.is_ok(), expected, "{kind} {path}: {found:?}");
        };
        check("OCIRepository", FILE, true);
        check(
            "OCIRepository",
            "ocirepository/team-a/app/sha256:0123.tar.gz",
            true,
        );
        check(
            "OCIRepository",
            "ocirepository/team-a/app/sha256%3A0123.tar.gz",
            false,
        );
        check("Bucket", FILE, false);
        check("OCIRepository", "ocirepository/team-b/app/0123.tar.gz", false);
        check("OCIRepository", "ocirepository/team-a/other/0123.tar.gz", false);
        check("OCIRepository", "gitrepository/team-b/app/0123.tar.gz", false);
        check("OCIRepository", "ocirepository/team-a/app/", false);
        check(
            "OCIRepository",
            "ocirepository/team-a/app/../../team-b/app/x",
            false,
        );
        let escaped = "ocirepository/team-a/app/..%2f..%2f..%2fgitrepository%2fteam-b%2fapp%2f0123.tar.gz";
        check("OCIRepository", escaped, false);
        check("OCIRepository", &format!("{FILE}?x=/team-b"), false);
        check("OCIRepository", &format!("x/{FILE}"), false);
        check("ExternalArtifact", "anything/at/all", true);
        check(
            "ExternalArtifact",
            "externalartifact/team-a/other/0123.tar.gz",
            true,
        );
        check("ExternalArtifact", "gitrepository/team-b/app/0123.tar.gz", false);
        check(
            "ExternalArtifact",
            "//x/..//gitrepository/team-b/app/0123.tar.gz",
            false,
        );
        check(
            "ExternalArtifact",
            "x/%2e%2e%2f%2fgitrepository/team-b/app%2f0123.tar.gz",
            false,
        );
    }

    #[test]
    fn a_server_is_a_host_with_or_without_a_port() {
        let check = |text: &str, expected: Option<&str>| {
            let server = text.parse::<ArtifactServer>().ok();
            assert_eq!(
                server.map(|server| server.to_string()).as_deref(),
                expected,
                "{text}"
            );
        };
        check("host", Some("host"));
        check("Host.example.:9090", Some("host.example:9090"));
        check("host:80", Some("host:80"));
        check("[::1]:9090", Some("[::1]:9090"));
        check("[::1]", Some("[::1]"));
        for wrong in [
            "",
            ":80",
            "http://host",
            "host/path",
            "a@host",
            "host:port",
            "host:",
        ] {
            check(wrong, None);
        }
    }
}
