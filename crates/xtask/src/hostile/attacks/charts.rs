//! Chart repositories, registries, buckets, charts and releases.

use std::fmt::Write as _;
use std::io;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Attack, attack};
use crate::hostile::archive;
use crate::hostile::ground::{Ground, Rule, Sign, Threat, digest};
use crate::hostile::servers::{Connection, Server};
use crate::hostile::session::Outcome;

const MIB: usize = 1 << 20;
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CHART: &str = "apiVersion: v2\nname: demo\nversion: 1.0.0\n";
const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  a: {{ .Values.a | quote }}\n";

pub(super) fn all() -> Vec<Attack> {
    let mut all = indexes();
    all.extend(registries());
    all.extend(releases());
    all
}

fn indexes() -> Vec<Attack> {
    vec![
        attack("index: many MiB of entries", |ground| {
            Box::pin(async move {
                let index = long_index(ground.pick(8, 50));
                let server = Server::file(index.into_bytes()).await?;
                charts(ground, server).await
            })
        }),
        attack("index: entries without end", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    while connection.head().await?.is_some() {
                        connection.begin("text/yaml").await?;
                        connection.send(b"apiVersion: v1\nentries:\n  demo:\n").await?;
                        let entry = "  - {name: demo, version: 1.0.0, urls: [a.tgz]}\n";
                        connection.endless(entry.repeat(1000).as_bytes()).await?;
                    }
                    Ok(())
                });
                charts(ground, server.await?).await
            })
        }),
        attack("index: aliases that multiply", |ground| {
            Box::pin(async move {
                let mut index = "apiVersion: v1\nb0: &b0 [a, a, a, a, a, a, a, a, a, a]\n".to_owned();
                for number in 1..12 {
                    let list = vec![format!("*b{}", number - 1); 10].join(", ");
                    writeln!(index, "b{number}: &b{number} [{list}]")?;
                }
                index.push_str("entries:\n  demo: *b11\n");
                charts(ground, Server::file(index.into_bytes()).await?).await
            })
        }),
        attack("index: drips a byte per second", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    while connection.head().await?.is_some() {
                        connection.begin("text/yaml").await?;
                        connection.drip(b' ').await?;
                    }
                    Ok(())
                });
                let server = server.await?;
                let sign = Sign::Contacted(server.contacts(), 1);
                let threat = charts(ground, server).await?;
                Ok(Threat { sign, ..threat })
            })
        }),
        attack("index: leads to an internal address", |ground| {
            Box::pin(async move {
                let internal = Server::file(Vec::new()).await?;
                // the unspecified address is this host's, too
                let location = format!("http://0.0.0.0:{}/internal", internal.address().port());
                let server = Server::start(move |mut connection| {
                    let location = location.clone();
                    async move {
                        while connection.head().await?.is_some() {
                            let head = format!(
                                "HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
                            );
                            connection.send(head.as_bytes()).await?;
                        }
                        Ok(())
                    }
                });
                let rule = Rule::Untouched(internal.contacts());
                let threat = charts(ground, server.await?).await?;
                Ok(threat.holding(internal).rule(rule))
            })
        }),
    ]
}

