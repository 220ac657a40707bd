//! Remotes over HTTP, working and failing.

use std::time::{Duration, Instant};

use equate_egress::Silence;
use equate_git::{Credentials, Kind, Limits, Mode, Reference, Remote, Secret};
use equate_testkit::git::{Fault, Guard, Repository};

use crate::{Fixture, chain, remote};

/// A repository with three commits on main, a tag of each kind, and another branch.
fn fleet() -> (Repository, Vec<String>) {
    let repository = Repository::init_bare().unwrap();
    let first = repository
        .commit(&[
            ("a.yaml", Some("a: 1\n")),
            ("apps/web/b.yaml", Some("b: 1\n")),
            ("run.sh", Some("#!/bin/sh\n")),
        ])
        .unwrap();
    let second = repository.commit(&[("a.yaml", Some("a: 2\n"))]).unwrap();
    let third = repository.commit(&[("apps/web/c.yaml", Some("c: 3\n"))]).unwrap();
    repository.tag("v1.0.0", &first).unwrap();
    repository.annotated_tag("v1.1.0", &second).unwrap();
    repository.set_ref("refs/pull/7/head", &second).unwrap();
    repository.set_branch("release", &first).unwrap();
    (repository, vec![first, second, third])
}

#[test]
fn resolves_by_listing_only_what_it_needs() {
    let (repository, commits) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let check = |reference: Reference, want: &str| {
        let got = match fixture.mirrors.resolve(&remote(&server), &reference) {
            Ok(revision) => revision.to_string(),
            Err(error) => format!("{:?}: {}", error.kind(), chain(&error)),
        };
        let numbered = commits.iter().enumerate();
        let got = numbered.fold(got, |text, (at, commit)| {
            text.replace(commit, &format!("#{}", at + 1))
        });
        assert_eq!(got.replace(&server.url(), "URL"), want, "{reference}");
    };
    check(Reference::branch("main"), "main@sha1:#3");
    check(Reference::tag("v1.0.0"), "v1.0.0@sha1:#1");
    check(Reference::tag("v1.1.0"), "v1.1.0@sha1:#2");
    check(Reference::semver("1.x"), "v1.1.0@sha1:#2");
    check(Reference::semver("~1.0"), "v1.0.0@sha1:#1");
    check(Reference::name("refs/pull/7/head"), "refs/pull/7/head@sha1:#2");
    check(Reference::name("HEAD"), "HEAD@sha1:#3");
    check(Reference::commit(&commits[0]), "sha1:#1");
    check(
        Reference::default(),
        "ReferenceNotFound: branch \"master\" does not exist in URL; near it: main, release",
    );
    check(
        Reference::branch("mian"),
        "ReferenceNotFound: branch \"mian\" does not exist in URL; near it: main, release",
    );
    check(
        Reference::semver("^2"),
        "ReferenceNotFound: no tag in URL matches semver \"^2\": the highest of its 2 tags is v1.1.0",
    );
    let head = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::name("HEAD"))
        .unwrap();
    let fetched = fixture.mirrors.fetch(&remote(&server), &head).unwrap();
    assert_eq!(fetched.tree().entries().unwrap().len(), 4);
    server.take();
    fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap();
    let asked = server.take();
    assert_eq!(asked.len(), 2, "capabilities and one list: {asked:?}");
    let list = String::from_utf8_lossy(&asked[1].body).into_owned();
    assert!(list.contains("ref-prefix refs/heads/main"), "{list}");
    assert!(asked[1].bytes < 100, "one ref: {asked:?}");
    assert!(
        asked.iter().all(|answered| answered.objects.is_none()),
        "nothing is fetched: {asked:?}"
    );
}

