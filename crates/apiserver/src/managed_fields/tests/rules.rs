//! Rules that no recording covers.

use super::*;

struct Map {
    kind: Kind,
    object: Option<Value>,
    clock: u32,
}

impl Map {
    fn new() -> Self {
        Self {
            kind: Kind::config_map(),
            object: None,
            clock: 0,
        }
    }

    fn of(metadata: &Value, data: &Value) -> Value {
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data })
    }

    fn time(&mut self) -> String {
        self.clock += 1;
        format!("2026-01-01T00:00:{:02}Z", self.clock)
    }

    fn store(&mut self, mut object: Value) {
        object["metadata"]["uid"] = json!("u");
        self.object = Some(object);
    }

    fn put(&mut self, name: &str, data: &Value) -> &mut Self {
        let metadata = self.object.as_ref().map_or(json!({ "name": "a" }), |live| {
            let mut metadata = live["metadata"].clone();
            metadata.as_object_mut().unwrap().remove("managedFields");
            metadata
        });
        self.put_object(name, Self::of(&metadata, data))
    }

    fn put_object(&mut self, name: &str, new: Value) -> &mut Self {
        let time = self.time();
        let manager = Manager {
            time: &time,
            ..self.kind.manager(name, "")
        };
        let new = update(self.object.as_ref(), new, &manager);
        self.store(new);
        self
    }

    fn try_apply(&mut self, name: &str, patch: &Value, force: bool) -> Result<bool, ApiError> {
        let time = self.time();
        let manager = Manager {
            time: &time,
            ..self.kind.manager(name, "")
        };
        let applied = apply(self.object.as_ref(), patch, force, &manager)?;
        self.store(applied.object);
        Ok(applied.changed)
    }

    fn apply(&mut self, name: &str, data: &Value) -> &mut Self {
        self.try_apply(name, &Self::of(&json!({ "name": "a" }), data), false)
            .unwrap();
        self
    }

    /// `manager operation second: fields`, a line per entry.
    fn owners(&self) -> Vec<String> {
        let Some(entries) = self.object.as_ref().and_then(managed_fields) else {
            return Vec::new();
        };
        let line = |entry: &Value| {
            let fields: Vec<String> = Set::from_fields_v1(&entry["fieldsV1"])
                .unwrap()
                .paths()
                .iter()
                .map(ToString::to_string)
                .collect();
            let second = entry["time"]
                .as_str()
                .map_or("-".to_owned(), |t| t[17..19].to_owned());
            let text = |key: &str| entry[key].as_str().unwrap().to_owned();
            format!(
                "{} {} {second}: {}",
                text("manager"),
                text("operation"),
                fields.join(" ")
            )
        };
        entries.as_array().unwrap().iter().map(line).collect()
    }

    #[track_caller]
    fn check(&mut self, owners: &[&str]) -> &mut Self {
        assert_eq!(self.owners(), owners);
        self
    }
}

#[test]
fn manager_name_falls_back_to_the_user_agent() {
    let long = "x".repeat(200);
    for (field_manager, user_agent, name) in [
        ("flux", "kubectl/v1.36", "flux"),
        ("", "kubectl/v1.36 (linux/amd64)", "kubectl"),
        ("", "", "unknown"),
        ("", "/v1", "unknown"),
        ("", "a b\tc\u{7f}/1", "a bc"),
        ("", &long, &long[..128]),
    ] {
        assert_eq!(
            manager_name(field_manager, user_agent),
            name,
            "{field_manager:?} {user_agent:?}"
        );
    }
}

#[test]
fn update_records_changed_fields_and_their_time() {
    Map::new()
        .put("a", &json!({ "x": "1", "y": "1" }))
        .check(&["a Update 01: .data .data.x .data.y"])
        .put("b", &json!({ "x": "1", "y": "1" }))
        .check(&["a Update 01: .data .data.x .data.y"])
        .put("b", &json!({ "x": "2", "y": "1" }))
        .check(&["a Update 01: .data .data.y", "b Update 03: .data.x"])
        .put("a", &json!({ "y": "1" }))
        .check(&["a Update 01: .data .data.y"])
        .put("a", &json!({ "y": "1", "z": "1" }))
        .check(&["a Update 05: .data .data.y .data.z"]);
}

