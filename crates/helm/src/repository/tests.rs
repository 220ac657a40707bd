use super::index::{Index, IndexError, IndexLimits};
use super::layout::Layout;
use serde_json::Value;
use std::error::Error as _;
use std::io::{BufReader, Cursor, Seek as _, Write as _};

const HELMS: &str = "apiVersion: v1
entries:
  a:
  - apiVersion: v2
    created: \"2026-01-02T03:04:05Z\"
    description: |
      Several

      lines
    digest: abc
    keywords:
    - x
    name: a
    urls:
    - a-1.2.0.tgz
    version: 1.2.0

  - name: a
    version: 1.10.0
    removed: true
  - name: a
    version: x
  b:
    - Name: b
      Version: 2.0.0
      URLs: [b.tgz]
      Digest: 7
  none:
generated: \"2026-01-02T03:04:05Z\"
";

fn is_cut(text: &str) -> bool {
    Layout::of(&mut Cursor::new(text), usize::MAX).unwrap().is_some()
}

fn by_entry(text: &str) -> Result<Option<Index>, IndexError> {
    Index::by_entry(&mut Cursor::new(text), &IndexLimits::default())
}

fn check(text: &str, is_cut: bool) {
    let limits = IndexLimits::default();
    let by_entry = by_entry(text);
    let whole = Index::whole(text, &limits);
    let told = |error: IndexError| error.to_string();
    match by_entry.map_err(told) {
        Ok(None) => assert!(!is_cut, "not cut: {text}"),
        Ok(Some(index)) => {
            assert!(is_cut, "cut: {text}");
            assert_eq!(index, whole.unwrap(), "{text}");
        }
        Err(error) => {
            assert!(is_cut, "cut: {text}");
            assert_eq!(error, told(whole.unwrap_err()), "{text}");
        }
    }
}

#[test]
fn by_entry_as_whole() {
    check(HELMS, true);
    check(&HELMS.replace('\n', "\r\n"), true);
    let index = Index::parse(HELMS.as_bytes(), &IndexLimits::default()).unwrap();
    let entry = index.get("b", "").unwrap();
    assert_eq!(
        (entry.urls.as_slice(), entry.digest.as_str()),
        (&["b.tgz".to_owned()][..], "7")
    );
    assert!(index.get("a", "").unwrap().removed);
    assert_eq!(index.skipped()[0].version, "x");
    assert_eq!(
        index.get("none", "").unwrap_err().to_string(),
        "no chart version found"
    );
    for line in include_str!("../../tests/golden/repository.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        if let Some(text) = case["index"].as_str() {
            let is_cut = is_cut(text);
            match by_entry(text) {
                // a piece that is not a complete value
                Ok(None) => check(text, false),
                _ => check(text, is_cut),
            }
        }
    }
}

/// With a buffer that is smaller than a line.
#[test]
fn a_file_is_read_as_its_text() {
    let flow = "{apiVersion: v1, entries: {ü: [{name: ü, version: 1.0.0}]}}";
    for text in [
        HELMS,
        &HELMS.replace('a', "ä"),
        flow,
        "apiVersion: v1\nentries:\n",
    ] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file.rewind().unwrap();
        let read = Index::read(&mut BufReader::with_capacity(3, file), &IndexLimits::default());
        let parsed = Index::parse(text.as_bytes(), &IndexLimits::default());
        let told = |error: IndexError| error.to_string();
        assert_eq!(read.map_err(told), parsed.map_err(told), "{text}");
    }
    let parse = |bytes: &[u8]| {
        Index::parse(bytes, &IndexLimits::default())
            .unwrap_err()
            .to_string()
    };
    let bad = b"apiVersion: v1\nentries:\n  a:\n  - name: \xff\n";
    assert_eq!(parse(bad), "the index is not UTF-8 at byte 39");
    assert_eq!(parse(b""), "empty index.yaml file");
}

