use super::{Dialect, Duplicates, Options, YamlError, load, to_string};
use serde_json::Value;

#[test]
fn writes_what_sigs_yaml_writes() {
    let mut failures = Vec::new();
    let mut count = 0;
    for line in include_str!("goldens/emit.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        count += 1;
        let got = to_string(&case["value"]);
        if got != case["yaml"] {
            failures.push(format!("{line}\n  got {}", Value::from(got)));
        }
    }
    assert!(count >= 1000);
    assert!(
        failures.is_empty(),
        "{} of {count} differ\n{}",
        failures.len(),
        failures[..failures.len().min(8)].join("\n")
    );
}

fn first(text: &str, dialect: Dialect) -> Result<Value, YamlError> {
    let options = Options {
        dialect,
        ..Options::default()
    };
    load(text, &options).map(|documents| {
        documents
            .into_iter()
            .next()
            .map_or(Value::Null, |document| document.value)
    })
}

/// Where granit's grammar (YAML 1.2) and go-yaml's (1.1) part, and dates, which go-yaml v3 decodes
/// and kustomize never does: (input, dialect), sorted. The list may only shrink.
fn known_differences() -> Vec<(String, String)> {
    serde_json::from_str(include_str!("goldens/load-differences.json")).unwrap()
}

#[test]
fn reads_what_go_yaml_reads() {
    let (mut differences, mut details, mut count) = (Vec::new(), String::new(), 0);
    for line in include_str!("goldens/load.jsonl").lines() {
        let case = crate::json::decode(line.as_bytes()).unwrap().value;
        let text = case["yaml"].as_str().unwrap();
        for (dialect, key) in [(Dialect::Yaml11, "v2"), (Dialect::Yaml12, "v3")] {
            let error = case.get(format!("{key}error"));
            if case.get(key).is_none() && error.is_none() {
                continue;
            }
            count += 1;
            let wanted = case.get(key).map(crate::json::to_go_string);
            let got = first(text, dialect);
            // beyond int64 JSON's reader knows only floats
            let as_json = got.as_ref().ok().map(|value| {
                let text = crate::json::to_go_string(value);
                crate::json::to_go_string(&crate::json::decode(text.as_bytes()).unwrap().value)
            });
            if as_json != wanted {
                details.push_str(&format!(
                    "{text:?} {key}\n  want {wanted:?} {error:?}\n  got  {got:?}\n"
                ));
                differences.push((text.to_owned(), key.to_owned()));
            }
        }
    }
    assert!(count >= 1900, "{count}");
    differences.sort();
    if differences != known_differences() {
        panic!("{}\n{details}", serde_json::to_string(&differences).unwrap());
    }
}

#[test]
fn documents_and_errors() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let got = match load(text, &Options::default()) {
            Ok(documents) => documents
                .iter()
                .map(|document| format!("{}@{}", document.value, document.place.line))
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{text}");
    }
    check("", "");
    check("---\n# only a comment\n---\n", "");
    check(
        "# c\n---\na: 1\n---\n\n---\n- b\n...\n---\n~\n",
        r#"{"a":1}@3 ["b"]@7 null@10"#,
    );
    check("\u{feff}a: 1\n", r#"{"a":1}@1"#);
    check(
        "a: 1\n\tb: 2\n",
        "1:4: while scanning a plain scalar, found a tab",
    );
    check("\ta: 1\n", "1:2: found character that cannot start any token");
    check(
        "a: {\n\tb: 1\n}\n",
        "2:2: tabs disallowed within this context (block indentation)",
    );
    check("a:\t1\n", r#"{"a":1}@1"#);
    check("a: 1\nb: 2\na: 3\n", r#"3:1: key "a" already set in map"#);
    check("l:\n- x: 1\n  x: 2\n", r#"3:3: key "x" already set in map"#);
    check("a: .inf\n", "1:4: .inf is not a JSON value");
    check("? [a]\n: b\n", "1:3: a list cannot be a key");
    check("~: b\n", "1:1: null cannot be a key");
    check("a: &x [*x]\n", "1:8: anchor value contains itself");
    check("a: !!int b\n", "1:10: cannot decode !!str `b` as a !!int");
    check(
        "d:\n  <<: 1\n",
        "2:7: map merge requires map or sequence of maps as the value",
    );
    // a block scalar that the input ends in has no final break
    check("a: |\n  x", r#"{"a":"x"}@1"#);
    check("a: |+\n  x", r#"{"a":"x"}@1"#);
    check("a: >\n  x\n", r#"{"a":"x\n"}@1"#);
    check("a: |\n  x\n  ", r#"{"a":"x\n"}@1"#);
    check("y: 1\n0644: a\n1.5: b\n", r#"{"1.5":"b","420":"a","true":1}@1"#);
}

#[test]
fn duplicates_can_be_collected() {
    let options = Options {
        duplicates: Duplicates::Collect,
        ..Options::default()
    };
    let documents = load("a: 1\nb: {c: 1, c: 2}\na: {d: 3}\n", &options).unwrap();
    let document = &documents[0];
    assert_eq!(document.value, serde_json::json!({"a": {"d": 3}, "b": {"c": 2}}));
    let keys: Vec<_> = document
        .duplicates
        .iter()
        .map(|duplicate| (duplicate.key.as_str(), duplicate.place.line))
        .collect();
    assert_eq!(keys, [("c", 2), ("a", 3)]);
}

#[test]
fn spans_point_into_the_text() {
    let text = "# é\na:\n- b: \"x\"\n  c/d: &k [1, 2]\ne: *k\n---\nf: |\n  g\n";
    let options = Options {
        spans: true,
        ..Options::default()
    };
    let documents = load(text, &options).unwrap();
    let got: Vec<String> = documents
        .iter()
        .flat_map(|document| document.spans.iter())
        .map(|(pointer, place)| {
            format!(
                "{pointer} {}:{} {:?}",
                place.line,
                place.column,
                &text[place.bytes.clone()]
            )
        })
        .collect();
    assert_eq!(
        got,
        [
            " 2:1 \"a:\\n- b: \\\"x\\\"\\n  c/d: &k [1, 2]\\ne: *k\\n\"",
            "/a 3:3 \"b: \\\"x\\\"\\n  c/d: &k [1, 2]\\n\"",
            "/a/0 3:3 \"b: \\\"x\\\"\\n  c/d: &k [1, 2]\\n\"",
            "/a/0/b 3:6 \"\\\"x\\\"\"",
            "/a/0/c~1d 4:11 \"[1, 2]\"",
            "/a/0/c~1d/0 4:12 \"1\"",
            "/a/0/c~1d/1 4:15 \"2\"",
            "/e 5:4 \"*k\"",
            " 7:1 \"f: |\\n  g\\n\"",
            "/f 8:3 \"g\\n\"",
        ]
    );
}

#[test]
fn input_has_limits() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let options = Options {
            bytes_max: 300,
            depth_max: 5,
            nodes_max: 100,
            documents_max: 3,
            ..Options::default()
        };
        assert_eq!(load(text, &options).unwrap_err().to_string(), expected);
    }
    check(&"a".repeat(301), "1:1: more than 300 bytes");
    check("a\n---\nb\n---\nc\n---\nd\n", "7:2: more than 3 documents");
    check("{a: [{b: [{c: [1]}]}]}", "1:15: recursion limit exceeded");
    check("- - - [[[1]]]", "1:9: nested deeper than 5 levels");
    let laughs = "a: &a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a]\nc: [*b,*b,*b]\n";
    check(laughs, "3:5: more than 100 values, aliases expanded");
}
