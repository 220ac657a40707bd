//! Patches on a Deployment, a Service and a custom resource: lists that merge by key and lists that do not,
//! nulls, directives, JSON patches.
//!
//! Names are few, so that patches hit existing values.

use super::Files;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Whether a value is for a resource, or for a patch, which has directives and nulls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    There,
    Patch,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Deployment,
    Service,
    Thing,
}

pub(super) fn inputs() -> BoxedStrategy<Files> {
    let kind = prop_oneof![
        3 => Just(Kind::Deployment),
        1 => Just(Kind::Service),
        1 => Just(Kind::Thing),
    ];
    kind.prop_flat_map(|kind| {
        let patch = prop_oneof![
            5 => object(kind, Side::Patch).prop_map(Patch::Strategic),
            1 => vec(operation(kind), 1..4).prop_map(Patch::Json),
        ];
        (object(kind, Side::There), vec((patch, any::<bool>()), 1..3))
    })
    .prop_map(|(object, patches)| files(&object, patches))
    .boxed()
}

#[derive(Debug, Clone)]
enum Patch {
    Strategic(Value),
    Json(Vec<Value>),
}

fn files(object: &Value, patches: Vec<(Patch, bool)>) -> Files {
    let mut files = BTreeMap::new();
    let mut entries = Vec::new();
    for (at, (patch, by_target)) in patches.into_iter().enumerate() {
        let path = format!("p{at}.yaml");
        let (text, targeted) = match patch {
            Patch::Strategic(patch) => (equate_manifest::yaml::to_string(&patch), by_target),
            Patch::Json(operations) => (equate_manifest::yaml::to_string(&operations.into()), true),
        };
        files.insert(format!("top/{path}"), text);
        entries.push(if targeted {
            json!({"path": path, "target": {"name": "a"}})
        } else {
            json!({"path": path})
        });
    }
    let top = json!({"resources": ["object.yaml"], "patches": entries});
    files.insert(
        "top/object.yaml".to_owned(),
        equate_manifest::yaml::to_string(object),
    );
    files.insert(
        "top/kustomization.yaml".to_owned(),
        equate_manifest::yaml::to_string(&top),
    );
    Files(files)
}

/// An optional field; in a patch it may be null.
fn field(side: Side, name: &'static str, value: impl Strategy<Value = Value> + 'static) -> Field {
    let value = match side {
        Side::There => value.boxed(),
        Side::Patch => prop_oneof![12 => value, 1 => Just(Value::Null)].boxed(),
    };
    weighted(0.45, value)
        .prop_map(move |value| value.map(|value| (name, value)))
        .boxed()
}

type Field = BoxedStrategy<Option<(&'static str, Value)>>;

/// A map of some of these fields; in a patch it may have a directive.
fn map(side: Side, fields: Vec<Field>) -> BoxedStrategy<Value> {
    let directive = match side {
        Side::There => Just(None).boxed(),
        Side::Patch => weighted(
            0.1,
            prop_oneof![
                4 => Just("delete"),
                4 => Just("replace"),
                2 => Just("merge"),
            ],
        )
        .boxed(),
    };
    (fields, directive)
        .prop_map(|(fields, directive)| {
            let mut map: Map<String, Value> = fields
                .into_iter()
                .flatten()
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            if let Some(directive) = directive {
                map.insert("$patch".to_owned(), directive.into());
            }
            Value::Object(map)
        })
        .boxed()
}

/// A list of such items; in a patch it may have a directive item.
fn list(side: Side, item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    match side {
        Side::There => vec(item, 0..4).prop_map(Value::from).boxed(),
        Side::Patch => {
            let directive = prop_oneof![
                16 => Just(None),
                1 => Just(Some("replace")),
                1 => Just(Some("delete")),
                1 => Just(Some("merge")),
            ];
            (vec(item, 0..4), directive, any::<prop::sample::Index>())
                .prop_map(|(mut items, directive, at)| {
                    if let Some(directive) = directive {
                        items.insert(at.index(items.len() + 1), json!({"$patch": directive}));
                    }
                    items.into()
                })
                .boxed()
        }
    }
}

fn one_of(values: &'static [&'static str]) -> BoxedStrategy<Value> {
    proptest::sample::select(values).prop_map(Value::from).boxed()
}

