//! No record of a release makes the codec panic or grow without bound, and what is read is written again.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_helm::release::{decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    drop(decode(data));
    // what is not compressed is read as it is
    let Ok(release) = decode(STANDARD.encode(data).as_bytes()) else {
        return;
    };
    let Ok(text) = encode(&release) else {
        return;
    };
    // 1.0 comes back as 1, as Go writes it, so texts are compared
    let again = decode(text.as_bytes()).and_then(|again| Ok(encode(&again).ok()));
    assert!(again.is_ok_and(|again| again == Some(text)), "{release:?}");
});