#[test]
fn an_apply_moves_the_time_only_if_the_object_changes() {
    let mut map = Map::new();
    map.apply("a", &json!({ "x": "1" }))
        .check(&["a Apply 01: .data.x"])
        .apply("a", &json!({ "x": "1" }))
        .check(&["a Apply 01: .data.x"])
        .apply("b", &json!({ "x": "1" }))
        .check(&["b Apply -: .data.x", "a Apply 01: .data.x"])
        .apply("b", &json!({ "y": "1" }))
        .check(&["a Apply 01: .data.x", "b Apply 04: .data.y"])
        .apply("a", &json!({}))
        .check(&["b Apply 04: .data.y", "a Apply 05: .data"]);
    assert_eq!(map.object.unwrap()["data"], json!({ "y": "1" }));
}

#[test]
fn managed_fields_in_a_request_reset_or_replace_or_are_ignored() {
    let object = |said: Value| {
        Map::of(
            &json!({ "name": "a", "uid": "u", "managedFields": said }),
            &json!({ "x": "1" }),
        )
    };
    let stored = ["a Update 01: .data .data.x"];
    let entry = |manager: &str, kind: &str| {
        json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": kind,
            "time": "2026-01-01T02:00:09+02:00", "fieldsV1": { "f:data": { "f:x": {} } },
        })
    };
    for (said, owners) in [
        (json!(null), &stored as &[&str]),
        (json!([]), &[]),
        (json!([{}]), &[]),
        (json!([{ "manager": "", "time": null }]), &[]),
        (json!([{}, {}]), &stored),
        (json!([entry("b", "FieldsV2")]), &stored),
        (json!("nonsense"), &stored),
        (json!([entry("b", "FieldsV1")]), &["b Update 09: .data.x"]),
    ] {
        let mut map = Map::new();
        map.put("a", &json!({ "x": "1" }))
            .put_object("c", object(said))
            .check(owners);
    }

    // Other endpoints keep the stored managers, whatever the request has.
    let mut map = Map::new();
    map.put("a", &json!({ "x": "1" }));
    let manager = map.kind.manager("c", "status");
    let new = update(map.object.as_ref(), object(json!([])), &manager);
    map.object = Some(new);
    map.check(&stored);
}

#[test]
fn an_untracked_object_stays_untracked_until_the_first_apply() {
    let mut map = Map::new();
    let reset = Map::of(
        &json!({ "name": "a", "uid": "u", "managedFields": [] }),
        &json!({ "x": "1" }),
    );
    map.put("a", &json!({ "x": "1" }))
        .put_object("a", reset)
        .check(&[])
        .put("a", &json!({ "x": "1", "y": "1" }))
        .check(&[]);
    let patch = Map::of(&json!({ "name": "a" }), &json!({ "x": "2" }));
    let error = map.try_apply("b", &patch, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.x"
    );
    map.try_apply("b", &patch, true).unwrap();
    map.check(&[
        "b Apply 05: .data.x",
        "before-first-apply Update 05: .data .data.y",
    ]);
}

#[test]
fn server_written_metadata_has_no_owner() {
    let mut map = Map::new();
    let bare =
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n" } });
    assert_eq!(map.try_apply("a", &bare, false), Ok(true));
    map.check(&[]);
    let labelled = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "a", "namespace": "n", "labels": { "l": "1" }, "finalizers": ["x/y"] },
    });
    map.try_apply("a", &labelled, false).unwrap();
    map.check(&["a Apply 02: .metadata.finalizers[=\"x/y\"] .metadata.labels.l"]);
}

#[test]
fn conflicts_are_grouped_by_manager() {
    let mut map = Map::new();
    map.apply("b", &json!({ "x": "1", "y": "1" }))
        .apply("a", &json!({ "x": "1" }))
        .put("u", &json!({ "x": "1", "y": "1", "z": "1" }));
    let patch = Map::of(&json!({ "name": "a" }), &json!({ "x": "2", "y": "2", "z": "2" }));
    let error = map.try_apply("c", &patch, false).unwrap_err();
    assert_eq!(
        error.message,
        "Apply failed with 4 conflicts: conflicts with \"a\":\n- .data.x\nconflicts with \"b\":\n- .data.x\n\
         - .data.y\nconflicts with \"u\" using v1:\n- .data.z"
    );
    assert_eq!((error.code, error.reason), (409, "Conflict"));
    let causes = error.details.unwrap().causes;
    assert_eq!(causes.len(), 4);
    assert_eq!(causes[3].message, "conflict with \"u\" using v1");
}