fn registries() -> Vec<Attack> {
    vec![
        attack("registry: tags without end", |ground| {
            Box::pin(async move {
                registry(
                    ground,
                    |path, _| match path.contains("/tags/list") {
                        true => {
                            let tags: Vec<String> = (0..500).map(|number| format!("0.0.{number}")).collect();
                            let body = json!({ "name": "a", "tags": tags }).to_string();
                            Answer::Page(body.into_bytes())
                        }
                        false => Answer::Empty,
                    },
                    json!({ "semver": ">=1.0.0" }),
                )
                .await
            })
        }),
        attack("registry: tags of megabytes with a pattern", |ground| {
            Box::pin(async move {
                registry(
                    ground,
                    |path, _| match path.contains("/tags/list") {
                        true => {
                            let tag = "ab".repeat(2 * MIB - 100);
                            Answer::Page(json!({ "name": "a", "tags": [tag] }).to_string().into_bytes())
                        }
                        false => Answer::Empty,
                    },
                    json!({ "semver": ">=1.0.0", "semverFilter": "(a|b)*a(a|b){900}z" }),
                )
                .await
            })
        }),
        attack(
            "registry: a pattern that is slow for each of 30,000 tags",
            |ground| {
                Box::pin(async move {
                    registry(
                        ground,
                        |path, _| match path.contains("/tags/list") {
                            true => {
                                let tags: Vec<String> = (0..30_000)
                                    .map(|number| {
                                        format!("{number:0128b}").replace('0', "a").replace('1', "b")
                                    })
                                    .collect();
                                let body = json!({ "name": "a", "tags": tags }).to_string();
                                Answer::Body("application/json", body.into_bytes())
                            }
                            false => Answer::Empty,
                        },
                        json!({ "semver": ">=1.0.0", "semverFilter": "((a|b)*a(a|b){20}(a?b?){1000})+z" }),
                    )
                    .await
                })
            },
        ),
        attack("registry: a manifest without end", |ground| {
            Box::pin(async move {
                registry(
                    ground,
                    |path, _| match path.contains("/manifests/") {
                        true => Answer::Endless,
                        false => Answer::Empty,
                    },
                    json!({ "tag": "1" }),
                )
                .await
            })
        }),
        attack("registry: a layer of 4 GiB", |ground| {
            Box::pin(async move {
                registry(
                    ground,
                    |path, bomb| match path.contains("/blobs/") {
                        true => Answer::Body("application/octet-stream", bomb.bytes.clone()),
                        false => Answer::Body(MANIFEST, manifest(&bomb.digest, bomb.bytes.len())),
                    },
                    json!({ "tag": "1" }),
                )
                .await
                .map(refused)
            })
        }),
        attack("registry: layers of many large files that are read", |ground| {
            Box::pin(async move {
                let threat = registry_of(
                    ground,
                    archive::large_files(10, ground.pick(3, 99))?,
                    |path, bomb| match path.contains("/blobs/") {
                        true => Answer::Body("application/octet-stream", bomb.bytes.clone()),
                        false => Answer::Body(MANIFEST, manifest(&bomb.digest, bomb.bytes.len())),
                    },
                    json!({ "tag": "1" }),
                )
                .await?;
                for number in 0..4 {
                    let source = json!({ "kind": "OCIRepository", "name": format!("r{number}") });
                    let reader = ground.kustomization(&format!("k{number}"), json!({ "sourceRef": source }));
                    ground.create(reader).await?;
                }
                let sign = Sign::Said("Kustomization", "k0", "build failed");
                Ok(Threat { sign, ..threat })
            })
        }),
        attack("registry: a layer with another digest", |ground| {
            Box::pin(async move {
                registry(
                    ground,
                    |path, bomb| match path.contains("/blobs/") {
                        true => Answer::Body("application/octet-stream", bomb.bytes.clone()),
                        false => Answer::Body(MANIFEST, manifest(&digest(b"other"), bomb.bytes.len())),
                    },
                    json!({ "tag": "1" }),
                )
                .await
                .map(refused)
            })
        }),
        attack("registry: tokens from a silent host", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    while let Some(head) = connection.head().await? {
                        if head.path.starts_with("/token") {
                            return connection.silent().await;
                        }
                        let challenge = format!(
                            "HTTP/1.1 401 X\r\nWWW-Authenticate: Bearer realm=\"http://{}/token\",service=\"a\"\r\n\
                             Content-Length: 0\r\n\r\n",
                            connection.address()?
                        );
                        connection.send(challenge.as_bytes()).await?;
                    }
                    Ok(())
                });
                let server = server.await?;
                oci_repositories(ground, &server, json!({ "tag": "1" })).await?;
                let sign = Sign::Contacted(server.contacts(), 2);
                Ok(Threat::new(sign).holding(server))
            })
        }),
        attack("bucket: a listing without end", |ground| {
            Box::pin(async move {
                let server = Server::start(|mut connection| async move {
                    let keys: String = (0..1000)
                        .map(|number| {
                            format!(
                                "<Contents><Key>k{number}</Key><ETag>\"a\"</ETag><Size>1</Size></Contents>"
                            )
                        })
                        .collect();
                    let body = format!(
                        "<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>true</IsTruncated>\
                         <NextContinuationToken>t</NextContinuationToken>{keys}</ListBucketResult>"
                    );
                    while connection.head().await?.is_some() {
                        connection.answer(200, "application/xml", body.as_bytes()).await?;
                    }
                    Ok(())
                });
                let server = server.await?;
                for number in 0..4 {
                    ground
                        .create(json!({
                            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "Bucket",
                            "metadata": { "name": format!("r{number}") },
                            "spec": {
                                "interval": "1m", "bucketName": "bucket", "insecure": true, "timeout": "60m",
                                "endpoint": server.address().to_string(),
                            },
                        }))
                        .await?;
                }
                let sign = Sign::Contacted(server.contacts(), 2);
                Ok(Threat::new(sign).holding(server))
            })
        }),
    ]
}

