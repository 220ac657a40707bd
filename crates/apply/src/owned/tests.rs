//! Examples of every shape of `FieldsV1`. Two properties of the digest, on random objects that pass the
//! API server's structured merge.

#![allow(clippy::needless_pass_by_value, reason = "tables of values")]

use super::{desired, owned, owned_fields};
use crate::owner::tests::KUSTOMIZATION;

const FIELD_MANAGER: &str = KUSTOMIZATION.field_manager;
use equate_manifest::fieldpath::{Path, Set};
use equate_manifest::merge::{self, Managers, Request};
use equate_manifest::object::Object;
use equate_manifest::schema;
use equate_manifest::typed::{Type, from_openapi};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use std::sync::LazyLock;

fn entry(manager: &str, operation: &str, fields: Value) -> Value {
    json!({ "manager": manager, "operation": operation, "fieldsType": "FieldsV1", "fieldsV1": fields })
}

fn live(mut object: Value, entries: Vec<Value>) -> Object {
    object["metadata"]["managedFields"] = Value::Array(entries);
    Object::from_value(object).unwrap()
}

#[test]
fn shapes() {
    let check = |object: Value, ours: Value, expected: Value| {
        let live = live(object, vec![entry(FIELD_MANAGER, "Apply", ours)]);
        assert_eq!(owned_fields(&live, FIELD_MANAGER), expected);
    };
    let empty = || json!({});
    // maps, keys with dots, an owned map
    check(
        json!({ "data": { "a.b": "1", "c": "2", "d": "3" } }),
        json!({ "f:data": { ".": {}, "f:a.b": {}, "f:c": {} } }),
        json!({ "data": { "a.b": "1", "c": "2" } }),
    );
    check(
        json!({ "data": {} }),
        json!({ "f:data": {} }),
        json!({ "data": {} }),
    );
    // an atomic map
    check(
        json!({ "spec": { "selector": { "a": "b" } } }),
        json!({ "f:spec": { "f:selector": {} } }),
        json!({ "spec": { "selector": { "a": "b" } } }),
    );
    // removed and null fields
    check(
        json!({ "spec": { "a": null } }),
        json!({ "f:spec": { "f:a": {}, "f:b": {} } }),
        json!({ "spec": {} }),
    );
    // keyed lists in live order; two keys; an unwritten key with a default
    check(
        json!({ "l": [{ "name": "b", "v": 1, "w": 1 }, { "name": "x" }, { "name": "a", "v": 2 }] }),
        json!({ "f:l": { "k:{\"name\":\"a\"}": { ".": {}, "f:name": {}, "f:v": {} }, "k:{\"name\":\"b\"}": { "f:v": {} } } }),
        json!({ "l": [{ "v": 1 }, { "name": "a", "v": 2 }] }),
    );
    check(
        json!({ "p": [{ "port": 80, "protocol": "UDP" }, { "port": 80, "protocol": "TCP", "x": 1 }] }),
        json!({ "f:p": { "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {} } } }),
        json!({ "p": [{ "port": 80 }] }),
    );
    check(
        json!({ "p": [{ "port": 80 }, { "port": 81 }] }),
        json!({ "f:p": { "k:{\"port\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:port": {} } } }),
        json!({ "p": [{ "port": 80 }] }),
    );
    // sets
    check(
        json!({ "s": ["c", "a", "b", 1] }),
        json!({ "f:s": { ".": {}, "v:\"a\"": {}, "v:\"c\"": {}, "v:1": {} } }),
        json!({ "s": ["c", "a", 1] }),
    );
    // an atomic list
    check(
        json!({ "s": ["c", "a"] }),
        json!({ "f:s": {} }),
        json!({ "s": ["c", "a"] }),
    );
    // fields of another type than applied, and malformed fields
    check(
        json!({ "s": "text", "t": [1], "u": { "a": 1 } }),
        json!({ "f:s": { "f:a": {} }, "f:t": { "f:a": {}, "k:no": {} }, "f:u": { "k:{}": {}, "x": {} }, "f:v": 1 }),
        json!({ "s": "text", "t": [], "u": {} }),
    );
    check(json!({ "a": 1 }), json!([]), empty());
    check(json!({ "a": 1 }), Value::Null, empty());
}

#[test]
fn only_our_applies_count() {
    let check = |entries: Vec<Value>, expected: Value| {
        let object = json!({ "data": { "a": "1", "b": "2" }, "empty": { "x": 1 } });
        assert_eq!(owned_fields(&live(object, entries), FIELD_MANAGER), expected);
    };
    let a = || json!({ "f:data": { "f:a": {} } });
    check(vec![], json!({}));
    check(vec![entry("other", "Apply", a())], json!({}));
    check(vec![entry(FIELD_MANAGER, "Update", a())], json!({}));
    let mut status = entry(FIELD_MANAGER, "Apply", a());
    status["subresource"] = json!("status");
    check(vec![status, entry("x", "Update", a())], json!({}));
    check(
        vec![entry("x", "Update", a()), entry(FIELD_MANAGER, "Apply", a())],
        json!({ "data": { "a": "1" } }),
    );
    // a map that we set empty and another filled is still empty for us
    let ours = || entry(FIELD_MANAGER, "Apply", json!({ "f:empty": {} }));
    check(vec![ours()], json!({ "empty": { "x": 1 } }));
    check(
        vec![ours(), entry("x", "Update", json!({ "f:empty": { "f:x": {} } }))],
        json!({ "empty": {} }),
    );
}

#[test]
fn one_digest_for_all_ways_to_write_an_object() {
    let digest = |value: Value| desired(&Object::from_value(value).unwrap());
    let base = digest(json!({ "metadata": { "labels": { "a": "b" } }, "spec": { "n": 1, "l": [1, 2] } }));
    let check = |value: Value, same: bool| assert_eq!(digest(value.clone()) == base, same, "{value}");
    check(
        json!({
            "apiVersion": "v1", "kind": "K", "status": { "x": 1 },
            "metadata": { "name": "n", "namespace": "ns", "uid": "u", "labels": { "a": "b", "c": null } },
            "spec": { "n": 1.0, "l": [1, 2], "nothing": null },
        }),
        true,
    );
    let spec = |spec: Value| json!({ "metadata": { "labels": { "a": "b" } }, "spec": spec });
    check(spec(json!({ "n": 1, "l": [2, 1] })), false);
    check(spec(json!({ "n": "1", "l": [1, 2] })), false);
    check(spec(json!({ "n": 1, "l": [1, 2], "e": {} })), false);
    check(spec(json!({ "n": 1.5, "l": [1, 2] })), false);
    check(json!({ "spec": { "n": 1, "l": [1, 2] } }), false);
}

static DEPLOYMENT: LazyLock<Type> = LazyLock::new(|| {
    from_openapi("io.k8s.api.apps.v1.Deployment", |name| {
        schema::kubernetes().get(name)
    })
});

/// Metadata without owner.
static UNBOOKED: LazyLock<Set> = LazyLock::new(|| {
    let paths = ["name", "namespace", "managedFields"].map(|key| Path::fields(&["metadata", key]));
    let roots = ["apiVersion", "kind", "metadata"].map(|key| Path::fields(&[key]));
    Set::of(paths.iter().chain(&roots[..2]))
});

#[derive(Debug, Clone)]
struct Stored {
    value: Value,
    managers: Managers<String>,
}

impl Stored {
    fn new() -> Self {
        Self {
            value: json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "x" } }),
            managers: Managers::new(),
        }
    }

    fn request(manager: &str) -> Request<'static, String> {
        Request {
            kind: &DEPLOYMENT,
            manager: manager.to_owned(),
            api_version: "apps/v1",
            ignored: &UNBOOKED,
        }
    }

    fn apply(&mut self, manager: &str, config: &Value, force: bool) -> bool {
        let request = Self::request(manager);
        let Ok((new, managers)) = merge::apply(&request, &self.value, config, self.managers.clone(), force)
        else {
            return false;
        };
        let changed = new.is_some() || managers != self.managers;
        self.value = new.unwrap_or_else(|| self.value.clone());
        self.managers = managers;
        changed
    }

    fn update(&mut self, manager: &str, new: Value) {
        self.managers =
            merge::update(&Self::request(manager), &self.value, &new, self.managers.clone()).unwrap();
        self.value = new;
    }

    fn live(&self) -> Object {
        let entries = self.managers.iter().map(|(manager, owned)| {
            let operation = if owned.applied { "Apply" } else { "Update" };
            entry(manager, operation, owned.fields.to_fields_v1())
        });
        live(self.value.clone(), entries.collect())
    }
}

