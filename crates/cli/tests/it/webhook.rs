//! A remote repository with a poll interval that leaves the webhook as the only way to notice a commit.

use super::session::Fleet;
use std::io::{Read, Write};
use std::net::TcpStream;

const DEPLOYMENT: &str = "apps/base/web/deployment.yaml";

/// Sends an empty POST to `http://HOST:PORT/PATH`; returns the status line.
fn post(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "POST /{path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.lines().next().unwrap_or_default().to_owned()
}

#[test]
fn webhook_triggers_a_reconciliation() {
    let fleet = Fleet::example();
    let Some(server) = fleet.serve() else {
        return;
    };
    let url = server.url();
    let here = Fleet::empty();
    let up = here.up_with(&[&*url, "--poll", "1h"], "ready    Kustomization/apps");
    let endpoints: serde_json::Value = serde_json::from_str(&here.read(".equate/endpoints.json")).unwrap();
    let hook = endpoints["webhook"].as_str().unwrap();

    let (front, _) = hook.rsplit_once('/').unwrap();
    assert!(post(&format!("{front}/guess")).contains(" 404 "));

    let more = fleet.read(DEPLOYMENT).replace("replicas: 1", "replicas: 2");
    let revision = fleet.commit(DEPLOYMENT, Some(&more));
    assert!(post(hook).contains(" 202 "));
    up.wait_for(&format!("ready    Kustomization/apps  HEAD@{}", &revision[..7]));
    let output = here.equate(&["get", "kustomization", "apps", "-o", "json"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains(&revision), "{text}");
    assert!(up.interrupt());
}
