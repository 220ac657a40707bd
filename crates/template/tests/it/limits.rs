//! Hostile templates end in an error that names the limit.

use equate_template::{ErrorKind, Library, Limit, Limits, Options, Seeded, Session, TemplateSet, Value};

fn check(template: &str, library: Library, limits: Limits, wanted: &str) {
    let mut set = TemplateSet::new(library);
    set.parse("t", template).unwrap();
    let options = Options {
        limits,
        ..Options::helm()
    };
    let mut session = Session::new(options, Box::new(Seeded::new(b"", 0)));
    let error = session.execute(&set, "t", Value::Absent).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Limit(_)), "{template}: {error}");
    assert!(error.to_string().contains(wanted), "{template}: {error}");
}

#[test]
fn language() {
    let small = Limits {
        steps_max: 10_000,
        output_bytes_max: 1_000,
        calls_depth_max: 500,
        ..Limits::default()
    };
    for (template, wanted) in [
        (
            r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
            "called more than 500 deep",
        ),
        ("{{ range 1000000000 }}{{ end }}", "more than 10000 steps"),
        (
            "{{ range 1000 }}xxxxxxxxxx{{ end }}",
            "more than 1000 bytes of output",
        ),
        (
            r#"{{ printf "%900000d" 1 | len }}{{ printf "%2000s" "" }}"#,
            "more than 1000 bytes of output",
        ),
    ] {
        check(template, Library::Go, small, wanted);
    }
}

#[test]
fn functions() {
    let small = Limits {
        steps_max: 2_000_000,
        made_bytes_max: 8 << 20,
        ..Limits::default()
    };
    let made = "more than 8388608 bytes of values made";
    let nested = "nested deeper than 1000 levels";
    for (template, wanted) in [
        (r#"{{ repeat 1000000000 "x" }}"#, "steps"),
        (r#"{{ repeat 20000000 "x" }}"#, made),
        ("{{ until 1000000000 }}", "steps"),
        ("{{ indent 100000000 \"a\\nb\" }}", made),
        (
            r#"{{ $x := "x" }}{{ range 40 }}{{ $x = print $x $x }}{{ end }}"#,
            made,
        ),
        ("{{ randAlphaNum 100000000 }}", "limit:"),
        (
            r#"{{ $l := list }}{{ range 100000 }}{{ $l = list $l }}{{ end }}{{ toJson $l }}"#,
            nested,
        ),
        (
            r#"{{ $l := list }}{{ range 5000 }}{{ $l = list $l }}{{ end }}{{ $l }}"#,
            nested,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ toYaml $d }}"#,
            nested,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ deepCopy $d }}"#,
            nested,
        ),
        (
            r#"{{ $d := dict }}{{ $_ := set $d "d" $d }}{{ $e := dict }}{{ $_ := set $e "d" $e }}{{ merge $d $e }}"#,
            nested,
        ),
        (
            r#"{{ replace "" "xxxxxxxxxxxxxxxxxxxx" (repeat 4000000 "x") }}"#,
            made,
        ),
        (
            r#"{{ define "a" }}{{ tpl "{{ include `a` . }}" . }}{{ end }}{{ include "a" . }}"#,
            "called more than",
        ),
    ] {
        let small = Limits {
            calls_depth_max: 900,
            ..small
        };
        check(template, Library::Helm, small, wanted);
    }
}

#[test]
fn deep_calls_within_the_limit_have_the_stack_they_need() {
    let template = r#"{{ define "a" }}{{ if gt . 0 }}{{ range 1 }}{{ with $ }}({{ template "b" . }}){{ end }}{{ end }}{{ end }}{{ end }}{{ define "b" }}{{ template "a" (len (slice "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" 1 .)) }}{{ end }}{{ template "a" 40 }}"#;
    let mut set = TemplateSet::new(Library::Go);
    set.parse("t", template).unwrap();
    let mut session = Session::new(Options::default(), Box::new(Seeded::new(b"", 0)));
    let output = session.execute(&set, "t", Value::Absent).unwrap();
    assert_eq!(output.len(), 80);
    let limit = Limit::Calls(Limits::default().calls_depth_max);
    assert!(limit.to_string().contains("4000"));
}
