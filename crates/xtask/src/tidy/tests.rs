use super::*;

fn file(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}

#[track_caller]
fn check(complaints: &[String], expected: &[&str]) {
    assert_eq!(complaints, expected);
}

#[test]
fn sources() {
    let long = format!("//! x\n{}", "\n".repeat(800));
    for (path, text, expected) in [
        ("crates/a/src/b.rs", "//! Why.\n", &[][..]),
        (
            "crates/a/src/b.rs",
            "fn f() {}\n",
            &["crates/a/src/b.rs: no `//!` header that says why the file exists"],
        ),
        ("crates/a/src/tests.rs", "fn f() {}\n", &[]),
        (
            "crates/a/src/util.rs",
            "//! x\n",
            &["crates/a/src/util.rs: util.rs is a drawer, not a name"],
        ),
        (
            "crates/a/src/common/x.rs",
            "//! x\n",
            &["crates/a/src/common/x.rs: common is a drawer, not a name"],
        ),
        (
            "crates/a/src/b.rs",
            &long,
            &["crates/a/src/b.rs: 801 lines, more than 800: split it by concept"],
        ),
        ("crates/a/src/generated/b.rs", &long, &[]),
        (
            "a.rs",
            concat!("//! x\n// TO", "DO: y\n"),
            &[concat!("a.rs:2: TO", "DO")],
        ),
        (
            "a.md",
            concat!("see /ro", "ot/x\n"),
            &[concat!("a.md:1: /ro", "ot/ is a path of one machine")],
        ),
        (
            "a.sh",
            concat!("get pypi", ".org\n"),
            &[concat!("a.sh:1: pypi", ".org is a registry's host")],
        ),
        ("Cargo.lock", concat!("pypi", ".org"), &[]),
    ] {
        check(&sources::check(&[file(path, text)]), expected);
    }
}

#[test]
fn documents() {
    let architecture = || file("ARCHITECTURE.md", "| `a` | x |\n");
    let manifest = || file("crates/a/Cargo.toml", "");
    let index = || file("docs/decisions/README.md", "[1](0001-x.md)");
    let decision = "# 0001: X\n\n**Context.** c\n\n**Decision.** d\n\n**Consequence.** e\n";
    for (path, text, expected) in [
        (
            "b.md",
            "[x](docs/decisions/0001-x.md#y) [z](https://a.example) [f](crates)",
            &[][..],
        ),
        ("b.md", "[x](nowhere.md)", &["b.md: nowhere.md leads nowhere"]),
        (
            "b.md",
            "[x](../y.md)",
            &["b.md: ../y.md leads out of the repository"],
        ),
        ("b.md", "```\n[x](nowhere.md)\n```\n", &[]),
        ("changes/x.md", "added: y\n\nText.\n", &[]),
        (
            "changes/x.md",
            "new: y\n\nText.\n",
            &["changes/x.md: its first line is not `added|changed|fixed|removed: title`"],
        ),
        (
            "changes/x.md",
            "added: y\n",
            &["changes/x.md: no text after its first line and a blank one"],
        ),
    ] {
        let files = [
            architecture(),
            manifest(),
            index(),
            file("docs/decisions/0001-x.md", decision),
            file(path, text),
        ];
        check(&documents::check(&files), expected);
    }
    let files = [
        architecture(),
        manifest(),
        index(),
        file("docs/decisions/0002-y.md", "# 2\n"),
    ];
    check(
        &documents::check(&files),
        &[
            "docs/decisions: 0002 is used twice or follows a gap",
            "docs/decisions/README.md: 0001-x.md leads nowhere",
            "docs/decisions/0002-y.md: its title does not begin with `# 0002: `",
            "docs/decisions/0002-y.md: no **Context.**",
            "docs/decisions/0002-y.md: no **Decision.**",
            "docs/decisions/0002-y.md: no **Consequence.**",
            "docs/decisions/0002-y.md: not listed in docs/decisions/README.md",
        ],
    );
    check(
        &documents::check(&[architecture(), file("crates/b/Cargo.toml", "")]),
        &[
            "ARCHITECTURE.md: crate b has no row",
            "ARCHITECTURE.md: there is no crate a",
        ],
    );
}

#[test]
fn edges() {
    for (path, text, expected) in [
        (
            "crates/cli/Cargo.toml",
            "[dependencies]\nequate-apiserver.workspace = true\n",
            &[][..],
        ),
        (
            "crates/source/Cargo.toml",
            "[dependencies]\nequate-manifest = { workspace = true }\n",
            &["crates/source/Cargo.toml: source may not use manifest (dependencies)"],
        ),
        (
            "crates/cli/Cargo.toml",
            "[dev-dependencies]\nequate-testkit.workspace = true\n",
            &[],
        ),
        (
            "crates/cli/Cargo.toml",
            "[dependencies.equate-testkit]\npath = 'x'\n",
            &["crates/cli/Cargo.toml: cli may not use testkit (dependencies)"],
        ),
        (
            "crates/new/Cargo.toml",
            "",
            &["crates/new/Cargo.toml: crate new is not in xtask's table of edges"],
        ),
    ] {
        check(&edges::check(&[file(path, text)]), expected);
    }
}
