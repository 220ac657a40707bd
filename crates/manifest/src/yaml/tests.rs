use super::load::documents;
use super::{
    Dialect, Document, Duplicates, Fault, Keep, Options, YamlError, load, load_watched, parts, plain, skim,
    to_string,
};
use serde_json::{Value, json};

/// [`load`] without the fast path.
fn load_any(text: &str, options: &Options) -> Result<Vec<Document>, YamlError> {
    documents(text, options, false, &mut |_| true)
}

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

/// Differences between granit's grammar (YAML 1.2) and go-yaml's (1.1), and dates, which go-yaml v3 decodes
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
    // between values no line begins with a tab
    for text in [
        "a: \"b\"\n\t\nc: d\n",
        "a: b\n\t\nc: d\n",
        "a: b\n\t# e\nc: d\n",
        "a: {b: c}\n\t\nc: d\n",
        "a: [b]\n# e\n \t\nc: d\n",
        "a:\n\t\n  b: d\n",
        "a:\n- b\n\t\n- c\n",
    ] {
        let error = load(text, &Options::default()).unwrap_err();
        assert_eq!(error.fault, Fault::Tab, "{text:?}");
    }
    for text in ["a: b\n\t\n", "a: \"b\"\n\t\n", "\t\na: b\n", "a: |\n  \tb\n  c\n"] {
        load(text, &Options::default()).unwrap_err();
    }
    check("a: b\n    \t\nc: d\n", r#"{"a":"b","c":"d"}@1"#);
    check("a: {\n\t\n  b: c}\n", r#"{"a":{"b":"c"}}@1"#);
    check("a: |\n  b\n  \t\nc: d\n", r#"{"a":"b\n\t\n","c":"d"}@1"#);
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
    // a block scalar at the end of input has no final break
    check("a: |\n  x", r#"{"a":"x"}@1"#);
    check("a: |+\n  x", r#"{"a":"x"}@1"#);
    check("a: >\n  x\n", r#"{"a":"x\n"}@1"#);
    check("a: |\n  x\n  ", r#"{"a":"x\n"}@1"#);
    check("- |2 # b\n  \tb\n", r#"["\tb\n"]@1"#);
    check("a: |\n  #x\n   y\n   ", r##"{"a":"#x\n y\n "}@1"##);
    check("a: |+\n  x\n    \n  ", r#"{"a":"x\n  \n"}@1"#);
    check("a: |-\n  x\n    ", r#"{"a":"x\n  "}@1"#);
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

#[test]
fn quoted_text_continues_at_any_column() {
    let lines = |count: usize| {
        let texts: String = (0..count).map(|n| format!("  a{n}: \"x\ny\"\n")).collect();
        format!("data:\n{texts}")
    };
    let read = |text: &str| first(text, Dialect::Yaml11);
    assert_eq!(
        read(&lines(2)),
        Ok(json!({ "data": { "a0": "x y", "a1": "x y" } }))
    );
    // each moved line rereads the text: limited in number, and further for large texts
    assert!(read(&lines(64)).is_ok());
    assert!(read(&lines(65)).is_err());
    let large = format!("# {}\n{}", "x".repeat(3 << 20), lines(64));
    assert!(read(&large).is_err());
}

/// Checks that the fast path agrees with the loader. Returns whether it read the text.
#[track_caller]
fn alike(text: &str, options: &Options) -> bool {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let Some(short) = plain::read(text, options, &mut |_| true) else {
        return false;
    };
    let long = load_any(text, options);
    assert_eq!(Ok(short), long, "{options:?}\n{text:?}");
    true
}

fn dialects() -> [Options; 2] {
    [Dialect::Yaml11, Dialect::Yaml12].map(|dialect| Options {
        dialect,
        ..Options::default()
    })
}

const MANIFESTS: &str = include_str!("goldens/plain.yaml");

#[test]
fn fast_path_equals_the_loader() {
    let mut count = 0;
    for line in include_str!("goldens/load.jsonl").lines() {
        let case = crate::json::decode(line.as_bytes()).unwrap().value;
        for options in dialects() {
            count += usize::from(alike(case["yaml"].as_str().unwrap(), &options));
        }
    }
    assert!(count >= 500, "{count}");
    for options in dialects() {
        assert!(alike(MANIFESTS, &options));
        assert!(!alike(
            MANIFESTS,
            &Options {
                nodes_max: 100,
                ..options.clone()
            }
        ));
        assert!(!alike(
            MANIFESTS,
            &Options {
                depth_max: 3,
                ..options.clone()
            }
        ));
        assert!(!alike(
            MANIFESTS,
            &Options {
                documents_max: 2,
                ..options
            }
        ));
    }
}

/// Inserts, removes and repeats pieces: the fast path must agree or give up.
#[test]
fn fast_path_gives_up_on_unknown_syntax() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = |bound: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % bound
    };
    let pieces = [
        " ",
        "  ",
        "\n",
        "\n\n",
        "\n  ",
        "\t",
        "#",
        " #",
        ":",
        ": ",
        "- ",
        "-",
        "---\n",
        "\n---",
        "...\n",
        "|",
        "|-\n",
        "|+\n",
        ">",
        "'",
        "\"",
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        "&a ",
        "*a",
        "!!str ",
        "<<: ",
        "? ",
        "%",
        "@",
        "`",
        "~",
        "null",
        "1",
        "0x",
        "é",
        "\u{85}",
        "\u{2028}",
        "\u{feff}",
        "\r",
        "\u{1}",
        "a: b\n",
        "a: b",
        "\"a\": b",
        "'a'",
        "true",
        "2020-01-01",
    ];
    let documents: Vec<&str> = MANIFESTS.split_inclusive("---\n").collect();
    let (mut read, options) = (0, dialects());
    for round in 0..4_000 {
        let mut text = documents[random(documents.len())].to_owned();
        for _ in 0..=random(3) {
            let boundaries: Vec<usize> = text
                .char_indices()
                .map(|(at, _)| at)
                .chain([text.len()])
                .collect();
            let from = random(boundaries.len());
            let to = (from + random(8)).min(boundaries.len() - 1);
            let range = boundaries[from]..boundaries[to];
            match random(4) {
                0 => text.replace_range(range, ""),
                1 => text.replace_range(range, pieces[random(pieces.len())]),
                2 => text.insert_str(range.start, pieces[random(pieces.len())]),
                _ => {
                    let piece = text[range.clone()].to_owned();
                    text.insert_str(range.end, &piece);
                }
            }
        }
        read += usize::from(alike(&text, &options[round % 2]));
        // documents begin after a separator here
        kept_alike(text.trim_end_matches("---\n"));
    }
    assert!(read >= 400, "{read}");
}

fn read_parts(text: &str, bytes: usize, options: &Options) -> Option<Vec<Document>> {
    let mut documents = Vec::new();
    for part in parts(text, bytes) {
        documents.extend(part.read(options, &mut |_| true)?.0);
    }
    Some(documents)
}

#[test]
fn parts_equal_the_whole() {
    let plain = [
        "",
        "\n",
        "---\n",
        "a: 1\n---\nb: 2\n",
        "# c\n---\na: 1\n\n---\n---\n\n# c\nb: |\n  x\n\n---\nc: |+\n  x\n\n---\nd:\n---\ne: |-\n  ---\n",
        "\u{feff}a: \u{e9}\u{e9}\u{e9}\n---\nb: \u{e9}\n---\nc:\n- \u{e9}\n---\n",
        "---\na: '---'\n---\nb: [1, {c: 2}]\n---\nc: d",
        "--- # x\na: 1\n--- # y\nb: 2\n---\nc: 3\n",
    ];
    let options = Options::default();
    for text in plain {
        let whole = load(text, &options).unwrap();
        for bytes in 0..text.len() + 2 {
            assert_eq!(
                read_parts(text, bytes, &options).as_ref(),
                Some(&whole),
                "{text:?} {bytes}"
            );
        }
    }
    for text in [
        "a: &x 1\n---\nb: 2\n",
        "a: 'x\n---\ny'\n",
        "a: [1,\n---\n2]\n",
        "a: 1\n---\na: 1\na: 2\n",
        "a: 1\n...\n%YAML 1.2\n---\nb: 2\n",
        "a: |\nx\n---\nb: 2\n",
    ] {
        for bytes in 0..text.len() + 2 {
            assert_eq!(read_parts(text, bytes, &options), None, "{text:?} {bytes}");
        }
    }
    let short = Options {
        bytes_max: 8,
        ..options
    };
    assert_eq!(read_parts("a: 1\n---\nb: 2\n", 1, &short), None);
}

/// The parts of a value that [`skim`] keeps with [`HEAD`].
fn kept(value: &Value) -> Value {
    let Value::Object(map) = value else {
        return value.clone();
    };
    let mut head = serde_json::Map::new();
    for (key, value) in map {
        match (key.to_lowercase().as_str(), value) {
            ("kind", value) => drop(head.insert(key.clone(), value.clone())),
            ("metadata", Value::Object(map)) => {
                let name = |(key, _): &(&String, &Value)| key.eq_ignore_ascii_case("name");
                let map = map
                    .iter()
                    .filter(name)
                    .map(|(key, value)| (key.clone(), value.clone()));
                head.insert(key.clone(), Value::Object(map.collect()));
            }
            ("metadata", Value::Array(_)) => drop(head.insert(key.clone(), Value::Array(Vec::new()))),
            ("metadata", value) => drop(head.insert(key.clone(), value.clone())),
            _ => {}
        }
    }
    Value::Object(head)
}

const HEAD: Keep = Keep::Keys(&[
    ("kind", Keep::All),
    ("metadata", Keep::Keys(&[("name", Keep::All)])),
]);

/// Checks that [`skim`] agrees with the loader. Returns whether it read the text.
#[track_caller]
fn kept_alike(text: &str) -> bool {
    let options = Options {
        duplicates: Duplicates::Collect,
        ..Options::default()
    };
    let Some(head) = skim(text, &options, HEAD) else {
        return false;
    };
    let documents = load_any(text, &options).unwrap_or_else(|error| panic!("{text:?} {error}"));
    let whole = documents
        .first()
        .map_or(Value::Null, |document| document.value.clone());
    assert_eq!(head, kept(&whole), "{text:?}");
    true
}

#[test]
fn skim_equals_the_loader() {
    let mut count = 0;
    let mut check = |text: &str| {
        let is_read = kept_alike(text);
        count += usize::from(is_read);
        is_read
    };
    for line in include_str!("goldens/load.jsonl").lines() {
        let case = crate::json::decode(line.as_bytes()).unwrap().value;
        check(case["yaml"].as_str().unwrap());
    }
    for document in MANIFESTS.split("\n---") {
        assert!(check(document.trim_start_matches(" # a comment")), "{document}");
    }
    for (text, is_read) in [
        (
            "kind: A\nmetadata: {labels: {a: 'b', c: [d]}, name: x}\nspec: {a: 1, a: 2}\n",
            true,
        ),
        ("metadata:\n  name: x\n  labels: {name: y}\n- a\n", false),
        ("Kind: A\nmetadata: [{name: x}]\n", true),
        ("metadata:\n- name: x\n  b: |\n    text\n- y\n", true),
        ("metadata: 5\ndata:\n  a: |\n    text", true),
        ("a:\n  b: one\n    two\n\n    - three # four\n  c: d\n", false),
        ("a:\n  b: one\n    two\n\n    - three\n  c: d\nkind: A\n", true),
        ("a:\n- b: one\n   two\n- one\n\n  two\nkind: A\n", true),
        ("a: one\n b: two\n", false),
        ("a: one\n # b\n two\n", false),
        ("a: one # b\n two\n", false),
        ("a: >-\n  one\n\n   two\n\n  three\nkind: A\n", true),
        (
            "a: 'one''s\n\n  it\\'\nb: \"a\\\n  b\\\"\n  c\" # d\nkind: A\n",
            true,
        ),
        ("a: 'one\nb\n'\n", false),
        ("a: \"one\n  \\x41\"\n", false),
        ("a: |\n  one\n     \n  two\nkind: A\n", true),
        ("spec:\n  a: .inf\n", false),
        ("spec: {a: &b 1}\n", false),
        ("spec:\n  a: b: c\n", false),
        ("kind: A\nkind: B\n", false),
        ("kind: A\n---\nkind: B\n", false),
        ("", true),
    ] {
        assert_eq!(check(text), is_read, "{text:?}");
    }
    assert!(count >= 250, "{count}");
}

#[test]
fn watch_ends_the_work() {
    let fast = "a: 1\n".to_owned() + &(0..5_000).map(|n| format!("k{n}: v\n")).collect::<String>();
    let slow = format!("{fast}anchored: &x 1\n");
    for text in [fast, slow] {
        let mut steps = 0;
        let read = load_watched(&text, &Options::default(), &mut |more| {
            steps += more;
            true
        });
        assert!(read.is_ok() && steps > 50_000, "{steps}");
        for calls in 0..8 {
            let mut left = calls;
            let found = load_watched(&text, &Options::default(), &mut |_| {
                left -= 1;
                left >= 0
            });
            assert_eq!(found.unwrap_err().fault, Fault::Stopped, "{calls}");
        }
    }
}

#[test]
fn copies_of_aliases_are_limited() {
    let text = "x".repeat(1 << 20);
    let aliases = format!("a: &a {text}\nb: [{}]\n", "*a, ".repeat(100));
    let nested = format!(
        "{}{text}{}",
        (0..100).map(|n| format!("&a{n} [")).collect::<String>(),
        "]".repeat(100)
    );
    for text in [aliases, nested] {
        let found = load(&text, &Options::default());
        assert_eq!(found.unwrap_err().fault, Fault::Aliases(64 << 20));
    }
}