#[test]
fn fetches_a_tree_without_its_history() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let revision = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap();
    let commit = fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
    assert_eq!(commit.revision(), &revision);
    assert_eq!(
        (commit.summary().as_str(), commit.author().name.as_str()),
        ("change", "Test")
    );
    let tree = commit.tree();
    let entries = tree.entries().unwrap();
    let shown: Vec<String> = entries
        .iter()
        .map(|entry| {
            let content = String::from_utf8(tree.read(&entry.id).unwrap().to_vec()).unwrap();
            format!("{} {:?} {content:?}", entry.path, entry.mode)
        })
        .collect();
    assert_eq!(
        shown,
        [
            "a.yaml File \"a: 2\\n\"",
            "apps/web/b.yaml File \"b: 1\\n\"",
            "apps/web/c.yaml File \"c: 3\\n\"",
            "run.sh Executable \"#!/bin/sh\\n\"",
        ]
    );
    assert_eq!(tree.bytes(&entries).unwrap(), 25);
    assert_eq!(
        tree.entries_where(|directory| directory != "apps").unwrap().len(),
        2
    );
    let web = tree.subtree("apps/web").unwrap().unwrap();
    assert_eq!(web.entries().unwrap().len(), 2);
    assert!(tree.subtree("a.yaml").unwrap().is_none());
    assert_eq!(tree.entry("run.sh").unwrap().unwrap().mode, Mode::Executable);
    // 1 commit, 3 directories, 4 files: nothing of the two commits before it.
    let packs: Vec<u32> = server
        .take()
        .iter()
        .filter_map(|answered| answered.objects)
        .collect();
    assert_eq!(packs, [8]);
}

#[test]
fn later_fetches_bring_only_what_is_new() {
    let repository = Repository::init_bare().unwrap();
    let many: Vec<(String, String)> = (0..200)
        .map(|at| (format!("d{}/f{at}.yaml", at % 10), format!("n: {at}\n")))
        .collect();
    let many: Vec<(&str, Option<&str>)> = many
        .iter()
        .map(|(path, text)| (path.as_str(), Some(text.as_str())))
        .collect();
    repository.commit(&many).unwrap();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let pull = || {
        let revision = fixture
            .mirrors
            .resolve(&remote(&server), &Reference::branch("main"))
            .unwrap();
        let commit = fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
        let entries = commit.tree().entries().unwrap().len();
        let objects: Vec<u32> = server
            .take()
            .iter()
            .filter_map(|answered| answered.objects)
            .collect();
        (entries, objects)
    };
    assert_eq!(pull(), (200, vec![212]));
    assert_eq!(pull(), (200, vec![]), "nothing new, nothing asked for");
    for at in 0..3 {
        repository
            .commit(&[("d0/f0.yaml", Some(&format!("again: {at}\n")))])
            .unwrap();
    }
    // The last of three commits: itself, the root, one directory, one file.
    assert_eq!(pull(), (200, vec![4]));

    let elsewhere = repository
        .commit_to("other", "another history", &[("only", Some("x"))])
        .unwrap();
    repository.set_branch("main", &elsewhere).unwrap();
    assert_eq!(pull(), (1, vec![3]), "a forced push");
}

#[test]
fn new_commit_is_fetched_in_the_session_that_found_it() {
    let (repository, commits) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let pull = |reference: &Reference, is_new: bool| {
        let resolved = fixture
            .mirrors
            .resolve_and_fetch(&remote(&server), reference, |_| is_new);
        let (revision, commit) = resolved.unwrap();
        let files = commit.map(|commit| commit.unwrap().tree().entries().unwrap().len());
        (revision.to_string(), files, server.take().len())
    };
    let main = Reference::branch("main");
    let newest = format!("main@sha1:{}", commits[2]);
    assert_eq!(pull(&main, false), (newest.clone(), None, 2));
    assert_eq!(pull(&main, true), (newest.clone(), Some(4), 3));
    assert_eq!(pull(&main, true), (newest, Some(4), 2), "it is there");
    // no tip of a ref
    let exact = Reference::commit(&commits[0]);
    let (revision, files, _) = pull(&exact, true);
    assert_eq!((revision, files), (format!("sha1:{}", commits[0]), Some(3)));

    let failed = Fixture::new()
        .mirrors
        .resolve_and_fetch(&remote(&server), &main, |_| {
            server.set(Fault::Status(503));
            true
        });
    let (_, commit) = failed.unwrap();
    let error = commit.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::RemoteFailure, "{}", chain(&error));
}