#[test]
fn other_layouts_are_read_whole() {
    for (from, to) in [
        ("apiVersion: v1\n", "---\napiVersion: v1\n"),
        ("apiVersion: v1\n", "# v1\napiVersion: v1\n"),
        ("  b:\n", "  # more\n  b:\n"),
        ("  none:\n", "  none: []\n"),
        ("  none:\n", "  a:\n"),
        ("  none:\n", " none:\n"),
        ("  b:\n", "  ? b\n"),
        ("description: |", "description: &text |"),
        (
            "    version: 1.10.0\n",
            "    version: 1.10.0\n    description: *text\n",
        ),
        ("    version: x\n", "    version: \"x\n  - y\"\n"),
        ("    version: x\n", "    version: x\n    urls: [a\n  - b\n    ]\n"),
        ("    version: x\n", "    version: x\n   more: y\n"),
        ("entries:\n", "entries: # all\n"),
        ("generated: ", "entries:\n  c:\ngenerated: "),
        ("    keywords:\n", "\tkeywords:\n"),
    ] {
        let text = HELMS.replacen(from, to, 1);
        assert_ne!(text, HELMS);
        let by_entry = by_entry(&text);
        match to {
            // an unused anchor is harmless
            "description: &text |" => check(&text, true),
            _ => assert!(by_entry.unwrap().is_none(), "{text}"),
        }
    }
    let json =
        r#" {"ApiVersion": "v1", "Entries": {"a": [{"NAME": "a", "version": "1.0.0", "urls": ["u"]}]}}"#;
    let index = Index::parse(json.as_bytes(), &IndexLimits::default()).unwrap();
    assert_eq!(index.get("a", "1.0.0").unwrap().urls, ["u"]);
    let twice = json.replacen('{', r#"{"entries": null, "#, 1);
    let index = Index::parse(twice.as_bytes(), &IndexLimits::default()).unwrap();
    assert_eq!(index.charts().count(), 1);
    let flow = "{apiVersion: v1, entries: {a: [{name: a, version: 1.0.0}]}}";
    let index = Index::parse(flow.as_bytes(), &IndexLimits::default()).unwrap();
    assert_eq!(index.charts().count(), 1);
}

#[test]
fn large_indexes_are_refused() {
    let refused = |text: &str, nodes_max: usize| {
        let limits = IndexLimits {
            nodes_max,
            ..IndexLimits::default()
        };
        let error = Index::parse(text.as_bytes(), &limits).unwrap_err();
        let cause = error.source().map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    };
    let entry = "  - name: a\n    version: 1.0.0\n";
    let many = format!("apiVersion: v1\nentries:\n  a:\n{}", entry.repeat(200));
    assert_eq!(refused(&many, 300), "the index has more than 300 values");
    let few = IndexLimits {
        entries_max: 3,
        ..IndexLimits::default()
    };
    for text in [
        "apiVersion: v1\nentries:\n  a:\n  - name: a\n    version: 1.0.0\n  b:\n  c:\n",
        "{apiVersion: v1, entries: {a: [{name: a, version: 1.0.0}], b: [], c: []}}",
        "{\"apiVersion\":\"v1\",\"entries\":{\"a\":[{},{},{}]}}",
    ] {
        let error = Index::parse(text.as_bytes(), &few).unwrap_err();
        assert_eq!(error.to_string(), "the index has more than 3 charts and versions");
        let enough = IndexLimits {
            entries_max: 4,
            ..few
        };
        assert!(Index::parse(text.as_bytes(), &enough).is_ok(), "{text}");
    }
    let wide = format!("{many}    maintainers: [{}]\n", "{},".repeat(20_001));
    assert!(refused(&wide, 1_000).contains("more than 1000 values"));
    let json = |field: &str| {
        let maps = "{},".repeat(200_000);
        format!(r#"{{"apiVersion":"v1","entries":{{"a":[{{"{field}":[{maps}{{}}]}}]}}}}"#)
    };
    assert!(refused(&json("maintainers"), 2_500_000).contains("takes more than 16777216 bytes of memory"));
    // it is read whole
    let twice = json("maintainers").replacen('{', r#"{"Entries":{},"#, 1);
    assert!(refused(&twice, 2_500_000).contains("takes more than 67108864 bytes of memory"));
}

#[test]
fn faults_of_entries() {
    let refused = |text: &str| {
        let text = format!("apiVersion: v1\n{text}");
        check(&text, is_cut(&text));
        let error = Index::parse(text.as_bytes(), &IndexLimits::default()).unwrap_err();
        let cause = error.source().map(|cause| format!(": {cause}"));
        format!("{error}{}", cause.unwrap_or_default())
    };
    let unmarshal = "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    assert_eq!(
        refused("entries:\n  a:\n  - urls: x\n"),
        format!(
            "entries.a: {unmarshal} string into Go struct field ChartVersion.entries.urls of type []string"
        )
    );
    assert_eq!(
        refused("entries:\n  a:\n  - x\n"),
        format!("entries.a: {unmarshal} string into Go value of type v2.Metadata")
    );
    assert_eq!(refused("entries: []\n"), "entries is not a mapping");
    assert_eq!(refused("entries: {a: x}\n"), "entries.a is not a list");
}
