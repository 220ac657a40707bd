//! No values and no schema make what reads them panic, hang or grow without bound. A line of `===` stands
//! between the two.
#![no_main]

use equate_helm::{Chart, File, Limits, schema, values};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (own, wanted) = text.split_once("\n===\n").unwrap_or((text, "{}"));
    let limits = Limits {
        values_nodes_max: 10_000,
        ..Limits::default()
    };
    let Ok(read) = values::read(own, &limits) else {
        return;
    };
    let file = |name: &str, text: &str| File {
        name: name.into(),
        data: text.as_bytes().into(),
    };
    let files = [
        file("Chart.yaml", "apiVersion: v2\nname: a\nversion: 1.0.0\n"),
        file("values.schema.json", wanted),
    ];
    if let Ok(chart) = Chart::from_files(files, &limits) {
        drop(schema::validate(&chart, &read));
    }
});
