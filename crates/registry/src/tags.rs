//! The choice of a tag among many: the newest in a range of versions.
//!
//! The rules are those of Flux's source-controller (v1.9, `getTagBySemver`). Tags of Helm charts have `_`
//! where versions have `+`.

use equate_manifest::go::version::{Constraint, ConstraintError, Version};

/// The media type of the layer of a Helm chart.
pub const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// The size of a compiled expression. It is a tenant's.
const FILTER_BYTES_MAX: usize = 1 << 20;

/// Why no tag is chosen.
#[derive(Debug, thiserror::Error)]
pub enum TagError {
    /// The range is malformed.
    #[error("semver '{range}' parse error: {source}")]
    Range {
        /// The range.
        range: String,
        /// The problem.
        source: ConstraintError,
    },
    /// The filter is no regular expression, or too large.
    #[error("the filter {filter:?} is not a regular expression: {problem}")]
    Filter {
        /// The filter.
        filter: String,
        /// The problem, in one line.
        problem: String,
    },
    /// No tag is in the range.
    #[error("no match found for semver: {0}")]
    None(String),
    /// The caller ended the choice.
    #[error("the choice of a tag ended early")]
    Ended,
}

/// The newest of the tags in a range, among those that match the filter. Each tag may take milliseconds: `go_on` is
/// asked before each, and ends the choice.
///
/// # Errors
/// The range or filter is malformed, or no tag is in the range, or the caller ended the choice.
pub fn newest<'a>(
    tags: &'a [String],
    range: &str,
    filter: Option<&str>,
    is_chart: bool,
    go_on: &dyn Fn() -> bool,
) -> Result<&'a str, TagError> {
    let filter = filter
        .filter(|filter| !filter.is_empty())
        .map(compile)
        .transpose()?;
    let constraint = Constraint::parse(range).map_err(|source| TagError::Range {
        range: range.chars().take(200).collect(),
        source,
    })?;
    let version = |tag: &str| {
        let text = match is_chart {
            true => tag.replace('_', "+"),
            false => tag.to_owned(),
        };
        let version = Version::parse_tag(&text).ok()?;
        constraint.matches(&version).then_some(version)
    };
    let mut newest: Option<(Version, &String)> = None;
    for tag in tags {
        if !go_on() {
            return Err(TagError::Ended);
        }
        if filter.as_ref().is_some_and(|filter| !filter.is_match(tag)) {
            continue;
        }
        let Some(version) = version(tag) else { continue };
        let is_newer = newest.as_ref().is_none_or(|(known, known_tag)| {
            let order = version.order_with_metadata(known);
            order.then_with(|| known_tag.cmp(&tag)).is_ge()
        });
        if is_newer {
            newest = Some((version, tag));
        }
    }
    newest
        .map(|(_, tag)| tag.as_str())
        .ok_or_else(|| TagError::None(range.chars().take(200).collect()))
}

fn compile(filter: &str) -> Result<regex::Regex, TagError> {
    let compiled = regex::RegexBuilder::new(filter)
        .size_limit(FILTER_BYTES_MAX)
        .build();
    compiled.map_err(|error| TagError::Filter {
        filter: filter.chars().take(200).collect(),
        problem: error.to_string().lines().last().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn each_tag_is_a_step() {
        let tags: Vec<String> = (0..100).map(|minor| format!("1.{minor}.0")).collect();
        let check = |steps_max: usize, want: &str| {
            let steps = Cell::new(0);
            let go_on = || {
                steps.set(steps.get() + 1);
                steps.get() <= steps_max
            };
            let got = newest(&tags, "1.x", Some("0$"), false, &go_on);
            assert_eq!(got.map_or_else(|error| error.to_string(), str::to_owned), want);
            assert_eq!(steps.get(), tags.len().min(steps_max + 1));
        };
        check(100, "1.99.0");
        check(99, "the choice of a tag ended early");
        check(0, "the choice of a tag ended early");
    }

    #[test]
    fn the_newest_tag_of_a_range_is_chosen() {
        let tags: Vec<String> = [
            "1.0.0",
            "v1.2.0",
            "1.10.0",
            "2.0.0-rc.1",
            "2.0",
            "latest",
            "3.0.0_b1",
            "1.10.0-x86",
        ]
        .map(str::to_owned)
        .to_vec();
        #[track_caller]
        fn check(tags: &[String], range: &str, filter: Option<&str>, is_chart: bool, want: &str) {
            let got = newest(tags, range, filter, is_chart, &|| true);
            let got = got.map_or_else(|error| error.to_string(), str::to_owned);
            assert_eq!(got, want, "{range}");
        }
        check(&tags, "1.x", None, false, "1.10.0");
        check(&tags, "<1.5", None, false, "v1.2.0");
        check(&tags, ">=1.0.0-0", None, false, "2.0.0-rc.1");
        check(&tags, "*", None, true, "3.0.0_b1");
        check(&tags, ">=1.0.0-0", Some("-x86$"), false, "1.10.0-x86");
        check(&tags, "9.x", None, false, "no match found for semver: 9.x");
        check(
            &tags,
            "one",
            None,
            false,
            "semver 'one' parse error: improper constraint: \"one\"",
        );
        check(
            &tags,
            "*",
            Some("("),
            false,
            "the filter \"(\" is not a regular expression: error: unclosed group",
        );
    }
}
