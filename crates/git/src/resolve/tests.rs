use equate_manifest::go::version::Constraint;
use gix::ObjectId;

use super::{Listed, Refs, ResolveError, choose, highest};
use crate::reference::Reference;

/// A fixed list of refs; the nth points to the commit with n in its last byte.
struct Fixed(Vec<&'static str>);

impl Refs for Fixed {
    fn list(&mut self, prefix: &str) -> Result<Vec<Listed>, ResolveError> {
        let all = self.0.iter().enumerate();
        let all = all.map(|(at, name)| Listed {
            name: (*name).to_owned(),
            id: id(at),
            tag: None,
        });
        Ok(all.filter(|listed| listed.name.starts_with(prefix)).collect())
    }

    fn has(&mut self, commit: ObjectId) -> Result<bool, ResolveError> {
        Ok((0..self.0.len()).any(|at| id(at) == commit))
    }

    fn place(&self) -> String {
        "https://h/x".to_owned()
    }
}

fn id(at: usize) -> ObjectId {
    ObjectId::from_hex(format!("{at:040x}").as_bytes()).unwrap()
}

#[test]
fn references_are_resolved_by_precedence() {
    let refs = || {
        Fixed(vec![
            "refs/heads/main",
            "refs/heads/main-2",
            "refs/heads/feature/login",
            "refs/heads/release",
            "refs/tags/v1.0.0",
            "refs/tags/v1.1.0",
            "refs/tags/nightly",
            "refs/pull/7/head",
        ])
    };
    let check = |reference: Reference, want: &str| {
        let got = match choose(&mut refs(), &reference.target().unwrap()) {
            Ok(revision) => revision.to_string().replace(&"0".repeat(39), ""),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, want, "{reference}");
    };
    check(Reference::branch("main"), "main@sha1:0");
    check(Reference::branch("feature/login"), "feature/login@sha1:2");
    check(Reference::tag("nightly"), "nightly@sha1:6");
    check(Reference::name("refs/pull/7/head"), "refs/pull/7/head@sha1:7");
    check(Reference::name("refs/heads/main"), "refs/heads/main@sha1:0");
    check(Reference::semver("1.x"), "v1.1.0@sha1:5");
    check(Reference::semver("<1.1"), "v1.0.0@sha1:4");
    check(Reference::commit(id(3).to_string()), "sha1:3");
    let both = Reference {
        branch: Some("main".to_owned()),
        ..Reference::commit(id(3).to_string())
    };
    check(both, "main@sha1:3");

    check(
        Reference::branch("mian"),
        "branch \"mian\" does not exist in https://h/x; near it: main",
    );
    check(
        Reference::branch("zzz"),
        "branch \"zzz\" does not exist in https://h/x",
    );
    check(
        Reference::tag("v1.0"),
        "tag \"v1.0\" does not exist in https://h/x; near it: v1.0.0, v1.1.0, nightly",
    );
    check(
        Reference::name("refs/pull/8/head"),
        "ref \"refs/pull/8/head\" does not exist in https://h/x; near it: refs/pull/7/head",
    );
    check(
        Reference::semver("^2"),
        "no tag in https://h/x matches semver \"^2\": the highest of its 3 tags is v1.1.0",
    );
    check(
        Reference::semver("two"),
        "semver \"two\" is not a range of versions such as >=1.2 <2: improper constraint: \"two\"",
    );
    check(
        Reference::commit("f".repeat(40)),
        &format!("commit {} does not exist in https://h/x", "f".repeat(40)),
    );
}

/// In an empty repository a missing branch is not an error of the reference; a missing tag is.
#[test]
fn an_empty_repository_has_its_own_error() {
    let check = |refs: Vec<&'static str>, reference: Reference, want: &str| {
        let error = choose(&mut Fixed(refs), &reference.target().unwrap()).unwrap_err();
        assert_eq!(error.to_string(), want, "{reference}");
    };
    check(vec![], Reference::branch("main"), "git repository is empty");
    check(vec![], Reference::default(), "git repository is empty");
    let missing = "branch \"main\" does not exist in https://h/x";
    check(vec!["refs/tags/v1"], Reference::branch("main"), missing);
    let missing = "tag \"v1\" does not exist in https://h/x";
    check(vec![], Reference::tag("v1"), missing);
}

#[test]
fn the_highest_tag_is_selected() {
    #[track_caller]
    fn check(range: &str, tags: &[&str], want: Option<&str>) {
        let range = Constraint::parse(range).unwrap();
        assert_eq!(highest(tags, |version| range.matches(version)), want, "{tags:?}");
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
    check("*", &["1.0.0+9", "1.0.0+10"], Some("1.0.0+10"));
    check("*", &["v1.0.0", "1.0.0"], Some("v1.0.0"));
    check("^3", &["1.0.0"], None);
}
