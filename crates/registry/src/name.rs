//! Names of repositories, tags and digests. The rules are those of go-containerregistry, which Flux uses:
//! Docker Hub is the default registry, and registries of this machine and of private networks may be served
//! over plain HTTP.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr as _;

use oci_spec::image::Digest;
use reqwest::Url;

const DOCKER_HUB: &str = "index.docker.io";
const REPOSITORY_CHARS: &str = "abcdefghijklmnopqrstuvwxyz0123456789_-./";
const TAG_CHARS: &str = "abcdefghijklmnopqrstuvwxyz0123456789_-.ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const REPOSITORY_CHARS_MAX: usize = 255;
pub(crate) const TAG_CHARS_MAX: usize = 128;
pub(crate) const DEFAULT_TAG: &str = "latest";

/// A name is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It is empty.
    #[error("a repository name must be specified")]
    Empty,
    /// A part is too short or too long.
    #[error("{part} must be between 1 and {max} characters in length: {text}")]
    Length {
        /// The part.
        part: &'static str,
        /// The longest.
        max: usize,
        /// The given text.
        text: String,
    },
    /// A part has other characters.
    #[error("{part} can only contain the characters `{allowed}`: {text}")]
    Characters {
        /// The part.
        part: &'static str,
        /// The allowed characters.
        allowed: &'static str,
        /// The given text.
        text: String,
    },
    /// The registry is no host with an optional port.
    #[error("registries must be valid RFC 3986 URI authorities: {0}")]
    Registry(String),
    /// A segment of the path is empty or a dot segment, which an URL would resolve.
    #[error("a repository name cannot have empty or dot segments: {0}")]
    Segments(String),
    /// The digest is malformed.
    #[error("cannot parse digest {0:?}: it must be an algorithm, a colon and hexadecimal digits")]
    Digest(String),
}

/// A repository of a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Repository {
    registry: String,
    path: String,
}

/// A manifest of a repository.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Version {
    /// By its tag.
    Tag(String),
    /// By its digest.
    Digest(Digest),
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tag(tag) => f.write_str(tag),
            Self::Digest(digest) => write!(f, "{digest}"),
        }
    }
}

impl Version {
    /// A checked tag.
    ///
    /// # Errors
    /// It is too long or has other characters than tags.
    pub fn tag(text: &str) -> Result<Self, NameError> {
        check("tag", text, TAG_CHARS, TAG_CHARS_MAX)?;
        Ok(Self::Tag(text.to_owned()))
    }

    /// A checked digest.
    ///
    /// # Errors
    /// It is malformed, or of an algorithm other than SHA-256 and SHA-512.
    pub fn digest(text: &str) -> Result<Self, NameError> {
        let digest = Digest::from_str(text).ok();
        let known = digest.filter(crate::content::is_verifiable);
        known
            .map(Self::Digest)
            .ok_or_else(|| NameError::Digest(shown(text)))
    }
}

impl Repository {
    /// Parses `ghcr.io/org/app`, without a scheme, tag or digest.
    ///
    /// # Errors
    /// It is not a name of a repository.
    pub fn parse(name: &str) -> Result<Self, NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        let (registry, path) = match name.split_once('/') {
            Some((first, rest)) if first == "localhost" || first.contains(['.', ':']) => (first, rest),
            _ => ("", name),
        };
        check("repository", path, REPOSITORY_CHARS, REPOSITORY_CHARS_MAX)?;
        if path.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(NameError::Segments(shown(path)));
        }
        let registry = match registry {
            "" | "docker.io" => DOCKER_HUB,
            registry => registry,
        };
        let url = Url::parse(&format!("https://{registry}/")).ok();
        let authority = url.as_ref().map(|url| {
            let is_bare = url.username().is_empty() && url.password().is_none() && url.path() == "/";
            is_bare && url.host_str().is_some_and(|host| !host.is_empty())
        });
        if authority != Some(true) || registry.contains(['/', '@', '?', '#', '\\']) {
            return Err(NameError::Registry(shown(registry)));
        }
        Ok(Self {
            registry: registry.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Parses `ghcr.io/org/app:tag` or `...@digest`; without either, the tag is `latest`.
    ///
    /// # Errors
    /// It is not a reference.
    pub fn parse_version(text: &str) -> Result<(Self, Version), NameError> {
        if let Some((name, digest)) = text.split_once('@') {
            let version = Version::digest(digest)?;
            let name = name.rsplit_once('/').map_or(name, |(path, last)| {
                let tag = last.find(':').map_or(0, |at| last.len() - at);
                &name[..path.len() + 1 + last.len() - tag]
            });
            return Ok((Self::parse(name)?, version));
        }
        let tag_at = text.rfind(':').filter(|at| !text[*at..].contains('/'));
        match tag_at {
            Some(at) => Ok((Self::parse(&text[..at])?, Version::tag(&text[at + 1..])?)),
            None => Ok((Self::parse(text)?, Version::Tag(DEFAULT_TAG.to_owned()))),
        }
    }

    /// The names under which a directory may stand for the repository: Docker Hub has a short one.
    pub(crate) fn urls(&self) -> Vec<String> {
        let mut urls = vec![format!("oci://{}/{}", self.registry, self.path)];
        if self.registry == DOCKER_HUB {
            urls.push(format!("oci://docker.io/{}", self.path));
        }
        urls
    }

    /// The host, with a port if the name has one.
    #[must_use]
    pub fn registry(&self) -> &str {
        &self.registry
    }

    /// The path at the registry; one segment at Docker Hub is below `library/`.
    #[must_use]
    pub fn path(&self) -> String {
        match self.registry == DOCKER_HUB && !self.path.contains('/') {
            true => format!("library/{}", self.path),
            false => self.path.clone(),
        }
    }

    /// The full name of a manifest: `host/path:tag` or `host/path@digest`.
    #[must_use]
    pub fn at(&self, version: &Version) -> String {
        match version {
            Version::Tag(tag) => format!("{self}:{tag}"),
            Version::Digest(digest) => format!("{self}@{digest}"),
        }
    }

    /// Whether the registry may be served over plain HTTP although nobody said so: it is on this machine or
    /// has a private address.
    #[must_use]
    pub fn is_local(&self) -> bool {
        let host = self.registry.strip_prefix('[').map_or_else(
            || self.registry.split(':').next().unwrap_or_default(),
            |rest| rest.split(']').next().unwrap_or_default(),
        );
        let has_port = self.registry.contains(':');
        match host.parse::<Ipv4Addr>() {
            Ok(address) => address == Ipv4Addr::LOCALHOST || address.is_private(),
            Err(_) => (host == "localhost" && has_port) || host.ends_with(".localhost") || host == "::1",
        }
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.registry, self.path())
    }
}

