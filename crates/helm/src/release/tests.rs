use super::*;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::Write as _;

fn history(text: &str) -> History {
    let revision = |text: &str| {
        let (version, status) = text.split_once(' ').unwrap();
        Revision {
            version: version.parse().unwrap(),
            status: status.into(),
        }
    };
    text.split(", ")
        .filter(|text| !text.is_empty())
        .map(revision)
        .collect()
}

#[test]
fn histories() {
    // install, install with replace, upgrade, rollback, uninstall
    let check = |text: &str, state: &str, allowed: [&str; 5]| {
        let history = history(text);
        assert_eq!(format!("{:?}", history.state()), state, "{text}");
        fn told<T: ToString>(outcome: Result<T, Refusal>) -> String {
            outcome.map_or_else(|refusal| refusal.to_string(), |done| done.to_string())
        }
        let got = [
            told(history.install(false).map(|()| "yes")),
            told(history.install(true).map(|()| "yes")),
            told(history.upgrade()),
            told(history.rollback(None)),
            told(history.uninstall()),
        ];
        assert_eq!(got, allowed, "{text}");
    };
    let used = "cannot reuse a name that is still in use";
    let pending = "another operation (install/upgrade/rollback) is in progress";
    let none = "has no deployed releases";
    check(
        "",
        "Absent",
        ["yes", "yes", none, "release: not found", "release: not found"],
    );
    check(
        "1 deployed",
        "Deployed { version: 1 }",
        [used, used, "1", "release has no 0 version", "1"],
    );
    check(
        "10 deployed, 9 superseded, 2 superseded",
        "Deployed { version: 10 }",
        [used, used, "10", "9", "10"],
    );
    check(
        "1 failed",
        "Failed { version: 1, deployed: None }",
        [used, "yes", "1", "release has no 0 version", "1"],
    );
    check(
        "1 deployed, 2 failed, 3 failed",
        "Failed { version: 3, deployed: Some(1) }",
        [used, "yes", "1", "2", "3"],
    );
    check(
        "1 pending-install",
        "Pending { version: 1, what: Install, deployed: None }",
        [used, used, pending, "release has no 0 version", "1"],
    );
    check(
        "1 superseded, 2 deployed, 3 pending-upgrade",
        "Pending { version: 3, what: Upgrade, deployed: Some(2) }",
        [used, used, pending, "2", "3"],
    );
    check(
        "2 deployed, 3 failed, 4 pending-rollback",
        "Pending { version: 4, what: Rollback, deployed: Some(2) }",
        [used, used, pending, "3", "4"],
    );
    check(
        "4 superseded",
        "Superseded { version: 4, deployed: None }",
        [used, used, "4", "release has no 3 version", "4"],
    );
    check(
        "1 superseded, 2 uninstalled",
        "Uninstalled { version: 2 }",
        [used, "yes", none, "1", "is already deleted"],
    );
    check(
        "2 uninstalling",
        "Uninstalling { version: 2 }",
        [used, used, none, "release has no 1 version", "2"],
    );
    check(
        "1 deployed, 2 other",
        "Unknown { version: 2 }",
        [used, used, "1", "1", "2"],
    );
    check(
        "2 unknown",
        "Unknown { version: 2 }",
        [used, used, none, "release has no 1 version", "2"],
    );
}

#[test]
fn superseded_and_forgotten_revisions() {
    let all = history("1 superseded, 2 deployed, 3 superseded, 4 deployed, 5 failed");
    assert_eq!(all.next_version(), 6);
    assert_eq!(all.superseded_by_install(), None);
    assert_eq!(all.superseded_by_upgrade(), Ok(4));
    assert_eq!(all.superseded_by_rollback(6), [2, 4]);
    assert_eq!(all.superseded_by_rollback(4), [2]);
    assert_eq!(history("3 uninstalled").superseded_by_install(), Some(3));
    assert_eq!(all.rollback(Some(3)), Ok(3));
    assert_eq!(all.rollback(Some(7)), Err(Refusal::NoRevision(7)));
    for (revisions_max, expected) in [
        (0, vec![]),
        (10, vec![]),
        (6, vec![]),
        (5, vec![1]),
        (3, vec![1, 2, 3]),
        (2, vec![1, 2, 3, 5]),
        // the last deployed revision stays, whatever the maximum
        (1, vec![1, 2, 3, 5]),
    ] {
        assert_eq!(all.forgotten(revisions_max), expected, "{revisions_max}");
    }
    assert_eq!(history("1 failed, 2 failed").forgotten(1), [1, 2]);
    assert_eq!(history("").next_version(), 1);
}

