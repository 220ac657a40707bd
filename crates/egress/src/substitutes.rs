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

/// Equal for all spellings of a URL. A text without a scheme is compared as it is.
fn normal(url: &str) -> String {
    let url = url.trim();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.trim_end_matches('/').to_owned();
    };
    let scheme = scheme.to_ascii_lowercase();
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (port, has_user) = match &*scheme {
        "http" => (":80", false),
        "https" => (":443", false),
        // another user is another repository
        "ssh" => (":22", true),
        _ => ("", false),
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(port).unwrap_or(&host);
    let user = user.split(':').next().filter(|user| has_user && !user.is_empty());
    let user = user.map_or_else(String::new, |user| format!("{user}@"));
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
