//! No text with variables makes the substitution panic, hang or grow without bound.
#![no_main]

use std::collections::BTreeMap;

use bytes::Bytes;
use equate_fuzz::{Files, limits, write};
use equate_kustomize::{Spec, Substitution, build};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let object = serde_json::json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "c"},
        "data": {"text": text},
    });
    let files = Files(vec![("o.yaml", Bytes::from(object.to_string()))]);
    let variables = [
        ("a", "x"),
        ("b", "a: b\n*?["),
        ("long", "0123456789"),
        ("empty", ""),
    ];
    for strict in [false, true] {
        let spec = Spec {
            limits: limits(),
            substitute: Some(Substitution {
                variables: BTreeMap::from(variables.map(|(name, value)| (name.to_owned(), value.to_owned()))),
                always: true,
                strict,
            }),
            ..Spec::default()
        };
        if let Ok(built) = build(&files, &spec) {
            write(built);
        }
    }
});
