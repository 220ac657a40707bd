//! Establishing, updating and scaling; limits.

use super::{causes, definition, whole};
use crate::crd::{
    ClaimedNames, CustomVersion, ScalePaths, establish, from_scale, prepare_update, terminating, to_scale,
    validate_crd_update,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const NOW: &str = "2026-01-02T03:04:05Z";

fn widgets(name: &str, kind: &str) -> Value {
    let mut crd = definition(name, kind, &Value::Null, &json!({ "type": "object" }));
    crd["spec"]["names"]["shortNames"] = json!(["wg"]);
    crd["spec"]["names"]["categories"] = json!(["all"]);
    crd
}

fn conditions(status: &Value) -> Vec<String> {
    let text = |c: &Value, field: &str| c[field].as_str().unwrap_or_default().to_owned();
    status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| {
            ["type", "status", "reason", "message"]
                .map(|f| text(c, f))
                .join("|")
        })
        .collect()
}

#[test]
fn free_names_are_accepted_and_the_type_established() {
    let mut crd = widgets("widgets", "Widget");
    let status = establish(&crd, &ClaimedNames::default(), NOW);
    let expected = json!({
        "conditions": [
            {"type": "NamesAccepted", "status": "True", "lastTransitionTime": NOW,
             "reason": "NoConflicts", "message": "no conflicts found"},
            {"type": "Established", "status": "True", "lastTransitionTime": NOW,
             "reason": "InitialNamesAccepted", "message": "the initial names have been accepted"},
        ],
        "acceptedNames": {"plural": "widgets", "singular": "widget", "shortNames": ["wg"], "kind": "Widget",
                          "listKind": "WidgetList", "categories": ["all"]},
        "storedVersions": ["v1"],
    });
    assert_eq!(status, expected);

    crd["status"] = status.clone();
    assert_eq!(
        establish(&crd, &ClaimedNames::default(), "later"),
        status,
        "nothing more to do"
    );
    let going = terminating(&crd, "later");
    assert_eq!(
        conditions(&going)[2],
        "Terminating|True|InstanceDeletionInProgress|CustomResource deletion is in progress"
    );
}

#[test]
fn claimed_names_are_refused() {
    let mut holder = widgets("widgets", "Widget");
    holder["status"] = establish(&holder, &ClaimedNames::default(), NOW);
    let cases = [
        (
            widgets("gadgets", "Gadget"),
            "ShortNamesConflict|\"wg\" is already in use",
        ),
        (
            widgets("wg", "Gadget"),
            "ShortNamesConflict|\"wg\" is already in use",
        ),
        (
            widgets("others", "Widget"),
            "ListKindConflict|\"WidgetList\" is already in use",
        ),
    ];
    for (crd, why) in cases {
        let name = crd["metadata"]["name"].as_str().expect("name");
        let claimed = ClaimedNames::of_group("crd-rec.example.com", name, [&holder, &crd].into_iter());
        let found = conditions(&establish(&crd, &claimed, NOW));
        assert_eq!(
            found,
            [
                format!("NamesAccepted|False|{why}"),
                "Established|False|NotAccepted|not all names are accepted".to_owned()
            ]
        );
    }
}

#[test]
fn an_established_definition_keeps_its_identity() {
    let mut old = widgets("widgets", "Widget");
    old["status"] = establish(&old, &ClaimedNames::default(), NOW);
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Namespaced");
    new["spec"]["names"]["kind"] = json!("Other");
    new["spec"]["versions"][0]["storage"] = json!(false);
    let mut second = new["spec"]["versions"][0].clone();
    second["name"] = json!("v2");
    second["storage"] = json!(true);
    new["spec"]["versions"] = json!([second]);
    prepare_update(&mut new, &old);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    let found: Vec<String> = validate_crd_update(&new, &old)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found,
        [
            "status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a \
             storage version, and must remain in spec.versions until a storage migration ensures no data remains \
             persisted in v1 and removes v1 from status.storedVersions",
            "spec.scope: Invalid value: \"Namespaced\": field is immutable",
            "spec.names.kind: Invalid value: \"Other\": field is immutable",
        ]
    );
}

