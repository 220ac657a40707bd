use super::*;

fn check(text: &str, variables: &[(&str, &str)], expected: &Result<&str, SubstituteError>) {
    let variables = variables
        .iter()
        .map(|(name, value)| (*name, (*value).to_owned()))
        .collect();
    let found = text_in(text, &variables, true);
    assert_eq!(found.as_deref(), expected.as_ref().map(|text| *text), "{text}");
}

#[test]
fn every_form() {
    let v = [("v", "abcABC123ABCabc")];
    let path = [("path", "/away/me/notes.for.today")];
    for (text, variables, expected) in [
        ("plain $v text", &v[..], "plain $v text"),
        ("${v}", &v, "abcABC123ABCabc"),
        ("${#v}", &v, "15"),
        ("${v^}", &v, "AbcABC123ABCabc"),
        ("${v^^}", &v, "ABCABC123ABCABC"),
        ("${w,}", &[("w", "ABC")], "aBC"),
        ("${w,,}", &[("w", "ABC")], "abc"),
        ("${path:9}", &path, "notes.for.today"),
        ("${path:9:5}", &path, "notes"),
        ("${path:-5}", &path, "/away/me/notes.for.today"),
        ("${path: -5}", &path, "/away/me/notes.for.today"),
        ("${v:1:-1}", &v, "bcABC123ABCab"),
        ("${v:90}", &v, ""),
        ("${v:x}", &v, "abcABC123ABCabc"),
        ("${v=d}${n=d}", &v, "abcABC123ABCabcd"),
        ("${n:=d}${n:-e}", &v, "de"),
        ("${n:-}", &v, ""),
        ("${n:-a ${v^^} b}", &v, "a ABCABC123ABCABC b"),
        ("${n:=${m:=x}}", &v, "x"),
        ("${e:-d}", &[("e", "")], "d"),
        ("${v/%abc/X}", &v, "abcABC123ABCX"),
        ("${v/#abc/X}", &v, "XABC123ABCabc"),
        ("${v//abc/x}", &v, "xABC123ABCx"),
        ("${v/abc/x}", &v, "xABC123ABCabc"),
        ("${v/abc/}", &v, "ABC123ABCabc"),
        ("${p/\\//-}", &[("p", "a/b/c")], "a-b/c"),
        ("${p//\\//-}", &[("p", "a/b/c")], "a-b-c"),
        ("${path#*/}", &path, "away/me/notes.for.today"),
        ("${path##*/}", &path, "notes.for.today"),
        ("${path%.*}", &path, "/away/me/notes.for"),
        ("${path%%.*}", &path, "/away/me/notes"),
        ("${v#[a-b]}", &v, "bcABC123ABCabc"),
        ("${v#x}", &v, "abcABC123ABCabc"),
        ("$${v}", &v, "${v}"),
        ("${v}$${v $v", &v, "abcABC123ABCabc${v $v"),
        ("\\\\a ${v}", &v, "\\\\a abcABC123ABCabc"),
        ("cost: 5$", &v, "cost: 5$"),
    ] {
        check(text, variables, &Ok(expected));
    }
}

#[test]
fn unset_variable_is_named() {
    for text in [
        "${n}",
        "${#n}",
        "${n^}",
        "${n^^}",
        "${n,}",
        "${n,,}",
        "${n:0}",
        "${n:0:1}",
        "${n/a/b}",
        "${n//a/b}",
        "${n/#a/b}",
        "${n/%a/b}",
        "${n#a}",
        "${n##a}",
        "${n%a}",
        "${n%%a}",
        "${v:-${n}}",
    ] {
        check(text, &[], &Err(SubstituteError::NotSet("n".to_owned())));
    }
    assert_eq!(text_in("a${n}b", &BTreeMap::new(), false), Ok("ab".to_owned()));
}

#[test]
fn malformed_substitution_is_an_error() {
    for (text, expected) in [
        ("${", SubstituteError::Name),
        ("${}", SubstituteError::Name),
        ("${a b}", SubstituteError::Brace),
        ("${a", SubstituteError::Brace),
        ("${a:-b", SubstituteError::Argument),
        ("${a/b}", SubstituteError::Form),
        ("${a#}", SubstituteError::Argument),
        ("${#a-}", SubstituteError::Form),
    ] {
        check(text, &[("a", "x")], &Err(expected));
    }
    let deep = "${a:-".repeat(100);
    check(&deep, &[], &Err(SubstituteError::Depth(64)));
}

#[test]
fn patterns_backtrack_within_bounds() {
    let value = "a".repeat(2_000);
    let text = "${v##*a*a*a*a*a*a*a*b}";
    check(text, &[("v", &value)], &Ok(value.as_str()));
}

#[test]
fn texts_of_objects_end_at_a_limit() {
    let value = "x".repeat(1 << 20);
    let whole = "x".repeat(16 << 20);
    check(&"${v}".repeat(16), &[("v", &value)], &Ok(whole.as_str()));
    let error = Err(SubstituteError::Exhausted(Exhausted::Text(16 << 20)));
    check(&"${v}".repeat(17), &[("v", &value)], &error);
}

#[test]
fn debug_omits_values() {
    let substitution = Substitution {
        variables: BTreeMap::from([("PASSWORD".to_owned(), "hunter2".to_owned())]),
        ..Substitution::default()
    };
    let shown = format!("{substitution:?}");
    assert!(
        shown.contains("PASSWORD") && !shown.contains("hunter2"),
        "{shown}"
    );
}
