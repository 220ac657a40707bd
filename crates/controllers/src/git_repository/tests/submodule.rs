//! `spec.recurseSubmodules`, on the embedded API; skipped with a line where git is not installed.

use std::path::Path;
use std::process::Command;

use equate_testkit::git::Repository;
use serde_json::json;

use super::include::{holds, spec};
use super::run::Session;

const OTHER: &str = "https://local.invalid/other";
const INNER: &str = "https://inner.invalid/deep/inner.git";

/// The output of git in a repository; `None` when it is not installed.
fn git(repository: &Repository, arguments: &[&str]) -> Option<String> {
    let none = Path::new("/dev/null");
    let output = Command::new("git")
        .arg("-C")
        .arg(repository.path())
        .args(["-c", "user.name=a", "-c", "user.email=a@b"])
        .args(arguments)
        .envs([("GIT_CONFIG_GLOBAL", none), ("GIT_CONFIG_SYSTEM", none)])
        .env("GIT_INDEX_FILE", repository.path().join("index-of-a-test"))
        .output();
    match output {
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "git {arguments:?}: {said}");
            Some(String::from_utf8(output.stdout).unwrap().trim().to_owned())
        }
        Err(error) => {
            println!("skipped: git: {error}");
            None
        }
    }
}

/// A commit on `main` with these files, and submodule commits at these paths.
fn commit(repository: &Repository, files: &[(&str, Option<&str>)], links: &[(&str, &str)]) -> Option<String> {
    let plain = repository.commit(files).unwrap();
    git(repository, &["read-tree", &plain])?;
    for (path, commit) in links {
        git(
            repository,
            &[
                "update-index",
                "--add",
                "--cacheinfo",
                &format!("160000,{commit},{path}"),
            ],
        )?;
    }
    let tree = git(repository, &["write-tree"])?;
    let linked = git(repository, &["commit-tree", "-m", "linked", "-p", &plain, &tree])?;
    repository.set_branch("main", &linked).unwrap();
    Some(linked)
}

fn modules(all: &[(&str, &str)]) -> String {
    all.iter()
        .map(|(path, url)| {
            format!("[submodule \"{path}\"]\n\tpath = {path}\n\turl = {url}\n\tupdate = !false\n")
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn git_repository_recurse_submodules() {
    let mut session = Session::start().await;
    let (other, inner) = (Repository::init().unwrap(), Repository::init().unwrap());
    session.others.push((OTHER.to_owned(), other.path().to_owned()));
    session.others.push((INNER.to_owned(), inner.path().to_owned()));
    let innermost = inner
        .commit(&[("i.yaml", Some("i: 1\n")), ("skip.md", Some("no"))])
        .unwrap();
    let text = modules(&[("in", INNER)]);
    let files = [
        (".gitmodules", Some(&*text)),
        ("b.yaml", Some("b: 1\n")),
        (".sourceignore", Some("*.md\n")),
    ];
    let Some(middle) = commit(&other, &files, &[("in", &innermost)]) else {
        return;
    };
    // the recorded commit counts, not the submodule's present branch
    other.commit(&[("later.yaml", Some("l: 1\n"))]).unwrap();
    // as git reads it: one name in two places, a slash after a path; a path outside is no submodule
    let text = format!(
        "[submodule \"o\"]\n\tpath = vendor/other/\n\turl = https://gone.invalid/x\n{}[submodule \"o\"]\n\turl = \
         ../other.git\n",
        modules(&[
            ("not-a-link", OTHER),
            ("../out", OTHER),
            ("/abs", OTHER),
            ("a//b", "-x"),
        ])
    );
    let files = [(".gitmodules", Some(&*text)), ("own.yaml", Some("a: 1\n"))];
    let outer = commit(
        &session.repository,
        &files,
        &[("vendor/other", &middle), ("unnamed", &middle)],
    )
    .unwrap();
    let running = session.run().await;
    session.create(spec(json!({}))).await;
    let bare = ["own.yaml", "unnamed/", "vendor/", "vendor/other/"];
    holds(&session, &running, &bare).await;

    session
        .patch(json!({ "spec": { "recurseSubmodules": true } }))
        .await;
    let whole = [
        "own.yaml",
        "unnamed/",
        "vendor/",
        "vendor/other/",
        "vendor/other/.sourceignore",
        "vendor/other/b.yaml",
        "vendor/other/in/",
        "vendor/other/in/i.yaml",
    ];
    let before = holds(&session, &running, &whole).await;
    assert!(before.observed_recurse_submodules);
    assert_eq!(
        before.artifact.as_ref().unwrap().revision,
        format!("main@sha1:{outer}")
    );

    let check = async |url: &str, message: &str| {
        let text = modules(&[("vendor/other", url)]);
        commit(
            &session.repository,
            &[(".gitmodules", Some(&*text))],
            &[("vendor/other", &middle)],
        )
        .unwrap();
        let status = session.ready("GitOperationFailed", message).await;
        assert_eq!(status.artifact, before.artifact, "{url}");
    };
    check(
        "/etc",
        "the url of submodule \"vendor/other\" is refused: a local path is not followed",
    )
    .await;
    check("file:///etc", "the url's scheme \"file\" is not supported").await;
    check("ext::sh -c id", "remote helpers are not supported").await;
    check("--upload-pack=id", "it looks like an option").await;
    check("ssh://-oProxyCommand=id/x", "the url's host is invalid").await;
    check("https://me:pw@elsewhere.invalid/x", "it contains a password").await;
    check("../../../x", "it leaves the parent's host").await;
    let text = modules(&[("-x", OTHER)]);
    let files = [(".gitmodules", Some(&*text))];
    let linked = commit(&session.repository, &files, &[("-x", &middle)]).unwrap();
    let message = "\".gitmodules\" cannot be read: the path \"-x\" is invalid";
    let status = session.ready("GitOperationFailed", message).await;
    let kept = status.artifact.unwrap().revision;
    assert_ne!(kept, format!("main@sha1:{linked}"));

    session
        .patch(json!({ "spec": { "recurseSubmodules": null, "ref": { "commit": outer } } }))
        .await;
    let status = holds(&session, &running, &bare).await;
    assert!(!status.observed_recurse_submodules);
}