#[test]
fn conversion_webhook_elsewhere_is_named_in_a_warning() {
    let check = |client: Value, errors: &[&str], warning: Option<&str>| {
        let mut crd = widgets("widgets", "Widget");
        crd["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": { "clientConfig": client, "conversionReviewVersions": ["v1"] },
        });
        let found: Vec<String> = super::validate_crd(&crd)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, errors);
        let warning = warning.map(|why| {
            format!(
                "the conversion webhook of widgets.crd-rec.example.com is skipped: {why}; objects of another version get its \
                 apiVersion, and the fields that it knows"
            )
        });
        assert_eq!(crate::conversion::skipped(&crd), warning);
    };
    check(
        json!({ "service": { "namespace": "n", "name": "s" } }),
        &[],
        Some("this server runs no container for the Service n/s"),
    );
    check(json!({ "url": "https://localhost:9443/convert" }), &[], None);
    check(
        json!({ "url": "https://hooks.example.com/convert" }),
        &[],
        Some("https://hooks.example.com/convert is not on the machine of this server"),
    );
    let none = widgets("widgets", "Widget");
    assert_eq!(crate::conversion::skipped(&none), None);
}

#[test]
fn conversion_is_checked() {
    let check = |conversion: Value, errors: &[&str]| {
        let mut crd = widgets("widgets", "Widget");
        crd["spec"]["conversion"] = conversion;
        let found: Vec<String> = super::validate_crd(&crd)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(found, errors);
    };
    let url = json!({ "url": "https://localhost/" });
    check(
        json!({ "strategy": "Webhook", "webhook": { "clientConfig": {}, "conversionReviewVersions": ["v1"] } }),
        &["spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required"],
    );
    check(
        json!({ "strategy": "Webhook", "webhook": { "clientConfig": url } }),
        &["spec.conversion.conversionReviewVersions: Required value"],
    );
    check(
        json!({ "strategy": "Webhook", "webhook": { "clientConfig": url, "conversionReviewVersions": ["v2", "v2"] } }),
        &[
            "spec.conversion.conversionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
            "spec.conversion.conversionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, \
             v1beta1",
        ],
    );
}

#[test]
fn scale_uses_the_declared_paths() {
    let paths = |selector: Option<&str>| ScalePaths {
        spec_replicas: ".spec.size".to_owned(),
        status_replicas: ".status.replicas".to_owned(),
        label_selector: selector.map(str::to_owned),
    };
    let object = json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7",
                     "creationTimestamp": NOW, "labels": {"x": "y"}},
        "spec": {"size": 4, "selector": {"matchLabels": {"b": "c", "a": "b"},
                 "matchExpressions": [{"key": "e", "operator": "In", "values": ["2", "1"]}]}},
        "status": {"replicas": 3, "text": "a=b"},
    });
    let cases = [
        (None, json!({"replicas": 3})),
        (Some(".status.text"), json!({"replicas": 3, "selector": "a=b"})),
        (
            Some(".spec.selector"),
            json!({"replicas": 3, "selector": "a=b,b=c,e in (1,2)"}),
        ),
    ];
    for (selector, status) in cases {
        let (scale, replicas) = to_scale(&object, &paths(selector)).expect("scales");
        let expected = json!({
            "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "creationTimestamp": NOW},
            "spec": {"replicas": 4}, "status": status,
        });
        assert_eq!((scale, replicas), (expected, Some(4)));
    }
    let mut scaled = object.clone();
    from_scale(
        &mut scaled,
        &json!({"metadata": {"resourceVersion": "9"}, "spec": {"replicas": 6}}),
        &paths(None),
    );
    assert_eq!(scaled["spec"]["size"], json!(6));
    assert_eq!(scaled["metadata"]["resourceVersion"], json!("9"));
}

