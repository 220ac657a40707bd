use super::{Range, version};

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

#[track_caller]
fn check(range: &str, want: &str) {
    let got = match Range::parse(range) {
        Ok(parsed) => {
            let inside = VERSIONS
                .iter()
                .filter(|text| parsed.contains(&version(text).unwrap()));
            inside.copied().collect::<Vec<_>>().join(" ")
        }
        Err(problem) => format!("! {problem}"),
    };
    assert_eq!(got, want, "range {range:?}");
}

/// The results of Masterminds/semver v3.5.0 for these ranges and versions (`!`: not a range).
#[test]
fn agrees_with_masterminds() {
    let recorded = include_str!("masterminds-3.5.0.tsv");
    let mut wrong = Vec::new();
    for line in recorded.lines() {
        let (range, want) = line.split_once('\t').unwrap();
        let got = Range::parse(range).map_or_else(
            |_| "!".to_owned(),
            |parsed| {
                let inside = VERSIONS
                    .iter()
                    .filter(|text| parsed.contains(&version(text).unwrap()));
                inside.copied().collect::<Vec<_>>().join(" ")
            },
        );
        if got != want {
            wrong.push(format!("{range:?}\n  theirs {want}\n  ours   {got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn operators_select_intervals() {
    check("1.2.3", "1.2.3");
    check("=1.2.3", "1.2.3");
    check("= v1.2.3", "1.2.3");
    check(">1.2.3", "1.2.9 1.3.0 2.0.0 11.1.0");
    check(">= 1.2.3", "1.2.3 1.2.9 1.3.0 2.0.0 11.1.0");
    check("=>1.3", "1.3.0 2.0.0 11.1.0");
    check("<0.2.9", "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3");
    check("<=0.2.9", "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3 0.2.9");
    check("=<0.2", "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3 0.2.9");
    check(">1", "2.0.0 11.1.0");
    check(">1.2", "1.3.0 2.0.0 11.1.0");
    check("<1", "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3 0.2.9 0.3.0");
    check(
        "<=1",
        "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3 0.2.9 0.3.0 1.0.0 1.2.0 1.2.3 1.2.9 1.3.0",
    );
}

#[test]
fn partial_versions_are_ranges() {
    let any = "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3 0.2.9 0.3.0 1.0.0 1.2.0 1.2.3 1.2.9 1.3.0 2.0.0 11.1.0";
    check("*", any);
    check("x", any);
    check(">=0", any);
    check("~0.0.0", any);
    check("1.x", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check("1", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check("1.2.*", "1.2.0 1.2.3 1.2.9");
    check("~1", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check("~1.2", "1.2.0 1.2.3 1.2.9");
    check("~1.2.3", "1.2.3 1.2.9");
    check("~> 1.2.3", "1.2.3 1.2.9");
    check("^1", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check("^1.2.3", "1.2.3 1.2.9 1.3.0");
    check("^0", "0.0.0 0.0.3 0.0.4 0.1.0 0.2.3 0.2.9 0.3.0");
    check("^0.2.3", "0.2.3 0.2.9");
    check("^0.0", "0.0.0 0.0.3 0.0.4");
    check("^0.0.3", "0.0.3");
    check("^*", "0.0.0");
}

#[test]
fn constraints_are_combined() {
    check(">=1.0.0 <2.0.0", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check(">=1.0.0, <2.0.0", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check(">=1.0.0,<2.0.0", "1.0.0 1.2.0 1.2.3 1.2.9 1.3.0");
    check("1.2 - 1.3.0", "1.2.0 1.2.3 1.2.9 1.3.0");
    check("1.2.3 - 1", "1.2.3 1.2.9 1.3.0");
    check("0.2.3 - 0.2.9 || ^2", "0.2.3 0.2.9 2.0.0");
    check("<0.0.3 || >2", "0.0.0 11.1.0");
    check("1.x, !=1.2.3", "1.0.0 1.2.0 1.2.9 1.3.0");
    check("1.x !=1.2.x", "1.0.0 1.3.0");
    check(">=1 !=1.x", "2.0.0 11.1.0");
}

#[test]
fn prereleases_need_a_prerelease_constraint() {
    check(">=1.2.3-0 <1.3.0", "1.2.3-rc.1 1.2.3 1.2.9 1.3.0-rc.1");
    check("^1.2.3-0", "1.2.3-rc.1 1.2.3 1.2.9 1.3.0-rc.1 1.3.0");
    check("~1.2.0-0", "1.2.0 1.2.3-rc.1 1.2.3 1.2.9");
    check("1.0.0-rc.1", "1.0.0-rc.1");
    check("<0.0.3 || >=2.0.0-0", "0.0.0 2.0.0-rc.1 2.0.0 11.1.0");
    check(">1.2.9-0 !=1.3.x <2", "1.2.9 1.3.0-rc.1 2.0.0-rc.1");
}

#[test]
fn invalid_ranges_are_refused() {
    check("", "! a version is missing");
    check(">=", "! a version is missing");
    check(">=1.0.0 ||", "! a version is missing");
    check(">=1.0<2.0", "! a blank or a comma is missing before \"<2.0\"");
    check("main", "! \"main\" is not a version");
    check("1.2.3.4", "! \"1.2.3.4\" is not a version");
    check("1.2-", "! \"1.2-\" is not a version");
    check("><1", "! operator \"><\" is unknown");
    check(&"1".repeat(513), "! longer than 512 bytes");
    check(&vec!["1"; 33].join("||"), "! more than 32 alternatives");
}

#[test]
fn highest_tag_is_selected() {
    #[track_caller]
    fn check(range: &str, tags: &[&str], want: Option<&str>) {
        assert_eq!(
            Range::parse(range).unwrap().highest(tags.iter().copied()),
            want,
            "{range} of {tags:?}"
        );
    }
    check("*", &["v1.0.0", "v1.10.0", "v1.9.0"], Some("v1.10.0"));
    check("*", &["latest", "v2", "v1.2", "release-3.0.0"], None);
    check("*", &["1.0.0", "2.0.0-rc.1"], Some("1.0.0"));
    check(
        ">=2.0.0-0",
        &["1.0.0", "2.0.0-rc.1", "2.0.0-alpha"],
        Some("2.0.0-rc.1"),
    );
    check("*", &["v2025.02.03", "2024.12.31"], Some("v2025.02.03"));
    check("*", &["1.0.0+a", "1.0.0+b"], Some("1.0.0+b"));
    check("^3", &["1.0.0"], None);
}
