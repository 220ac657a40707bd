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
            &["crates/a/src/util.rs: util.rs says nothing about the content"],
        ),
        (
            "crates/a/src/common/x.rs",
            "//! x\n",
            &["crates/a/src/common/x.rs: common says nothing about the content"],
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

fn controllers(shared: &str) -> Vec<String> {
    let files = [
        file("crates/controllers/src/lib.rs", "pub use kustomization::X;"),
        file("crates/controllers/src/set.rs", "use crate::kustomization::X;"),
        file("crates/controllers/src/kit/queue.rs", shared),
        file(
            "crates/controllers/src/kustomization/mod.rs",
            "use crate::kustomization::X;",
        ),
        file("crates/controllers/src/git_repository/mod.rs", ""),
        file("crates/apply/src/kit/queue.rs", "use crate::kustomization::X;"),
    ];
    controllers::check(&files)
}

#[test]
fn shared_modules_import_no_controller() {
    let here = "crates/controllers/src/kit/queue.rs";
    let imports = |line: usize, name: &str| {
        format!("{here}:{line}: imports the controller `{name}`, which shared modules do not")
    };
    for (text, expected) in [
        ("use crate::kit::kustomization::X;", None),
        (
            "use crate::Key;\nuse crate::kustomization::X;",
            Some((2, "kustomization")),
        ),
        (
            "use crate::{\n    Key,\n    kit::{self, kustomization},\n    git_repository::X,\n};",
            Some((4, "git_repository")),
        ),
        (
            "fn f() { crate::kustomization::f(); }",
            Some((1, "kustomization")),
        ),
        ("use super::super::kustomization;", Some((1, "kustomization"))),
        (
            "use super::{super::kustomization, Key};",
            Some((1, "kustomization")),
        ),
        // a sibling module
        ("use super::kustomization;", None),
        (
            "// crate::kustomization::X\nconst A: &str = \"crate::kustomization\";",
            None,
        ),
        (
            "const A: &str = r#\"\"crate::kustomization\"#; const B: char = '\"';",
            None,
        ),
        ("use equate_api::kustomization::X;", None),
    ] {
        let expected: Vec<String> = expected
            .into_iter()
            .map(|(line, name)| imports(line, name))
            .collect();
        assert_eq!(controllers(text), expected, "{text}");
    }
}

#[test]
fn controllers_import_no_other_controller() {
    let files = [
        file(
            "crates/controllers/src/kustomization/act/mod.rs",
            "use crate::kit::X;\nuse super::decide::Y;\nuse crate::git_repository::Z;",
        ),
        file("crates/controllers/src/git_repository/mod.rs", ""),
        file("crates/controllers/src/kit/mod.rs", ""),
    ];
    check(
        &controllers::check(&files),
        &[concat!(
            "crates/controllers/src/kustomization/act/mod.rs:3: the controller `kustomization` imports the ",
            "controller `git_repository`: move what both need to a shared module"
        )],
    );
}

#[test]
fn no_type_has_too_many_methods_that_change_it() {
    let methods = |from: usize, until: usize| -> String {
        (from..until)
            .map(|number| {
                format!(
                    "pub(super) async fn f{number}<'a, F: Fn(&X) -> Y>(&'a mut self, f: F) {{ if x {{ }} }}\n"
                )
            })
            .collect()
    };
    let one = format!(
        "impl Run<'_> {{ {} fn read(&self) {{}} fn new() -> Self {{}} }}",
        methods(0, 8)
    );
    let tests = format!(
        "#[cfg(test)]\nmod tests {{ impl Run<'_> {{ {} }} }}",
        methods(20, 30)
    );
    let check = |second: usize, expected: &[&str]| {
        let two = format!(
            "impl<'a, T> Step<T> for Run<'a> where T: X {{ {} fn make() -> impl Fn(&mut Y) {{}} }} {tests}",
            methods(8, second)
        );
        let files = [
            file("crates/controllers/src/one/run/a.rs", &one),
            file("crates/controllers/src/one/run/b.rs", &two),
            // another type of this name
            file("crates/controllers/src/two/mod.rs", &one),
            file("crates/controllers/src/one/tests.rs", &one),
        ];
        let complaints = controllers::check(&files);
        assert_eq!(complaints, expected);
    };
    check(15, &[]);
    check(
        16,
        &["crates/controllers/src/one: `Run` has 16 methods that take `&mut self`, more than 15: split it"],
    );
}

#[test]
fn retired_names_do_not_come_back() {
    let list = "# why\n\ncrates/a/ Hub\ncrates/a/ heard # a function\n";
    let complaint = |line: usize, name: &str| {
        format!("crates/a/src/b.rs:{line}: `{name}` is a retired name: choose another")
    };
    for (path, text, expected) in [
        (
            "crates/a/src/b.rs",
            "pub(crate) struct Hub<T>(T);",
            vec![complaint(1, "Hub")],
        ),
        ("crates/a/src/b.rs", "\nenum Hub {}", vec![complaint(2, "Hub")]),
        ("crates/a/src/b.rs", "type Hub = ();", vec![complaint(1, "Hub")]),
        (
            "crates/a/src/b.rs",
            "impl X { pub const fn heard() {} }",
            vec![complaint(1, "heard")],
        ),
        (
            "crates/a/src/b.rs",
            "static mut Hub: u8 = 0;",
            vec![complaint(1, "Hub")],
        ),
        // a use is no definition
        ("crates/a/src/b.rs", "use other::Hub; // struct Hub", vec![]),
        (
            "crates/a/src/b.rs",
            "fn f(a: *const Hub, b: &str) { heard(\"fn heard\") }",
            vec![],
        ),
        ("crates/a/src/b.rs", "struct HubState;", vec![]),
        ("crates/other/src/b.rs", "struct Hub;", vec![]),
        ("crates/a/b.md", "struct Hub;", vec![]),
    ] {
        assert_eq!(retired::check_with(&[file(path, text)], list), expected, "{text}");
    }
    check(
        &retired::check_with(&[], "crates/a/\n"),
        &["retired_names.txt:1: not a path and a name: crates/a/"],
    );
}

#[test]
fn comments_have_a_ceiling() {
    let text = "//! One two three.\n\nfn f() {\n    // four\n    g(); // not counted\n}\n";
    for (path, words_max, expected) in [
        ("a.rs", 1333, &[][..]),
        (
            "a.rs",
            1332,
            &["1333 comment words per 1,000 lines of code, more than 1332: \
               keep reasons, invariants and sources"],
        ),
        ("generated/a.rs", 0, &[]),
        ("a.md", 0, &[]),
    ] {
        check(&words::comments(&[file(path, text)], words_max), expected);
    }
}

#[test]
fn documentation_names_an_actor_or_an_object() {
    for (text, expected) in [
        ("/// What it is.", Some((1, "What"))),
        ("fn f();\n    /// Whoever asks", Some((2, "Whoever"))),
        ("//! What's here\n//! is this.", Some((1, "What"))),
        ("/// What is it? This.", None),
        ("/// What is\n/// a.b? This.", None),
        ("/// What is a.b. Or not?", Some((1, "What"))),
        ("/// Whole numbers.", None),
        ("/// The rule.\n/// What follows is more of it.", None),
        ("/// The rule.\n\n/// Who asks.", Some((3, "Who"))),
        ("// What a comment says.", None),
        ("#[arg(long, help = \"Who asks\")]", Some((1, "Who"))),
        ("#[command(about = \"What is new?\")]", None),
        ("let unhelp = \"What\";", None),
    ] {
        let expected: Vec<String> = expected
            .into_iter()
            .map(|(line, word)| format!("a.rs:{line}: begins with `{word}`: name the actor or the object"))
            .collect();
        assert_eq!(words::beginnings(&[file("a.rs", text)]), expected, "{text}");
    }
}

#[test]
fn the_dependency_tree_has_ceilings() {
    let lock = file(
        "Cargo.lock",
        "[[package]]\nname = \"a\"\n\n[[package]]\nname = \"b\"\n",
    );
    let tree = "a v1.0.0 (/x)\nb v1.0.0\nb v2.0.0 (proc-macro)\nb v1.0.0 (*)\n\n";
    let check = |binary_max, locked_max, expected: &[&str]| {
        let complaints = packages::check_with(std::slice::from_ref(&lock), tree, binary_max, locked_max);
        check(&complaints, expected);
    };
    check(3, 2, &[]);
    check(
        2,
        1,
        &[
            "the binary has 3 packages, more than 2: only a decision record raises the ceiling",
            "Cargo.lock has 2 packages, more than 1: only a decision record raises the ceiling",
        ],
    );
}

#[test]
fn the_image_uses_the_libraries_of_the_tests() {
    let tests =
        "equate-cli v0.1.0 (/w/crates/cli) \ntokio v1.54.1 net,test-util\neither v1.19.0 std,use_std (*)\n";
    let image =
        "equate-cli v0.1.0 (/w/crates/cli) as-tested\ntokio v1.54.1 net\neither v1.19.0 std,use_std\n";
    check(
        &packages::check_features(tests, image),
        &[
            "crates/cli/Cargo.toml: the tests use other features than `tokio v1.54.1 net`: add them to `as-tested`",
        ],
    );
}