fn object(config: &Value) -> Object {
    Object::from_value(config.clone()).unwrap()
}

/// Some entries of a map; the map is absent if there are none.
fn entries(keys: &'static [&'static str], value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop::collection::btree_map(prop::sample::select(keys), value, 0..=keys.len())
        .prop_map(|map| {
            map.into_iter()
                .map(|(k, v)| (k.to_owned(), v))
                .collect::<Map<_, _>>()
                .into()
        })
        .boxed()
}

fn some(values: &[Value]) -> BoxedStrategy<Value> {
    prop::sample::select(values.to_vec()).boxed()
}

fn fields(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let all: Vec<_> = fields
        .into_iter()
        .map(|(key, value)| prop::option::weighted(0.6, value).prop_map(move |value| (key, value)))
        .collect();
    all.prop_map(|fields| {
        fields
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect::<Map<_, _>>()
            .into()
    })
    .boxed()
}

/// A list of items with distinct keys, in any order; never empty, because normal form drops empty lists.
fn keyed(key: &'static str, names: Vec<Value>, item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let count = names.len();
    prop::sample::subsequence(names, 1..=count)
        .prop_shuffle()
        .prop_flat_map(move |names| {
            let count = names.len();
            prop::collection::vec(item.clone(), count).prop_map(move |mut items| {
                for (item, name) in items.iter_mut().zip(&names) {
                    item[key] = name.clone();
                }
                Value::Array(items)
            })
        })
        .boxed()
}

