use super::*;
use crate::fieldpath::PathElement;
use crate::typed::from_json;
use proptest::prelude::*;
use serde_json::{Map, json};

fn kind() -> Type {
    let number = json!({ "scalar": "numeric" });
    let text = json!({ "scalar": "string" });
    let pair =
        json!({ "map": { "fields": [{ "name": "a", "type": number }, { "name": "b", "type": number }] } });
    let item = json!({ "map": { "fields": [
        { "name": "name", "type": text },
        { "name": "proto", "type": text, "default": "T" },
        { "name": "pair", "type": pair },
    ] } });
    let document = json!({ "types": [{ "name": "root", "map": { "fields": [
        { "name": "n", "type": number },
        { "name": "pair", "type": pair },
        { "name": "entries", "type": { "map": { "elementType": pair } } },
        { "name": "atom", "type": { "map": { "elementType": number, "elementRelationship": "atomic" } } },
        { "name": "items", "type": { "list": {
            "elementRelationship": "associative", "keys": ["name", "proto"], "elementType": item } } },
        { "name": "tags", "type": { "list": { "elementRelationship": "associative", "elementType": text } } },
        { "name": "free", "type": { "namedType": "__untyped_deduced_" } },
    ] } }] });
    from_json(&document, &json!({ "namedType": "root" })).unwrap()
}

fn object(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| prop::option::weighted(0.5, value).prop_map(move |value| (name, value)))
        .collect();
    fields
        .prop_map(|fields| {
            fields
                .into_iter()
                .filter_map(|(name, value)| Some((name.to_owned(), value?)))
                .collect::<Map<_, _>>()
        })
        .prop_map(Value::Object)
        .boxed()
}

fn number() -> BoxedStrategy<Value> {
    (1..3i64).prop_map(Value::from).boxed()
}

fn pair() -> BoxedStrategy<Value> {
    object(vec![("a", number()), ("b", number())])
}

fn config() -> BoxedStrategy<Value> {
    let item =
        ("[xy]", prop::option::of("[TU]"), prop::option::of(pair())).prop_map(|(name, proto, pair)| {
            let mut item = json!({ "name": name });
            for (key, value) in [("proto", proto.map(Value::from)), ("pair", pair)] {
                if let Some(value) = value {
                    item[key] = value;
                }
            }
            item
        });
    let key = |item: &Value| {
        (
            item["name"].clone(),
            item.get("proto").cloned().unwrap_or(json!("T")),
        )
    };
    let items = prop::collection::vec(item, 0..3).prop_map(move |mut items| {
        let mut seen = Vec::new();
        items.retain(|item| {
            let new = !seen.contains(&key(item));
            seen.push(key(item));
            new
        });
        Value::Array(items)
    });
    let tags = prop::sample::subsequence(vec!["a", "b", "c"], 0..3).prop_shuffle();
    object(vec![
        ("n", number()),
        ("pair", pair()),
        ("entries", object(vec![("x", pair()), ("y", pair())])),
        ("atom", object(vec![("x", number())])),
        ("items", items.boxed()),
        ("tags", tags.prop_map(|tags| json!(tags)).boxed()),
        ("free", object(vec![("x", number()), ("y", pair())])),
    ])
}

#[derive(Debug, Clone)]
struct Operation {
    manager: &'static str,
    /// By apply, forced; otherwise by update.
    apply: bool,
    object: Value,
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = (
        prop::sample::select(vec!["m1", "m2", "m3"]),
        any::<bool>(),
        config(),
    )
        .prop_map(|(manager, apply, object)| Operation {
            manager,
            apply,
            object,
        });
    prop::collection::vec(operation, 1..7)
}

struct World {
    kind: Type,
    live: Value,
    managers: Managers<String>,
}

impl World {
    fn after(operations: &[Operation]) -> Self {
        let mut world = Self {
            kind: kind(),
            live: json!({}),
            managers: Managers::new(),
        };
        for operation in operations {
            if operation.apply {
                world.apply(operation.manager, &operation.object, true).unwrap();
            } else {
                let nothing = Set::default();
                let request = world.request(operation.manager, &nothing);
                world.managers =
                    update(&request, &world.live, &operation.object, world.managers.clone()).unwrap();
                world.live = operation.object.clone();
            }
        }
        world
    }

    fn request<'a>(&'a self, manager: &str, ignored: &'a Set) -> Request<'a, String> {
        // as in Kubernetes, one name's applies and updates are separate managers
        Request {
            kind: &self.kind,
            manager: manager.to_owned(),
            api_version: "v1",
            ignored,
        }
    }

    /// Returns whether the object changed.
    fn apply(&mut self, manager: &str, config: &Value, force: bool) -> Result<bool, ApplyError<String>> {
        let nothing = Set::default();
        let request = self.request(&format!("{manager}-apply"), &nothing);
        let (new, managers) = apply(&request, &self.live, config, self.managers.clone(), force)?;
        self.managers = managers;
        let changed = new.is_some();
        if let Some(new) = new {
            self.live = new;
        }
        Ok(changed)
    }
}

