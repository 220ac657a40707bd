//! Clusters of kubeconfigs that never end (rows 1 and 2).

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::{Attack, attack};
use crate::hostile::ground::{Ground, Sign, Threat};
use crate::hostile::servers::{Connection, Server};
use crate::hostile::session::Outcome;

/// Kustomizations of each attack: twice the workers of a controller.
const KUSTOMIZATIONS: usize = 16;
const OBJECT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: default\ndata: {}\n";

pub(super) fn all() -> Vec<Attack> {
    vec![
        attack("cluster: accepts and is silent", |ground| {
            Box::pin(async move {
                let server = Server::silent().await?;
                kubeconfigs(ground, server, 4).await
            })
        }),
        attack("cluster: sends heads and no bodies", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    while connection.head().await?.is_some() {
                        connection.begin("application/json").await?;
                        connection.silent().await?;
                    }
                    Ok(())
                });
                kubeconfigs(ground, server.await?, 4).await
            })
        }),
        attack("cluster: drips a byte per second", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    while connection.head().await?.is_some() {
                        connection.begin("application/json").await?;
                        connection.drip(b' ').await?;
                    }
                    Ok(())
                });
                kubeconfigs(ground, server.await?, 4).await
            })
        }),
        attack("cluster: endless discovery", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    while connection.head().await?.is_some() {
                        connection.begin("application/json").await?;
                        connection
                            .send(br#"{"kind":"APIVersions","versions":["v1""#)
                            .await?;
                        connection.endless(&br#","vvvvvvvv""#.repeat(4096)).await?;
                    }
                    Ok(())
                });
                kubeconfigs(ground, server.await?, 4).await
            })
        }),
        attack("cluster: lists without end", |ground| {
            Box::pin(async move { kubeconfigs(ground, false_cluster(Watch::Silent, true).await?, 12).await })
        }),
        attack("cluster: events without end", |ground| {
            Box::pin(async move { kubeconfigs(ground, false_cluster(Watch::Events, false).await?, 12).await })
        }),
        attack("cluster: an event without end", |ground| {
            Box::pin(
                async move { kubeconfigs(ground, false_cluster(Watch::OneEvent, false).await?, 12).await },
            )
        }),
    ]
}

/// Kustomizations that apply to this server, each with its own kubeconfig.
async fn kubeconfigs(ground: &Ground<'_>, server: Server, contacts: usize) -> Outcome<Threat> {
    let tree = ground.tree(&[("a.yaml", OBJECT)]).await?;
    let mut objects = Vec::new();
    for number in 0..KUSTOMIZATIONS {
        let name = format!("cluster-{number}");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{ "name": "c", "cluster": { "server": format!("http://{}", server.address()) } }],
            "contexts": [{ "name": "c", "context": { "cluster": "c", "user": "u" } }],
            "users": [{ "name": "u", "user": { "token": name } }],
        });
        ground
            .secret(&name, json!({ "value": kubeconfig.to_string() }))
            .await?;
        let more = json!({ "kubeConfig": { "secretRef": { "name": name } }, "targetNamespace": "default" });
        objects.push(ground.kustomization(&name, more));
    }
    ground.create_all(objects).await?;
    let sign = Sign::Contacted(server.contacts(), contacts);
    Ok(Threat::new(sign).holding(server).holding(tree))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Watch {
    Silent,
    Events,
    OneEvent,
}

/// A cluster with ConfigMaps, whose lists and watches have no end.
async fn false_cluster(watch: Watch, endless_lists: bool) -> io::Result<Server> {
    let pages = Arc::new(AtomicUsize::new(0));
    Server::start(move |connection| serve(connection, watch, endless_lists, Arc::clone(&pages))).await
}

async fn serve(
    mut connection: Connection,
    watch: Watch,
    endless_lists: bool,
    pages: Arc<AtomicUsize>,
) -> io::Result<()> {
    let page: Vec<String> = (0..500).map(|at| object(&format!("o{at}")).to_string()).collect();
    let page = page.join(",");
    while let Some(head) = connection.head().await? {
        let (path, query) = head.path.split_once('?').unwrap_or((&head.path, ""));
        match path {
            "/api" => connection.json(200, &discovery(true)).await?,
            "/apis" => connection.json(200, &discovery(false)).await?,
            _ if query.contains("watch=true") => {
                connection.begin("application/json").await?;
                match watch {
                    Watch::Silent => connection.silent().await?,
                    Watch::Events => {
                        let event = json!({ "type": "ADDED", "object": object("event") });
                        let events = format!("{event}\n").repeat(100);
                        connection.endless(events.as_bytes()).await?;
                    }
                    Watch::OneEvent => {
                        connection
                            .send(br#"{"type":"ADDED","object":{"metadata":{"name":""#)
                            .await?;
                        connection.endless(&[b'a'; 4096]).await?;
                    }
                }
            }
            _ if query.contains("limit=") => {
                let number = pages.fetch_add(1, Ordering::Relaxed);
                let (items, token) = match endless_lists {
                    true => (&*page, number.to_string()),
                    false => ("", String::new()),
                };
                let list = format!(
                    r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"1","continue":"{token}"}},"items":[{items}]}}"#
                );
                connection
                    .answer(200, "application/json", list.as_bytes())
                    .await?;
            }
            _ => connection.json(200, &object("a")).await?,
        }
    }
    Ok(())
}

fn object(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": "default", "uid": name, "resourceVersion": "1" },
    })
}

fn discovery(core: bool) -> Value {
    let verbs = ["create", "delete", "get", "list", "patch", "update", "watch"];
    let core = core.then(|| {
        json!({ "metadata": {}, "versions": [{ "version": "v1", "freshness": "Current", "resources": [{
            "resource": "configmaps", "singularResource": "configmap", "scope": "Namespaced", "verbs": verbs,
            "responseKind": { "group": "", "version": "v1", "kind": "ConfigMap" },
        }] }] })
    });
    let items: Vec<Value> = core.into_iter().collect();
    json!({ "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items })
}
