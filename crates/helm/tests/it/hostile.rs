//! Hostile charts and values: each ends in an error that names a limit.

use equate_helm::cache::Cache;
use equate_helm::capabilities::Capabilities;
use equate_helm::dependencies::process;
use equate_helm::engine::{Bounds, Program, Release};
use equate_helm::load::LoadError;
use equate_helm::render::{self, Request};
use equate_helm::values::{UserValues, coalesce, read};
use equate_helm::{Chart, File, Limits, Values};
use equate_template::Seeded;
use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const CHART: &str = "apiVersion: v2\nname: demo\nversion: 1.2.3\n";

fn file(name: &str, data: impl AsRef<[u8]>) -> File {
    File {
        name: name.into(),
        data: data.as_ref().into(),
    }
}

fn root(error: &dyn Error) -> String {
    let mut error = error;
    while let Some(cause) = error.source() {
        error = cause;
    }
    error.to_string()
}

fn check(loaded: Result<Chart, LoadError>, wanted: &str) {
    let told = loaded.map_or_else(|error| root(&error), |_| "loaded".into());
    assert_eq!(told, wanted);
}

fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
    let zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut archive = tar::Builder::new(zip);
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("demo/{name}"), *data)
            .unwrap();
    }
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn large_archives_are_refused() {
    let limits = Limits {
        archive_bytes_max: 1 << 20,
        file_bytes_max: 600 << 10,
        total_bytes_max: 2 << 20,
        ..Limits::default()
    };
    let zeros = vec![0; 500 << 10];
    let load = |files: &[(&str, &[u8])]| Chart::from_archive(&packed(files), &limits);
    check(
        load(&[("Chart.yaml", CHART.as_bytes()), ("a", &vec![0; 601 << 10])]),
        "decompressed chart file \"demo/a\" is larger than the maximum file size 614400",
    );
    check(
        load(&[("a", &zeros), ("b", &zeros), ("c", &zeros)]),
        "decompressed chart is larger than the maximum size 1048576",
    );
    // each within the limit, together above it
    let inner = packed(&[("Chart.yaml", CHART.as_bytes()), ("a", &zeros), ("b", &zeros)]);
    check(
        load(&[
            ("Chart.yaml", CHART.as_bytes()),
            ("charts/a.tgz", &inner),
            ("charts/b.tgz", &inner),
            ("charts/c.tgz", &inner),
        ]),
        "the chart and its subcharts are larger than 2097152 bytes",
    );
}

#[test]
fn false_sizes_take_no_memory() {
    let mut archive = Vec::new();
    let mut header = tar::Header::new_gnu();
    header.set_path("demo/Chart.yaml").unwrap();
    header.set_size(4 << 20);
    header.set_mode(0o644);
    header.set_cksum();
    archive.extend_from_slice(header.as_bytes());
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    zip.write_all(&archive).unwrap();
    let bytes = zip.finish().unwrap();
    check(Chart::from_archive(&bytes, &Limits::default()), "unexpected EOF");
    check(
        Chart::from_archive(&bytes[..20], &Limits::default()),
        "unexpected EOF",
    );
}

#[test]
fn a_name_without_end_is_refused() {
    let mut zip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::GNULongName);
    header.set_path("././@LongLink").unwrap();
    header.set_size(64 << 20);
    header.set_cksum();
    zip.write_all(header.as_bytes()).unwrap();
    for _ in 0..64 {
        zip.write_all(&vec![b'a'; 1 << 20]).unwrap();
    }
    let limits = Limits {
        archive_bytes_max: 1 << 20,
        files_max: 100,
        ..Limits::default()
    };
    check(
        Chart::from_archive(&zip.finish().unwrap(), &limits),
        "decompressed chart is larger than the maximum size 1048576",
    );
}

