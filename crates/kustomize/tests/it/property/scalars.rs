//! Scalars in every style and spelling, in annotations, labels, data, lists, keys, and through
//! the steps that rewrite a manifest.

use super::Files;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, Clone)]
enum Scalar {
    Plain(String),
    Single(String),
    Double(String),
    Block(Block),
}

#[derive(Debug, Clone)]
struct Block {
    folded: bool,
    chomp: &'static str,
    lines: Vec<String>,
}

#[derive(Debug, Clone)]
enum Node {
    Scalar(Scalar),
    List(Vec<Node>),
    Map(Vec<(Scalar, Node)>),
    FlowList(Vec<Node>),
    FlowMap(Vec<(Scalar, Node)>),
}

#[derive(Debug, Clone, Copy)]
enum Way {
    Straight,
    Namespace,
    Labels,
    Annotations,
    Strategic,
    Json,
}

pub(super) fn inputs() -> BoxedStrategy<Files> {
    prop_oneof![4 => manifests(), 1 => generated()].boxed()
}

/// Any text in a ConfigMap generated from a file.
fn generated() -> BoxedStrategy<Files> {
    vec(
        prop_oneof![3 => any_text(), 1 => lines().prop_map(|lines| lines.join("\n"))],
        1..4,
    )
    .prop_map(|texts| {
        let mut files = BTreeMap::new();
        let mut top = "configMapGenerator:\n- name: c\n  files:\n".to_owned();
        for (at, text) in texts.into_iter().enumerate() {
            let _ = writeln!(top, "  - f{at}");
            files.insert(format!("top/f{at}"), text);
        }
        files.insert("top/kustomization.yaml".to_owned(), top);
        Files(files)
    })
    .boxed()
}

fn manifests() -> BoxedStrategy<Files> {
    let way = prop_oneof![
        4 => Just(Way::Straight),
        1 => Just(Way::Namespace),
        1 => Just(Way::Labels),
        1 => Just(Way::Annotations),
        2 => Just(Way::Strategic),
        2 => Just(Way::Json),
    ];
    let entry = || (scalar_key(), node());
    // a folded annotation changes after a JSON patch
    let annotation = || {
        scalar(false).prop_map(|scalar| match scalar {
            Scalar::Block(block) => Scalar::Block(Block {
                folded: false,
                ..block
            }),
            other => other,
        })
    };
    let texts = || vec((scalar_key(), annotation()), 0..3);
    (
        way,
        texts(),
        vec((scalar_key(), string_scalar()), 0..2),
        vec(entry(), 0..4),
    )
        .prop_map(|(way, annotations, labels, spec)| {
            let mut text = "apiVersion: example.com/v1\nkind: Thing\nmetadata:\n  name: t\n".to_owned();
            for (field, entries) in [("annotations", annotations), ("labels", labels)] {
                if !entries.is_empty() {
                    let entries = entries
                        .into_iter()
                        .map(|(key, value)| (key, Node::Scalar(value)))
                        .collect();
                    let _ = write!(text, "  {field}:");
                    write_node(&mut text, &Node::Map(entries), 4);
                }
            }
            if !spec.is_empty() {
                text.push_str("spec:");
                write_node(&mut text, &Node::Map(spec), 2);
            }
            let mut files = BTreeMap::new();
            files.insert("top/thing.yaml".to_owned(), text);
            files.insert("top/kustomization.yaml".to_owned(), kustomization(way).to_owned());
            Files(files)
        })
        .boxed()
}

fn kustomization(way: Way) -> &'static str {
    match way {
        Way::Straight => "resources: [thing.yaml]\n",
        Way::Namespace => "resources: [thing.yaml]\nnamespace: n\n",
        Way::Labels => "resources: [thing.yaml]\ncommonLabels: {zz: v}\n",
        Way::Annotations => "resources: [thing.yaml]\ncommonAnnotations: {zz: v}\n",
        Way::Strategic => {
            "resources: [thing.yaml]
patches:
- patch: |-
    apiVersion: example.com/v1
    kind: Thing
    metadata: {name: t}
    other: {a: b}
"
        }
        Way::Json => {
            "resources: [thing.yaml]
patches:
- target: {kind: Thing}
  patch: |-
    - {op: add, path: /other, value: 1}
"
        }
    }
}

fn node() -> BoxedStrategy<Node> {
    scalar(false)
        .prop_map(Node::Scalar)
        .prop_recursive(3, 12, 4, |inner| {
            let flow = prop_oneof![
                vec(scalar(true).prop_map(Node::Scalar), 0..4).prop_map(Node::FlowList),
                vec((scalar_key(), scalar(true).prop_map(Node::Scalar)), 0..4).prop_map(Node::FlowMap),
            ];
            prop_oneof![
                2 => vec(inner.clone(), 1..4).prop_map(Node::List),
                2 => vec((scalar_key(), inner), 1..4).prop_map(Node::Map),
                1 => flow,
            ]
        })
        .boxed()
}

