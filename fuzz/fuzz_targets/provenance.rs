//! No provenance and no key ring makes its reader panic, hang or grow without bound, and nothing is proved
//! but what was signed.
#![no_main]

use equate_helm::provenance::{KeyRing, verify};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

const ARCHIVE: &[u8] = include_bytes!("../../crates/helm/testdata/provenance/small-1.0.0.tgz");
const NAME: &str = "small-1.0.0.tgz";
/// Texts that the owners of the keys signed.
const GOOD: &[u8] = include_bytes!("../../crates/helm/testdata/provenance/good.prov");

static RING: LazyLock<KeyRing> = LazyLock::new(|| {
    let bytes = include_bytes!("../../crates/helm/testdata/provenance/alice.asc");
    KeyRing::read(bytes).unwrap_or_default()
});

fuzz_target!(|data: &[u8]| {
    // 2027
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    if let Ok(verified) = verify(ARCHIVE, NAME, data, &RING, now) {
        let good = verify(ARCHIVE, NAME, GOOD, &RING, now);
        assert!(good.is_ok_and(|good| good == verified));
    }
    if let Ok(ring) = KeyRing::read(data) {
        drop(verify(ARCHIVE, NAME, GOOD, &ring, now));
    }
});
