use std::fs;

use clap::Parser;
use equate_registry::Repository;
use equate_testkit::registry::{RegistryGuard, RegistryOptions, RegistryServer};
use jiff::Timestamp;
use serde_json::Value;

use super::*;

#[derive(Debug, Parser)]
enum Line {
    Push(push::Args),
    Pull(pull::Args),
}

async fn execute(words: &[&str]) -> Result<String, String> {
    let line = Line::try_parse_from([&["equate"][..], words].concat()).map_err(|error| error.to_string())?;
    let told = |error: ArtifactError| crate::failure::chain(&error);
    match line {
        Line::Push(args) => {
            let pushed = push::push(&args, Timestamp::UNIX_EPOCH).await.map_err(told)?;
            Ok(format!("{}:{}@{}", pushed.0, pushed.1, pushed.2))
        }
        Line::Pull(args) => pull::pull(&args).await.map_err(told),
    }
}

#[tokio::test]
async fn an_artifact_is_pushed_and_pulled() {
    let server = RegistryServer::start(RegistryOptions {
        guard: RegistryGuard::Token("me".to_owned(), "secret".to_owned()),
        ..RegistryOptions::default()
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir_all(path("in/sub")).unwrap();
    fs::create_dir(path("out")).unwrap();
    for (name, text) in [
        ("in/a.yaml", "a: 1\n"),
        ("in/sub/b.yaml", "b: 1\n"),
        ("in/c.png", ""),
    ] {
        fs::write(path(name), text).unwrap();
    }
    let url = format!("{}/org/app:v1", server.url());
    let input = path("in");
    let mut words = vec![
        "push",
        "artifact",
        &url,
        "--path",
        &input,
        "--source",
        "https://git/app",
        "--revision",
        "main@sha1:1",
        "--creds",
        "me:secret",
        "-a",
        "a=b=c",
    ];
    let pushed = execute(&words).await.unwrap();
    let again = execute(&words).await.unwrap();
    assert_eq!(pushed, again, "the same content has the same digest");
    let manifest = server.stored_manifest("org/app", "v1").unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["config"]["mediaType"], CONFIG);
    assert_eq!(manifest["layers"][0]["mediaType"], CONTENT);
    assert_eq!(manifest["annotations"][CREATED], "1970-01-01T00:00:00Z");
    assert_eq!(manifest["annotations"][SOURCE], "https://git/app");
    assert_eq!(manifest["annotations"]["a"], "b=c");
    let output = path("out");
    let pull = [
        "pull",
        "artifact",
        &url,
        "--creds",
        "me:secret",
        "--output",
        &output,
    ];
    let said = execute(&pull).await.unwrap();
    assert!(
        said.starts_with("source https://git/app\nrevision main@sha1:1\ndigest "),
        "{said}"
    );
    assert_eq!(fs::read_to_string(path("out/sub/b.yaml")).unwrap(), "b: 1\n");
    assert!(!folder.path().join("out/c.png").exists());
    // one file
    let file = path("in/a.yaml");
    words[4] = &file;
    execute(&words).await.unwrap();
    words[10] = "me:wrong";
    let error = execute(&words).await.unwrap_err();
    assert!(
        error.contains("wrong credentials") && !error.contains("me:wrong"),
        "{error}"
    );
}

#[tokio::test]
async fn wrong_words_are_refused() {
    let check = async |words: &[&str], want: &str| {
        let error = execute(words).await.unwrap_err();
        assert!(error.contains(want), "{error}");
    };
    check(
        &["pull", "image", "oci://a.io/x", "-o", "."],
        "use `equate pull artifact URL`",
    )
    .await;
    check(
        &["pull", "artifact", "a.io/x", "-o", "."],
        "must begin with oci://",
    )
    .await;
    check(
        &["pull", "artifact", "oci://a.io/X", "-o", "."],
        "repository can only contain",
    )
    .await;
    check(
        &["pull", "artifact", "oci://a.io/x", "-o", ".", "--provider", "aws"],
        "--provider aws is not supported",
    )
    .await;
    check(
        &["pull", "artifact", "oci://a.io/x", "-o", "/nowhere"],
        "is not a directory",
    )
    .await;
}

#[test]
fn logins_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let (docker, podman) = (folder.path().join("config.json"), folder.path().join("auth.json"));
    let entry = |host: &str, name: &str| {
        format!(
            r#"{{"auths": {{"{host}": {{"username": "{name}", "password": "p"}}}}, "credsStore": "desktop"}}"#
        )
    };
    fs::write(&docker, entry("a.io", "docker")).unwrap();
    fs::write(&podman, entry("b.io", "podman")).unwrap();
    let files = [docker.clone(), folder.path().join("missing.json"), podman];
    let name = |host: &str| {
        let repository = Repository::parse(&format!("{host}/x")).unwrap();
        match own_credentials(&files, &repository).unwrap() {
            Some(Credentials::Basic { username, .. }) => Some(username),
            _ => None,
        }
    };
    assert_eq!(
        [name("a.io"), name("b.io"), name("c.io")].map(Option::unwrap_or_default),
        ["docker", "podman", ""]
    );
    fs::write(&docker, "{").unwrap();
    let repository = Repository::parse("a.io/x").unwrap();
    assert!(matches!(
        own_credentials(&files, &repository),
        Err(ArtifactError::Config { .. })
    ));
}
