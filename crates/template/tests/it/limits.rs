//! Hostile templates end in an error that names the limit.

use crate::hostile;
use equate_template::{
    ErrorKind, Fault, Library, Limit, Limits, Options, Seeded, Session, TemplateSet, Value, World,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Limits scaled down: the same ones end a template, only sooner.
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

/// Runs a Helm template on a thread with little stack, and drops its set there.
fn on_a_small_stack(template: String) -> Result<String, String> {
    let run = move || {
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", &template).map_err(|error| error.message)?;
        let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"", 0)));
        match session.execute(&set, "t", Value::Absent) {
            Ok(text) => Ok(text.to_string()),
            Err(error) => Err(error.reason),
        }
    };
    let small = std::thread::Builder::new().stack_size(256 << 10);
    small.spawn(run).unwrap().join().unwrap()
}

#[test]
fn nested_values_need_no_stack() {
    let nested = |open: &str, inside: &str, close: &str| {
        format!("{}{inside}{}", open.repeat(9_999), close.repeat(9_999))
    };
    let read = |text: &str| {
        format!(
            r#"{{{{ define "a" }}}}{{{{ if lt (len .) 99 }}}}{{{{ include "a" (printf "%s-" .) }}}}{{{{ else }}}}{text}{{{{ end }}}}{{{{ end }}}}{{{{ include "a" "-" }}}}"#
        )
    };
    for (template, wanted) in [
        (nested("{{if true}}", r#"{{fail "x"}}"#, "{{end}}"), Err("x")),
        (nested("{{if true}}", "x", "{{else}}{{end}}"), Ok("x")),
        (nested("{{if false}}{{else}}", "x", "{{end}}"), Ok("x")),
        (format!("{{{{ {} }}}}", nested("(", "1", ")")), Ok("1")),
        (
            format!("{{{{ {}.a }}}}", nested("(", "dict", ").a")),
            Ok("<no value>"),
        ),
        (read(r#"{{ fromJson (repeat 511 "[") }}"#), Ok("Error")),
        (
            read(r#"{{ fromJsonArray (print (repeat 511 "[") (repeat 511 "]")) | len }}"#),
            Ok("1"),
        ),
        (
            read(r#"{{ fromYamlArray (print (repeat 90 "[") (repeat 90 "]")) | len }}"#),
            Ok("1"),
        ),
    ] {
        let shown = template.get(..60).unwrap_or(&template).to_owned();
        let found = on_a_small_stack(template);
        let is_wanted = match (&found, wanted) {
            (Ok(found), Ok(wanted)) | (Err(found), Err(wanted)) => found.contains(wanted),
            _ => false,
        };
        assert!(is_wanted, "{shown}: {found:?}");
    }
}

/// Cases where overflow would panic.
#[test]
fn extreme_numbers_do_not_overflow() {
    for (template, wanted) in [
        (r#"{{ printf "%.70000f" 1.5 | len }}"#, "70002"),
        (r#"{{ printf "%.70000e" 1.5 | len }}"#, "70006"),
        (r#"{{ printf "%.70000g" 1.5 }}"#, "1.5"),
        (r#"{{ printf "%#.70000g" 1.5 | len }}"#, "70001"),
        (r#"{{ printf "%.70000x" 1.5 | len }}"#, "70008"),
        (r#"{{ printf "%.*f" 70000 1.5 | len }}"#, "70002"),
        (r#"{{ printf "%70000.65536f" 1.5 | len }}"#, "70000"),
        (
            r#"{{ printf "%*d" (int64 -9223372036854775808 | int) 1 }}"#,
            "%!(BADWIDTH)1",
        ),
        (
            "{{ untilStep -9000000000000000000 9000000000000000000 1000000000000000000 | last }}",
            "8000000000000000000",
        ),
        (r#"{{ toDate "2006 MST" "2020 GMT99999999" | date "2006" }}"#, ""),
    ] {
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", template).unwrap();
        let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"", 0)));
        let output = session.execute(&set, "t", Value::Absent).unwrap().to_string();
        assert!(output == wanted || wanted.is_empty(), "{template}: {output}");
    }
}

/// Memory charged in advance or while writing.
#[test]
fn memory_is_charged_in_advance() {
    const PIECES: &str = "bytes of output in total";
    let variables: String = (0..2_000)
        .map(|number| format!("{{{{$a{number} := 1}}}}"))
        .collect();
    let variables = variables + "{{ range 1000 }}{{ $a0 }}{{ end }}";
    let wide = Limits::default();
    let made = |made_bytes_max| Limits {
        made_bytes_max,
        ..wide
    };
    let total = Limits {
        output_total_bytes_max: 50_000,
        ..wide
    };
    let steps = Limits {
        steps_max: 10_000,
        ..wide
    };
    for (template, limits, wanted) in [
        (
            r#"{{ regexReplaceAll "(a*)" (repeat 1000000 "a") (repeat 100000 "$1") }}"#,
            wide,
            hostile::OUTPUT,
        ),
        (
            r#"{{ regexReplaceAllLiteral "a" (repeat 1000 "a") (repeat 1000000 "b") }}"#,
            wide,
            hostile::OUTPUT,
        ),
        (
            r#"{{ b64dec (repeat 9000000 "A") | len }}"#,
            made(16 << 20),
            hostile::MADE,
        ),
        (
            r#"{{ b32dec (repeat 10000000 "A") | len }}"#,
            made(17 << 20),
            hostile::MADE,
        ),
        (
            r#"{{ $l := list (dict "a" 1) }}{{ range 12 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}"#,
            made(2 << 20),
            hostile::MADE,
        ),
        (
            r#"{{ define "a" }}{{ range 100 }}0123456789{{ end }}{{ end }}{{ range 100 }}{{ $_ := include "a" . }}{{ end }}"#,
            total,
            PIECES,
        ),
        (
            r#"{{ $x := repeat 100000 "x" }}{{ range 100 }}{{ $x }}{{ end }}"#,
            steps,
            hostile::STEPS,
        ),
        (
            r#"{{ toDate "2006" (repeat 1000000 "2") | len }}"#,
            Limits {
                steps_max: 200_000,
                ..wide
            },
            hostile::STEPS,
        ),
        (
            r#"{{ $x := repeat 1000000 "é" }}{{ $y := repeat 1000000 "ü" }}{{ trimAll $x $y | len }}{{ trimAll (print $x "ü") $y | len }}{{ range 1000000 }}{{ end }}"#,
            steps,
            hostile::STEPS,
        ),
        (
            r#"{{ $x := print (repeat 1000000 "ab") (b64dec "/w==") }}{{ $y := print (repeat 400000 "ab") (b64dec "/g==") }}{{ contains $y $x }}{{ replace $y "" $x | len }}{{ range 1000000 }}{{ end }}"#,
            Limits {
                steps_max: 500_000,
                ..wide
            },
            hostile::STEPS,
        ),
        (
            r#"{{ regexMatch "(a|b)*a(a|b){900}c" (repeat 10000 "ab") }}"#,
            Limits {
                steps_max: 250_000,
                ..wide
            },
            hostile::STEPS,
        ),
        (&variables, steps, hostile::STEPS),
        (
            r#"{{ $x := b64enc "-----BEGIN CERTIFICATE-----" }}{{ $_ := buildCustomCert $x (b64enc (repeat 10000 "k")) }}"#,
            Limits {
                steps_max: 1_000_000,
                ..wide
            },
            hostile::STEPS,
        ),
        (
            r#"{{ define "a" }}{{ if gt . 0 }}{{ tpl "{{ template `a` . }}" (int (sub . 1)) }}{{ else }}{{ range 300 }}{{ template "b" }}{{ end }}{{ end }}{{ end }}{{ define "b" }}x{{ end }}{{ template "a" 900 }}"#,
            Limits {
                steps_max: 25_000,
                ..wide
            },
            hostile::STEPS,
        ),
    ] {
        check(template, Library::Helm, limits, wanted);
    }
}

struct Stopping(Arc<AtomicBool>);

impl World for Stopping {
    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill(0);
    }

    fn now(&mut self) -> i128 {
        self.0.store(true, Ordering::Relaxed);
        0
    }

    fn lookup(&mut self, _: &str, _: &str, _: &str, _: &str) -> Result<Value, Fault> {
        Ok(Value::Nil)
    }
}

#[test]
fn a_render_that_is_stopped_ends() {
    const STOPPED: &str = "stopped";
    for (template, wanted) in [
        ("{{ range 5000 }}x{{ end }}", ""),
        ("{{ $_ := now }}{{ range 5000 }}x{{ end }}", STOPPED),
        (
            r#"{{ $_ := now }}{{ regexReplaceAll "x" (repeat 10000 "x") "y" }}"#,
            STOPPED,
        ),
        (
            r#"{{ define "a" }}{{ include "b" . }}{{ end }}{{ define "b" }}{{ $_ := now }}{{ tpl "{{ range 5000 }}x{{ end }}" . }}{{ end }}{{ include "a" . }}"#,
            STOPPED,
        ),
    ] {
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", template).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let options = Options {
            stop: Some(Arc::clone(&stop)),
            ..Options::helm()
        };
        let mut session = Session::new(options, Box::new(Stopping(stop)));
        let found = session.execute(&set, "t", Value::Absent);
        let is_stopped = found.is_err_and(|error| error.kind == ErrorKind::Limit(Limit::Stopped));
        assert_eq!(is_stopped, wanted == STOPPED, "{template}");
    }
}

/// The time to parse many definitions grows linearly.
#[test]
fn many_definitions_parse_in_linear_time() {
    let define = |number| format!("{{{{define \"d{number}\"}}}}{number}{{{{end}}}}{{{{$v{number} := 1}}}}");
    let text: String = (0..30_000).map(define).collect();
    let mut set = TemplateSet::new(Library::Helm);
    set.parse("t", &format!("{text}{{{{template \"d29999\"}}}}{{{{$v0}}}}"))
        .unwrap();
    set.parse(
        "scopes",
        "{{$a := 1}}{{if true}}{{$a := 2}}{{$b := 3}}{{end}}{{$a}}",
    )
    .unwrap();
    let gone = set
        .parse("gone", "{{if true}}{{$b := 3}}{{end}}{{$b}}")
        .unwrap_err();
    assert!(gone.message.contains("undefined variable \"$b\""), "{gone}");
    let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"", 0)));
    for (name, wanted) in [("t", "299991"), ("scopes", "1")] {
        assert_eq!(
            session.execute(&set, name, Value::Absent).unwrap().to_string(),
            wanted
        );
    }
}

/// A file of 3 MB in 25 parts: real charts split their definitions.
#[test]
fn parts_are_charged_for_what_they_make() {
    let text = r#"{{ $x := repeat 25 (print (repeat 120000 "x") "--") }}"#;
    for (template, expected) in [
        (
            r#"{{ len (splitList "--" $x) }} {{ len (split "--" $x) }}"#,
            "26 26",
        ),
        (
            r#"{{ len (splitn "--" 3 $x) }} {{ len (splitList "\n" $x) }}"#,
            "3 1",
        ),
        (r#"{{ len (regexSplit "--" $x -1) }}"#, "26"),
        (r#"{{ len (regexFindAll "-+" $x -1) }}"#, "25"),
    ] {
        let mut set = TemplateSet::new(Library::Helm);
        set.parse("t", &format!("{text}{template}")).unwrap();
        let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"", 0)));
        let output = session.execute(&set, "t", Value::Absent);
        assert_eq!(
            output.map(|text| text.to_string()).map_err(|error| error.reason),
            Ok(expected.to_owned()),
            "{template}"
        );
    }
    for template in [
        r#"{{ splitList "" (repeat 3000000 "x") }}"#,
        r#"{{ split "," (repeat 3000000 ",") }}"#,
        r#"{{ regexSplit "," (repeat 3000000 ",") -1 }}"#,
        r#"{{ regexFindAll "x" (repeat 3000000 "x") -1 }}"#,
    ] {
        check(template, Library::Helm, Limits::default(), "limit: more than");
    }
}
