//! No template makes the parser or the executor panic, hang or grow without bound.
#![no_main]

use equate_template::{Library, Limits, Map, Options, Seeded, Session, TemplateSet, Value};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    for library in [Library::Go, Library::Helm] {
        let mut set = TemplateSet::new(library);
        if set.parse("t", text).is_err() {
            continue;
        }
        let limits = Limits {
            output_bytes_max: 1 << 16,
            output_total_bytes_max: 1 << 20,
            made_bytes_max: 8 << 20,
            steps_max: 100_000,
            calls_depth_max: 200,
            value_depth_max: 100,
            include_depth_max: 100,
        };
        let options = Options {
            limits,
            ..Options::helm()
        };
        let mut session = Session::new(options, Box::new(Seeded::new(b"", 0)));
        // what comes of it is held against Go elsewhere: here it ends
        drop(session.execute(&set, "t", Value::from(Map::new())));
    }
});