#[test]
fn unknown_fields_are_reported_and_dropped() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "a": {"type": "string"},
        "l": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                 "properties": {"strict": {"type": "object"}}},
        "e": {"type": "object", "x-kubernetes-embedded-resource": true, "properties": {"data": {"type": "string"}}},
        "m": {"type": "object", "additionalProperties": {"type": "object"}},
    }}}});
    let version = CustomVersion::compile(&definition("things", "Thing", &Value::Null, &schema), "v1")
        .expect("compiles");
    let mut object = whole(
        &json!({"spec": {
            "a": "x", "u": 1, "l": [{"k": "1"}, {"k": "2", "z": 1}],
            "free": {"x": {"y": 1}, "strict": {"gone": 1}},
            "e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "data": "d", "other": 1},
            "m": {"k": {"gone": 1}},
        }, "extra": {}}),
        "Thing",
    );
    let dropped = version.prune(&mut object);
    assert_eq!(
        dropped,
        [
            "extra",
            "spec.e.other",
            "spec.free.strict.gone",
            "spec.l[1].z",
            "spec.m.k.gone",
            "spec.u"
        ]
    );
    assert_eq!(
        object["spec"],
        json!({"a": "x", "l": [{"k": "1"}, {"k": "2"}], "free": {"x": {"y": 1}, "strict": {}},
               "e": {"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}, "data": "d"}, "m": {"k": {}}})
    );
    assert!(version.prune(&mut object).is_empty(), "pruning is idempotent");
}

#[test]
fn defaults_are_filled_in_and_stray_nulls_dropped() {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "default": {}, "properties": {
        "a": {"type": "string", "default": "d"},
        "n": {"type": "string", "nullable": true, "default": "d"},
        "o": {"type": "object", "properties": {"deep": {"type": "integer", "default": 3}}},
        "l": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "string", "default": "dv"}}}},
        "m": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}},
        "z": {"type": "string"},
    }}}});
    let version = CustomVersion::compile(&definition("things", "Thing", &Value::Null, &schema), "v1")
        .expect("compiles");
    let cases = [
        (json!({}), json!({"a": "d", "n": "d"})),
        (
            json!({"spec": {"a": null, "n": null, "o": {}, "l": [{}, {"v": "1"}], "m": {"k": null}, "z": null}}),
            json!({"a": "d", "n": null, "o": {"deep": 3}, "l": [{"v": "dv"}, {"v": "1"}], "m": {"k": "x"}}),
        ),
        (json!({"spec": {"a": "1", "n": "2"}}), json!({"a": "1", "n": "2"})),
    ];
    for (given, wanted) in cases {
        let mut object = whole(&given, "Thing");
        version.default(&mut object);
        assert_eq!(object["spec"], wanted);
        let once = object.clone();
        version.default(&mut object);
        assert_eq!(object, once, "defaulting is idempotent");
    }
}

#[test]
fn rules_have_a_step_limit() {
    let loops = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))";
    let schema = json!({"type": "object", "properties": {"spec": {
        "type": "array", "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": loops}, {"rule": "self.size() > 0"}],
    }}});
    let version = CustomVersion::compile(&definition("things", "Thing", &Value::Null, &schema), "v1")
        .expect("compiles");
    let object = whole(&json!({"spec": vec![1; 1000]}), "Thing");
    let started = Instant::now();
    let found = causes(&version.validate(&object, None));
    assert!(
        started.elapsed() < Duration::from_secs(120),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(
        found,
        [[
            "spec".to_owned(),
            "FieldValueInvalid".to_owned(),
            format!(
                "Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no further validation \
                 rules will be run due to call cost exceeds limit for rule: {loops}"
            )
        ]]
    );
}

/// Rules come from anyone who may write a definition, and run on a worker's stack.
#[test]
fn deeply_nested_rules_do_not_overflow_the_stack() {
    let check = |head: &str, part: &str, middle: &str, tail: &str| {
        for times in [10, 90, 240, 1_000, 8_000, 20_000] {
            let rule = format!("{head}{}{middle}{}", part.repeat(times), tail.repeat(times));
            let run = move || {
                let schema = json!({"type": "object", "properties": {"spec": {
                    "type": "integer", "x-kubernetes-validations": [{"rule": rule}],
                }}});
                let definition = definition("things", "Thing", &Value::Null, &schema);
                if let Ok(version) = CustomVersion::compile(&definition, "v1") {
                    drop(causes(
                        &version.validate(&whole(&json!({"spec": 1}), "Thing"), None),
                    ));
                }
            };
            let thread = std::thread::Builder::new().stack_size(2 << 20);
            thread.spawn(run).unwrap().join().unwrap();
        }
    };
    check("self", "+1", " == 1", "");
    check("self", ".a", "", "");
    check("'a'", ".lowerAscii()", "== ''", "");
    check("", "!", "true", "");
    check("", "(", "true", ")");
    check("", "true ? 1 : ", "1", "");
    check("", "[1].all(x, ", "true", ")");
}
