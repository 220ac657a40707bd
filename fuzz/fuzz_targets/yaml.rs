//! The loader neither panics nor exceeds its budget, and reads back what the emitter wrote.
#![no_main]

use equate_manifest::yaml::{Duplicates, Options, load, to_string};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let options = Options {
        spans: true,
        duplicates: Duplicates::Collect,
        nodes_max: 10_000,
        ..Options::default()
    };
    let Ok(documents) = load(text, &options) else {
        return;
    };
    for document in documents {
        for (_, place) in document.spans.iter() {
            assert!(text.len() + 3 >= place.bytes.end);
        }
        let written = to_string(&document.value);
        let again = load(&written, &Options::default()).expect("what was written can be read");
        let value = again
            .into_iter()
            .next()
            .map(|document| document.value)
            .unwrap_or_default();
        assert_eq!(to_string(&value), written);
    }
});