fn number(values: &'static [i64]) -> BoxedStrategy<Value> {
    proptest::sample::select(values).prop_map(Value::from).boxed()
}

fn texts(side: Side) -> BoxedStrategy<Value> {
    map(
        side,
        ["a", "b", "c.d/e"]
            .into_iter()
            .map(|name| field(side, name, one_of(&["x", "y", "true", "1", ""])))
            .collect(),
    )
}

fn strings(side: Side) -> BoxedStrategy<Value> {
    match side {
        Side::There => vec(one_of(&["a", "b", "c", "d"]), 0..4)
            .prop_map(Value::from)
            .boxed(),
        Side::Patch => vec(one_of(&["a", "b", "e", "f"]), 0..3)
            .prop_map(Value::from)
            .boxed(),
    }
}

fn object(kind: Kind, side: Side) -> BoxedStrategy<Value> {
    let (api_version, name, spec) = match kind {
        Kind::Deployment => ("apps/v1", "Deployment", deployment(side)),
        Kind::Service => ("v1", "Service", service(side)),
        Kind::Thing => ("example.com/v1", "Thing", anything(side)),
    };
    let metadata = map(
        side,
        vec![
            field(side, "labels", texts(side)),
            field(side, "annotations", texts(side)),
            field(side, "finalizers", strings(side)),
            field(side, "$deleteFromPrimitiveList/finalizers", strings(side)),
            field(side, "ownerReferences", list(side, owner(side))),
        ],
    );
    let hidden = side == Side::There;
    (
        metadata,
        field(side, "spec", spec),
        weighted(0.1, one_of(&["delete", "replace", "merge"])),
    )
        .prop_map(move |(metadata, spec, directive)| {
            let mut metadata = match metadata {
                Value::Object(map) => map,
                _ => Map::new(),
            };
            // without metadata there is nothing to compare by
            metadata.remove("$patch");
            if hidden {
                metadata.remove("$deleteFromPrimitiveList/finalizers");
            }
            metadata.insert("name".to_owned(), "a".into());
            let mut object = json!({"apiVersion": api_version, "kind": name, "metadata": metadata});
            if let Some((field, value)) = spec {
                object[field] = value;
            }
            if let Some(directive) = directive.filter(|_| !hidden) {
                object["$patch"] = directive;
            }
            object
        })
        .boxed()
}

fn owner(side: Side) -> BoxedStrategy<Value> {
    map(
        side,
        vec![
            field(side, "uid", one_of(&["u1", "u2"])),
            field(side, "name", one_of(&["n", "m"])),
        ],
    )
}

fn deployment(side: Side) -> BoxedStrategy<Value> {
    let rolling = map(
        side,
        vec![
            field(side, "maxSurge", prop_oneof![number(&[1]), one_of(&["25%"])]),
            field(side, "maxUnavailable", number(&[0, 1])),
        ],
    );
    let strategy = map(
        side,
        vec![
            field(side, "type", one_of(&["Recreate", "RollingUpdate"])),
            field(side, "rollingUpdate", rolling),
            field(side, "$retainKeys", strings(side)),
        ],
    );
    let selector = map(
        side,
        vec![
            field(side, "matchLabels", texts(side)),
            field(side, "matchExpressions", list(side, expression(side))),
        ],
    );
    let template = map(
        side,
        vec![
            field(
                side,
                "metadata",
                map(side, vec![field(side, "labels", texts(side))]),
            ),
            likely(map(side, pod(side)), "spec"),
        ],
    );
    map(
        side,
        vec![
            field(side, "replicas", number(&[0, 1, 3])),
            field(side, "strategy", strategy),
            field(side, "selector", selector),
            likely(template, "template"),
        ],
    )
}

/// A field that is usually present, so that fields below it are tested.
fn likely(value: BoxedStrategy<Value>, name: &'static str) -> Field {
    weighted(0.85, value)
        .prop_map(move |value| value.map(|value| (name, value)))
        .boxed()
}

