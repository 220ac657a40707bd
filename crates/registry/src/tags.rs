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
}

/// The newest of the tags in a range, among those that match the filter.
///
/// # Errors
/// The range or filter is malformed, or no tag is in the range.
pub fn newest<'a>(
    tags: &'a [String],
    range: &str,
    filter: Option<&str>,
    is_chart: bool,
) -> Result<&'a str, TagError> {
    let filter = filter
        .filter(|filter| !filter.is_empty())
        .map(compile)
        .transpose()?;
    let constraint = Constraint::parse(range).map_err(|source| TagError::Range {
        range: range.chars().take(200).collect(),
        source,
    })?;
    let found = tags
        .iter()
        .filter(|tag| filter.as_ref().is_none_or(|filter| filter.is_match(tag)))
        .filter_map(|tag| {
            let text = match is_chart {
                true => tag.replace('_', "+"),
                false => tag.clone(),
            };
            let version = Version::parse_tag(&text).ok()?;
            constraint.matches(&version).then_some((version, tag))
        })
        .max_by(|(a, a_tag), (b, b_tag)| a.order_with_metadata(b).then_with(|| b_tag.cmp(a_tag)));
    found
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
    use super::*;

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
            let got = newest(tags, range, filter, is_chart);
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
