//! Conversion webhooks: the same requests and the same webhook for the embedded and the real API.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use equate_testkit::cluster::Cluster;
use equate_testkit::web::{WebOptions, WebServer};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::{Value, json};

use crate::peer::real_cluster;

const GROUP: &str = "/apis/hooks.example.com";
const DEADLINE: Duration = Duration::from_secs(60);

/// Between `size: 3` of v1 and `length: "3"` of v2. Some names get a wrong answer.
fn convert(body: &[u8]) -> (u16, String) {
    let review: Value = serde_json::from_slice(body).unwrap();
    let request = &review["request"];
    let wanted = request["desiredAPIVersion"].as_str().unwrap();
    let mut response = json!({ "uid": request["uid"], "result": { "status": "Success" } });
    let mut converted = Vec::new();
    let mut status = 200;
    for object in request["objects"].as_array().unwrap() {
        let mut new = object.clone();
        new["apiVersion"] = json!(wanted);
        new["metadata"]["labels"] = json!({ "shown-as": wanted.rsplit('/').next() });
        new["metadata"]["generation"] = json!(77);
        new["spec"]["unknown"] = json!(true);
        let spec = new["spec"].as_object_mut().unwrap();
        if let Some(size) = spec.remove("size") {
            spec.insert("length".to_owned(), json!(size.to_string()));
        } else if let Some(length) = spec.remove("length") {
            match length.as_str().unwrap().parse::<i64>() {
                Ok(size) => drop(spec.insert("size".to_owned(), json!(size))),
                Err(_) => {
                    response["result"] = json!({ "status": "Failure", "message": "the length is no number" });
                }
            }
        }
        match object["metadata"]["name"].as_str().unwrap() {
            "no-object" => continue,
            "other-uid" => new["metadata"]["uid"] = json!("other"),
            "other-name" => new["metadata"]["name"] = json!("other"),
            "other-kind" => new["kind"] = json!("Gadget"),
            "other-version" => new["apiVersion"] = json!("hooks.example.com/v3"),
            "no-text" => new["metadata"]["labels"] = json!({ "a": 1 }),
            "no-label" => new["metadata"]["labels"] = json!({ "a b": "c" }),
            "no-metadata" => drop(new.as_object_mut().unwrap().remove("metadata")),
            "other-question" => response["uid"] = json!("other"),
            "no-result" => response["result"] = json!({}),
            "no-answer" => status = 500,
            "absent" => status = 404,
            _ => {}
        }
        converted.push(new);
    }
    if status != 200 {
        return (status, "out of order".to_owned());
    }
    response["convertedObjects"] = json!(converted);
    let answer =
        json!({ "apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response });
    (200, answer.to_string())
}

fn definition(plural: &str, kind: &str, client: &Value) -> Value {
    let version = |name: &str, field: &str, of: &str, storage: bool| {
        let spec = json!({ "type": "object", "properties": { field: { "type": of }, "count": { "type": "integer" } } });
        let status = json!({
            "type": "object",
            "properties": { "done": { "type": "boolean" }, "count": { "type": "integer" } },
        });
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": spec, "status": status } } },
            "subresources": { "status": {}, "scale": { "specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count" } },
            "selectableFields": [{ "jsonPath": format!(".spec.{field}") }],
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.hooks.example.com") },
        "spec": {
            "group": "hooks.example.com", "scope": "Namespaced",
            "names": { "plural": plural, "kind": kind },
            "versions": [version("v1", "size", "integer", true), version("v2", "length", "string", false)],
            "conversion": {
                "strategy": "Webhook",
                "webhook": { "clientConfig": client, "conversionReviewVersions": ["v1"] },
            },
        },
    })
}

async fn ask(cluster: &Cluster, method: &str, path: &str, body: &Value) -> Value {
    let kind = match method {
        "PATCH" if path.contains("fieldManager") => "application/apply-patch+yaml",
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = match body {
        Value::Null => Vec::new(),
        body => body.to_string().into_bytes(),
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind)
        .body(Body::from(body))
        .unwrap();
    let response = cluster.client().unwrap().send(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8_lossy(&bytes);
    // a watch has a line for each event
    let lines: Vec<Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    let mut answer = json!({ "status": status, "body": lines });
    settle(&mut answer);
    answer
}

/// Takes away what differs in each run.
fn settle(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for name in ["uid", "creationTimestamp", "resourceVersion", "time"] {
                map.remove(name);
            }
            if let Some(Value::String(message)) = map.get_mut("message") {
                let ids: Vec<String> = message
                    .split([' ', '"'])
                    .filter(|word| {
                        word.len() == 36 && word.chars().all(|c| c == '-' || c.is_ascii_hexdigit())
                    })
                    .map(str::to_owned)
                    .collect();
                for id in ids {
                    *message = message.replace(&id, "UID");
                }
            }
            map.values_mut().for_each(settle);
        }
        Value::Array(items) => items.iter_mut().for_each(settle),
        _ => {}
    }
}

/// Creates a definition and waits until its resource is served.
async fn define(cluster: &Cluster, plural: &str, kind: &str, client: &Value) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let answer = ask(cluster, "POST", path, &definition(plural, kind, client)).await;
    assert_eq!(answer["status"], 201, "{answer}");
    let started = tokio::time::Instant::now();
    for version in ["v1", "v2"] {
        let path = format!("{GROUP}/{version}/namespaces/default/{plural}");
        while ask(cluster, "GET", &path, &Value::Null).await["status"] != 200 {
            assert!(started.elapsed() < DEADLINE, "{plural} is not served");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn widget(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("hooks.example.com/{version}"), "kind": "Widget",
        "metadata": { "name": name }, "spec": spec,
    })
}

/// The answers to all requests, each with its request.
async fn run(cluster: &Cluster) -> Vec<(String, Value)> {
    let hook = WebServer::start(WebOptions {
        tls: true,
        ..WebOptions::default()
    })
    .unwrap();
    hook.handle("/convert", convert);
    let client = json!({
        "url": format!("{}/convert", hook.url()),
        "caBundle": STANDARD.encode(hook.certificate().unwrap()),
    });
    define(cluster, "widgets", "Widget", &client).await;
    let (v1, v2) = ("v1/namespaces/default/widgets", "v2/namespaces/default/widgets");
    let length = |name: &str, length: &str| widget("v2", name, &json!({ "length": length }));
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": { "name": "a", "namespace": "default" },
        "spec": { "replicas": 2 },
    });
    let mut asked = vec![
        ("POST", v2.to_owned(), length("a", "3")),
        ("POST", format!("{v2}?dryRun=All"), length("d", "3")),
        ("POST", v1.to_owned(), widget("v1", "b", &json!({ "size": 4 }))),
        ("GET", format!("{v1}/a"), Value::Null),
        ("GET", format!("{v2}/a"), Value::Null),
        ("GET", format!("{v2}/b"), Value::Null),
        ("GET", v1.to_owned(), Value::Null),
        ("GET", v2.to_owned(), Value::Null),
        ("GET", format!("{v2}?labelSelector=shown-as%3Dv2"), Value::Null),
        ("GET", format!("{v2}?labelSelector=shown-as%3Dv1"), Value::Null),
        ("GET", format!("{v2}?fieldSelector=spec.length%3D4"), Value::Null),
        ("GET", format!("{v2}?watch=1&timeoutSeconds=1"), Value::Null),
        (
            "PATCH",
            format!("{v2}/a?dryRun=All"),
            json!({ "spec": { "length": "9" } }),
        ),
        ("PATCH", format!("{v2}/a"), json!({ "spec": { "length": "5" } })),
        ("PATCH", format!("{v2}/a"), json!({ "spec": { "length": "5" } })),
        (
            "PATCH",
            format!("{v2}/a/status"),
            json!({ "status": { "done": true } }),
        ),
        ("PUT", format!("{v2}/a/scale"), scale),
        ("GET", format!("{v2}/a/scale"), Value::Null),
        ("GET", format!("{v1}/a"), Value::Null),
        (
            "PATCH",
            format!("{v2}/a"),
            json!({ "spec": { "length": "five" } }),
        ),
        ("PUT", format!("{v2}/b"), length("b", "6")),
        ("GET", format!("{v1}/b"), Value::Null),
        ("PATCH", format!("{v2}/c?fieldManager=tests"), length("c", "7")),
        ("PATCH", format!("{v2}/c?fieldManager=tests"), length("c", "8")),
        ("GET", format!("{v1}/c"), Value::Null),
        ("DELETE", format!("{v2}/b"), Value::Null),
        ("GET", format!("{v2}/b"), Value::Null),
    ];
    for name in [
        "no-object",
        "other-uid",
        "other-name",
        "other-kind",
        "other-version",
        "no-text",
        "no-label",
        "no-metadata",
        "other-question",
        "no-result",
        "no-answer",
        "absent",
    ] {
        asked.push(("POST", v2.to_owned(), length(name, "1")));
    }
    let mut answers = Vec::new();
    for (method, path, body) in asked {
        let answer = ask(cluster, method, &format!("{GROUP}/{path}"), &body).await;
        answers.push((format!("{method} {path} {body}"), answer));
    }
    drop(hook);
    let answer = ask(cluster, "POST", &format!("{GROUP}/{v2}"), &length("z", "1")).await;
    let message = answer["body"][0]["message"].as_str().unwrap().to_owned();
    let prefix = format!(
        "conversion webhook for hooks.example.com/v2, Kind=Widget failed: Post \"{}?timeout=30s\": ",
        client["url"].as_str().unwrap()
    );
    assert!(message.starts_with(&prefix), "{message}");
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn webhook_converts_on_the_way_in_and_out() {
    let cluster = Cluster::named("embedded", &mut |_| {}).await.unwrap();
    let answers = run(&cluster).await;
    cluster.stop().await.unwrap();
    let of = |start: &str| {
        let found = answers.iter().find(|(asked, _)| asked.starts_with(start));
        &found.unwrap_or_else(|| panic!("nobody asked {start}")).1
    };
    let created = of("POST v2/namespaces/default/widgets {");
    assert_eq!(created["status"], 201, "{created}");
    assert_eq!(created["body"][0]["spec"], json!({ "length": "3" }));
    assert_eq!(created["body"][0]["metadata"]["generation"], 1);
    let stored = of("GET v1/namespaces/default/widgets/a");
    assert_eq!(stored["body"][0]["spec"], json!({ "size": 3 }));
    assert_eq!(
        stored["body"][0]["metadata"]["labels"],
        json!({ "shown-as": "v1" })
    );
    let selected = of("GET v2/namespaces/default/widgets?fieldSelector");
    let names: Vec<&Value> = selected["body"][0]["items"].as_array().unwrap().iter().collect();
    assert_eq!(names.len(), 1, "{selected}");
    assert_eq!(names[0]["metadata"]["name"], "b");
    let watched = of("GET v2/namespaces/default/widgets?watch");
    assert_eq!(
        watched["body"][0]["object"]["spec"],
        json!({ "length": "3" }),
        "{watched}"
    );
    let refused = of("PATCH v2/namespaces/default/widgets/a {\"spec\":{\"length\":\"five\"}}");
    assert_eq!(refused["status"], 500);
    assert_eq!(
        refused["body"][0]["message"],
        "conversion webhook for hooks.example.com/v2, Kind=Widget failed: the length is no number"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn both_convert_alike() {
    let Some(real) = real_cluster().await else { return };
    let expected = run(&real).await;
    real.stop().await.unwrap();
    let embedded = Cluster::named("embedded", &mut |_| {}).await.unwrap();
    let actual = run(&embedded).await;
    embedded.stop().await.unwrap();
    let mut differences = 0;
    for ((asked, expected), (_, actual)) in expected.iter().zip(&actual) {
        if expected != actual {
            differences += 1;
            println!("{asked}\n  real     {expected}\n  embedded {actual}");
        }
    }
    assert_eq!(differences, 0);
}
