//! The grammar of remote bases takes any text, and what it makes of one can be written.
#![no_main]

use equate_kustomize::RemoteRepository;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match RemoteRepository::parse(text) {
        Ok(remote) => assert!(!remote.clone_url().is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
