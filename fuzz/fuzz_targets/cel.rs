//! No expression makes the parser or the evaluator panic, hang or grow without bound.
#![no_main]

use equate_cel::{
    Budget, Environment, Library, Limits, NamedFormat, Program, Schema, UNTYPED, Variables,
};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

const FORMATS: &[NamedFormat] = &[NamedFormat {
    name: "uuid",
    problems: |text| vec![text.to_owned()],
}];

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let v = json!({
        "s": "a-b.c/d 1.2.3 10.0.0.1 ä", "n": 3, "f": -0.5, "b": true, "null": null,
        "l": [1, "2", 3.5, null, [4], {"k": 5}], "m": {"a": {"b": ["c", "d"]}},
    });
    let declared = Variables::Declared(&["v"]);
    for (library, variables) in [
        (Library::Kubernetes(FORMATS), declared),
        (Library::Flux, Variables::Fields),
    ] {
        let limits = Limits {
            bytes_max: 4096,
            depth_max: 100,
        };
        let environment = Environment {
            variables,
            library,
            limits,
        };
        let Ok(program) = Program::compile(text, &environment) else {
            continue;
        };
        drop(program.check_names(text));
        let variables = vec![UNTYPED.read(&v); program.names().len()];
        drop(program.evaluate(&variables, &mut Budget::new(200_000, 8 << 20)));
    }
});