fn scalar_key() -> BoxedStrategy<Scalar> {
    prop_oneof![
        8 => "[a-z]{1,3}[0-9]{0,2}".prop_map(Scalar::Plain),
        2 => "[A-Za-z][A-Za-z0-9._/-]{0,11}".prop_map(Scalar::Double),
        1 => "[A-Za-z][ -~]{0,9}".prop_map(Scalar::Double),
        1 => "[a-zäßéü日本€]{1,8}".prop_map(Scalar::Double),
        1 => "[a-z]{1,40}( [a-z]{1,40}){1,4}".prop_map(Scalar::Plain),
    ]
    .boxed()
}

fn scalar(flow: bool) -> BoxedStrategy<Scalar> {
    let block = if flow { 0 } else { 3 };
    prop_oneof![
        4 => plain().prop_map(move |text| Scalar::Plain(if flow { in_flow(&text) } else { text })),
        2 => text().prop_map(Scalar::Single),
        4 => any_text().prop_map(Scalar::Double),
        block => block_scalar(),
    ]
    .boxed()
}

/// A plain scalar valid in a flow collection.
fn in_flow(text: &str) -> String {
    let plain: String = text
        .chars()
        .filter(|character| !",[]{}?".contains(*character))
        .collect();
    plain.trim_matches(['-', '?', ':', '!', '&', '*', ' ']).to_owned()
}

fn string_scalar() -> BoxedStrategy<Scalar> {
    prop_oneof![
        text().prop_map(Scalar::Single),
        any_text().prop_map(Scalar::Double),
        block_scalar(),
    ]
    .boxed()
}

fn block_scalar() -> BoxedStrategy<Scalar> {
    let chomp = prop_oneof![Just(""), Just("-"), Just("+")];
    (any::<bool>(), chomp, lines())
        .prop_map(|(folded, chomp, lines)| Scalar::Block(Block { folded, chomp, lines }))
        .boxed()
}

/// Lines of a text: blank, indented, long, with trailing blanks.
fn lines() -> BoxedStrategy<Vec<String>> {
    let line = prop_oneof![
        4 => "[a-z]{1,8}( [a-z]{1,8}){0,3}",
        1 => "( {1,3}|\t)[a-z:#-]{1,8}",
        2 => Just(String::new()),
        1 => "[a-z]{1,5} {1,2}",
        1 => "[-#:?'\"{&*!|>%@a-z ]{1,10}",
        1 => "[a-z]{1,12}( {1,2}[a-z]{1,12}){6,24}",
    ];
    vec(line, 0..6).boxed()
}

/// Common plain scalars, and those that do not resolve to strings.
fn plain() -> BoxedStrategy<String> {
    let words = [
        "",
        "~",
        "null",
        "Null",
        "NULL",
        "true",
        "True",
        "TRUE",
        "false",
        "False",
        "FALSE",
        "yes",
        "Yes",
        "YES",
        "no",
        "No",
        "on",
        "On",
        "ON",
        "off",
        "Off",
        "OFF",
        "y",
        "Y",
        "n",
        "N",
        "tRue",
        "nULL",
        "0",
        "-0",
        "+0",
        "1.",
        ".5",
        "+1",
        "-1",
        "1_000",
        "1__0",
        "0x1F",
        "0X1f",
        "0o14",
        "0O7",
        "0777",
        "0b101",
        "0B1",
        "089",
        "1e3",
        "1E3",
        "1e+3",
        "1e-7",
        "1.5e300",
        "1e400",
        "0.1",
        "1.0",
        "1.50",
        "1e21",
        "1e20",
        "123456789012345678",
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775808",
        "-9223372036854775809",
        "0x7fffffffffffffff",
        "0xffffffffffffffff",
        ".inf",
        "-.INF",
        "+.Inf",
        ".nan",
        ".NaN",
        "12:30",
        "12:30:45",
        "190:20:30.15",
        "1:60",
        "2020-01-01",
        "2020-1-2",
        "2020-02-30",
        "2001-12-14t21:59:43.10-05:00",
        "2001-12-14 21:59:43.10",
        "2001-12-15T02:59:43.1Z",
        "2001-12-14T21:59Z",
        "2020-01-01T00:00:00+02:00",
        "=",
        "<<",
        ".",
        "..",
        "-",
        "--",
        "---",
        "...",
        ":",
        "a:",
        "a: b",
        "a #b",
        "a#b",
        "-a",
        "?a",
        ":a",
        "- a",
        "1.2.3",
        "v1.2",
        "100m",
        "1Gi",
        "50%",
        "80/tcp",
        "*",
        "a*",
        "&a",
        "!a",
        "!!str 1",
        "!!int 1",
        "!!float 1",
        "|",
        ">",
        "%a",
        "@a",
        "`a",
        "{}",
        "[]",
        "'",
        "\"",
        "a,b",
        "a]",
        "1,2",
        "1 2",
        "0.0.0.0",
        "::1",
        "key=value",
        "http://a/b?c=d&e#f",
        "a\\b",
        "$(A)",
        "${A}",
    ];
    prop_oneof![
        6 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned),
        1 => "[-+]?[0-9_]{1,6}(\\.[0-9_]{0,6})?([eE][-+]?[0-9]{1,3})?",
        1 => "[-+]?0[xXoObB]?[0-9a-fA-F_]{1,18}",
        1 => "[-+]?[0-9]{1,20}(\\.[0-9]{1,20})?",
        1 => "[0-9]{1,3}(:[0-9]{1,2}){1,2}(\\.[0-9]{0,2})?",
        1 => "20[0-9]{2}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,10})?( ?(Z|[-+][0-9]{1,2}(:[0-9]{2})?))?)?",
        2 => "[a-z]{1,12}( [a-z]{1,12}){0,3}",
        1 => "[a-zA-Z0-9]{1,30}( {1,2}[a-zA-Z0-9:#,'\"-]{1,30}){3,12}",
        1 => "[a-z]{70,130}( [a-z]{1,5}){0,3}",
        1 => "[a-zäöüß€日本\u{a0}😀]{1,6}",
        1 => "[a-z0-9][-?:,\\[\\]{}#&*!|>'\"%@`a-z0-9 ]{1,6}",
    ]
    .boxed()
}