#[test]
fn names() {
    for (name, is_name) in [
        ("a", true),
        ("a-b.c", true),
        ("0", true),
        ("A", false),
        ("a_b", false),
        ("-a", false),
        ("a-", false),
        ("a..b", false),
        ("a.-b", false),
        (".a", false),
        ("ä", false),
        (&"a".repeat(53), true),
        (&"a".repeat(54), false),
    ] {
        assert_eq!(check_name(name).is_ok(), is_name, "{name}");
    }
    assert_eq!(check_name("").unwrap_err().to_string(), "no name provided");
}

fn gzipped(bytes: &[u8]) -> String {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    STANDARD.encode(encoder.finish().unwrap())
}

/// Records stored by helm 4.3.1 and 3.17.3.
#[test]
fn records_come_back_as_they_were() {
    let mut count = 0;
    for line in include_str!("../../tests/golden/records.jsonl").lines() {
        let object: Value = serde_json::from_str(line).unwrap();
        let release = from_object(&object).unwrap();
        let summary = Summary::of(&object).unwrap();
        assert_eq!((&summary.name, summary.version), (&release.name, release.version));
        assert_eq!(summary.status, release.info.status);
        let driver = match object["kind"].as_str() {
            Some("ConfigMap") => Driver::ConfigMap,
            _ => Driver::Secret,
        };
        let label = |name: &str| object["metadata"]["labels"][name].as_str()?.parse().ok();
        let stamp = match label("createdAt") {
            Some(seconds) => Stamp::Created(seconds),
            None => Stamp::Modified(label("modifiedAt").unwrap()),
        };
        let namespace = object["metadata"]["namespace"].as_str().unwrap();
        let mut written = to_object(&release, driver, namespace, stamp).unwrap();
        assert_eq!(plain(&written), plain(&object));
        written["data"] = object["data"].clone();
        assert_eq!(written, object);
        count += 1;
    }
    assert!(count >= 8, "{count}");
}

fn plain(object: &Value) -> Value {
    let mut data = object["data"]["release"].as_str().unwrap().as_bytes().to_vec();
    if object["kind"] == "Secret" {
        data = STANDARD.decode(data).unwrap();
    }
    let compressed = STANDARD.decode(data).unwrap();
    let mut record: Value =
        serde_json::from_reader(flate2::read::GzDecoder::new(compressed.as_slice())).unwrap();
    // Helm 3 writes missing times as empty texts; Helm 4 omits them
    let is_said = |time: &mut Value| *time != "";
    record["info"]
        .as_object_mut()
        .unwrap()
        .retain(|_, value| is_said(value));
    for hook in record["hooks"].as_array_mut().unwrap() {
        hook["last_run"]
            .as_object_mut()
            .unwrap()
            .retain(|key, value| key == "phase" || is_said(value));
    }
    record
}

