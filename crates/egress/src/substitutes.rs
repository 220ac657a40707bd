//! Directories of this machine that stand for places of hosts: `https://example.org/app` is then read from
//! `../app`, and nothing is dialled.
//!
//! A URL stands for everything below it, as with git's `insteadOf`, but only whole segments match. The
//! longest URL wins. The readers of a directory decide what it has to contain.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directories by the URLs that they stand for. Clones are cheap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Substitutes(Arc<BTreeMap<String, PathBuf>>);

/// The place of a URL in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Substitute {
    /// The directory that stands for a URL.
    pub directory: PathBuf,
    /// The path from it; empty for the URL itself.
    pub below: String,
    /// The last segment of the URL.
    pub name: String,
}

impl Substitute {
    /// The path of the place.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match self.below.as_str() {
            "" => self.directory.clone(),
            below => self.directory.join(below),
        }
    }
}

impl Substitutes {
    /// Reads the directory in place of the URL and of everything below it.
    #[must_use]
    pub fn instead_of(mut self, url: &str, directory: &Path) -> Self {
        Arc::make_mut(&mut self.0).insert(normal(url), directory.to_owned());
        self
    }

    /// The place of a URL; `None` if no directory stands for it. Spellings of a URL are equal: they may
    /// differ in the host's case, a default port, a trailing slash, `.git`, and an HTTP user.
    #[must_use]
    pub fn find(&self, url: &str) -> Option<Substitute> {
        if self.0.is_empty() {
            return None;
        }
        let url = normal(url);
        let mut end = url.len();
        loop {
            if let Some(directory) = self.0.get(&url[..end]) {
                let below = url[end..].trim_start_matches('/').to_owned();
                // a host's path cannot leave the directory
                let leaves = below.split('/').any(|segment| matches!(segment, "." | ".."));
                return (!leaves && !below.contains(['\\', '\0'])).then(|| Substitute {
                    directory: directory.clone(),
                    below,
                    name: url.rsplit('/').next().unwrap_or_default().to_owned(),
                });
            }
            end = url[..end].rfind('/')?;
        }
    }
}

/// A URL for display, which stands for the same place: without passwords, HTTP users, query and fragment.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (user, host, path) = parts(rest);
    let user = known_user(&scheme.to_ascii_lowercase(), user);
    format!("{scheme}://{user}{host}{path}")
}

/// The user with a password, the host with a port, and the path, without query and fragment.
fn parts(rest: &str) -> (&str, &str, &str) {
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    (user, host, path)
}

/// With ssh, another user is another repository.
fn known_user(scheme: &str, user: &str) -> String {
    let name = user
        .split(':')
        .next()
        .filter(|name| scheme == "ssh" && !name.is_empty());
    name.map_or_else(String::new, |name| format!("{name}@"))
}

/// Equal for all spellings of a URL. A text without a scheme is compared as it is.
fn normal(url: &str) -> String {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.trim_end_matches('/').to_owned();
    };
    let scheme = scheme.to_ascii_lowercase();
    let (user, host, path) = parts(rest);
    let port = match &*scheme {
        "http" => ":80",
        "https" => ":443",
        "ssh" => ":22",
        _ => "",
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(port).unwrap_or(&host);
    let user = known_user(&scheme, user);
    let path = path.trim_end_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path);
    format!("{scheme}://{user}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_url_are_equal() {
        let check = |url: &str, want: &str| assert_eq!(normal(url), want, "{url}");
        check("https://Example.org/fleet.git", "https://example.org/fleet");
        check("https://example.org:443/fleet/", "https://example.org/fleet");
        check(
            "https://me:secret@example.org/fleet?x#y",
            "https://example.org/fleet",
        );
        check("HTTP://example.org:8080/Fleet", "http://example.org:8080/Fleet");
        check(
            "ssh://git@Example.org:22/fleet.git",
            "ssh://git@example.org/fleet",
        );
        check("ssh://git:x@example.org:2222/f", "ssh://git@example.org:2222/f");
        check("oci://GHCR.io/org/app/", "oci://ghcr.io/org/app");
        check("not a url/", "not a url");
    }

    #[test]
    fn a_url_without_secrets_stands_for_the_same_place() {
        let check = |url: &str, want: &str| {
            assert_eq!(without_secrets(url), want, "{url}");
            let substitutes = Substitutes::default().instead_of(want, Path::new("/a"));
            assert!(substitutes.find(url).is_some(), "{url}");
        };
        check("http://bob:hunter2@h:8080/charts/", "http://h:8080/charts/");
        check("https://ghp_token@H.org/a.git?token=x#y", "https://H.org/a.git");
        check("https://a:p@ss@h", "https://h");
        check("oci://bob:hunter2@r/charts", "oci://r/charts");
        check("ssh://git:hunter2@h/a", "ssh://git@h/a");
        check("git@h:a/b", "git@h:a/b");
    }

    #[test]
    fn the_longest_url_of_whole_segments_wins() {
        let substitutes = Substitutes::default()
            .instead_of("https://h/org", Path::new("/all"))
            .instead_of("https://h/org/app.git", Path::new("/app"))
            .instead_of("oci://r", Path::new("/r"));
        let check = |url: &str, want: Option<&str>| {
            let found = substitutes.find(url).map(|found| found.path());
            assert_eq!(found.as_deref(), want.map(Path::new), "{url}");
        };
        check("https://h/org/app", Some("/app"));
        check("https://h/org/app/x", Some("/app/x"));
        check("https://h/org/app2", Some("/all/app2"));
        check("https://h/org/", Some("/all"));
        check("https://h/organisation", None);
        check("https://h/", None);
        check("http://h/org", None);
        check("oci://r/a/b", Some("/r/a/b"));
        check("oci://r/../b", None);
        check("https://r/a", None);
    }
}