#[test]
fn a_deleted_commit_has_its_own_error() {
    let (repository, commits) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let resolved = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap();
    repository.set_branch("main", &commits[0]).unwrap();
    // The remote still has the object, so it can be fetched.
    fixture.mirrors.fetch(&remote(&server), &resolved).unwrap();

    let never = "f".repeat(40);
    let both = Reference {
        branch: Some("main".to_owned()),
        ..Reference::commit(&never)
    };
    let revision = fixture.mirrors.resolve(&remote(&server), &both).unwrap();
    let error = fixture.mirrors.fetch(&remote(&server), &revision).unwrap_err();
    assert_eq!(error.kind(), Kind::ReferenceNotFound);
    assert_eq!(
        chain(&error),
        format!(
            "commit {never} is not in {}: refs/heads/main is now at {}",
            server.url(),
            commits[0]
        )
    );

    // A second fetch brings no history again.
    server.take();
    fixture.mirrors.fetch(&remote(&server), &revision).unwrap_err();
    assert!(server.take().iter().all(|answered| answered.objects.is_none()));

    repository.delete_branch("release").unwrap();
    let error = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("release"))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::ReferenceNotFound);
    assert!(chain(&error).ends_with("near it: main"), "{}", chain(&error));
}

#[test]
fn an_exact_commit_is_found_through_tips() {
    let (repository, commits) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    server.set(Fault::Old);
    for branch in [None, Some("main".to_owned())] {
        let fixture = Fixture::new();
        let reference = Reference {
            branch,
            ..Reference::commit(&commits[1])
        };
        let revision = fixture.mirrors.resolve(&remote(&server), &reference).unwrap();
        let commit = fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
        assert_eq!(commit.tree().entries().unwrap().len(), 3);
        assert_eq!(commit.revision().commit(), commits[1]);
        // Fetch it again, and then a tip, into a mirror that has history.
        fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
        let tip = fixture
            .mirrors
            .resolve(&remote(&server), &Reference::branch("main"))
            .unwrap();
        let commit = fixture.mirrors.fetch(&remote(&server), &tip).unwrap();
        assert_eq!(commit.tree().entries().unwrap().len(), 4);
    }
}