fn releases() -> Vec<Attack> {
    vec![
        attack("chart: a file of 4 GiB", |ground| {
            Box::pin(async move { release_all(ground, archive::bomb(4096)?, json!({})).await })
        }),
        attack("releases: templates without end", |ground| {
            Box::pin(async move {
                let template = "{{ range $a := until 100000 }}{{ range until 100000 }}{{ $a | sha256sum }}{{ end }}{{ end }}";
                let chart = archive::of(&[("demo/Chart.yaml", CHART), ("demo/templates/a.yaml", template)])?;
                release_all(ground, chart, json!({})).await
            })
        }),
        attack("releases: templates that make many MiB", |ground| {
            Box::pin(async move {
                let template = "a: {{ range until 100000 }}{{ repeat 100000 \"a\" }}{{ end }}";
                let chart = archive::of(&[("demo/Chart.yaml", CHART), ("demo/templates/a.yaml", template)])?;
                release_all(ground, chart, json!({})).await
            })
        }),
        attack("releases: many objects", |ground| {
            Box::pin(async move {
                let template = many_maps(ground.pick(2000, 5000));
                let chart = archive::of(&[("demo/Chart.yaml", CHART), ("demo/templates/a.yaml", &template)])?;
                release_all(ground, chart, json!({})).await
            })
        }),
        attack("releases: 200 post-renderers of many objects", |ground| {
            Box::pin(async move {
                let chart = archive::of(&[
                    ("demo/Chart.yaml", CHART),
                    ("demo/templates/a.yaml", &many_maps(5000)),
                ])?;
                let patch = json!({
                    "target": { "kind": "ConfigMap", "name": ".*7.*" },
                    "patch": "- {op: add, path: /data, value: {b: c}}",
                });
                let renderer = json!({ "kustomize": { "patches": vec![patch; 20] } });
                release_all(ground, chart, json!({ "postRenderers": vec![renderer; 200] })).await
            })
        }),
        attack("generators: many searches of many files", |ground| {
            Box::pin(async move {
                let mut files = vec![("demo/Chart.yaml".to_owned(), CHART)];
                files.extend((0..5000).map(|number| (format!("demo/files/{number}/a"), "")));
                let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (&**path, *text)).collect();
                let server = packages(archive::of(&files)?).await?;
                repository(ground, &server).await?;
                ground
                    .create(json!({
                        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
                        "metadata": { "name": "demo" },
                        "spec": {
                            "chart": "demo", "interval": "1m",
                            "sourceRef": { "kind": "HelmRepository", "name": "charts" },
                        },
                    }))
                    .await?;
                // no file is an archive: the searches are the work
                let copy = json!({ "from": "@charts/**/a*", "to": "@artifact/", "strategy": "Extract" });
                for number in 0..ground.pick(4, 8) {
                    let artifact = json!({ "name": format!("a{number}"), "copy": vec![copy.clone(); 5000] });
                    ground
                        .create(json!({
                            "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": "ArtifactGenerator",
                            "metadata": { "name": format!("g{number}") },
                            "spec": {
                                "sources": [{ "alias": "charts", "kind": "HelmChart", "name": "demo" }],
                                "artifacts": [artifact],
                            },
                        }))
                        .await?;
                }
                Ok(Threat::new(Sign::Worked("none")).holding(server))
            })
        }),
        attack("generators: exclusions that expand", |ground| {
            Box::pin(async move {
                let server = packages(archive::of(&[("demo/Chart.yaml", CHART), ("demo/a", "")])?).await?;
                repository(ground, &server).await?;
                ground
                    .create(json!({
                        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
                        "metadata": { "name": "demo" },
                        "spec": {
                            "chart": "demo", "interval": "1m",
                            "sourceRef": { "kind": "HelmRepository", "name": "charts" },
                        },
                    }))
                    .await?;
                // 63 times 4,000 bytes, in each of 100 patterns
                let exclude = format!("{}{{{}}}", "a".repeat(4000), ",".repeat(62));
                let copy =
                    json!({ "from": "@charts/demo", "to": "@artifact/", "exclude": vec![exclude; 100] });
                for number in 0..ground.pick(2, 4) {
                    ground
                        .create(json!({
                            "apiVersion": "source.extensions.fluxcd.io/v1beta1", "kind": "ArtifactGenerator",
                            "metadata": { "name": format!("g{number}") },
                            "spec": {
                                "sources": [{ "alias": "charts", "kind": "HelmChart", "name": "demo" }],
                                "artifacts": [{ "name": format!("a{number}"), "copy": [copy] }],
                            },
                        }))
                        .await?;
                }
                let sign = Sign::Said("ArtifactGenerator", "g0", "have more than 65536 bytes");
                Ok(Threat::new(sign).holding(server))
            })
        }),
        attack("releases: 60 dependencies of each object", |ground| {
            Box::pin(async move {
                let needs: Vec<Value> = (0..60)
                    .map(|number| {
                        let list = format!("[{}]", ["1"; 150].join(","));
                        let text = format!(
                            "{list}.all(a, {list}.all(b, a == b)) && 'a'.matches('((a|b){{99}}){{9}}{number}')"
                        );
                        json!({ "name": "base", "readyExpr": text })
                    })
                    .collect();
                let base = json!({ "chart": { "spec": {
                    "chart": "none", "sourceRef": { "kind": "HelmRepository", "name": "charts" },
                } } });
                ground.create(release("base", base)).await?;
                let chart = archive::of(&[("demo/Chart.yaml", CHART), ("demo/templates/a.yaml", MAP)])?;
                release_all(ground, chart, json!({ "dependsOn": needs })).await
            })
        }),
        attack("releases: hooks that never end", |ground| {
            Box::pin(async move {
                let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{ .Release.Name }}\n  annotations:\n    \
                            helm.sh/hook: pre-install\nspec:\n  template:\n    spec:\n      restartPolicy: Never\n      \
                            containers:\n      - {name: a, image: a}\n";
                let chart = archive::of(&[("demo/Chart.yaml", CHART), ("demo/templates/a.yaml", hook)])?;
                let mut threat = release_all(ground, chart, json!({ "timeout": "24h" })).await?;
                threat.sign = Sign::Said("HelmRelease", "r0", "Running 'install'");
                Ok(threat)
            })
        }),
    ]
}

