//! Hostile charts for time and memory, and the expected limit of each.
//!
//! They are generated: the largest are too large to commit.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

pub(super) struct Hostile {
    pub(super) name: &'static str,
    /// Writes it into a folder; returns more arguments for the render.
    pub(super) write: fn(&Path) -> io::Result<Vec<String>>,
    /// A part of the error; empty for a chart that renders.
    pub(super) said: &'static str,
}

const fn chart(name: &'static str, said: &'static str, write: Write) -> Hostile {
    Hostile { name, write, said }
}

type Write = fn(&Path) -> io::Result<Vec<String>>;
type Written = io::Result<Vec<String>>;

/// All hostile charts. A packed chart is the file `chart.tgz` of its folder.
pub(super) const HOSTILE: &[Hostile] = &[
    chart("values: aliases that multiply", "aliases expanded", |at| {
        let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..30 {
            let alias = format!("*a{}", level - 1);
            let _ = writeln!(text, "a{level}: &a{level} [{}]", vec![alias; 10].join(", "));
        }
        with_values(at, &text)
    }),
    chart("values: 5 MB of small maps", "values", |at| {
        with_values(at, &format!("a:\n{}", "- a: 1\n".repeat(700_000)))
    }),
    chart("values: 5 MB that are read slowly", "", |at| {
        let line = format!("- >-\n  {}\n", "x".repeat(90));
        with_values(at, &format!("a:\n{}", line.repeat(50_000)))
    }),
    chart("values: nested 100,000 deep", "recursion limit", |at| {
        with_values(
            at,
            &format!("a: {}1{}\n", "[".repeat(100_000), "]".repeat(100_000)),
        )
    }),
    chart("values: in 100 subcharts each, zipped", "values", |at| {
        let values = "- a: 1\n".repeat(50_000);
        let mut files = vec![("demo/Chart.yaml".to_owned(), chart_yaml("demo").into_bytes())];
        for n in 0..100 {
            let name = format!("s{n}");
            files.push((
                format!("demo/charts/{name}/Chart.yaml"),
                chart_yaml(&name).into_bytes(),
            ));
            files.push((
                format!("demo/charts/{name}/values.yaml"),
                format!("a:\n{values}").into_bytes(),
            ));
        }
        archive(at, &files, &[])
    }),
    chart("values: import-values, sixteen levels", "bytes", importing),
    chart("values: one large global in 600 subcharts", "bytes", |at| {
        with_values(at, &format!("global: {{k: {}}}\n", "x".repeat(500_000)))?;
        for n in 0..600 {
            let folder = at.join(format!("charts/s{n}"));
            std::fs::create_dir_all(&folder)?;
            std::fs::write(folder.join("Chart.yaml"), chart_yaml(&format!("s{n}")))?;
        }
        Ok(Vec::new())
    }),
    chart("--set: a list in a map, 20,000 times", "deep", |at| {
        with_values(at, "")?;
        Ok(vec!["--set".into(), format!("a{}=1", "[0].a".repeat(20_000))])
    }),
    chart("archive: 30 files of 5 MB of zeros", "larger than", |at| {
        let zeros = vec![0; 5 << 20];
        let mut files = vec![("demo/Chart.yaml".to_owned(), chart_yaml("demo").into_bytes())];
        files.extend((0..30).map(|n| (format!("demo/f{n}"), zeros.clone())));
        archive(at, &files, &[])
    }),
    chart("archive: a file of 1 GB", "larger than", |at| {
        let file = std::fs::File::create(at.join("chart.tgz"))?;
        let mut zip = GzEncoder::new(file, Compression::fast());
        let yaml = chart_yaml("demo");
        entry(&mut zip, "demo/Chart.yaml", b'0', yaml.as_bytes(), "")?;
        zip.write_all(&header("demo/zeros", b'0', 1 << 30, ""))?;
        let zeros = vec![0; 1 << 20];
        for _ in 0..1_024 {
            zip.write_all(&zeros)?;
        }
        zip.finish().map(|_| Vec::new())
    }),
    chart("archive: archives in archives", "bytes", |at| {
        let zeros = vec![0; 5 << 20];
        let yaml = chart_yaml("demo").into_bytes();
        let mut files = vec![("demo/Chart.yaml".to_owned(), yaml)];
        files.extend((0..15).map(|n| (format!("demo/f{n}"), zeros.clone())));
        archive(at, &files, &[])?;
        let packed = std::fs::read(at.join("chart.tgz"))?;
        let mut files = vec![("demo/Chart.yaml".to_owned(), chart_yaml("demo").into_bytes())];
        files.extend((0..20).map(|n| (format!("demo/charts/c{n}.tgz"), packed.clone())));
        archive(at, &files, &[])
    }),
    chart("archive: names that lead out of it", "parent directory", |at| {
        let files = [
            ("demo/Chart.yaml".to_owned(), chart_yaml("demo").into_bytes()),
            ("demo/../../../outside.yaml".to_owned(), b"a: 1".to_vec()),
        ];
        archive(at, &files, &[])
    }),
    chart("archive: links that lead out of it", "", |at| {
        let files = [("demo/Chart.yaml".to_owned(), chart_yaml("demo").into_bytes())];
        archive(at, &files, &[("demo/templates/a.yaml", "/etc/hostname")])
    }),
    chart("directory: a link to itself", "", |at| {
        with_values(at, "")?;
        std::os::unix::fs::symlink(".", at.join("again"))?;
        Ok(Vec::new())
    }),
    chart("directory: .helmignore of 5 MB", ".helmignore", |at| {
        with_values(at, "")?;
        let rule = format!("{}b\n", "*a".repeat(2_600));
        std::fs::write(at.join(".helmignore"), rule.repeat(900))?;
        for n in 0..1_000 {
            std::fs::write(at.join(format!("{}{n}", "a".repeat(200))), "")?;
        }
        Ok(Vec::new())
    }),
    chart(
        "templates: 16 MB of the smallest actions",
        "parsed templates take",
        |at| {
            with_values(at, "")?;
            for n in 0..4 {
                std::fs::write(at.join(format!("templates/{n}.yaml")), "{{.}}".repeat(800_000))?;
            }
            Ok(Vec::new())
        },
    ),
    chart("templates: 100,000 definitions", "", |at| {
        let mut text = String::new();
        for n in 0..100_000 {
            let _ = write!(text, "{{{{define \"n{n}\"}}}}x{{{{end}}}}");
        }
        with_template(at, &text)
    }),
    chart("templates: 100,000 variables, read in a loop", "steps", |at| {
        let mut text = String::new();
        for n in 0..100_000 {
            let _ = write!(text, "{{{{$a{n} := 1}}}}");
        }
        with_template(
            at,
            &format!("{text}{{{{range 1000000000}}}}{{{{$a0}}}}{{{{end}}}}"),
        )
    }),
    chart("templates: branches 9,999 deep that fail", "x", |at| {
        let text = format!(
            "{}{{{{fail \"x\"}}}}{}",
            "{{if true}}".repeat(9_999),
            "{{end}}".repeat(9_999)
        );
        with_template(at, &text)
    }),
    chart(
        "include: a template that includes itself",
        "nested reference name",
        |at| {
            with_template(
                at,
                r#"{{ define "a" }}{{ include "a" . }}{{ end }}{{ include "a" . }}"#,
            )
        },
    ),
    chart(
        "template: a template that calls itself",
        "called more than",
        |at| {
            with_template(
                at,
                r#"{{ define "a" }}{{ template "a" . }}{{ end }}{{ template "a" . }}"#,
            )
        },
    ),
    chart("tpl: a text that runs itself", "called more than", |at| {
        with_template(at, r#"{{ $t := "{{ tpl .t . }}" }}{{ tpl $t (dict "t" $t) }}"#)
    }),
    chart("a loop of a thousand million", "steps", |at| {
        with_template(at, "{{ range 1000000000 }}{{ end }}")
    }),
    chart("repeat: 1 GB", "bytes", |at| {
        with_template(at, r#"{{ repeat 1000000000 "x" }}"#)
    }),
    chart("printf: 70,000 digits", "", |at| {
        with_template(at, r#"a: {{ printf "%.70000f" 1.0 | len }}"#)
    }),
    chart("b64dec: 100 MB", "bytes", |at| {
        with_template(at, r#"{{ b64dec (repeat 100000000 "A") }}"#)
    }),
    chart("toJson: a list twice in itself, twenty times", "bytes", |at| {
        let text =
            r#"{{ $l := list (dict "a" 1) }}{{ range 20 }}{{ $l = list $l $l }}{{ end }}{{ toJson $l }}"#;
        with_template(at, text)
    }),
    chart("toPrettyJson: deep and wide", "bytes", |at| {
        let text =
            r#"{{ $l := until 100000 }}{{ range 900 }}{{ $l = list $l }}{{ end }}{{ toPrettyJson $l }}"#;
        with_template(at, text)
    }),
    chart("fromJson: deep, at the end of the stack", "", |at| {
        let text = r#"{{ define "a" }}{{ if lt . 900 }}{{ include "a" (add1 .) }}{{ else }}{{ fromJsonArray (print (repeat 511 "[") (repeat 511 "]")) }}{{ end }}{{ end }}{{ include "a" 0 | len }}"#;
        with_template(at, &format!("a: {text}"))
    }),
    chart("regexReplaceAll: 100 GB by one expansion", "bytes", |at| {
        let text = r#"{{ regexReplaceAll "(a*)" (repeat 1000000 "a") (repeat 100000 "$1") }}"#;
        with_template(at, text)
    }),
    chart("regexMatch: 900 states at a time", "steps", |at| {
        let text = r#"{{ range 100 }}{{ regexMatch "(a|b)*a(a|b){900}c" (repeat 5000000 "ab") }}{{ end }}"#;
        with_template(at, text)
    }),
    chart("trimAll: two texts of 1 MB", "", |at| {
        let text = r#"a: {{ trimAll (repeat 1000000 "x") (repeat 1000000 "xy") | len }}"#;
        with_template(at, text)
    }),
    chart("output: 1,000 includes of 3 MB", "bytes", |at| {
        let text = r#"{{ define "a" }}{{ repeat 3000000 "x" }}{{ end }}{{ range 1000 }}{{ include "a" . }}{{ end }}"#;
        with_template(at, text)
    }),
    chart("output: 200 templates of 3 MB", "bytes", |at| {
        with_values(at, "")?;
        for n in 0..200 {
            let text = r#"{{ range 1000 }}{{ range 100 }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{{ end }}{{ end }}"#;
            std::fs::write(at.join(format!("templates/{n}.yaml")), text)?;
        }
        Ok(Vec::new())
    }),
    chart("output: an object of a million small maps", "more than", |at| {
        let text = "kind: A\napiVersion: v1\nmetadata: {name: a}\na:\n{{ range 1000 }}{{ range 1000 }}- {a: 1}\n{{ end }}{{ end }}";
        with_template(at, text)
    }),
    chart("output: a million documents", "documents", |at| {
        let text = "{{ range 1000 }}{{ range 1000 }}---\na: 1\n{{ end }}{{ end }}";
        with_template(at, text)
    }),
    chart(".Files: 20,000, selected again and again", "bytes", |at| {
        with_template(
            at,
            r#"{{ $d := dict }}{{ range 100000 }}{{ $_ := set $d (toString .) ($.Files.Glob "**") }}{{ end }}"#,
        )?;
        let mut files = vec![("demo/Chart.yaml".to_owned(), chart_yaml("demo").into_bytes())];
        files.push((
            "demo/templates/a.yaml".to_owned(),
            std::fs::read(at.join("templates/a.yaml"))?,
        ));
        files.extend((0..19_000).map(|n| (format!("demo/f{n}"), b"x".to_vec())));
        archive(at, &files, &[])
    }),
    chart("schema: a hundred thousand items, all different", "", |at| {
        let items: String = (0..60_000).map(|n| format!("- a: {n}\n")).collect();
        with_schema(
            at,
            &format!("a:\n{items}"),
            r#"{"properties": {"a": {"uniqueItems": true}}}"#,
        )
    }),
    chart("schema: long enumerations of many items", "comparisons", |at| {
        let items: String = (0..20_000).map(|n| format!("- a: {n}\n")).collect();
        let all: Vec<String> = (0..20_000)
            .map(|n| format!("{{\"a\": {}}}", n + 50_000))
            .collect();
        let schema = format!(
            r#"{{"properties": {{"a": {{"items": {{"enum": [{}]}}}}}}}}"#,
            all.join(",")
        );
        with_schema(at, &format!("a:\n{items}"), &schema)
    }),
    chart("schema: branches that ask one another twice", "more than", |at| {
        let mut definitions: Vec<String> = (0..40)
            .map(|n| {
                format!(
                    r##""{n}": {{"anyOf": [{{"$ref": "#/$defs/{0}"}}, {{"$ref": "#/$defs/{0}"}}]}}"##,
                    n + 1
                )
            })
            .collect();
        definitions.push(r#""40": false"#.to_owned());
        let schema = format!(
            r##"{{"$ref": "#/$defs/0", "$defs": {{{}}}}}"##,
            definitions.join(",")
        );
        with_schema(at, "", &schema)
    }),
    chart("schema: 100,000 schemas", "memory", |at| {
        let all = vec!["{}"; 1_000_000].join(",");
        with_schema(at, "", &format!(r#"{{"allOf": [{all}]}}"#))
    }),
    chart("schema: large patterns", "regular expressions", |at| {
        let all: Vec<String> = (0..200)
            .map(|n| format!(r#"{{"pattern": "(ab){{900}}{n}"}}"#))
            .collect();
        with_schema(at, "", &format!(r#"{{"allOf": [{}]}}"#, all.join(",")))
    }),
    chart("schema: a pattern of 500 states", "comparisons", |at| {
        let values = format!("a: {}\n", "ab".repeat(1_000_000));
        let schema = r#"{"properties": {"a": {"pattern": "(a|b)*a(a|b){500}c"}}}"#;
        with_schema(at, &values, schema)
    }),
    chart(
        "schema: a text that ends within a character",
        "quoted local part",
        |at| {
            let schema = r#"{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"format": "email"}}}"#;
            with_schema(at, "a: '\"\\é@x.y'\n", schema)
        },
    ),
];

fn chart_yaml(name: &str) -> String {
    format!("apiVersion: v2\nname: {name}\nversion: 1.2.3\n")
}

fn with_values(at: &Path, values: &str) -> Written {
    std::fs::create_dir_all(at.join("templates"))?;
    std::fs::write(at.join("Chart.yaml"), chart_yaml("demo"))?;
    std::fs::write(at.join("values.yaml"), values)?;
    Ok(Vec::new())
}

fn with_template(at: &Path, template: &str) -> Written {
    with_values(at, "")?;
    std::fs::write(at.join("templates/a.yaml"), template)?;
    Ok(Vec::new())
}

fn with_schema(at: &Path, values: &str, schema: &str) -> Written {
    with_values(at, values)?;
    std::fs::write(at.join("values.schema.json"), schema)?;
    Ok(Vec::new())
}

/// Nested charts, each of which imports all values of its subchart to many places.
fn importing(at: &Path) -> Written {
    let mut path = at.to_owned();
    for _ in 0..14 {
        let mut text = chart_yaml("s");
        text.push_str("dependencies:\n- name: s\n  version: 1.2.3\n  import-values:\n");
        for place in 0..10 {
            let _ = writeln!(text, "  - {{child: x, parent: x.p{place}}}");
        }
        std::fs::create_dir_all(&path)?;
        std::fs::write(path.join("Chart.yaml"), text)?;
        path.push("charts/s");
    }
    std::fs::create_dir_all(&path)?;
    std::fs::write(path.join("Chart.yaml"), chart_yaml("s"))?;
    std::fs::write(
        path.join("values.yaml"),
        format!("x: {{y: {}}}\n", "z".repeat(20_000)),
    )?;
    Ok(Vec::new())
}

fn archive(at: &Path, files: &[(String, Vec<u8>)], links: &[(&str, &str)]) -> Written {
    let file = std::fs::File::create(at.join("chart.tgz"))?;
    let mut zip = GzEncoder::new(file, Compression::fast());
    for (name, data) in files {
        entry(&mut zip, name, b'0', data, "")?;
    }
    for (name, target) in links {
        entry(&mut zip, name, b'2', b"", target)?;
    }
    zip.write_all(&[0; 1_024])?;
    zip.finish().map(|_| Vec::new())
}

pub(crate) fn entry(
    out: &mut impl io::Write,
    name: &str,
    kind: u8,
    data: &[u8],
    link: &str,
) -> io::Result<()> {
    out.write_all(&header(name, kind, data.len() as u64, link))?;
    out.write_all(data)?;
    out.write_all(&vec![0; data.len().next_multiple_of(512) - data.len()])
}

/// A tar header; libraries refuse to write such names.
pub(crate) fn header(name: &str, kind: u8, size: u64, link: &str) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| {
        for (place, byte) in header.iter_mut().skip(at).zip(text.bytes()) {
            *place = byte;
        }
    };
    put(0, name);
    put(100, "0000644\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    put(148, "        ");
    put(157, link);
    put(257, "ustar\x0000");
    header[156] = kind;
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    for (place, byte) in header.iter_mut().skip(148).zip(format!("{sum:06o}\0 ").bytes()) {
        *place = byte;
    }
    header
}