#[test]
fn credentials_are_sent_and_never_shown() {
    let (repository, _) = fleet();
    let Some(server) = repository
        .serve(Guard::Basic("me".to_owned(), "hunter2".to_owned()), false)
        .unwrap()
    else {
        return;
    };
    let fixture = Fixture::new();
    let check = |remote: &Remote, want: &str| {
        let got = match fixture.mirrors.resolve(remote, &Reference::branch("main")) {
            Ok(revision) => {
                fixture.mirrors.fetch(remote, &revision).unwrap();
                "fetched".to_owned()
            }
            Err(error) => format!("{:?}: {}", error.kind(), chain(&error)),
        };
        assert_eq!(got.replace(&server.url(), "URL"), want);
        assert!(!format!("{remote:?}").contains("hunter2") || remote.url.contains("hunter2"));
    };
    let basic = |password: &str| Credentials::Basic {
        username: "me".to_owned(),
        password: Secret::from(password),
    };
    let hint = "(check the credentials and their read permissions)";
    check(&remote(&server).with_credentials(basic("hunter2")), "fetched");
    check(
        &remote(&server),
        &format!("Authentication: cannot connect to URL: the host requires credentials (HTTP 401) {hint}"),
    );
    check(
        &remote(&server).with_credentials(basic("hunter3")),
        &format!("Authentication: cannot connect to URL: the host refused the credentials (HTTP 401) {hint}"),
    );
    check(
        &remote(&server).with_credentials(Credentials::Bearer(Secret::from("hunter2"))),
        &format!("Authentication: cannot connect to URL: the host refused the credentials (HTTP 401) {hint}"),
    );
    let inside = server.url().replace("http://", "http://me:hunter2@");
    check(&Remote::new(&inside), "fetched");

    // Content fetched with one credential is not served to another, even for a known commit.
    let revision = fixture
        .mirrors
        .resolve(&Remote::new(&inside), &Reference::branch("main"))
        .unwrap();
    assert_eq!(
        fixture
            .mirrors
            .fetch(&remote(&server), &revision)
            .unwrap_err()
            .kind(),
        Kind::Authentication
    );

    let mut files = vec![fixture.directory.path().to_owned()];
    while let Some(path) = files.pop() {
        assert!(!path.to_string_lossy().contains("hunter2"));
        if path.is_dir() {
            files.extend(
                std::fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else {
            let content = std::fs::read(&path).unwrap();
            assert!(
                !content.windows(7).any(|window| window == b"hunter2"),
                "{}",
                path.display()
            );
        }
    }

    let Some(server) = repository
        .serve(Guard::Bearer("t0ken".to_owned()), false)
        .unwrap()
    else {
        return;
    };
    let bearer = remote(&server).with_credentials(Credentials::Bearer(Secret::from("t0ken")));
    fixture
        .mirrors
        .resolve(&bearer, &Reference::branch("main"))
        .unwrap();
}

#[test]
fn host_failures_have_their_own_kinds() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let check = |fault: Fault, kind: Kind, want: &str| {
        server.set(fault.clone());
        let error = fixture
            .mirrors
            .resolve(&remote(&server), &Reference::branch("main"))
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{fault:?}: {}", chain(&error));
        assert!(error.kind().is_transient());
        let got = error.to_string().replace(&server.url(), "URL");
        assert!(
            got.starts_with(&format!("cannot connect to URL: {want}")),
            "{fault:?}: {got}"
        );
    };
    check(
        Fault::Status(403),
        Kind::Authentication,
        "the host forbids access (HTTP 403)",
    );
    check(
        Fault::Status(404),
        Kind::RepositoryNotFound,
        "no such repository (HTTP 404)",
    );
    check(
        Fault::Status(429),
        Kind::RemoteFailure,
        "the host limits requests (HTTP 429)",
    );
    check(
        Fault::Status(503),
        Kind::RemoteFailure,
        "the host failed (HTTP 503)",
    );
    check(Fault::Garbage, Kind::Protocol, "its answer is not git's protocol");
    check(Fault::Page, Kind::Protocol, "its answer is not git's protocol");
    check(
        Fault::Cut(10),
        Kind::Unreachable(Silence::Broken),
        "the connection broke",
    );
    check(
        Fault::Redirect("http://example.invalid/{path}".to_owned()),
        Kind::Protocol,
        "it redirects to http://example.invalid, another host, which is not followed",
    );
    server.set(Fault::Redirect("/moved{path}".to_owned()));
    let revision = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap();
    fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
    let paths: Vec<String> = server.take().into_iter().map(|answered| answered.path).collect();
    assert!(
        paths
            .iter()
            .any(|path| path == "/moved/fleet.git/git-upload-pack"),
        "{paths:?}"
    );

    // A truncated pack leaves no commit marked as fetched.
    server.set(Fault::None);
    let fixture = Fixture::new();
    let revision = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap();
    server.set(Fault::Cut(400));
    let error = fixture.mirrors.fetch(&remote(&server), &revision).unwrap_err();
    assert!(
        matches!(error.kind(), Kind::Unreachable(_) | Kind::Protocol),
        "{}",
        chain(&error)
    );
    server.set(Fault::None);
    let commit = fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
    assert_eq!(commit.tree().entries().unwrap().len(), 4);
}

#[test]
fn unreachable_hosts_are_reported() {
    let fixture = Fixture::new();
    let check = |url: &str, kind: Kind, want: &str| {
        let error = fixture
            .mirrors
            .resolve(&Remote::new(url), &Reference::branch("main"))
            .unwrap_err();
        assert_eq!(error.kind(), kind, "{}", chain(&error));
        assert!(error.to_string().starts_with(want), "{error}");
    };
    // a free port could be taken by another test
    let url = "http://127.0.0.1:1/x";
    check(
        url,
        Kind::Unreachable(Silence::Refused),
        &format!("cannot connect to {url}: no connection: the host refuses it (check the host's name"),
    );
    check(
        "https://nowhere.invalid/x",
        Kind::Unreachable(Silence::Unresolved),
        "cannot connect to https://nowhere.invalid/x: no connection: its name cannot be resolved",
    );
    check(
        "git://h/x",
        Kind::UrlInvalid,
        "the url's scheme \"git\" is not supported",
    );
}

#[test]
fn slow_hosts_time_out() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let timeout = Duration::from_millis(400);
    let check = |fault: Fault, resolved_before: bool| {
        let fixture = Fixture::new();
        let patient = remote(&server);
        let remote = patient.clone().with_timeout(timeout);
        server.set(Fault::None);
        let revision = fixture
            .mirrors
            .resolve(&patient, &Reference::branch("main"))
            .unwrap();
        server.set(fault.clone());
        let begun = Instant::now();
        let (kind, text) = match resolved_before {
            true => {
                let error = fixture.mirrors.fetch(&remote, &revision).unwrap_err();
                (error.kind(), chain(&error))
            }
            false => {
                let error = fixture
                    .mirrors
                    .resolve(&remote, &Reference::branch("main"))
                    .unwrap_err();
                (error.kind(), chain(&error))
            }
        };
        assert_eq!(kind, Kind::Timeout, "{fault:?}: {text}");
        assert!(text.contains("it took longer than 0.4s"), "{text}");
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "{fault:?} held for {:?}",
            begun.elapsed()
        );
    };
    for resolved_before in [false, true] {
        check(Fault::Silence, resolved_before);
        check(Fault::Stall, resolved_before);
        check(Fault::Drip(Duration::from_millis(20)), resolved_before);
        check(Fault::Delay(Duration::from_secs(600)), resolved_before);
    }
    server.set(Fault::Delay(Duration::from_millis(50)));
    Fixture::new()
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap();
}