#[test]
fn charts_and_files_are_counted() {
    let limits = Limits {
        files_max: 10,
        charts_max: 3,
        depth_max: 2,
        path_bytes_max: 60,
        ..Limits::default()
    };
    let load = |files: Vec<File>| Chart::from_files(files, &limits);
    let many = (0..11).map(|n| file(&format!("f{n}"), ""));
    check(load(many.collect()), "the chart has more than 10 files");
    let directories: Vec<String> = (0..11).map(|n| format!("d{n}")).collect();
    let listed: Vec<(&str, &[u8])> = directories.iter().map(|name| (name.as_str(), &b""[..])).collect();
    check(
        Chart::from_archive(&packed(&listed), &limits),
        "the chart has more than 10 files",
    );
    let subcharts = (0..3).map(|n| file(&format!("charts/s{n}/Chart.yaml"), CHART));
    check(
        load(
            std::iter::once(file("Chart.yaml", CHART))
                .chain(subcharts)
                .collect(),
        ),
        "the chart has more than 3 charts in it",
    );
    check(
        load(vec![
            file("Chart.yaml", CHART),
            file("charts/a/Chart.yaml", CHART),
            file("charts/a/charts/b/Chart.yaml", CHART),
        ]),
        "charts are nested more than 2 deep",
    );
    check(
        Chart::from_files(
            [
                file("Chart.yaml", CHART),
                file("templates/a", vec![b' '; 600]),
                file("charts/a/Chart.yaml", CHART),
                file("charts/a/templates/a", vec![b' '; 600]),
            ],
            &Limits {
                templates_bytes_max: 1_000,
                ..limits
            },
        ),
        "the templates of the chart and its subcharts are larger than 1000 bytes",
    );
    let values = "a: [x, x, x, x, x, x, x, x, x, x]\n";
    check(
        Chart::from_files(
            [
                file("Chart.yaml", CHART),
                file("values.yaml", values),
                file("charts/a/Chart.yaml", CHART),
                file("charts/a/values.yaml", values),
            ],
            &Limits {
                values_nodes_max: 20,
                ..limits
            },
        ),
        "the chart and its subcharts have more than 20 values",
    );
    check(
        load(vec![file(&"x".repeat(61), "")]),
        "the chart has a file whose path is longer than 60 bytes",
    );
    for name in ["../x", "/x", "a//b", "a/./b", "a/../b", ""] {
        check(
            load(vec![file(name, "")]),
            &format!("the chart has a file with the invalid path {name}"),
        );
    }
}

#[test]
fn a_directory_that_links_to_itself_ends() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("Chart.yaml"), CHART).unwrap();
    std::os::unix::fs::symlink(".", directory.path().join("again")).unwrap();
    let limits = Limits {
        directories_depth_max: 8,
        ..Limits::default()
    };
    check(
        Chart::from_directory(directory.path(), &limits),
        "directories are nested more than 8 deep",
    );
    let socket = directory.path().join("again");
    std::fs::remove_file(&socket).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    let told = Chart::from_directory(directory.path(), &limits)
        .unwrap_err()
        .to_string();
    assert!(told.ends_with("as it has file mode type bits set"), "{told}");
}

#[test]
fn a_tree_leaves_out_what_helmignore_says() {
    let files = [
        file("Chart.yaml", CHART),
        file(".helmignore", "*.md\n/docs/\n"),
        file("README.md", ""),
        file("docs/a/b.txt", ""),
        file("templates/.swp", ""),
        file("templates/a.yaml", ""),
    ];
    let chart = Chart::from_tree(files, &Limits::default()).unwrap();
    let names = |files: &[File]| files.iter().map(|file| file.name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&chart.files), [".helmignore"]);
    assert_eq!(names(&chart.templates), ["templates/a.yaml"]);
}

#[test]
fn a_helmignore_is_limited() {
    let load = |rules: String| {
        let files = [file("Chart.yaml", CHART), file(".helmignore", rules)];
        Chart::from_tree(files, &Limits::default())
    };
    check(load("a\n".repeat(1_000)), "loaded");
    check(load("a\n".repeat(1_002)), ".helmignore has more than 1000 rules");
    check(load("#".repeat(65_536)), "loaded");
    check(load("#".repeat(65_537)), ".helmignore is larger than 65536 bytes");
}

/// The text of an action takes forty times its length.
#[test]
fn templates_are_weighed() {
    let chart = Chart::from_files(
        [
            file("Chart.yaml", CHART),
            file("templates/a", "{{.}}".repeat(200_000)),
            file("templates/b", "{{.}}".repeat(200_000)),
            file("templates/c", "{{.}}".repeat(200_000)),
        ],
        &Limits::default(),
    );
    let error = Program::read(&chart.unwrap()).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("limit: parsed templates take more than 100663296 bytes"),
        "{error}"
    );
}

#[test]
fn a_render_can_be_stopped() {
    let files = [
        file("Chart.yaml", CHART),
        file("templates/a", "{{ range 1000000000 }}{{ end }}"),
    ];
    let chart = Chart::from_files(files, &Limits::default()).unwrap();
    let release = Release {
        name: "demo".into(),
        namespace: "default".into(),
        revision: 1,
        is_upgrade: false,
    };
    let request = Request {
        chart: &chart,
        values: &Values::new(),
        release: &release,
        capabilities: &Capabilities::default(),
        skip_schema: false,
        subchart_notes: false,
    };
    let bounds = Bounds {
        stop: Some(Arc::new(AtomicBool::new(true))),
        ..Bounds::default()
    };
    let world = Box::new(Seeded::new(b"", 0));
    let error = render::render(request, &Cache::default(), world, bounds).unwrap_err();
    assert!(
        error.to_string().ends_with("limit: the render was stopped"),
        "{error}"
    );
}

