//! No kubeconfig of a Secret makes its reader panic, or makes a client that runs a program, reads a file or
//! trusts any certificate.
#![no_main]

use equate_controllers::{Policy, open_kubeconfig};
use equate_egress::{AddressPolicy, Egress};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime starts")
});

fuzz_target!(|data: &[u8]| {
    let egress = Egress::new(AddressPolicy::new([], []));
    let policy = Policy::default();
    let opened = RUNTIME.block_on(open_kubeconfig(data, &policy, &egress, "tenant"));
    let text = String::from_utf8_lossy(data);
    if let Err(error) = opened {
        let said = error.to_string();
        assert!(said.len() < 600 + 4 * text.len());
        // an error quotes nothing but the first word of a context's name, which may be any
        let named = said.strip_prefix("the kubeconfig's current-context \"");
        let (name, others) = named.and_then(|named| named.rsplit_once('"')).unwrap_or(("", &said));
        assert!(!name.trim_end_matches(" ...").contains(char::is_whitespace));
        assert!(!others.contains("token-of-the-seeds"));
    }
});