#[test]
fn certificates_are_verified() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve(Guard::Open, true).unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let error = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Tls, "{}", chain(&error));
    assert!(
        error
            .to_string()
            .contains("the connection is not trusted (check the host's certificate"),
        "{error}"
    );
    let trusted = remote(&server).with_ca(server.certificate().unwrap());
    let revision = fixture
        .mirrors
        .resolve(&trusted, &Reference::branch("main"))
        .unwrap();
    fixture.mirrors.fetch(&trusted, &revision).unwrap();
    // A ca of one remote is not trusted for others.
    let error = fixture
        .mirrors
        .resolve(&remote(&server), &Reference::branch("main"))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Tls);
    let wrong = remote(&server).with_ca("no certificate");
    let error = fixture
        .mirrors
        .resolve(&wrong, &Reference::branch("main"))
        .unwrap_err();
    assert_eq!(error.kind(), Kind::Tls, "{}", chain(&error));
}

#[test]
fn limits_are_named() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let check = |limits: Limits, want: &str| {
        let fixture = Fixture::with(limits);
        let all = || -> Result<(), Box<dyn std::error::Error>> {
            let revision = fixture
                .mirrors
                .resolve(&remote(&server), &Reference::semver("1.x"))?;
            let commit = fixture.mirrors.fetch(&remote(&server), &revision)?;
            let entries = commit.tree().entries()?;
            commit.tree().bytes(&entries)?;
            for entry in &entries {
                commit.tree().read(&entry.id)?;
            }
            Ok(())
        };
        let got = all().map_or_else(|error| chain(&*error), |()| "read".to_owned());
        assert!(got.contains(want), "{got}");
    };
    check(Limits::default(), "read");
    check(
        Limits {
            refs_max: 1,
            ..Limits::default()
        },
        "it has more than 1 refs under refs/tags/",
    );
    check(
        Limits {
            listing_bytes_max: 100,
            ..Limits::default()
        },
        "its first answer is larger than 100 bytes",
    );
    check(
        Limits {
            pack_bytes_max: 300,
            ..Limits::default()
        },
        "its pack is larger than 300 bytes",
    );
    check(
        Limits {
            entries_max: 2,
            ..Limits::default()
        },
        "more than 2 files in one tree",
    );
    check(
        Limits {
            listed_bytes_max: 20,
            ..Limits::default()
        },
        "the paths of one tree have more than 20 bytes in total",
    );
    check(
        Limits {
            depth_max: 1,
            ..Limits::default()
        },
        "\"apps/web\" is nested deeper than 1 directories",
    );
    check(
        Limits {
            path_bytes_max: 10,
            ..Limits::default()
        },
        "the path \"apps/web/b.yaml\" is longer than 10 bytes",
    );
    check(
        Limits {
            blob_bytes_max: 6,
            ..Limits::default()
        },
        "has 10 bytes, more than the limit of 6",
    );
    check(
        Limits {
            tree_bytes_max: 19,
            ..Limits::default()
        },
        "more than 19 bytes in total",
    );
}

