//! No archive makes the loader panic, hang or grow without bound, nor what is done with the chart.
#![no_main]

use equate_helm::values::coalesce;
use equate_helm::{Chart, Limits, Values, dependencies, schema};
use libfuzzer_sys::fuzz_target;
use std::io::Write;

fuzz_target!(|data: &[u8]| {
    let limits = Limits {
        archive_bytes_max: 1 << 20,
        file_bytes_max: 1 << 20,
        total_bytes_max: 4 << 20,
        files_max: 200,
        charts_max: 20,
        depth_max: 4,
        values_nodes_max: 10_000,
        ..Limits::default()
    };
    drop(Chart::from_archive(data, &limits));
    // the fuzzer cannot pack: what it makes is what is packed
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    if zip.write_all(data).is_err() {
        return;
    }
    let Ok(Ok(chart)) = zip.finish().map(|packed| Chart::from_archive(&packed, &limits)) else {
        return;
    };
    let none = Values::new();
    let Ok((processed, _)) = dependencies::process(&chart, &none) else {
        return;
    };
    if let Ok((values, warnings)) = coalesce(&processed, &none) {
        drop(warnings.iter().map(|warning| warning.log_line().to_string()).collect::<String>());
        drop(schema::validate(&processed, &values));
    }
});