/// An index of this many MiB of versions.
fn long_index(mib: usize) -> String {
    let mut index = "apiVersion: v1\nentries:\n  demo:\n".to_owned();
    let text = "a".repeat(200);
    for number in 0.. {
        index.push_str(&format!(
            "  - name: demo\n    version: 1.0.{number}\n    description: {text}\n    urls: [demo-{number}.tgz]\n"
        ));
        if index.len() > mib * MIB {
            break;
        }
    }
    index
}

/// A HelmRepository at the server, and charts of it.
async fn charts(ground: &Ground<'_>, server: Server) -> Outcome<Threat> {
    repository(ground, &server).await?;
    for number in 0..4 {
        ground
            .create(json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
                "metadata": { "name": format!("c{number}") },
                "spec": {
                    "interval": "1m", "chart": "demo", "version": "*",
                    "sourceRef": { "kind": "HelmRepository", "name": "charts" },
                },
            }))
            .await?;
    }
    Ok(Threat::new(Sign::Judged("HelmRepository", "charts")).holding(server))
}

async fn repository(ground: &Ground<'_>, server: &Server) -> Outcome {
    ground
        .create(json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmRepository",
            "metadata": { "name": "charts" },
            "spec": { "interval": "1m", "timeout": "60m", "url": format!("http://{}", server.address()) },
        }))
        .await
}

fn many_maps(count: usize) -> String {
    format!(
        "{{{{ range until {count} }}}}\n---\napiVersion: v1\nkind: ConfigMap\n\
         metadata:\n  name: a-{{{{ . }}}}\n{{{{ end }}}}"
    )
}

async fn packages(package: Vec<u8>) -> io::Result<Server> {
    Server::start(move |mut connection| {
        let package = package.clone();
        async move {
            while let Some(head) = connection.head().await? {
                let index =
                    "apiVersion: v1\nentries:\n  demo:\n  - {name: demo, version: 1.0.0, urls: [demo.tgz]}\n";
                match head.path.ends_with(".tgz") {
                    true => connection.answer(200, "application/gzip", &package).await?,
                    false => connection.answer(200, "text/yaml", index.as_bytes()).await?,
                }
            }
            Ok(())
        }
    })
    .await
}

