//! An index as Flux's source-controller reads it: the versions of each chart, and where their archives are.
//!
//! A version takes about 250 bytes, a fifth of its text. Ranges select as in Flux v2.9, not as in Helm: only
//! versions with three numbers, and of equal ones the one that was created last.

use super::index::{Charts, Entry};
use equate_manifest::go::version::{Constraint, ConstraintError, Version};
use equate_manifest::schema::time::parse_seconds;

/// The charts of a repository, with the archives of their versions.
pub type Catalog = Charts<Offer>;

/// The archive of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The chart's name in its `Chart.yaml`.
    pub name: Box<str>,
    /// The version, verbatim.
    pub version: Box<str>,
    /// The first URL of the archive: [`super::index::resolve_url`] resolves a relative one.
    pub url: Option<Box<str>>,
    /// The SHA-256 of the archive, in hexadecimal digits; may be empty.
    pub digest: Box<str>,
    /// The time of its creation, in seconds; 0 if it is unknown.
    created: i64,
}

impl From<Entry> for Offer {
    fn from(entry: Entry) -> Self {
        Self {
            name: entry.metadata.name.into(),
            version: entry.metadata.version.into(),
            url: entry.urls.into_iter().next().map(Into::into),
            digest: entry.digest.into(),
            created: parse_seconds(&entry.created).map_or(0, |(seconds, _)| seconds),
        }
    }
}

/// A repository has no chart of a name and a version; in Flux's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The chart does not exist.
    #[error("no chart name found")]
    NoChart,
    /// The chart has no versions.
    #[error("no chart version found")]
    NoVersions,
    /// The version is neither a version nor a range.
    #[error(transparent)]
    Range(#[from] ConstraintError),
    /// No version is in the range.
    #[error("no '{name}' chart with version matching '{version}' found")]
    NoVersion {
        /// The chart.
        name: String,
        /// The requested version.
        version: String,
    },
}

impl Catalog {
    /// The requested version of a chart: an exact match, else the newest in the range. An empty range
    /// selects the newest that is not a prerelease.
    ///
    /// # Errors
    /// There is none.
    pub fn select(&self, name: &str, version: &str) -> Result<&Offer, SelectError> {
        let offers = self.charts.get(name).ok_or(SelectError::NoChart)?;
        if offers.is_empty() {
            return Err(SelectError::NoVersions);
        }
        if let Some(exact) = offers.iter().find(|offer| &*offer.version == version) {
            return Ok(exact);
        }
        let range = Constraint::parse(if version.is_empty() { "*" } else { version })?;
        let mut newest: Option<(Version, &Offer)> = None;
        for offer in offers {
            let Ok(version) = Version::parse_tag(&offer.version) else {
                continue;
            };
            let is_newer = newest.as_ref().is_none_or(|(before, held)| {
                let order = version.order(before).then(offer.created.cmp(&held.created));
                order.is_gt()
            });
            if range.matches(&version) && is_newer {
                newest = Some((version, offer));
            }
        }
        let found = newest.map(|(_, offer)| offer);
        found.ok_or_else(|| SelectError::NoVersion {
            name: name.to_owned(),
            version: version.to_owned(),
        })
    }

    /// The memory of the catalog in bytes, roughly.
    pub fn weight(&self) -> usize {
        let offer = |offer: &Offer| {
            let url = offer.url.as_ref().map_or(0, |url| url.len());
            size_of::<Offer>() + offer.name.len() + offer.version.len() + offer.digest.len() + url + 64
        };
        let charts = self.charts();
        charts
            .map(|(name, offers)| name.len() + 64 + offers.iter().map(offer).sum::<usize>())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::IndexLimits;
    use super::*;

    const INDEX: &str = "apiVersion: v1
entries:
  app:
  - {name: app, version: 1.2.0, urls: [app-1.2.0.tgz], digest: aa, created: \"2026-01-01T00:00:00Z\"}
  - {name: app, version: 1.2.0+b, urls: [app-1.2.0b.tgz], created: \"2026-01-02T00:00:00Z\"}
  - {name: app, version: 2.0.0-rc.1, urls: [https://example.com/rc.tgz, b]}
  - {name: app, version: \"1.9\", urls: [short.tgz]}
  - {name: app, version: v1.0.0}
  old:
  - {name: old, version: 0.1.0-a}
  none: []
";

    #[test]
    fn ranges_select_as_in_flux() {
        let catalog = Catalog::parse(INDEX.as_bytes(), &IndexLimits::default()).unwrap();
        let check = |name: &str, version: &str, expected: Result<&str, &str>| {
            let selected = catalog.select(name, version).map(|offer| &*offer.version);
            assert_eq!(
                selected.map_err(|error| error.to_string()),
                expected.map_err(str::to_owned),
                "{name} {version}"
            );
        };
        // of equal versions the one that was created last
        check("app", "", Ok("1.2.0+b"));
        check("app", "*", Ok("1.2.0+b"));
        check("app", "1.2.0", Ok("1.2.0"));
        check("app", "<1.2.0", Ok("v1.0.0"));
        check("app", ">=1.0.0-0", Ok("2.0.0-rc.1"));
        // an exact match needs no three numbers
        check("app", "1.9", Ok("1.9"));
        check(
            "app",
            "3.x",
            Err("no 'app' chart with version matching '3.x' found"),
        );
        check("app", "x.y", Err("improper constraint: \"x.y\""));
        check("old", "*", Err("no 'old' chart with version matching '*' found"));
        check("none", "*", Err("no chart version found"));
        check("absent", "*", Err("no chart name found"));
        let offer = catalog.select("app", "1.2.0").unwrap();
        assert_eq!(offer.url.as_deref(), Some("app-1.2.0.tgz"));
        assert_eq!((&*offer.digest, &*offer.name), ("aa", "app"));
    }

    #[test]
    fn a_catalog_is_a_fraction_of_its_text() {
        let mut text = "apiVersion: v1\nentries:\n  app:\n".to_owned();
        for minor in 0..200 {
            text.push_str(&format!(
                "  - apiVersion: v2\n    description: {}\n    digest: {}\n    name: app\n    urls:\n    \
                 - https://charts.example.com/files/app-1.{minor}.0.tgz\n    version: 1.{minor}.0\n",
                "words ".repeat(100),
                "0".repeat(64),
            ));
        }
        let catalog = Catalog::parse(text.as_bytes(), &IndexLimits::default()).unwrap();
        assert!(
            catalog.weight() * 2 < text.len(),
            "{} of {}",
            catalog.weight(),
            text.len()
        );
    }
}
