//! Keys that a body repeats are refused in the words of the real API server.

use equate_apiserver::EmbeddedCluster;
use http::Request;
use kube::Client;
use serde_json::Value;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn send(
    client: &Client,
    (method, path, content_type): (&str, &str, &str),
    body: &str,
) -> Result<Value, String> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content_type)
        .body(body.as_bytes().to_vec())
        .unwrap();
    let answer = client.request(request).await;
    answer.map_err(|error| match error {
        kube::Error::Api(status) => status.message,
        other => panic!("{other}"),
    })
}

#[tokio::test]
async fn repeated_keys_are_named_with_their_lines() {
    let cluster = EmbeddedCluster::builder().build().await.unwrap();
    let client = cluster.client();
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  foo: a\n  bar: b\n  foo: c\n  \
                bar: d\nother: 1\n";
    let lines = "yaml: unmarshal errors:\n  line 8: key \"foo\" already set in map\n  line 9: key \"bar\" already \
                 set in map";
    let strict = |verb: &str| format!("{MAPS}{verb}fieldValidation=Strict");
    let refused = send(&client, ("POST", &strict("?"), "application/yaml"), yaml).await;
    assert_eq!(
        refused.unwrap_err(),
        format!(
            "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: strict decoding error: {lines}, unknown \
             field \"other\""
        )
    );
    let known = yaml.replace("other: 1\n", "");
    let apply = strict("/a?fieldManager=me&");
    let to_apply = ("PATCH", apply.as_str(), "application/apply-patch+yaml");
    let refused = send(&client, to_apply, &known).await;
    assert_eq!(
        refused.unwrap_err(),
        format!("error strict decoding YAML: error converting YAML to JSON: {lines}")
    );
    // JSON is YAML, too
    let json =
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"foo":"a","foo":"b"}}"#;
    let refused = send(&client, to_apply, json).await;
    assert_eq!(
        refused.unwrap_err(),
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  line 1: key \"foo\" \
         already set in map"
    );
    // without validation the last value counts
    let lenient = format!("{MAPS}?fieldValidation=Ignore");
    let created = send(&client, ("POST", &lenient, "application/yaml"), &known).await;
    assert_eq!(created.unwrap()["data"]["foo"], "c");
    let merge = ("PATCH", &*strict("/a?"), "application/merge-patch+json");
    let refused = send(&client, merge, r#"{"data":{"foo":"a","foo":"b"}}"#).await;
    assert_eq!(
        refused.unwrap_err(),
        "strict decoding error: duplicate field \"data.foo\""
    );
}
