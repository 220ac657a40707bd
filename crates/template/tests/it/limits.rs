//! Hostile templates end in an error that names the limit.

use crate::hostile;
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

/// Limits a fraction as wide as those of a render: what ends a template is the same, only sooner.
#[test]
fn hostile_templates_end() {
    let small = Limits {
        steps_max: Limits::default().steps_max / 50,
        made_bytes_max: Limits::default().made_bytes_max / 10,
        output_bytes_max: Limits::default().output_bytes_max / 10,
        ..Limits::default()
    };
    let mut others = Vec::new();
    for (before, template, wanted) in hostile::TEMPLATES {
        let template = format!("{before}{template}");
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", &template).unwrap();
        let options = Options {
            limits: small,
            ..Options::helm()
        };
        let mut session = Session::new(options, Box::new(Seeded::new(b"", 0)));
        let error = session.execute(&set, "t", Value::Absent).unwrap_err();
        let is_limit = matches!(error.kind, ErrorKind::Limit(_));
        if is_limit != (*wanted != hostile::NESTED) || !error.message.contains(wanted) {
            others.push(format!("{template}: {}", error.reason));
        }
    }
    assert!(others.is_empty(), "{}", others.join("\n"));
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
