//! Writing archives, and refusing malicious ones.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use proptest::prelude::{any, prop};
use proptest::{prop_assert, prop_assert_eq, proptest};
use tar::{EntryType, Header};

use super::ArchiveError;
use crate::limits::Limits;
use crate::tree::{Building, Entry, Tree};

fn tree(files: &[(&str, &str, bool)]) -> Tree {
    let limits = Limits::default();
    let mut building = Building::new(&limits);
    for (path, content, executable) in files {
        building
            .file(path, Bytes::from((*content).to_owned()), *executable)
            .unwrap();
    }
    building.finish()
}

fn archive(tree: &Tree) -> Vec<u8> {
    let mut out = Vec::new();
    let archived = tree.write_archive(&mut out, &Limits::default()).unwrap();
    assert_eq!(archived.size, out.len() as u64);
    out
}

/// A tar of raw headers that no regular writer produces.
fn raw(entries: &[(EntryType, &str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (kind, path, content) in entries {
        let mut header = Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        if matches!(kind, EntryType::Symlink | EntryType::Link) {
            header.set_link_name("/etc/passwd").unwrap();
        }
        header.set_cksum();
        tar.append(&header, *content).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

fn paths(tree: &Tree) -> Vec<String> {
    let mut paths = Vec::new();
    let _: Result<(), ()> = tree.walk(&mut |path, _| {
        paths.push(path.to_owned());
        Ok(())
    });
    paths
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(next) = source {
        text = format!("{text}: {next}");
        source = next.source();
    }
    text
}

#[test]
fn archives_match_fluxs() {
    let tree = tree(&[
        ("b/run.sh", "#!/bin/sh\n", true),
        ("b.yaml", "b: 1\n", false),
        ("a/x/y.yaml", "", false),
    ]);
    let mut listed = String::new();
    let bytes = archive(&tree);
    for entry in tar::Archive::new(GzDecoder::new(&bytes[..])).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut content = String::new();
        entry.read_to_string(&mut content).unwrap();
        let header = entry.header();
        listed += &format!(
            "{:?} {} {:o} {} {}:{} {:?}{:?} {content:?}\n",
            header.entry_type(),
            entry.path().unwrap().display(),
            header.mode().unwrap(),
            header.mtime().unwrap(),
            header.uid().unwrap(),
            header.gid().unwrap(),
            header.username().unwrap().unwrap_or_default(),
            header.groupname().unwrap().unwrap_or_default(),
        );
    }
    let expected = r##"Directory . 750 0 0:0 """" ""
Directory a 750 0 0:0 """" ""
Directory a/x 750 0 0:0 """" ""
Regular a/x/y.yaml 600 0 0:0 """" ""
Directory b 750 0 0:0 """" ""
Regular b/run.sh 700 0 0:0 """" "#!/bin/sh\n"
Regular b.yaml 600 0 0:0 """" "b: 1\n"
"##;
    assert_eq!(listed, expected);
}

#[test]
fn equal_trees_have_equal_archives_and_round_trip() {
    let long = format!("{}/{}.yaml", "d".repeat(200), "f".repeat(220));
    let files = [
        ("z.yaml", "z", false),
        (&*long, "long", false),
        ("ä/ö", "ü", true),
        ("a/b/c", "c", false),
    ];
    let mut reversed = files;
    reversed.reverse();
    let (one, other) = (archive(&tree(&files)), archive(&tree(&reversed)));
    assert_eq!(one, other);
    let read = Tree::from_archive(&one[..], &Limits::default()).unwrap();
    assert_eq!(read, tree(&files));
    assert_eq!(read.read(&long).unwrap(), "long");
    assert!(matches!(
        read.entry("ä/ö"),
        Some(Entry::File { executable: true, .. })
    ));
    assert_ne!(read, tree(&files[..3]));
    assert_eq!(
        Tree::from_archive(&archive(&Tree::empty())[..], &Limits::default()).unwrap(),
        Tree::empty()
    );
}

#[test]
fn special_entries_are_refused_by_name() {
    let check = |entries: &[(EntryType, &str, &[u8])], expected: &str| {
        let read = Tree::from_archive(&raw(entries)[..], &Limits::default());
        let shown = read.map_or_else(|error| chain(&error), |tree| paths(&tree).join(" "));
        assert_eq!(shown, expected, "{entries:?}");
    };
    let file = EntryType::Regular;
    check(
        &[
            (file, "./a/b", b"1"),
            (EntryType::Directory, "./c/", b""),
            (EntryType::Directory, ".", b""),
        ],
        "a a/b c",
    );
    check(&[(file, "a", b"1"), (file, "a", b"2")], "a");
    check(&[(EntryType::Symlink, "link", b""), (file, "b", b"1")], "b");
    check(
        &[
            (EntryType::XGlobalHeader, "pax_global_header", b""),
            (file, "b", b"1"),
        ],
        "b",
    );
    check(
        &[(file, "../a", b"1")],
        r#"archive entry "../a": it has the name . or .."#,
    );
    check(
        &[(file, "a/../../b", b"1")],
        r#"archive entry "a/../../b": it has the name . or .."#,
    );
    check(
        &[(file, "a/..", b"1")],
        r#"archive entry "a/..": it has the name . or .."#,
    );
    check(
        &[(EntryType::Directory, "../", b"")],
        r#"archive entry "..": it has the name . or .."#,
    );
    check(
        &[(EntryType::Symlink, "../a", b"")],
        r#"archive entry "../a": it has the name . or .."#,
    );
    check(
        &[(file, "/etc/passwd", b"1")],
        r#"archive entry "/etc/passwd": it is absolute"#,
    );
    check(
        &[(EntryType::Directory, "/", b"")],
        r#"archive entry "/": it is absolute"#,
    );
    check(
        &[(file, "a//b", b"1")],
        r#"archive entry "a//b": it has an empty name"#,
    );
    check(
        &[(file, "a/", b"1")],
        r#"archive entry "a/": it has an empty name"#,
    );
    check(&[(file, ".", b"1")], r#"archive entry "": a file needs a name"#);
    check(
        &[(file, "a", b"1"), (file, "a/b", b"1")],
        r#"archive entry "a/b": it is both a file and a directory"#,
    );
    check(
        &[(file, "a/b", b"1"), (file, "a", b"1")],
        r#"archive entry "a": it is both a file and a directory"#,
    );
    for (kind, name) in [
        (EntryType::Link, "hard link"),
        (EntryType::Char, "character device"),
        (EntryType::Block, "block device"),
        (EntryType::Fifo, "named pipe"),
        (EntryType::new(b'V'), "special entry"),
    ] {
        let expected = format!("archive entry \"x\" is a {name}; an artifact holds files and directories");
        check(&[(kind, "x", b"")], &expected);
    }
}

#[test]
fn every_limit_is_named() {
    let check = |limits: Limits, bytes: &[u8], expected: &str| {
        let shown = Tree::from_archive(bytes, &limits)
            .map_or_else(|error| chain(&error), |tree| paths(&tree).join(" "));
        assert_eq!(shown, expected);
    };
    let two = archive(&tree(&[("a/b/c", "12345678", false), ("d", "12345678", false)]));
    let all = Limits::default();
    check(all.clone(), &two, "a a/b a/b/c d");
    check(
        Limits {
            entries_max: 3,
            ..all.clone()
        },
        &two,
        r#"archive entry "d": more than 3 files and directories"#,
    );
    check(
        Limits {
            depth_max: 1,
            ..all.clone()
        },
        &two,
        r#"archive entry "a/b/c": more than 1 directories deep"#,
    );
    check(
        Limits {
            path_bytes_max: 4,
            ..all.clone()
        },
        &two,
        r#"archive entry "a/b/c": a path longer than 4 bytes"#,
    );
    check(
        Limits {
            file_bytes_max: 7,
            ..all.clone()
        },
        &two,
        r#"archive entry "a/b/c": a file larger than 7 bytes"#,
    );
    check(
        Limits {
            tree_bytes_max: 15,
            ..all.clone()
        },
        &two,
        r#"archive entry "d": more than 15 bytes in all files together"#,
    );
    check(
        Limits {
            archive_bytes_max: 20,
            ..all.clone()
        },
        &two,
        r#"archive entry "": an archive larger than 20 bytes"#,
    );
    let bomb = raw(&[(EntryType::Regular, "zeros", &vec![0; 8 << 20])]);
    check(
        Limits {
            expansion_max: 50,
            ..all.clone()
        },
        &bomb,
        r#"archive entry "zeros": an archive that expands more than 50 times"#,
    );
    let mut endless = raw(&[(EntryType::Regular, "a", b"1")]);
    let mut padding = GzEncoder::new(Vec::new(), Compression::fast());
    padding.write_all(&vec![0; 4 << 20]).unwrap();
    endless.extend(padding.finish().unwrap());
    check(
        Limits {
            tree_bytes_max: 1000,
            entries_max: 100,
            ..all.clone()
        },
        &endless,
        r#"archive entry "a": more than 1000 bytes in all files together"#,
    );
}

#[test]
fn oversized_archives_are_not_written() {
    let tree = tree(&[("a", "12345678", false), ("b", "12345678", false)]);
    let check = |limits: Limits, expected: &str| {
        let error = tree.write_archive(std::io::sink(), &limits).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let all = Limits::default();
    check(
        Limits {
            file_bytes_max: 7,
            ..all.clone()
        },
        r#"archive entry "a": a file larger than 7 bytes"#,
    );
    check(
        Limits {
            tree_bytes_max: 15,
            ..all.clone()
        },
        r#"archive entry "b": more than 15 bytes in all files together"#,
    );
    check(
        Limits {
            archive_bytes_max: 20,
            ..all
        },
        r#"archive entry "": an archive larger than 20 bytes"#,
    );
}

/// A disk that is full after this many bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.min(bytes.len()) {
            0 => Err(std::io::ErrorKind::StorageFull.into()),
            written => {
                self.0 -= written;
                Ok(written)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A full disk is reported at any byte, even in the last buffer.
#[test]
fn a_full_disk_is_an_error() {
    let tree = tree(&[("a", "12345678", false)]);
    let length = archive(&tree).len();
    for room in 0..length {
        let out = std::io::BufWriter::new(Full(room));
        let written = tree.write_archive(out, &Limits::default());
        assert!(
            matches!(written, Err(ArchiveError::Write(_))),
            "{room} of {length}: {written:?}"
        );
    }
    let out = std::io::BufWriter::new(Full(length));
    assert_eq!(
        tree.write_archive(out, &Limits::default()).unwrap().size,
        length as u64
    );
}

#[test]
fn truncated_archives_are_refused() {
    let whole = archive(&tree(&[("a", &"some text, some text".repeat(50), false)]));
    for length in [0, 1, 9, 10, 30, whole.len() / 2, whole.len() - 5, whole.len() - 1] {
        let read = Tree::from_archive(&whole[..length], &Limits::default());
        assert!(
            matches!(read, Err(ArchiveError::Malformed(_))),
            "{length} of {}: {read:?}",
            whole.len()
        );
    }
    let mut damaged = whole.clone();
    let at = damaged.len() - 6;
    damaged[at] ^= 1;
    assert!(matches!(
        Tree::from_archive(&damaged[..], &Limits::default()),
        Err(ArchiveError::Malformed(_))
    ));
}

/// Anything read from an untrusted archive could be written again.
fn is_sound(tree: &Tree, limits: &Limits) -> bool {
    let all = paths(tree);
    all.len() <= limits.entries_max
        && all.iter().all(|path| {
            !path.starts_with('/')
                && path.len() <= limits.path_bytes_max
                && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
                && tree.entry(path).is_some()
        })
}

proptest! {
    #[test]
    fn random_bytes_only_fail(bytes in prop::collection::vec(any::<u8>(), 0..4096)) {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&bytes).unwrap();
        for archive in [bytes, packed.finish().unwrap()] {
            if let Ok(tree) = Tree::from_archive(&archive[..], &Limits::default()) {
                prop_assert!(is_sound(&tree, &Limits::default()));
            }
        }
    }

    /// Changed bytes of a valid tar reach further than noise.
    #[test]
    fn damaged_archives_only_fail(changes in prop::collection::vec((0_usize..6000, any::<u8>()), 1..24), fix in any::<bool>()) {
        let whole = archive(&tree(&[("a/b.yaml", "kind: A\n", false), ("long/".repeat(40).trim_end_matches('/'), "x", true), ("c", "", false)]));
        let mut tar = Vec::new();
        GzDecoder::new(&whole[..]).read_to_end(&mut tar).unwrap();
        for (at, byte) in changes {
            if let Some(place) = tar.get_mut(at) {
                *place = byte;
            }
        }
        if fix {
            for block in tar.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
                let mut header = Header::from_byte_slice(block).clone();
                header.set_cksum();
                block.copy_from_slice(header.as_bytes());
            }
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&tar).unwrap();
        let limits = Limits { entries_max: 50, ..Limits::default() };
        if let Ok(tree) = Tree::from_archive(&packed.finish().unwrap()[..], &limits) {
            prop_assert!(is_sound(&tree, &limits));
            let again = Tree::from_archive(&archive(&tree)[..], &limits).unwrap();
            prop_assert_eq!(again, tree);
        }
    }
}

/// A file after an extended header with this content.
fn extended(kind: EntryType, content: &[u8]) -> Vec<u8> {
    raw(&[(kind, "header", content), (EntryType::Regular, "short", b"x")])
}

#[test]
fn extended_headers_are_read_within_a_limit() {
    let check = |archive: &[u8], expected: Result<&str, &str>| {
        let read = Tree::from_archive(archive, &Limits::default());
        match (read, expected) {
            (Ok(tree), Ok(path)) => assert_eq!(paths(&tree), [path]),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (read, _) => panic!("{:?}, not {expected:?}", read.map(|tree| paths(&tree))),
        }
    };
    check(&extended(EntryType::GNULongName, b"long\0"), Ok("long"));
    check(&extended(EntryType::XHeader, b"13 path=long\n"), Ok("long"));
    check(&extended(EntryType::XHeader, b"10 size=1\n"), Ok("short"));
    check(
        &extended(EntryType::XHeader, b"12 size=999\n"),
        Err("not a complete tar.gz"),
    );
    check(
        &extended(EntryType::XHeader, b"22 GNU.sparse.major=1\n"),
        Err("sparse file"),
    );
    // a name and records that expand to far more than the archive's own size
    for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
        let large = extended(kind, &vec![b'a'; (1 << 20) + 1]);
        check(&large, Err("an extended header larger than 1048576 bytes"));
    }
}