fn check(part: &'static str, text: &str, allowed: &'static str, max: usize) -> Result<(), NameError> {
    if text.is_empty() || text.chars().count() > max {
        let text = shown(text);
        return Err(NameError::Length { part, max, text });
    }
    match text.chars().all(|char| allowed.contains(char)) {
        true => Ok(()),
        false => Err(NameError::Characters {
            part,
            allowed,
            text: shown(text),
        }),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(300).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_go_containerregistry() {
        #[track_caller]
        fn check(name: &str, want: Result<(&str, &str, bool), &str>) {
            let got = Repository::parse(name);
            let got = got.map(|got| (got.registry().to_owned(), got.path(), got.is_local()));
            let want = want.map(|(host, path, local)| (host.to_owned(), path.to_owned(), local));
            assert_eq!(
                got.map_err(|error| error.to_string()),
                want.map_err(str::to_owned),
                "{name}"
            );
        }
        check("ghcr.io/org/app", Ok(("ghcr.io", "org/app", false)));
        check("docker.io/app", Ok(("index.docker.io", "library/app", false)));
        check("app", Ok(("index.docker.io", "library/app", false)));
        check("org/app", Ok(("index.docker.io", "org/app", false)));
        check("localhost/app", Ok(("localhost", "app", false)));
        check("localhost:5000/app", Ok(("localhost:5000", "app", true)));
        check("127.0.0.1:5000/a/b", Ok(("127.0.0.1:5000", "a/b", true)));
        check("10.1.2.3/a", Ok(("10.1.2.3", "a", true)));
        check("172.32.0.1/a", Ok(("172.32.0.1", "a", false)));
        check("[::1]:5000/a", Ok(("[::1]:5000", "a", true)));
        check("x.localhost:80/a", Ok(("x.localhost:80", "a", true)));
        check("", Err("a repository name must be specified"));
        check(
            "ghcr.io/org/app:v1",
            Err("repository can only contain the characters \
                 `abcdefghijklmnopqrstuvwxyz0123456789_-./`: org/app:v1"),
        );
        check(
            "ghcr.io/",
            Err("repository must be between 1 and 255 characters in length: "),
        );
        check(
            "ghcr.io/a/../b",
            Err("a repository name cannot have empty or dot segments: a/../b"),
        );
        for bad in ["a@b.c/x", "host:port/x", "[::1/x"] {
            let error = Repository::parse(bad).unwrap_err();
            assert!(matches!(error, NameError::Registry(_)), "{bad}: {error}");
        }
    }

    #[test]
    fn references_have_a_tag_or_a_digest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        #[track_caller]
        fn check(text: &str, want: &str) {
            let got = Repository::parse_version(text).map(|(name, version)| name.at(&version));
            assert_eq!(got.unwrap(), want, "{text}");
        }
        check("ghcr.io/org/app", "ghcr.io/org/app:latest");
        check("localhost:5000/app", "localhost:5000/app:latest");
        check("localhost:5000/app:v1", "localhost:5000/app:v1");
        check(&format!("ghcr.io/a/b@{digest}"), &format!("ghcr.io/a/b@{digest}"));
        check(
            &format!("ghcr.io/a/b:v1@{digest}"),
            &format!("ghcr.io/a/b@{digest}"),
        );
        for bad in [
            "ghcr.io/a:",
            "ghcr.io/a:v/1x y",
            "ghcr.io/a@sha256:1",
            "ghcr.io/a@md5:00",
        ] {
            assert!(Repository::parse_version(bad).is_err(), "{bad}");
        }
    }
}
