//! Charts in registries: the tags of their versions, and their layers.
//!
//! A tag has `_` where a version has `+`. Upstream is Helm's registry client (v4) and Flux's
//! `oci_chart_repository.go` (v1.9): only tags that are complete versions, without a leading `v`, count for a
//! range.

use equate_manifest::go::version::{Constraint, Version as SemVer};
use equate_registry::tags::CHART_LAYER;
use equate_registry::{Error, NameError, Remote, STAND_IN_LAYER, Version};

/// Charts of Helm before 3.7.
const OLDER_LAYER: &str = "application/tar+gzip";

/// The tag of a version.
pub(crate) fn tag(version: &str) -> Result<Version, NameError> {
    Version::tag(&version.replace('+', "_"))
}

/// Whether a version is a tag without a look at the others.
pub(crate) fn is_complete(version: &str) -> bool {
    strict(version.strip_prefix('v').unwrap_or(version)).is_some()
}

/// The packed chart of a manifest, or why it has none.
pub(crate) async fn packed(
    remote: &Remote,
    manifest: &Version,
    bytes_max: u64,
) -> Result<Result<Vec<u8>, String>, Error> {
    let image = remote.image(manifest).await?;
    let layers = image.manifest.layers();
    let of = |kind: &str| layers.iter().find(|layer| layer.media_type().as_ref() == kind);
    Ok(match of(CHART_LAYER).or_else(|| of(OLDER_LAYER)) {
        None if of(STAND_IN_LAYER).is_some() => {
            Err("the directory that stands for it is no chart, and has none of this name".to_owned())
        }
        None => Err(format!(
            "manifest does not contain a layer with mediatype {CHART_LAYER}"
        )),
        Some(layer) if layer.size() > bytes_max => Err(format!(
            "size of chart exceeds '{bytes_max}' bytes limit (--helm-chart-max-size)"
        )),
        Some(layer) => Ok(remote.small_blob(layer, bytes_max).await?),
    })
}

/// A complete version, as Go's `semver.StrictNewVersion`.
fn strict(text: &str) -> Option<SemVer> {
    let core = text.split(['-', '+']).next()?;
    let numbers: Vec<&str> = core.split('.').collect();
    let is_number = |number: &&str| {
        !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
            && (number.len() == 1 || !number.starts_with('0'))
    };
    match numbers.len() == 3 && numbers.iter().all(is_number) {
        true => SemVer::parse(text).ok(),
        false => None,
    }
}

/// The newest version of a range. Without a range, it is the newest without a prerelease. `go_on` is asked before each
/// tag, and ends the search.
pub(crate) fn newest(tags: &[String], range: &str, go_on: &dyn Fn() -> bool) -> Result<String, String> {
    let range = if range.is_empty() { "*" } else { range };
    let constraint = Constraint::parse(range).map_err(|error| error.to_string())?;
    let mut matching = Vec::new();
    for tag in tags {
        if !go_on() {
            return Err("the choice of a version ended early".to_owned());
        }
        let version = strict(&tag.replace('_', "+"));
        matching.extend(version.filter(|version| constraint.matches(version)));
    }
    let newest = matching.into_iter().max_by(SemVer::order_with_metadata);
    newest
        .map(|version| version.original().to_owned())
        .ok_or_else(|| {
            let range: String = range.chars().take(200).collect();
            format!("could not locate a version matching provided version string {range}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_selects_the_newest_complete_version() {
        let tags = [
            "1.0.0",
            "1.10.0",
            "1.2",
            "v3.0.0",
            "2.0.0-rc.1",
            "1.10.1_b1",
            "latest",
            "01.0.0",
        ];
        let tags = tags.map(str::to_owned);
        let check = |range: &str, expected: Result<&str, &str>| {
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(newest(&tags, range, &|| true), expected, "{range}");
        };
        check("", Ok("1.10.1+b1"));
        check("*", Ok("1.10.1+b1"));
        check("<1.10", Ok("1.0.0"));
        check(">=1.0.0-0", Ok("2.0.0-rc.1"));
        check(
            "3.x",
            Err("could not locate a version matching provided version string 3.x"),
        );
        check("one", Err("improper constraint: \"one\""));
        let steps = std::cell::Cell::new(tags.len() - 1);
        let go_on = || steps.replace(steps.get().saturating_sub(1)) > 0;
        let ended = newest(&tags, "", &go_on).unwrap_err();
        assert_eq!(ended, "the choice of a version ended early");
        for (text, is_complete) in [
            ("1.2.3", true),
            ("1.2.3-a+b", true),
            ("1.2", false),
            ("1.02.3", false),
        ] {
            assert_eq!(strict(text).is_some(), is_complete, "{text}");
        }
        assert_eq!(tag("1.0.0+b").unwrap(), Version::tag("1.0.0_b").unwrap());
    }
}