/// HelmReleases of this package, with more fields of their specs.
async fn release_all(ground: &Ground<'_>, package: Vec<u8>, more: Value) -> Outcome<Threat> {
    let server = packages(package).await?;
    repository(ground, &server).await?;
    for number in 0..ground.pick(8, 20) {
        let chart = json!({ "spec": {
            "chart": "demo", "sourceRef": { "kind": "HelmRepository", "name": "charts" },
        } });
        let mut spec = json!({ "chart": chart });
        if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more.clone()) {
            spec.extend(more);
        }
        ground.create(release(&format!("r{number}"), spec)).await?;
    }
    Ok(Threat::new(Sign::Worked("r0")).holding(server))
}

fn release(name: &str, mut spec: Value) -> Value {
    spec["interval"] = json!("1m");
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": { "name": name }, "spec": spec,
    })
}

/// The answer of a hostile registry.
enum Answer {
    Body(&'static str, Vec<u8>),
    /// JSON, and the address of a next page.
    Page(Vec<u8>),
    Empty,
    Endless,
}

/// An archive.
struct Bomb {
    bytes: Vec<u8>,
    digest: String,
}

/// OCIRepositories of a registry that answers so.
async fn registry(
    ground: &Ground<'_>,
    answers: fn(&str, &Bomb) -> Answer,
    reference: Value,
) -> Outcome<Threat> {
    registry_of(ground, archive::bomb(4096)?, answers, reference).await
}

async fn registry_of(
    ground: &Ground<'_>,
    bytes: Vec<u8>,
    answers: fn(&str, &Bomb) -> Answer,
    reference: Value,
) -> Outcome<Threat> {
    let digest = digest(&bytes);
    let bomb = Arc::new(Bomb { bytes, digest });
    let server = Server::start(move |mut connection| {
        let bomb = Arc::clone(&bomb);
        async move {
            let mut page = 0;
            while let Some(head) = connection.head().await? {
                page += 1;
                answer(&mut connection, answers(&head.path, &bomb), page).await?;
            }
            Ok(())
        }
    });
    let server = server.await?;
    oci_repositories(ground, &server, reference).await?;
    let sign = Sign::Contacted(server.contacts(), 2);
    Ok(Threat::new(sign).holding(server))
}

/// Waits until the first OCIRepository is judged: it must have failed.
fn refused(threat: Threat) -> Threat {
    let sign = Sign::Judged("OCIRepository", "r0");
    Threat { sign, ..threat }.rule(Rule::NeverReady("OCIRepository", "r0"))
}

async fn answer(connection: &mut Connection, answer: Answer, page: usize) -> io::Result<()> {
    match answer {
        Answer::Body(kind, body) => connection.answer(200, kind, &body).await,
        Answer::Empty => connection.answer(200, "application/json", b"{}").await,
        Answer::Page(body) => {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
                 Link: </v2/a/tags/list?last={page}>; rel=\"next\"\r\n\r\n",
                body.len()
            );
            connection.send(head.as_bytes()).await?;
            connection.send(&body).await
        }
        Answer::Endless => {
            connection.begin(MANIFEST).await?;
            connection.send(b"{\"schemaVersion\":2,\"layers\":[").await?;
            connection.endless(&b"{\"size\":1},".repeat(4096)).await
        }
    }
}

fn manifest(layer: &str, size: usize) -> Vec<u8> {
    let config = digest(b"{}");
    let manifest = json!({
        "schemaVersion": 2, "mediaType": MANIFEST,
        "config": { "mediaType": "application/vnd.cncf.flux.config.v1+json", "digest": config, "size": 2 },
        "layers": [{
            "mediaType": "application/vnd.cncf.flux.content.v1.tar+gzip", "digest": layer, "size": size,
        }],
    });
    manifest.to_string().into_bytes()
}

async fn oci_repositories(ground: &Ground<'_>, server: &Server, reference: Value) -> Outcome {
    for number in 0..4 {
        ground
            .create(json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
                "metadata": { "name": format!("r{number}") },
                "spec": {
                    "interval": "1m", "timeout": "60m", "insecure": true, "ref": reference,
                    "url": format!("oci://{}/a", server.address()),
                },
            }))
            .await?;
    }
    Ok(())
}