/// gix keeps an object in memory until all of it has arrived.
#[test]
fn a_large_object_of_a_pack_is_refused_while_it_arrives() {
    let repository = Repository::init_bare().unwrap();
    // text that zlib cannot make much smaller
    let mut state = 1_u64;
    let text: String = (0..4 << 20)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            char::from(b'0' + u8::try_from(state >> 58).unwrap())
        })
        .collect();
    repository.commit(&[("large.txt", Some(&text))]).unwrap();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fetch = |blob_bytes_max: u64| {
        let fixture = Fixture::with(Limits {
            blob_bytes_max,
            ..Limits::default()
        });
        let revision = fixture
            .mirrors
            .resolve(&remote(&server), &Reference::branch("main"))
            .unwrap();
        let fetched = fixture.mirrors.fetch(&remote(&server), &revision);
        fetched.map(drop).map_err(|error| chain(&error))
    };
    let refused = fetch(1 << 20).unwrap_err();
    let want = "its pack has an object of more than 2097152 bytes";
    assert!(refused.contains(want), "{refused}");
    assert_eq!(fetch(8 << 20), Ok(()));
}

fn fetch_newest(fixture: &Fixture, remote: &Remote) {
    let mirrors = &fixture.mirrors;
    let revision = mirrors.resolve(remote, &Reference::branch("main")).unwrap();
    let commit = mirrors.fetch(remote, &revision).unwrap();
    assert_eq!(commit.tree().entries().unwrap().len(), 4);
}