#[test]
fn odd_records() {
    let read = |json: &str| decode(gzipped(json.as_bytes()).as_bytes());
    let release = read(
        r#"{"name":"a","info":{"first_deployed":"","deleted":"0001-01-01T00:00:00Z","status":"new"},
            "config":null,"hooks":null,"chart":null,"manifest":null,"version":3,"more":1}"#,
    )
    .unwrap();
    assert_eq!((release.name.as_str(), release.version), ("a", 3));
    assert_eq!(release.info.first_deployed, None);
    assert_eq!(release.info.deleted, None);
    assert_eq!(release.info.status.as_str(), "new");
    // records that are not compressed are older than Helm 3
    let bare = STANDARD.encode(r#"{"name":"b"}"#);
    assert_eq!(decode(bare.as_bytes()).unwrap().name, "b");
    assert_eq!(
        decode(format!("{}\r\n{}", &bare[..8], &bare[8..]).as_bytes())
            .unwrap()
            .name,
        "b"
    );

    let check = |text: &str, expected: &str| {
        let error = decode(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check("?", "it is not base64");
    check(
        &gzipped(b"["),
        "it is not a release: the end of the text at byte 1 of line 1",
    );
    check(
        &gzipped(br#"{"config":"secret"}"#),
        "it is not a release: a value of another kind than expected at byte 18 of line 1",
    );
    for (number, byte) in [("9223372036854775808", 30), ("-1", 14), ("1.5", 14)] {
        check(
            &gzipped(format!(r#"{{"version":{number}}}"#).as_bytes()),
            &format!("it is not a release: a value of another kind than expected at byte {byte} of line 1"),
        );
    }
    check(
        &STANDARD.encode([0x1f, 0x8b, 8, 0, 1]),
        "it cannot be decompressed",
    );
    check(
        &gzipped(&vec![b' '; JSON_BYTES_MAX + 1]),
        "it has more than 33554432 bytes",
    );
    for (item, count, key) in [
        (r#"{"a":0}"#, 110_000, "config"),
        ("{}", 120_000, "hooks"),
        ("0", 2_100_000, "chart"),
    ] {
        let items = vec![item; count].join(",");
        check(
            &gzipped(format!(r#"{{"{key}":{{"a":[{items}]}}}}"#).as_bytes()),
            "it takes more than 67108864 bytes of memory",
        );
    }
    let none = from_object(&json!({"data": {}})).unwrap_err();
    assert_eq!(none.to_string(), "there is no release in the object's data");
    assert_eq!(Summary::of(&json!({"metadata": {"labels": {"name": "a"}}})), None);
    let summary = |version: &str| {
        let labels = json!({"owner": "helm", "name": "a", "status": "deployed", "version": version});
        Summary::of(&json!({"metadata": {"labels": labels}})).map(|summary| summary.version)
    };
    assert_eq!(summary("9223372036854775807"), Some(i64::MAX as u64));
    for version in ["18446744073709551615", "9223372036854775808", "-1", "x"] {
        assert_eq!(summary(version), None, "{version}");
    }
}

#[test]
fn unwritable_records_are_refused() {
    let mut release = Release {
        name: "a".to_owned(),
        version: 1,
        ..Release::default()
    };
    release.labels.insert("status".to_owned(), "x".to_owned());
    let error = to_object(&release, Driver::Secret, "n", Stamp::Created(1)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "user supplied labels contains system reserved label name. \
         System labels: [name owner status version createdAt modifiedAt]"
    );
    let mut state = 1_u64;
    let noise: String = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + (state >> 33) as u8 % 90)
    })
    .take(ENCODED_BYTES_MAX)
    .collect();
    release.labels.clear();
    release.manifest = noise.into();
    let error = encode(&release).unwrap_err().to_string();
    assert!(error.starts_with("the record of release a has "), "{error}");
}

#[test]
fn debug_shows_no_secrets() {
    let release: Release = serde_json::from_value(json!({
        "name": "a",
        "namespace": "n",
        "version": 2,
        "config": {"password": "hidden"},
        "manifest": "hidden",
        "hooks": [{"name": "h", "manifest": "hidden"}],
        "chart": {"values": {"password": "hidden"}, "templates": [{"name": "t", "data": "hidden"}]},
        "info": {"notes": "hidden", "status": "deployed"},
    }))
    .unwrap();
    assert_eq!(format!("{release:?}"), "n/a.v2 (deployed)");
    for shown in [
        format!("{:?}", release.hooks),
        format!("{:?}", release.chart),
        format!("{:?}", release.info),
        format!("{:?}", release.chart.as_ref().unwrap().templates),
    ] {
        assert!(!shown.contains("hidden"), "{shown}");
    }
}
