//! Certificates are those of Go's `x509.CreateCertificate`, byte for byte, as `record.go` recorded them.

use equate_template::{Library, Map, Options, Seeded, Session, TemplateSet, Value};

const TEMPLATE: &str = r#"
{{- $ca := genCAWithKey "ca" 365 .key -}}
{{- $ips := list "10.0.0.1" "::1" "::ffff:10.0.0.2" -}}
{{- $ca.Cert -}}
{{- (genSignedCertWithKey "x.y" $ips (list "a.b" "*.c") 30 $ca .key).Cert -}}
{{- (genSignedCertWithKey "" nil (list "a.b") 30 $ca .key).Cert -}}
{{- (genSignedCertWithKey "ca" nil nil 30 $ca .key).Cert -}}
{{- (genSelfSignedCertWithKey "*.käse" (list "10.0.0.1") nil 30 .key).Cert -}}
"#;

fn made() -> String {
    let mut set = TemplateSet::new(Library::Helm);
    set.parse("t", TEMPLATE).unwrap();
    let world = Seeded::new(b"one", 1_700_000_000_000_000_000);
    let mut session = Session::new(Options::helm(), Box::new(world));
    let data = Map::new();
    data.insert("key".into(), include_str!("../certificates/key.pem").into());
    let made = session.execute(&set, "t", Value::from(data)).unwrap();
    made.to_string()
}

fn parts(text: &str) -> Vec<&str> {
    text.split_inclusive("-----END CERTIFICATE-----\n").collect()
}

#[test]
fn certificates_are_those_of_go() {
    let (made, expected) = (made(), include_str!("../certificates/expected.pem"));
    let (made, expected) = (parts(&made), parts(expected));
    assert_eq!(made.len(), 5);
    for (number, (made, expected)) in made.iter().zip(&expected).enumerate() {
        assert_eq!(made, expected, "certificate {number}");
    }
}