#[test]
fn a_mirror_with_too_many_bytes_is_fetched_afresh() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::with(Limits {
        mirror_bytes_max: 64 << 10,
        ..Limits::default()
    });
    let mirrors = fixture.directory.path().join("mirrors");
    let bytes = || {
        let size = |path: std::path::PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
        let mut folders = vec![mirrors.clone()];
        let mut sum = 0;
        while let Some(folder) = folders.pop() {
            let entries = match std::fs::read_dir(&folder) {
                // a thread removes a replaced mirror
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder != mirrors => continue,
                entries => entries.unwrap(),
            };
            for entry in entries.flatten() {
                match entry.path() {
                    path if path.is_dir() => folders.push(path),
                    path => sum += size(path),
                }
            }
        }
        sum
    };
    let mut state = 1_u64;
    let mut noise = || -> String {
        let draw = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'!' + u8::try_from((state >> 33) % 90).unwrap())
        };
        (0..20_000).map(draw).collect()
    };
    for _ in 0..20 {
        let text = noise();
        repository.commit(&[("a.yaml", Some(&*text))]).unwrap();
        fetch_newest(&fixture, &remote(&server));
        let begun = Instant::now();
        loop {
            let held = bytes();
            if held < 3 * (64 << 10) {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{held} bytes");
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}

#[test]
fn an_open_mirror_reads_all_packs_that_it_may_have() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::with(Limits::default());
    let remote = remote(&server);
    for number in 0..=Limits::default().packs_max {
        let text = format!("a: {number}\n");
        repository.commit(&[("a.yaml", Some(&text))]).unwrap();
        fetch_newest(&fixture, &remote);
    }
}

#[test]
fn a_fetch_is_based_on_the_newest_commits_and_that_of_its_branch() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let mut commits = Vec::new();
    let mut bases = |branch: &str, number: usize| -> Vec<usize> {
        let text = format!("a: {number}\n");
        let commit = repository.commit_to(branch, "change", &[("a.yaml", Some(text.as_str()))]);
        server.take();
        let revision = fixture
            .mirrors
            .resolve(&remote(&server), &Reference::branch(branch))
            .unwrap();
        fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
        let bodies: Vec<u8> = server
            .take()
            .into_iter()
            .flat_map(|answered| answered.body)
            .collect();
        let bodies = String::from_utf8_lossy(&bodies);
        let named = bodies.split("have ").skip(1).map(|rest| rest[..40].to_owned());
        let mut named: Vec<usize> = named
            .filter_map(|id| commits.iter().position(|commit| *commit == id))
            .collect();
        named.sort_unstable();
        commits.push(commit.unwrap());
        named
    };
    assert_eq!(bases("other", 0), [0; 0]);
    for number in 1..7 {
        let expected: Vec<usize> = (number.max(4) - 4..number).collect();
        assert_eq!(bases("main", number), expected);
    }
    assert_eq!(bases("other", 7), [0, 4, 5, 6]);
}

#[test]
fn mirrors_are_renewed_and_repaired() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::with(Limits {
        packs_max: 2,
        ..Limits::default()
    });
    let pull = |mirrors: &equate_git::Mirrors| {
        let revision = mirrors
            .resolve(&remote(&server), &Reference::branch("main"))
            .unwrap();
        let commit = mirrors.fetch(&remote(&server), &revision).unwrap();
        (
            commit,
            server
                .take()
                .iter()
                .filter_map(|answered| answered.objects)
                .sum::<u32>(),
        )
    };
    let generations = || -> Vec<String> {
        let mirrors = std::fs::read_dir(fixture.directory.path().join("mirrors"))
            .unwrap()
            .flatten();
        let inside = mirrors.filter(|entry| entry.path().is_dir());
        let inside = inside.flat_map(|entry| std::fs::read_dir(entry.path()).unwrap().flatten());
        let mut names: Vec<String> = inside
            .filter(|entry| entry.path().is_dir())
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    let (first, objects) = pull(&fixture.mirrors);
    assert_eq!(objects, 8);
    repository.commit(&[("a.yaml", Some("a: 4\n"))]).unwrap();
    assert_eq!(pull(&fixture.mirrors).1, 3);
    repository.commit(&[("a.yaml", Some("a: 5\n"))]).unwrap();
    let (third, objects) = pull(&fixture.mirrors);
    assert_eq!(objects, 8, "fetched afresh");
    assert_eq!(
        generations(),
        ["00000000.git", "00000001.git"],
        "a reader holds the first"
    );
    assert_eq!(first.tree().entries().unwrap().len(), 4);
    drop(first);
    let begun = Instant::now();
    while generations() != ["00000001.git"] {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", generations());
        std::thread::park_timeout(Duration::from_millis(1));
    }
    drop(third);

    // Another process finds the mirror with leftovers of a killed one.
    let mirror = std::fs::read_dir(fixture.directory.path().join("mirrors"))
        .unwrap()
        .flatten();
    let mirror = mirror
        .map(|entry| entry.path())
        .find(|path| path.is_dir())
        .unwrap()
        .join("00000001.git");
    std::fs::write(mirror.join("shallow.lock"), "").unwrap();
    std::fs::write(mirror.join("objects/pack/.tmpabc"), "half").unwrap();
    let again = equate_git::Mirrors::new(fixture.directory.path().join("mirrors"), Limits::default());
    assert_eq!(pull(&again).1, 0, "nothing new");
    repository.commit(&[("a.yaml", Some("a: 6\n"))]).unwrap();
    assert_eq!(pull(&again).1, 3);
    assert!(!mirror.join("objects/pack/.tmpabc").exists());

    // Lost packs are fetched again.
    for entry in std::fs::read_dir(mirror.join("objects/pack")).unwrap().flatten() {
        std::fs::remove_file(entry.path()).unwrap();
    }
    let again = equate_git::Mirrors::new(fixture.directory.path().join("mirrors"), Limits::default());
    let (commit, objects) = pull(&again);
    assert_eq!((commit.tree().entries().unwrap().len(), objects), (4, 8));
}