fn exists(value: &Value, path: &[PathElement]) -> bool {
    let [first, rest @ ..] = path else { return true };
    let same_key = |item: &Value, name: &str, key: &Value| match item.get(name) {
        Some(value) => value == key,
        None => name == "proto" && key == "T",
    };
    let inner = match first {
        PathElement::Field(name) => value.get(name.as_ref()),
        PathElement::Value(item) => value
            .as_array()
            .and_then(|items| items.iter().find(|i| *i == item.as_ref())),
        PathElement::Key(keys) => value.as_array().and_then(|items| {
            items
                .iter()
                .find(|item| keys.iter().all(|(name, key)| same_key(item, name, key)))
        }),
        PathElement::Index(_) => None,
    };
    inner.is_some_and(|inner| exists(inner, rest))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_apply_again_changes_nothing(before in operations(), config in config()) {
        let mut world = World::after(&before);
        world.apply("me", &config, true).unwrap();
        let managers = world.managers.clone();
        prop_assert_eq!(world.apply("me", &config, false), Ok(false));
        prop_assert_eq!(world.managers, managers);
    }

    #[test]
    fn applied_configuration_is_in_the_object(before in operations(), config in config()) {
        let mut world = World::after(&before);
        world.apply("me", &config, true).unwrap();
        for path in world.kind.field_set(&config).unwrap().paths() {
            prop_assert!(exists(&world.live, &path.0), "{path} is not in {}", world.live);
        }
        let changes = world.kind.compare(&config, &world.live).unwrap();
        let set = world.kind.field_set(&config).unwrap();
        prop_assert!(changes.modified.intersection(&set).is_empty() || has_empty(&config));
    }

    #[test]
    fn empty_apply_releases_all_fields(before in operations(), config in config()) {
        let mut world = World::after(&before);
        let others = world.managers.clone();
        world.apply("me", &config, true).unwrap();
        world.apply("me", &json!({}), false).unwrap();
        prop_assert!(!world.managers.contains_key("me-apply"));
        // others keep their fields, except those the forced apply took
        for (manager, owned) in &world.managers {
            prop_assert!(owned.fields.is_subset(&others[manager].fields));
        }
    }

    #[test]
    fn sole_applier_removes_all_its_fields(first in config(), second in config()) {
        let mut world = World { kind: kind(), live: json!({}), managers: Managers::new() };
        world.apply("me", &first, false).unwrap();
        world.apply("me", &second, false).unwrap();
        let mut fresh = World { kind: kind(), live: json!({}), managers: Managers::new() };
        fresh.apply("me", &second, false).unwrap();
        prop_assert_eq!(&world.managers, &fresh.managers);
        // pruned values, the object included, are null until the object is decoded
        let decoded = |live: &Value| if live.is_null() { json!({}) } else { without_nulls(live) };
        prop_assert_eq!(decoded(&world.live), decoded(&fresh.live));
    }

    #[test]
    fn every_owned_field_is_in_the_object(operations in operations()) {
        let world = World::after(&operations);
        for (manager, owned) in &world.managers {
            for path in owned.fields.paths() {
                prop_assert!(exists(&world.live, &path.0), "{manager} owns {path}, not in {}", world.live);
            }
        }
    }

    #[test]
    fn unforced_apply_takes_no_fields(before in operations(), config in config()) {
        let mut world = World::after(&before);
        let (live, others) = (world.live.clone(), world.managers.clone());
        match world.apply("me", &config, false) {
            Ok(_) => {
                for (manager, owned) in others {
                    prop_assert_eq!(Some(&owned), world.managers.get(&manager));
                }
            }
            Err(ApplyError::Conflicts(conflicts)) => {
                prop_assert!(!conflicts.is_empty());
                prop_assert_eq!(world.live, live);
                prop_assert_eq!(world.managers, others);
            }
            Err(ApplyError::Invalid(errors)) => prop_assert!(false, "{errors}"),
        }
    }

    #[test]
    fn skipped_prune_equals_full_prune(before in operations(), config in config()) {
        let mut world = World::after(&before);
        world.apply("me", &config, true).unwrap();
        let last = Ownership {
            fields: world.kind.field_set(&config).unwrap(),
            api_version: "v1".to_owned(),
            applied: true,
        };
        prop_assume!(!last.fields.is_empty());
        let merged = world.kind.merge(&world.live, &config).unwrap();
        let pruned = prune::prune_dropped(&world.kind, &merged, &world.managers, &last).unwrap();
        prop_assert_eq!(without_nulls(&pruned), without_nulls(&merged));
    }
}

/// Whether it contains an empty map or list: merging keeps those of the live object.
fn has_empty(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.is_empty() || map.values().any(has_empty),
        Value::Array(items) => items.is_empty() || items.iter().any(has_empty),
        _ => false,
    }
}

/// The value after decoding: without nulls, and without collections emptied by that.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, value)| (key.clone(), without_nulls(value)))
                .filter(|(_, value)| !value.is_null() && *value != json!({}) && *value != json!([]))
                .collect(),
        ),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}