fn texts(values: &'static [&'static str]) -> BoxedStrategy<Value> {
    let count = values.len();
    prop::sample::subsequence(values, 1..=count)
        .prop_shuffle()
        .prop_map(|values| json!(values))
        .boxed()
}

fn config() -> BoxedStrategy<Value> {
    let text = || some(&[json!("1"), json!("2")]);
    let labels = || entries(&["app", "a.b/c.d", "x"], text());
    let container = fields(vec![
        ("image", text()),
        ("args", texts(&["a", "b"])),
        (
            "env",
            keyed(
                "name",
                vec![json!("A"), json!("B")],
                fields(vec![("value", text())]),
            ),
        ),
        (
            "ports",
            keyed(
                "containerPort",
                vec![json!(80), json!(81)],
                fields(vec![("name", text())]),
            ),
        ),
        (
            "resources",
            fields(vec![("limits", entries(&["cpu", "memory"], text()))]),
        ),
    ]);
    let volume = fields(vec![("emptyDir", fields(vec![("medium", text())]))]);
    let pod = fields(vec![
        (
            "containers",
            keyed("name", vec![json!("a"), json!("b"), json!("c")], container),
        ),
        ("volumes", keyed("name", vec![json!("v"), json!("w")], volume)),
        ("nodeSelector", entries(&["zone", "disk"], text())),
        (
            "tolerations",
            prop::collection::vec(fields(vec![("key", text())]), 0..3)
                .prop_map(Value::Array)
                .boxed(),
        ),
        ("hostNetwork", some(&[json!(true), json!(false)])),
    ]);
    let spec = fields(vec![
        ("replicas", some(&[json!(0), json!(1), json!(2)])),
        ("selector", fields(vec![("matchLabels", labels())])),
        ("strategy", fields(vec![("type", text())])),
        (
            "template",
            fields(vec![
                ("metadata", fields(vec![("labels", labels())])),
                ("spec", pod),
            ]),
        ),
    ]);
    let metadata = fields(vec![
        ("labels", labels()),
        ("annotations", labels()),
        ("finalizers", texts(&["a/x", "b/y", "c/z"])),
    ]);
    (metadata, spec)
        .prop_map(|(mut metadata, spec)| {
            metadata["name"] = json!("x");
            json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec })
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// After an apply over any state, we own the desired fields: nothing is sent again.
    #[test]
    fn applied_objects_are_recognised(before in config(), wanted in config(), after in config()) {
        let mut stored = Stored::new();
        stored.apply("other", &before, false);
        stored.apply(FIELD_MANAGER, &wanted, true);
        prop_assert_eq!(owned(&stored.live(), FIELD_MANAGER), desired(&object(&wanted)), "{:#}", owned_fields(&stored.live(), FIELD_MANAGER));
        // additions by others that leave ours alone do not count; a new order of our items does
        stored.apply("third", &after, false);
        let known = owned(&stored.live(), FIELD_MANAGER) == desired(&object(&wanted));
        let before = stored.clone();
        prop_assert_eq!(known, !stored.apply(FIELD_MANAGER, &wanted, true), "{:#?}", before);
    }

    /// Equal digests mean that an apply changes neither the object nor its ownership.
    #[test]
    fn recognised_objects_need_no_apply(
        wanted in config(), forced in config(), updated in config(), again in config(), same in any::<bool>(),
    ) {
        let mut stored = Stored::new();
        stored.apply(FIELD_MANAGER, &wanted, true);
        stored.apply("other", &forced, true);
        if same {
            stored.update("third", updated);
        }
        let next = if same { wanted } else { again };
        let known = owned(&stored.live(), FIELD_MANAGER) == desired(&object(&next));
        let before = stored.clone();
        let changed = stored.apply(FIELD_MANAGER, &next, true);
        // an empty map that another adds below an empty map of ours, and owns no more, is sent again without need
        let may_be_unknown = same && !changed;
        prop_assert!(known != changed || may_be_unknown, "{:#?}\n{:#?}", before, stored);
    }

    /// Any `managedFields` of any object yield a digest.
    #[test]
    fn any_managed_fields_have_a_digest(value in json_value(), fields in json_value(), others in json_value()) {
        let mut object = json!({ "spec": value });
        object["metadata"] = json!({});
        let entries = vec![
            entry(FIELD_MANAGER, "Apply", json!({ "f:spec": fields })),
            entry("other", "Update", others),
        ];
        let live = live(object, entries);
        let _ = (owned(&live, FIELD_MANAGER), owned_fields(&live, FIELD_MANAGER));
    }
}

/// Any JSON, mostly with meaningful keys.
fn json_value() -> BoxedStrategy<Value> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "f:a",
            "f:b",
            "a",
            "b",
            ".",
            "k:{\"a\":1}",
            "k:{}",
            "k:[]",
            "k:",
            "v:1",
            "v:\"a\"",
            "v:",
            "i:0",
            "i:-1",
            "",
            "f:",
            "é:",
            "k:{\"a\":null}"
        ])
        .prop_map(str::to_owned),
        ".{0,3}",
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,2}".prop_map(Value::from),
        Just(json!({})),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::btree_map(key.clone(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
    .boxed()
}
