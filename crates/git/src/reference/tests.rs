use super::{Reference, Revision};

const HEX: &str = "0123456789abcdef0123456789abcdef01234567";

#[test]
fn precedence_selects_the_target_and_names_are_validated() {
    fn check(reference: &Reference, want: &str) {
        let got = match reference.target() {
            Ok(target) => format!("{target:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(got.replace(HEX, "HEX"), want, "{reference:?}");
    }
    let all = Reference {
        branch: Some("b".to_owned()),
        tag: Some("t".to_owned()),
        semver: Some("1.x".to_owned()),
        name: Some("refs/pull/1/head".to_owned()),
        commit: Some(HEX.to_owned()),
    };
    check(&all, "Commit { id: Sha1(HEX), branch: Some(\"refs/heads/b\") }");
    let name = Reference { commit: None, ..all };
    check(&name, "Name(\"refs/pull/1/head\")");
    check(&Reference::name("HEAD"), "Name(\"HEAD\")");
    let semver = Reference { name: None, ..name };
    check(&semver, "Semver(\"1.x\")");
    let tag = Reference {
        semver: Some(String::new()),
        ..semver
    };
    check(&tag, "Tag(\"refs/tags/t\")");
    let branch = Reference { tag: None, ..tag };
    check(&branch, "Branch(\"refs/heads/b\")");
    check(&Reference::default(), "Branch(\"refs/heads/master\")");

    check(
        &Reference::commit("0123456"),
        "commit \"0123456\" is not a full commit id: write all 40 hexadecimal digits",
    );
    check(
        &Reference::name("main"),
        "name \"main\" is not a full ref name: it is HEAD or begins with refs/, as in refs/heads/main",
    );
    for bad in [
        "a b", "a..b", "a\nb", "-\0", "x.lock", "a~1", "@{u}", "a//b", "end/",
    ] {
        check(
            &Reference::branch(bad),
            &format!("{:?} is not a valid ref name", format!("refs/heads/{bad}")),
        );
    }
}

#[test]
fn revisions_are_written_as_in_the_api() {
    fn check(reference: Option<&str>, absolute: bool, want: &str) {
        let revision = Revision {
            reference: reference.map(str::to_owned),
            absolute,
            id: gix::ObjectId::from_hex(HEX.as_bytes()).unwrap(),
        };
        assert_eq!(revision.to_string().replace(HEX, "HEX"), want);
    }
    check(Some("refs/heads/main"), false, "main@sha1:HEX");
    check(Some("refs/heads/feature/x"), false, "feature/x@sha1:HEX");
    check(Some("refs/tags/v1.2.3"), false, "v1.2.3@sha1:HEX");
    check(Some("refs/pull/1/head"), true, "refs/pull/1/head@sha1:HEX");
    check(Some("refs/stash"), false, "sha1:HEX");
    check(None, false, "sha1:HEX");
}

#[test]
fn revisions_are_parsed_back() {
    for text in [
        "main@sha1:HEX",
        "feature/x@sha1:HEX",
        "refs/pull/1/head@sha1:HEX",
        "HEAD@sha1:HEX",
        "sha1:HEX",
    ] {
        let text = text.replace("HEX", HEX);
        assert_eq!(text.parse::<Revision>().unwrap().to_string(), text);
    }
    for text in ["", "main", "main@sha1:12", "main@sha256:HEX", "a b@sha1:HEX"] {
        let text = text.replace("HEX", HEX);
        assert!(text.parse::<Revision>().is_err(), "{text}");
    }
}
