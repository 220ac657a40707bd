//! Prints timings with 10,000 files and asserts nothing: `cargo test -p equate-git --test it -- --ignored
//! --nocapture measure`.

use std::time::Instant;

use equate_git::{LocalRepository, Reference, Remote};
use equate_testkit::git::Repository;

use crate::{Fixture, remote};

const FILES: usize = 10_000;

/// The best of five runs.
fn timed<T>(what: &str, work: impl Fn() -> T) -> T {
    let run = || {
        let begun = Instant::now();
        (work(), begun.elapsed())
    };
    let (mut result, mut best) = run();
    for _ in 0..4 {
        let (value, took) = run();
        if took < best {
            (result, best) = (value, took);
        }
    }
    eprintln!("{what:48} {:9.2} ms", best.as_secs_f64() * 1e3);
    result
}

#[test]
#[ignore = "prints numbers and judges nothing"]
fn ten_thousand_files() {
    let repository = Repository::init().unwrap();
    let files: Vec<(String, String)> = (0..FILES)
        .map(|at| {
            let path = format!("apps/team-{:02}/app-{:03}/r{}.yaml", at / 500, at / 10, at % 10);
            let text = "lorem ipsum dolor sit amet ".repeat(at % 20);
            (path, format!("kind: ConfigMap\nname: c{at}\ntext: {text}\n"))
        })
        .collect();
    let files: Vec<(&str, Option<&str>)> = files
        .iter()
        .map(|(path, text)| (path.as_str(), Some(text.as_str())))
        .collect();
    let first = repository.commit(&files).unwrap();
    for at in 0..500 {
        repository.tag(&format!("v1.{at}.0"), &first).unwrap();
    }
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let (mirrors, remote, main) = (&fixture.mirrors, remote(&server), Reference::branch("main"));
    let revision = timed("resolve a branch", || mirrors.resolve(&remote, &main).unwrap());
    timed("resolve a range of versions, 500 tags", || {
        mirrors.resolve(&remote, &Reference::semver("1.x")).unwrap()
    });
    let begun = Instant::now();
    let commit = mirrors.fetch(&remote, &revision).unwrap();
    eprintln!(
        "{:48} {:9.2} ms",
        "first fetch",
        begun.elapsed().as_secs_f64() * 1e3
    );
    timed("fetch, nothing new", || {
        mirrors.fetch(&remote, &revision).unwrap()
    });
    let tree = commit.tree();
    let entries = timed("all entries", || tree.entries().unwrap());
    assert_eq!(entries.len(), FILES);
    timed("sizes of all", || tree.bytes(&entries).unwrap());
    timed("content of all", || {
        entries
            .iter()
            .map(|entry| tree.read(&entry.id).unwrap().len())
            .sum::<usize>()
    });
    timed("one path", || {
        tree.entry("apps/team-07/app-357/r3.yaml").unwrap().unwrap()
    });

    for at in 0..3 {
        repository
            .commit(&[("apps/team-07/app-357/r3.yaml", Some(&format!("again: {at}\n")))])
            .unwrap();
        let begun = Instant::now();
        let revision = mirrors.resolve(&remote, &main).unwrap();
        let resolved = begun.elapsed();
        mirrors.fetch(&remote, &revision).unwrap();
        let fetched = begun.elapsed() - resolved;
        let of = |time: std::time::Duration| time.as_secs_f64() * 1e3;
        eprintln!(
            "one file changed: resolve {:.2} ms, fetch {:.2} ms",
            of(resolved),
            of(fetched)
        );
    }

    let url = "https://local.invalid/fleet";
    let local = mirrors.clone().instead_of(url, repository.path());
    let here = Remote::new(url);
    let revision = timed("in place: resolve", || local.resolve(&here, &main).unwrap());
    let commit = timed("in place: fetch", || local.fetch(&here, &revision).unwrap());
    let tree = commit.tree();
    let entries = timed("in place: all entries, loose objects", || tree.entries().unwrap());
    timed("in place: content of all, loose objects", || {
        entries
            .iter()
            .map(|entry| tree.read(&entry.id).unwrap().len())
            .sum::<usize>()
    });
    timed("in place: is anything uncommitted", || {
        assert!(!LocalRepository::discover(repository.path()).unwrap().uncommitted);
    });
}