#[test]
fn a_digest_is_of_all_that_is_in_a_chart() {
    let load = |more: &[(&str, &str)]| {
        let mut files = vec![file("Chart.yaml", CHART), file("charts/s/Chart.yaml", CHART)];
        files.extend(more.iter().map(|(name, text)| file(name, text)));
        Chart::from_files(files, &Limits::default()).unwrap().digest
    };
    let all = [
        load(&[]),
        load(&[("a", "")]),
        load(&[("b", "")]),
        load(&[("a", "b")]),
        load(&[("values.yaml", "a: 1")]),
        load(&[("charts/s/values.yaml", "a: 1")]),
        load(&[("charts/s/charts/t/Chart.yaml", CHART)]),
        load(&[("charts/s.prov", "")]),
        load(&[("charts/s.prov", "b")]),
        load(&[("charts/s/x.prov", "")]),
        load(&[("charts/t/Chart.yaml", CHART)]),
    ];
    for (index, digest) in all.iter().enumerate() {
        assert!(!all[..index].contains(digest), "{index}");
    }
    assert_eq!(load(&[]), load(&[]));
}

#[test]
fn values_that_multiply_are_refused() {
    let limits = Limits {
        values_nodes_max: 10_000,
        ..Limits::default()
    };
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let alias = format!("*a{}", level - 1);
        let list = vec![alias; 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    let told = root(&read(&text, &limits).unwrap_err());
    assert!(
        told.ends_with("more than 10000 values, aliases expanded"),
        "{told}"
    );
    // each part is within the limit
    let part =
        |n| format!("k{n}: &a [x, x, x, x, x, x, x, x, x]\nl{n}: [*a, *a, *a, *a, *a, *a, *a, *a, *a]\n");
    let parts: Vec<String> = (0..200).map(part).collect();
    let told = root(&read(&parts.join("---\n"), &limits).unwrap_err());
    assert!(
        told.ends_with("more than 10000 values, aliases expanded"),
        "{told}"
    );
    let deep = format!("a: {}1{}\n", "[".repeat(200), "]".repeat(200));
    assert!(read(&deep, &limits).is_err());
}

/// Nested charts, each of which imports all values of its subchart to many places.
fn importing(levels: usize, places: usize) -> Vec<File> {
    let mut files = Vec::new();
    let mut path = String::new();
    for _ in 0..levels {
        let mut text = String::from(
            "apiVersion: v2\nname: s\nversion: 1.2.3\ndependencies:\n- name: s\n  version: 1.2.3\n  import-values:\n",
        );
        for place in 0..places {
            text.push_str(&format!("  - {{child: x, parent: x.p{place}}}\n"));
        }
        files.push(file(&format!("{path}Chart.yaml"), text));
        path.push_str("charts/s/");
    }
    files.push(file(
        &format!("{path}Chart.yaml"),
        "apiVersion: v2\nname: s\nversion: 1.2.3\n",
    ));
    let values = format!("x: {{y: {}}}\n", "z".repeat(20_000));
    files.push(file(&format!("{path}values.yaml"), values));
    files
}

#[test]
fn values_that_multiply_in_charts_are_refused() {
    let load = |files: Vec<File>| Chart::from_files(files, &Limits::default()).unwrap();
    let none = Values::new();
    let told = |chart: &Chart| root(&process(chart, &none).unwrap_err());
    assert!(process(&load(importing(3, 10)), &none).is_ok());
    assert_eq!(
        told(&load(importing(6, 10))),
        "the coalesced values take more than 134217728 bytes"
    );
    let mut files = vec![
        file("Chart.yaml", CHART),
        file("values.yaml", format!("global: {{k: {}}}\n", "x".repeat(500_000))),
    ];
    for n in 0..600 {
        let text = format!("apiVersion: v2\nname: s{n}\nversion: 1.2.3\n");
        files.push(file(&format!("charts/s{n}/Chart.yaml"), text));
    }
    assert_eq!(
        root(&coalesce(&load(files), &none).unwrap_err()),
        "the coalesced values take more than 134217728 bytes"
    );
}

#[test]
fn set_values_are_counted() {
    let check = |set: String, wanted: &str| {
        let user = UserValues {
            set: vec![set],
            ..UserValues::default()
        };
        let told = user
            .values(&Limits::default(), &mut |_| Ok(String::new()))
            .unwrap_err();
        assert_eq!(root(&told), wanted);
    };
    check(
        format!("a{}=1", "[0]".repeat(1_000)),
        "lists and maps are nested more than 100 deep",
    );
    check(
        format!("a{}=1", "[0].a".repeat(100_000)),
        "lists and maps are nested more than 100 deep",
    );
    let far: Vec<String> = (0..10).map(|n| format!("a{n}[65536]=x")).collect();
    check(far.join(","), "lists have more than 200000 elements together");
}