#[test]
fn unused_mirrors_are_removed() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let root = fixture.directory.path().join("mirrors");
    let reference = Reference::branch("main");
    let revision = fixture.mirrors.resolve(&remote(&server), &reference).unwrap();
    let with = |token: &str| remote(&server).with_credentials(Credentials::Bearer(Secret::from(token)));
    let mirrors = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(&root).unwrap().flatten();
        entries
            .map(|entry| entry.path())
            .filter(|path| path.is_dir())
            .collect()
    };
    fixture.mirrors.fetch(&with("one"), &revision).unwrap();
    fixture.mirrors.fetch(&with("two"), &revision).unwrap();
    let old = std::time::SystemTime::now() - Duration::from_secs(25 * 60 * 60);
    let unused = mirrors();
    assert_eq!(unused.len(), 2);
    for path in &unused {
        let lock = std::fs::File::options().write(true).open(path.join("lock"));
        lock.unwrap().set_modified(old).unwrap();
    }
    // a process searches seldom; this is another
    let again = equate_git::Mirrors::new(&root, Limits::default());
    again.fetch(&with("three"), &revision).unwrap();
    let begun = Instant::now();
    while mirrors().len() > 1 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", mirrors());
        std::thread::park_timeout(Duration::from_millis(1));
    }
    assert!(unused.iter().all(|path| !path.exists()));
}

#[test]
fn no_tenant_waits_for_a_fetch_of_another() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    let of = |tenant: &str| Remote {
        tenant: Some(tenant.to_owned()),
        ..remote(&server)
    };
    let reference = Reference::branch("main");
    let revision = fixture.mirrors.resolve(&of("a"), &reference).unwrap();
    server.set(Fault::Before("/git-upload-pack"));
    let endless = std::thread::spawn({
        let (mirrors, remote, revision) = (fixture.mirrors.clone(), of("a"), revision.clone());
        move || mirrors.fetch(&remote, &revision).map(drop)
    });
    let begun = Instant::now();
    while server.held() == 0 {
        assert!(begun.elapsed() < Duration::from_secs(60), "nothing was asked for");
        std::thread::park_timeout(Duration::from_millis(1));
    }
    server.set(Fault::None);
    let hasty = of("b").with_timeout(Duration::from_secs(20));
    let commit = fixture.mirrors.fetch(&hasty, &revision).unwrap();
    assert_eq!(commit.tree().entries().unwrap().len(), 4);
    assert!(!endless.is_finished());
    drop(server);
    endless.join().unwrap().unwrap_err();
}

#[test]
fn concurrent_calls_share_mirrors() {
    let (repository, _) = fleet();
    let Some(server) = repository.serve_http().unwrap() else {
        return;
    };
    let fixture = Fixture::new();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let revision = fixture
                    .mirrors
                    .resolve(&remote(&server), &Reference::branch("main"))
                    .unwrap();
                let commit = fixture.mirrors.fetch(&remote(&server), &revision).unwrap();
                assert_eq!(commit.tree().entries().unwrap().len(), 4);
            });
        }
    });
    let packs: Vec<u32> = server
        .take()
        .iter()
        .filter_map(|answered| answered.objects)
        .collect();
    assert_eq!(packs, [8], "one of them fetched for all");
}
