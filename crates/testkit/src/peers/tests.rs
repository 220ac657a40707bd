use std::fs;

use super::*;

#[test]
fn folders_are_made_once_and_only_on_success() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("peer");
    let mut lines = Vec::new();
    let mut progress = |line: &str| lines.push(line.to_owned());

    let failed = once(&folder, &mut progress, |partial, _| {
        fs::write(partial.join("half"), "").unwrap();
        Err(Error::NoGo)
    });
    assert!(matches!(failed, Err(Error::NoGo)));
    assert!(!folder.exists());

    once(&folder, &mut progress, |partial, _| {
        assert!(
            !partial.join("half").exists(),
            "an interrupted attempt leaks into the next one"
        );
        fs::write(partial.join("whole"), "").unwrap();
        Ok(())
    })
    .unwrap();
    assert!(folder.join("whole").exists());

    once(&folder, &mut progress, |_, _| panic!("made twice")).unwrap();
}

#[test]
fn only_missing_tools_can_be_skipped() {
    let skip = available::<()>(Err(Error::NoGo));
    if in_ci() {
        assert!(matches!(skip, Err(Error::NoGo)));
    } else {
        assert!(
            skip.unwrap()
                .unwrap_err()
                .0
                .starts_with("cannot build the peers: ")
        );
    }
    let failed = available::<()>(Err(Error::NoCacheFolder));
    assert!(matches!(failed, Err(Error::NoCacheFolder)));
}

#[test]
fn an_error_carries_the_end_of_the_output() {
    let text: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let last = last_lines(&text.join("\n"));
    assert!(last.starts_with("70\n") && last.ends_with("\n99"), "{last}");
}
