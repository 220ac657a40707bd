//! The URL grammar against a table of kustomize's own results.

use super::{RemoteRepository, is_remote, shown};
use std::time::Duration;

/// `clone URL | directory | reference`, or the error.
fn read(text: &str) -> String {
    match RemoteRepository::parse(text) {
        Ok(found) => format!(
            "{} | {} | {}",
            found.clone_url(),
            found.directory,
            found.reference
        ),
        Err(error) => error.to_string(),
    }
}

fn check(rows: &[(&str, &str)]) {
    let wrong: Vec<String> = rows
        .iter()
        .filter(|(text, expected)| read(text) != *expected)
        .map(|(text, expected)| format!("{text}\n  expected {expected}\n  found    {}", read(text)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn hosts() {
    for (written, host) in [
        ("gitHub.com/", "https://github.com/"),
        ("github.com:", "https://github.com/"),
        ("http://github.com/", "https://github.com/"),
        ("hTTps://github.com/", "https://github.com/"),
        (
            "https://git-codecommit.us-east-2.example.com/",
            "https://git-codecommit.us-east-2.example.com/",
        ),
        ("ssh://git.example.com:7999/", "ssh://git.example.com:7999/"),
        ("git::https://gitlab.com/", "https://gitlab.com/"),
        ("GIT::http://git.example.com/", "http://git.example.com/"),
        ("git@github.com:", "git@github.com:"),
        ("git@github.com/", "git@github.com:"),
        ("git::git@github.com:", "git@github.com:"),
        ("org-12345@github.com:", "org-12345@github.com:"),
        ("org-12345@github.com/", "org-12345@github.com:"),
        ("ssh://git@github.com/", "git@github.com:"),
        ("ssh://github.com/", "github.com:"),
        ("https://user@github.com/", "user@github.com:"),
    ] {
        for repository in ["someOrg/someRepo", "kubernetes/website"] {
            for directory in ["README.md", "foo/krusty.txt", ""] {
                for reference in ["group/version", "someBranch", "v0.1.0", ""] {
                    let mut text = format!("{written}{repository}");
                    if !directory.is_empty() {
                        text = format!("{text}/{directory}");
                    }
                    if !reference.is_empty() {
                        text = format!("{text}?ref={reference}");
                    }
                    let expected = format!("{host}{repository} | {directory} | {reference}");
                    assert_eq!(read(&text), expected, "{text}");
                }
            }
        }
    }
}

#[test]
fn repository_path_ends_are_found() {
    check(&[
        (
            "https://h.example/org/repo/dir?ref=b",
            "https://h.example/org/repo | dir | b",
        ),
        ("https://h.example/org/", "https://h.example/org/ |  | "),
        (
            "https://h.example/a/b/c//x/y/",
            "https://h.example/a/b/c | x/y | ",
        ),
        (
            "https://h.example/a/b.git/x/y",
            "https://h.example/a/b.git | x/y | ",
        ),
        (
            "https://h.example/scm/project/repository.git",
            "https://h.example/scm/project/repository.git |  | ",
        ),
        (
            "https://h.example/c/p/_git/repo",
            "https://h.example/c/p/_git/repo |  | ",
        ),
        (
            "https://h.example/c/p/_git/repo/dir?version=v1.0.0",
            "https://h.example/c/p/_git/repo | dir | v1.0.0",
        ),
        (
            "https://user@h.example/o/p/_git/repo//a/b",
            "https://user@h.example/o/p/_git/repo | a/b | ",
        ),
        (
            "git@h.example:infra/deep/base.git?ref=v0.1.0",
            "git@h.example:infra/deep/base.git |  | v0.1.0",
        ),
        (
            "git@h.example:company/project.git//path?ref=branch",
            "git@h.example:company/project.git | path | branch",
        ),
        (
            "git@h.example/company/project.git//path",
            "git@h.example/company/project.git | path | ",
        ),
        (
            "git@h.example/user:name/REPO.git/path",
            "git@h.example/user:name/REPO.git | path | ",
        ),
        (
            "git@gist.example:bc7947cb.git",
            "git@gist.example:bc7947cb.git |  | ",
        ),
        (
            "ssh://git@ssh.github.com:443/USER/REPO.git",
            "ssh://git@ssh.github.com:443/USER/REPO.git |  | ",
        ),
        (
            "ssh://git@github.com/o/r//a/b?ref=v1",
            "git@github.com:o/r | a/b | v1",
        ),
        ("file:///", "file:/// |  | "),
        ("file:///a/b/c/repo?ref=main", "file:///a/b/c/repo |  | main"),
        ("file://a/b/repo//dir", "file://a/b/repo | dir | "),
        (
            "file://git@home/path/repo.git//dir",
            "file://git@home/path/repo.git | dir | ",
        ),
        (
            "https://authority/org/repo/?ref=includes_git/for_some_reason",
            "https://authority/org/repo |  | includes_git/for_some_reason",
        ),
        (
            "https://authority/org/repo/%-not-parsable",
            "https://authority/org/repo | %-not-parsable | ",
        ),
    ]);
}

#[test]
fn invalid_urls_are_refused() {
    check(&[
        ("/tmp", "uri looks like abs path: /tmp"),
        ("../../tmp", "failed to parse scheme"),
        ("src/github.com/org/repo/path", "failed to parse scheme"),
        ("iauhsdiuashduas", "failed to parse scheme"),
        ("a@b", "failed to parse repo path segment"),
        ("htxxxtp://github.com/", "failed to parse scheme"),
        ("git::___", "failed to parse scheme"),
        ("github.com!org/repo.git//path", "failed to parse scheme"),
        ("github.com", "failed to parse scheme"),
        ("gh:org/repo", "failed to parse scheme"),
        ("ssh://git.example.com", "failed to parse repo path segment"),
        (
            "https://host?ref=group/version",
            "failed to parse repo path segment",
        ),
        ("https://github.com/a.yaml", "failed to parse repo path segment"),
        ("file:////tmp//path", "failed to parse repo path segment"),
        (
            "git@scp://github.com/org/repo.git//path",
            "failed to parse repo path segment",
        ),
        (
            "git@ssh://github.com/org/repo.git//path",
            "failed to parse repo path segment",
        ),
        ("https://", "failed to parse host segment"),
        (
            "https://h.example/org/repo.git//path/../../exits/repo",
            "url path exits repo: org/repo.git//path/../../exits/repo",
        ),
    ]);
}

#[test]
fn queries() {
    for (query, reference, seconds, submodules) in [
        ("", "", 27.0, true),
        ("ref=a&version=b", "a", 27.0, true),
        ("version=b", "b", 27.0, true),
        ("ref=&version=b", "b", 27.0, true),
        ("ref=a&ref=b", "a", 27.0, true),
        ("ref=a%2Fb+c", "a/b c", 27.0, true),
        ("ref=a;b", "", 27.0, true),
        ("ref=a&x=%zz", "", 27.0, true),
        ("timeout=61", "", 61.0, true),
        ("timeout=1m1.5s", "", 61.5, true),
        ("timeout=0", "", 27.0, true),
        ("timeout=-7", "", 27.0, true),
        ("timeout=soon", "", 27.0, true),
        ("submodules=0&timeout=200ms", "", 0.2, false),
        ("submodules=no", "", 27.0, true),
    ] {
        let found = RemoteRepository::parse(&format!("https://h/o/r?{query}")).unwrap();
        let expected = (reference, Duration::from_secs_f64(seconds), submodules);
        assert_eq!(
            (found.reference.as_str(), found.timeout, found.submodules),
            expected,
            "{query}"
        );
    }
}

#[test]
fn credentials_are_not_shown() {
    for (url, expected) in [
        ("https://user:secret@h/o/r?ref=v1", "https://h/o/r?ref=v1"),
        ("https://token@h/o/r", "https://h/o/r"),
        ("https://h/f.yaml?token=secret", "https://h/f.yaml?…"),
        ("https://h/f.yaml?ref=v1&token=secret", "https://h/f.yaml?…"),
        ("ssh://git:secret@h/o/r", "ssh://git@h/o/r"),
        ("git@h:o/r", "git@h:o/r"),
        ("https://h/o/r@x", "https://h/o/r@x"),
    ] {
        assert_eq!(shown(url), expected);
    }
    let repository = RemoteRepository::parse("https://user:secret@h/o/r//d?ref=v1").unwrap();
    assert_eq!(repository.to_string(), "https://h/o/r@v1");
    assert!(!format!("{repository:?}").contains("secret"));
    assert_eq!(repository.clone_url(), "https://user:secret@h/o/r");
}

#[test]
fn paths_are_not_remote() {
    for (entry, expected) in [
        ("https://h/f.yaml", true),
        ("github.com/o/r", true),
        ("git@h:o/r", true),
        ("../base", false),
        ("a.yaml", false),
        ("https", false),
    ] {
        assert_eq!(is_remote(entry), expected, "{entry}");
    }
}