fn any_text() -> BoxedStrategy<String> {
    prop_oneof![
        6 => text(),
        1 => "[ -~\t\r\n]{0,24}",
        1 => "[\u{1}-\u{1f}a\u{7f}\u{a0}\u{feff}\u{2028}\u{2029}\u{fffd}\u{e000}\u{1f600}é]{1,4}",
        1 => "\\PC{1,8}",
    ]
    .boxed()
}

/// Text without line breaks other than line feeds.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        4 => plain(),
        1 => "[a-z \n]{0,12}",
        1 => "[ -~\t]{0,12}",
        1 => "[a-z]{1,12}( {1,2}[a-z:#\\\\\"']{1,12}){6,24}",
        1 => lines().prop_map(|lines| lines.join("\n")),
    ]
    .boxed()
}

/// Writes a value after a key's colon or an item's dash, with a final line break.
fn write_node(out: &mut String, node: &Node, indent: usize) {
    let pad = " ".repeat(indent);
    match node {
        Node::Scalar(scalar) => {
            out.push(' ');
            write_scalar(out, scalar, indent);
            out.push('\n');
        }
        Node::List(items) => {
            out.push('\n');
            for item in items {
                let _ = write!(out, "{pad}-");
                write_node(out, item, indent + 2);
            }
        }
        Node::Map(entries) => {
            out.push('\n');
            for (key, value) in entries {
                out.push_str(&pad);
                write_scalar(out, key, indent + 2);
                out.push(':');
                write_node(out, value, indent + 2);
            }
        }
        Node::FlowList(items) => {
            out.push_str(" [");
            for item in items {
                if let Node::Scalar(scalar) = item {
                    write_scalar(out, scalar, indent);
                }
                out.push_str(", ");
            }
            out.push_str("]\n");
        }
        Node::FlowMap(entries) => {
            out.push_str(" {");
            for (key, value) in entries {
                write_scalar(out, key, indent);
                out.push_str(": ");
                if let Node::Scalar(scalar) = value {
                    write_scalar(out, scalar, indent);
                }
                out.push_str(", ");
            }
            out.push_str("}\n");
        }
    }
}

fn write_scalar(out: &mut String, scalar: &Scalar, indent: usize) {
    match scalar {
        Scalar::Plain(text) => out.push_str(text),
        Scalar::Single(text) => {
            let pad = format!("\n{}", " ".repeat(indent));
            let _ = write!(out, "'{}'", text.replace('\'', "''").replace('\n', &pad));
        }
        Scalar::Double(text) => {
            out.push('"');
            for character in text.chars() {
                match character {
                    '"' | '\\' => out.extend(['\\', character]),
                    '\n' => out.push_str("\\n"),
                    '\t' => out.push_str("\\t"),
                    '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{feff}' | '\u{2028}' | '\u{2029}' => {
                        let _ = write!(out, "\\u{:04x}", u32::from(character));
                    }
                    _ => out.push(character),
                }
            }
            out.push('"');
        }
        Scalar::Block(block) => {
            out.push(if block.folded { '>' } else { '|' });
            if block
                .lines
                .first()
                .is_some_and(|line| line.starts_with([' ', '\t']) || line.is_empty())
            {
                out.push('2');
            }
            out.push_str(block.chomp);
            // the hint counts from the parent's indentation
            let pad = " ".repeat(indent);
            for line in &block.lines {
                out.push('\n');
                if !line.is_empty() {
                    let _ = write!(out, "{pad}{line}");
                }
            }
        }
    }
}
