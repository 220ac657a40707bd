//! Tables against recorded behaviour.

use super::*;

#[test]
fn every_definition_parses() {
    let defs = kubernetes();
    assert_eq!(defs.names().count(), 584);
    for name in defs.names() {
        let definition = defs.definition(name).expect("listed");
        definition
            .parse()
            .unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    assert_eq!(kubernetes_resources().len(), 68);
}

fn check(definition: &str, input: &str, expected: &str) {
    let value = serde_json::from_str(input).expect("input is JSON");
    let text = match decode(kubernetes(), definition, value) {
        Err(error) => error.to_string(),
        Ok(decoded) => {
            let unknown = decoded
                .unknown
                .iter()
                .map(|path| format!(" unknown {path}"))
                .collect::<String>();
            format!("{}{unknown}", decoded.value)
        }
    };
    assert_eq!(text, expected, "{definition} {input}");
}

const CORE: &str = "io.k8s.api.core.v1.";

#[test]
fn a_value_takes_the_form_go_would_give_it() {
    for (kind, input, expected) in [
        (
            "ConfigMap",
            r#"{"data":{"a":1}}"#,
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
        ),
        (
            "ConfigMap",
            r#"{"data":{"a":null},"metadata":null,"dataa":1}"#,
            r#"{"data":{"a":""},"metadata":{}} unknown dataa"#,
        ),
        (
            "Secret",
            r#"{"data":{"a":"%%%"}}"#,
            "illegal base64 data at input byte 0",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"abc"}}}]}}"#,
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
        (
            "Pod",
            r#"{"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":0.5,"memory":"1.5Gi"}},"x":{}}]}}"#,
            r#"{"metadata":{},"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"500m","memory":"1536Mi"}}}]},"status":{}} unknown spec.containers[0].x"#,
        ),
    ] {
        check(&format!("{CORE}{kind}"), input, expected);
    }
}
