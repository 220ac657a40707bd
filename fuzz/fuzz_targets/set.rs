//! Nothing given to `--set` and its kin makes them panic, hang or grow without bound.
#![no_main]

use equate_helm::Limits;
use equate_helm::values::UserValues;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    // the first line is what is there
    let (there, set) = text.split_once('\n').unwrap_or(("", text));
    let set = || vec![set.to_owned()];
    let with = |user: UserValues| {
        let user = UserValues {
            files: vec![("there".to_owned(), there.to_owned())],
            ..user
        };
        drop(user.values(&Limits::default(), &mut |name| Ok(name.to_owned())));
    };
    with(UserValues {
        set: set(),
        ..UserValues::default()
    });
    with(UserValues {
        set_string: set(),
        ..UserValues::default()
    });
    with(UserValues {
        set_literal: set(),
        ..UserValues::default()
    });
    with(UserValues {
        set_json: set(),
        ..UserValues::default()
    });
    with(UserValues {
        set_file: set(),
        ..UserValues::default()
    });
});
