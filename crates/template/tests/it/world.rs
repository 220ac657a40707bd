//! The outside world: randomness and clock follow from a seed, and unrepeatable functions are reported.

use equate_template::{Library, Options, Seeded, Session, TemplateSet, Value};

fn render(template: &str, seed: &[u8]) -> (String, Vec<&'static str>) {
    let mut set = TemplateSet::new(Library::Helm);
    set.parse("t", template).unwrap();
    let mut session = Session::new(
        Options::helm(),
        Box::new(Seeded::new(seed, 1_700_000_000_000_000_000)),
    );
    let output = session.execute(&set, "t", Value::Nil).unwrap().to_string();
    (output, session.unrepeatable().collect())
}

#[test]
fn seed_determines_output_and_functions_are_named() {
    for (template, used) in [
        (
            "{{ randAlphaNum 20 }}{{ uuidv4 }}",
            vec!["randAlphaNum", "uuidv4"],
        ),
        (
            "{{ randBytes 9 }}{{ shuffle \"abcdefghijklmnop\" }}",
            vec!["randBytes", "shuffle"],
        ),
        (
            r#"{{ htpasswd "me" "secret" }}{{ encryptAES "key" "text" }}{{ bcrypt "x" }}"#,
            vec!["bcrypt", "encryptAES", "htpasswd"],
        ),
        ("{{ genCA \"ca\" 365 | toJson }}", vec!["genCA"]),
        (
            r#"{{ derivePassword 1 "pin" "p" "u" "s" }}{{ toDate "2006" "2020" }}"#,
            vec![],
        ),
        ("{{ if false }}{{ uuidv4 }}{{ end }}fixed", vec![]),
        ("{{ lookup \"v1\" \"Pod\" \"a\" \"b\" }}", vec!["lookup"]),
    ] {
        let first = render(template, b"one");
        assert_eq!(first.1, used, "{template}");
        assert_eq!(first, render(template, b"one"), "{template}");
        let by_chance = used.first().is_some_and(|name| *name != "lookup");
        assert_eq!(first.0 != render(template, b"two").0, by_chance, "{template}");
    }
}

#[test]
fn certificates_are_valid_until_the_year_9999_at_most() {
    let check = |days: i64, want: &str| {
        let mut set = TemplateSet::new(Library::Helm);
        let template = format!("{{{{ (genCA \"ca\" {days}).Cert | trunc 27 }}}}");
        set.parse("t", &template).unwrap();
        let now = 1_700_000_000_000_000_000;
        let mut session = Session::new(Options::helm(), Box::new(Seeded::new(b"one", now)));
        let got = match session.execute(&set, "t", Value::Nil) {
            Ok(text) => text.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(got.ends_with(want), "{days} days: {got}");
    };
    check(365, "-----BEGIN CERTIFICATE-----");
    check(-30_000, "-----BEGIN CERTIFICATE-----");
    check(4_000_000, "error in validity: a year is not between 0 and 9999");
}
