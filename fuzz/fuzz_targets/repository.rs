//! No index of a repository and no reference makes its reader panic, hang or grow without bound.
#![no_main]

use equate_helm::repository::index::{Index, IndexLimits, resolve_url};
use equate_helm::repository::oci::{Reference, choose, versions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let limits = IndexLimits {
        bytes_max: 64 << 10,
        nodes_max: 10_000,
        entries_max: 1_000,
    };
    if let Ok(index) = Index::parse(data, &limits) {
        for (name, versions) in index.charts() {
            for entry in versions {
                let found = index.get(name, &entry.metadata.version).ok();
                // an exact version is found, whatever else it may be as a constraint
                assert!(found.is_none_or(|found| found.metadata.version == entry.metadata.version));
            }
        }
    }
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    drop(resolve_url("https://example.com/charts?a=b", text));
    drop(resolve_url(text, "a-1.0.0.tgz"));
    if let Ok(reference) = Reference::parse(text) {
        drop(reference.wanted("1.0.0"));
    }
    drop(choose(&versions(text.lines()), ">0-0"));
});