#[test]
fn more_than_ten_updaters_share_an_entry() {
    let mut map = Map::new();
    let mut data = serde_json::Map::new();
    for i in 0..13 {
        data.insert(format!("k{i:02}"), json!("1"));
        map.put(&format!("m{i:02}"), &Value::Object(data.clone()));
    }
    let mut owners =
        vec!["ancient-changes Update 04: .data .data.k00 .data.k01 .data.k02 .data.k03".to_owned()];
    owners.extend((4..13).map(|i| format!("m{i:02} Update {:02}: .data.k{i:02}", i + 1)));
    assert_eq!(map.owners(), owners);
}

#[test]
fn kubectl_takes_over_its_earlier_configuration() {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let config = |data: Value| json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": data });
    let client_side = |map: &mut Map, data: Value| {
        let annotations = json!({ LAST: config(data.clone()).to_string() });
        map.put_object(
            "kubectl-client-side-apply",
            Map::of(&json!({ "name": "a", "annotations": annotations }), &data),
        );
    };

    let mut map = Map::new();
    client_side(&mut map, json!({ "x": "1", "y": "1" }));
    map.try_apply("kubectl", &config(json!({ "x": "<2>", "y": "1" })), false)
        .unwrap();
    let object = map.object.as_ref().unwrap();
    assert_eq!(object["data"], json!({ "x": "<2>", "y": "1" }));
    assert_eq!(
        object["metadata"]["annotations"][LAST],
        "{\"apiVersion\":\"v1\",\"data\":{\"x\":\"\\u003c2\\u003e\",\"y\":\"1\"},\"kind\":\"ConfigMap\",\
         \"metadata\":{\"name\":\"a\"}}\n"
    );

    // Other managers have no such right, and neither has kubectl over fields that someone changed since.
    for (name, changed, conflict) in [
        ("other", json!({ "x": "1", "y": "1" }), ".data.x"),
        ("kubectl", json!({ "x": "1", "y": "2" }), ".data.y"),
    ] {
        let mut map = Map::new();
        client_side(&mut map, json!({ "x": "1", "y": "1" }));
        map.put("someone", &changed);
        let wanted = if conflict == ".data.x" {
            json!({ "x": "2" })
        } else {
            json!({ "y": "3" })
        };
        let error = map.try_apply(name, &config(wanted), false).unwrap_err();
        assert_eq!(error.details.unwrap().causes[0].field, conflict);
    }
}

#[test]
fn times_are_restored_if_nothing_else_differs() {
    let mut map = Map::new();
    map.apply("a", &json!({ "x": "1" }));
    let live = map.object.clone().unwrap();
    let mut later = live.clone();
    later["metadata"]["managedFields"][0]["time"] = json!("2026-01-01T01:00:00Z");
    let mut settled = later.clone();
    assert!(settle_times(&live, &mut settled));
    assert_eq!(settled, live);

    let mut other = later.clone();
    other["data"]["x"] = json!("2");
    let before = other.clone();
    assert!(!settle_times(&live, &mut other));
    assert_eq!(other, before);

    let mut owned = later.clone();
    owned["metadata"]["managedFields"][0]["fieldsV1"] = json!({ "f:data": {} });
    assert!(!settle_times(&live, &mut owned));
}

#[test]
fn unreadable_bodies_are_refused_by_name() {
    let mut map = Map::new();
    map.apply("a", &json!({ "x": "1" }));
    for (entry, message) in [
        (
            json!({ "operation": "Delete" }),
            "operation must be `Apply` or `Update`",
        ),
        (json!({ "apiVersion": "" }), "apiVersion must not be empty"),
        (
            json!({ "fieldsType": "" }),
            "missing fieldsType in managed fields entry 0",
        ),
        (
            json!({ "fieldsType": "V2" }),
            "invalid fieldsType \"V2\" in managed fields entry 0",
        ),
    ] {
        let mut broken = map.object.clone().unwrap();
        for (key, value) in entry.as_object().unwrap() {
            broken["metadata"]["managedFields"][0][key] = value.clone();
        }
        let patch = Map::of(&json!({ "name": "a" }), &json!({}));
        let error = apply(Some(&broken), &patch, false, &map.kind.manager("b", "")).unwrap_err();
        assert_eq!(
            error.message,
            format!("failed to decode managed fields: {message}")
        );
        assert_eq!(error.code, 500);
    }
}
