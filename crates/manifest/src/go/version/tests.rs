use super::{Constraint, Version};
use std::cmp::Ordering;

/// The versions that every range below selects from.
const VERSIONS: &[&str] = &[
    "0.0.0",
    "0.0.3",
    "0.0.4",
    "0.1.0",
    "0.2.3",
    "0.2.9",
    "0.3.0",
    "1.0.0-rc.1",
    "1.0.0",
    "1.2.0",
    "1.2.3-rc.1",
    "1.2.3",
    "1.2.9",
    "1.3.0-rc.1",
    "1.3.0",
    "2.0.0-rc.1",
    "2.0.0",
    "11.1.0",
];

/// The results of Masterminds/semver v3.5.0 for these ranges and versions.
#[test]
fn ranges_are_those_of_masterminds() {
    let recorded = include_str!("masterminds-3.5.0.tsv");
    let mut wrong = Vec::new();
    for line in recorded.lines() {
        let (range, want) = line.split_once('\t').unwrap();
        let got = match Constraint::parse(range) {
            Ok(parsed) => {
                let inside = VERSIONS
                    .iter()
                    .filter(|text| parsed.matches(&Version::parse(text).unwrap()));
                inside.copied().collect::<Vec<_>>().join(" ")
            }
            Err(error) => format!("! {error}"),
        };
        if got != want {
            wrong.push(format!("{range:?}\n  theirs {want}\n  ours   {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn ranges_have_limits() {
    let check = |range: &str, want: &str| {
        assert_eq!(Constraint::parse(range).unwrap_err().to_string(), want);
    };
    check(&"1".repeat(513), "constraint string is too long (max 512 bytes)");
    check(&vec!["1"; 33].join("||"), "too many constraint groups (max 32)");
}

#[test]
fn versions_are_those_of_masterminds() {
    let check = |text: &str, want: &str| {
        let got = match Version::parse(text) {
            Ok(version) => format!("{version} of {}", version.original()),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want, "{text}");
    };
    check("1", "1.0.0 of 1");
    check("v1", "1.0.0 of v1");
    check("V1", "invalid semantic version");
    check("1.2", "1.2.0 of 1.2");
    check("1.2.3", "1.2.3 of 1.2.3");
    check("01.02.03", "1.2.3 of 01.02.03");
    check("1.2.3.4", "invalid semantic version");
    check("v1.2-rc.1", "1.2.0-rc.1 of v1.2-rc.1");
    check("1-rc+b", "1.0.0-rc+b of 1-rc+b");
    check("1.2.3-01", "version segment starts with 0");
    check("1.2.3-0a", "1.2.3-0a of 1.2.3-0a");
    check("1.2.3-a..b", "invalid semantic version");
    check("1.2.3+01", "1.2.3+01 of 1.2.3+01");
    check("1.2.3-", "invalid semantic version");
    check("1.2.3+", "invalid semantic version");
    check("", "invalid semantic version");
    check("latest", "invalid semantic version");
    check("1.2.x", "invalid semantic version");
    check(
        "18446744073709551615.0.0",
        "18446744073709551615.0.0 of 18446744073709551615.0.0",
    );
    check(
        "1.18446744073709551616.0",
        "error parsing version segment: strconv.ParseUint: parsing \"18446744073709551616\": value out of range",
    );
    check(" 1.2.3", "invalid semantic version");
    check("1.2.3\u{e9}", "invalid semantic version");
    check("1..2", "invalid semantic version");
    check("1.2.3+a+b", "invalid semantic version");
    check("1.2.3-a-b", "1.2.3-a-b of 1.2.3-a-b");
    check(&"1".repeat(257), "version string is too long (max 256 bytes)");
}

#[test]
fn tags_have_two_dots() {
    for (text, is_version) in [
        ("1.2.3", true),
        ("v1.2.3-rc.1", true),
        ("1.2-a.b", true),
        ("v1.2", false),
        ("1.2.3.4", false),
        ("latest", false),
    ] {
        assert_eq!(Version::parse_tag(text).is_ok(), is_version, "{text}");
    }
}

#[test]
fn prereleases_precede_and_metadata_does_not_count() {
    let ascending = [
        "0.9.0",
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-18446744073709551616",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-rc.9",
        "1.0.0-rc.10",
        "1.0.0",
        "1.0.1",
    ];
    let versions = ascending.map(|text| Version::parse(text).unwrap());
    for (left, one) in versions.iter().enumerate() {
        for (right, other) in versions.iter().enumerate() {
            assert_eq!(one.order(other), left.cmp(&right), "{one} {other}");
        }
    }
    let [plain, one, ten] = ["1.0.0", "1.0.0+9", "v1+10"].map(|text| Version::parse(text).unwrap());
    assert_eq!(one.order(&ten), Ordering::Equal);
    assert_eq!(one.order_with_metadata(&ten), Ordering::Less);
    assert_eq!(plain.order_with_metadata(&one), Ordering::Less);
}

#[test]
fn versions_change() {
    let version = Version::parse("v1.2-rc.1+a").unwrap();
    let check = |version: Version, want: &str| {
        assert_eq!(format!("{version} of {}", version.original()), want);
    };
    check(version.next_major(), "2.0.0 of v2.0.0");
    check(version.next_minor(), "1.3.0 of v1.3.0");
    check(version.next_patch(), "1.2.0 of v1.2.0");
    check(version.next_patch().next_patch(), "1.2.1 of v1.2.1");
    check(version.with_prerelease("").unwrap(), "1.2.0+a of v1.2.0+a");
    check(
        version.with_metadata("b.c").unwrap(),
        "1.2.0-rc.1+b.c of v1.2.0-rc.1+b.c",
    );
    let refused = |error: super::VersionError, want: &str| assert_eq!(error.to_string(), want);
    refused(
        version.with_prerelease("a..b").unwrap_err(),
        "invalid prerelease string",
    );
    refused(
        version.with_prerelease("01").unwrap_err(),
        "version segment starts with 0",
    );
    refused(
        version.with_metadata("a_b").unwrap_err(),
        "invalid metadata string",
    );
}