fn expression(side: Side) -> BoxedStrategy<Value> {
    map(
        side,
        vec![
            field(side, "key", one_of(&["a", "b"])),
            field(side, "operator", one_of(&["In", "Exists"])),
            field(side, "values", strings(side)),
        ],
    )
}

fn pod(side: Side) -> Vec<Field> {
    let volume = map(
        side,
        vec![
            likely(one_of(&["a", "b", "c"]), "name"),
            field(
                side,
                "emptyDir",
                map(side, vec![field(side, "medium", one_of(&["Memory"]))]),
            ),
            field(
                side,
                "configMap",
                map(side, vec![field(side, "name", one_of(&["x", "y"]))]),
            ),
        ],
    );
    let toleration = map(
        side,
        vec![
            field(side, "key", one_of(&["a", "b"])),
            field(side, "operator", one_of(&["Exists", "Equal"])),
        ],
    );
    let alias = map(
        side,
        vec![
            likely(one_of(&["10.0.0.1", "10.0.0.2"]), "ip"),
            field(side, "hostnames", strings(side)),
        ],
    );
    let spread = map(
        side,
        vec![
            likely(one_of(&["zone", "host"]), "topologyKey"),
            field(
                side,
                "whenUnsatisfiable",
                one_of(&["DoNotSchedule", "ScheduleAnyway"]),
            ),
            field(side, "maxSkew", number(&[1, 2])),
        ],
    );
    let secret = map(side, vec![likely(one_of(&["a", "b"]), "name")]);
    let mut fields = vec![
        likely(list(side, container(side)), "containers"),
        field(side, "initContainers", list(side, container(side))),
        field(side, "volumes", list(side, volume)),
        field(side, "tolerations", list(side, toleration)),
        field(side, "hostAliases", list(side, alias)),
        field(side, "topologySpreadConstraints", list(side, spread)),
        field(side, "imagePullSecrets", list(side, secret)),
        field(side, "nodeSelector", texts(side)),
        field(side, "serviceAccountName", one_of(&["x", "y"])),
        field(
            side,
            "securityContext",
            map(
                side,
                vec![
                    field(side, "runAsUser", number(&[0, 1000])),
                    field(side, "runAsNonRoot", any::<bool>().prop_map(Value::from)),
                    field(
                        side,
                        "supplementalGroups",
                        vec(number(&[1, 2, 3]), 0..3).prop_map(Value::from),
                    ),
                ],
            ),
        ),
    ];
    if side == Side::Patch {
        fields.push(field(
            side,
            "$setElementOrder/containers",
            list(Side::There, named()),
        ));
    }
    fields
}

fn named() -> BoxedStrategy<Value> {
    map(Side::There, vec![likely(one_of(&["a", "b", "c"]), "name")])
}

fn container(side: Side) -> BoxedStrategy<Value> {
    let variable = map(
        side,
        vec![
            likely(one_of(&["A", "B", "C"]), "name"),
            field(side, "value", one_of(&["1", "x", ""])),
            field(
                side,
                "valueFrom",
                map(
                    side,
                    vec![field(
                        side,
                        "secretKeyRef",
                        map(
                            side,
                            vec![
                                field(side, "name", one_of(&["s"])),
                                field(side, "key", one_of(&["k"])),
                            ],
                        ),
                    )],
                ),
            ),
        ],
    );
    let port = map(
        side,
        vec![
            likely(number(&[80, 443, 8080]), "containerPort"),
            field(side, "protocol", one_of(&["TCP", "UDP"])),
            field(side, "name", one_of(&["http", "https"])),
            field(side, "hostPort", number(&[80])),
        ],
    );
    let mount = map(
        side,
        vec![
            likely(one_of(&["/a", "/b"]), "mountPath"),
            field(side, "name", one_of(&["a", "b"])),
            field(side, "subPath", one_of(&["s"])),
        ],
    );
    let amounts = map(
        side,
        vec![
            field(side, "cpu", prop_oneof![one_of(&["100m"]), number(&[1, 2])]),
            field(side, "memory", one_of(&["1Gi", "64Mi"])),
        ],
    );
    map(
        side,
        vec![
            likely(one_of(&["a", "b", "c"]), "name"),
            field(side, "image", one_of(&["nginx", "nginx:1.0", "busybox"])),
            field(side, "env", list(side, variable)),
            field(side, "ports", list(side, port)),
            field(side, "volumeMounts", list(side, mount)),
            field(side, "args", strings(side)),
            field(side, "resources", map(side, vec![field(side, "limits", amounts)])),
            field(
                side,
                "envFrom",
                list(side, map(side, vec![field(side, "prefix", one_of(&["p", "q"]))])),
            ),
        ],
    )
}

