//! A replacement inside a YAML text keeps the form of the unchanged parts.

use super::Files;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeMap;
use std::fmt::Write as _;

#[derive(Debug, Clone)]
enum Node {
    Inline(String),
    /// The lines of a literal, its header first.
    Literal(Vec<String>),
    List(Vec<Entry>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
struct Entry {
    key: String,
    node: Node,
    above: Option<String>,
    beside: Option<String>,
    blank: bool,
}

pub(super) fn inputs() -> BoxedStrategy<Files> {
    let values = [
        "v",
        "3",
        "true",
        "1.5",
        "a: b",
        "",
        "x #y",
        "- z",
        "two words",
        "2020-01-01",
        "it's",
        "{}",
    ];
    let paths = ["k0", "k1", "k0.k1", "k2.k0", "k1.0", "k0.0.k1", "new", "k0.new"];
    (
        map(),
        select(values.to_vec()),
        select(paths.to_vec()),
        any::<bool>(),
        0..3_usize,
    )
        .prop_map(|(text, value, path, create, deeper)| {
            let mut files = BTreeMap::new();
            let top = format!(
                "resources: [c.yaml]
replacements:
- sourceValue: {value:?}
  targets:
  - select: {{kind: ConfigMap}}
    fieldPaths: [data.f.{path}]
    options: {{create: {create}}}
"
            );
            files.insert("top/kustomization.yaml".to_owned(), top);
            let mut inner = String::new();
            write_node(&mut inner, &text, 0, deeper);
            let mut object =
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  f: |\n".to_owned();
            for line in inner.trim_start_matches('\n').lines() {
                let _ = writeln!(object, "    {line}");
            }
            files.insert("top/c.yaml".to_owned(), object);
            Files(files)
        })
        .boxed()
}

fn map() -> BoxedStrategy<Node> {
    let word = "[a-z]{1,6}";
    let inline = prop_oneof![
        4 => word.prop_map(String::from),
        2 => select(&["1", "0x10", "1.50", "true", "yes", "~", "", "2020-01-01", "1_000", "null", "-", "a:b"][..]).prop_map(str::to_owned),
        2 => "[a-z :#'-]{0,8}".prop_map(|text| format!("'{}'", text.replace('\'', "''"))),
        2 => "[a-z :#'\\\\\"-]{0,8}".prop_map(|text| format!("{text:?}")),
        1 => Just("[]".to_owned()),
        1 => Just("{}".to_owned()),
        1 => vec(word, 1..3).prop_map(|words| format!("[ {} ]", words.join(" ,"))),
        1 => word.prop_map(|word| format!("{{k0: {word}, k1: [1, 'x'] }}")),
    ];
    let literal = (
        "[-+]?",
        vec(
            prop_oneof![3 => "[a-z]{1,5}( [a-z#:]{1,5}){0,2}", 1 => Just(String::new()), 1 => "  [a-z]{1,4}"],
            0..3,
        ),
        word,
    )
        .prop_map(|(chomp, lines, first)| Node::Literal([vec![format!("|{chomp}"), first], lines].concat()));
    let leaf = prop_oneof![6 => inline.prop_map(Node::Inline), 1 => literal];
    let node = leaf.prop_recursive(3, 14, 4, |inner| {
        prop_oneof![
            1 => vec(entry(inner.clone()), 1..4).prop_map(Node::List),
            2 => vec(entry(inner), 1..4).prop_map(keyed),
        ]
    });
    vec(entry(node), 1..4).prop_map(keyed).boxed()
}

/// Gives the entries of a map distinct names.
fn keyed(mut entries: Vec<Entry>) -> Node {
    for (at, entry) in entries.iter_mut().enumerate() {
        entry.key = format!("k{at}");
    }
    Node::Map(entries)
}

fn entry(node: impl Strategy<Value = Node> + 'static) -> BoxedStrategy<Entry> {
    let comment = || proptest::option::weighted(0.1, "[a-z #]{0,6}");
    (node, comment(), comment(), proptest::bool::weighted(0.1))
        .prop_map(|(node, above, beside, blank)| {
            // comments on null move to lines that are not tracked
            let is_nothing = matches!(&node, Node::Inline(text) if text.is_empty() || text == "-");
            Entry {
                key: String::new(),
                node: without_first_comment(node),
                above: above.filter(|_| !is_nothing),
                beside: beside.filter(|_| !is_nothing),
                blank,
            }
        })
        .boxed()
}

fn without_first_comment(mut node: Node) -> Node {
    if let Node::Map(entries) | Node::List(entries) = &mut node
        && let Some(first) = entries.first_mut()
    {
        first.above = None;
    }
    node
}

fn without_comments(mut node: Node) -> Node {
    if let Node::Map(entries) | Node::List(entries) = &mut node {
        for entry in entries {
            (entry.above, entry.beside, entry.blank) = (None, None, false);
            entry.node = without_comments(entry.node.clone());
        }
    }
    node
}

fn write_node(out: &mut String, node: &Node, indent: usize, deeper: usize) {
    let (entries, lists) = match node {
        Node::List(entries) => (entries, true),
        Node::Map(entries) => (entries, false),
        Node::Inline(_) | Node::Literal(_) => return,
    };
    let pad = " ".repeat(indent);
    out.push('\n');
    for entry in entries {
        if entry.blank {
            out.push('\n');
        }
        if let Some(comment) = &entry.above {
            let _ = writeln!(out, "{pad}#{comment}");
        }
        let lead = if lists {
            "-".to_owned()
        } else {
            format!("{}:", entry.key)
        };
        let _ = write!(out, "{pad}{lead}");
        let beside = entry
            .beside
            .as_ref()
            .map(|comment| format!("  #{comment}"))
            .unwrap_or_default();
        match &entry.node {
            Node::Inline(text) => {
                let _ = writeln!(out, " {text}{beside}");
            }
            Node::Literal(lines) => {
                let _ = writeln!(out, " {}{beside}", lines[0]);
                for line in &lines[1..] {
                    let _ = writeln!(out, "{pad}  {line}");
                }
            }
            Node::Map(_) | Node::List(_) if lists => {
                let mut inner = String::new();
                write_node(
                    &mut inner,
                    &without_comments(entry.node.clone()),
                    indent + 2,
                    deeper,
                );
                let mut lines = inner.lines().skip_while(|line| line.trim().is_empty());
                let _ = writeln!(out, " {}", lines.next().unwrap_or_default().trim_start());
                lines.for_each(|line| out.push_str(&format!("{line}\n")));
            }
            Node::Map(_) | Node::List(_) => {
                out.push_str(&beside);
                write_node(out, &entry.node, indent + 1 + deeper, deeper);
            }
        }
    }
}