fn service(side: Side) -> BoxedStrategy<Value> {
    let port = map(
        side,
        vec![
            likely(number(&[80, 443, 53]), "port"),
            field(side, "protocol", one_of(&["TCP", "UDP"])),
            field(side, "name", one_of(&["http", "dns"])),
            field(side, "targetPort", prop_oneof![number(&[8080]), one_of(&["web"])]),
            field(side, "nodePort", number(&[30080])),
        ],
    );
    map(
        side,
        vec![
            likely(list(side, port), "ports"),
            field(side, "selector", texts(side)),
            field(side, "type", one_of(&["ClusterIP", "NodePort"])),
            field(side, "externalIPs", strings(side)),
            field(side, "clusterIP", one_of(&["None"])),
        ],
    )
}

/// A value without a schema.
fn anything(side: Side) -> BoxedStrategy<Value> {
    let scalar = prop_oneof![
        one_of(&["x", "y", ""]),
        number(&[0, 1]),
        any::<bool>().prop_map(Value::from),
    ]
    .boxed();
    let leaf = match side {
        Side::There => prop_oneof![9 => scalar, 1 => Just(Value::Null)].boxed(),
        Side::Patch => scalar,
    };
    let inner = leaf.prop_recursive(3, 16, 4, move |inner| {
        let names = ["name", "a", "b", "containers", "ports"];
        let fields = names.map(|name| field(side, name, inner.clone())).to_vec();
        prop_oneof![3 => map(side, fields), 1 => list(side, inner)]
    });
    let names = ["a", "b", "c", "containers"];
    map(
        side,
        names.map(|name| likely(inner.clone().boxed(), name)).to_vec(),
    )
}

/// An operation of a JSON patch on a likely path.
fn operation(kind: Kind) -> BoxedStrategy<Value> {
    let paths: &[&str] = match kind {
        Kind::Deployment => &[
            "/spec/replicas",
            "/spec/template",
            "/spec/template/spec/containers",
            "/spec/template/spec/containers/0",
            "/spec/template/spec/containers/0/image",
            "/spec/template/spec/containers/-",
            "/spec/template/spec/containers/-1",
            "/spec/template/spec/containers/1/env/0",
            "/metadata/labels",
            "/metadata/labels/c.d~1e",
            "/metadata/annotations/a",
        ],
        Kind::Service => &[
            "/spec/ports",
            "/spec/ports/0",
            "/spec/ports/-",
            "/spec/ports/0/port",
            "/spec/selector/a",
            "/metadata/labels/a",
            "/metadata/annotations/b",
        ],
        Kind::Thing => &[
            "/spec",
            "/spec/a",
            "/spec/b/0",
            "/spec/containers/0/name",
            "/spec/c/a",
            "/metadata/finalizers/-",
        ],
    };
    let value = prop_oneof![
        one_of(&["x"]),
        number(&[1]),
        Just(json!({"name": "z"})),
        Just(json!([1, {"a": null}])),
        Just(Value::Null),
        Just(json!(1.5)),
    ];
    let verb = proptest::sample::select(&["add", "replace", "remove", "copy", "move", "test"][..]);
    (
        verb,
        proptest::sample::select(paths),
        proptest::sample::select(paths),
        value,
    )
        .prop_map(|(verb, path, from, value)| match verb {
            "remove" => json!({"op": verb, "path": path}),
            "copy" | "move" => json!({"op": verb, "path": path, "from": from}),
            _ => json!({"op": verb, "path": path, "value": value}),
        })
        .boxed()
}
