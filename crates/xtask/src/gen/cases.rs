//! The index of the kustomize cases: each rule with its file.

use std::fmt::Write as _;
use std::path::Path;

use super::Error;
use crate::baseline::format::Case;
use crate::baseline::kustomize::cases;

const INDEX: &str = "../kustomize/tests/cases/README.md";

const HEADER: &str = "\
# kustomize build, rule by rule

Each file shows one rule: the files of a small tree, then the result of the build. `cargo xtask baseline kustomize`
records outputs and errors from kustomize (api 0.21.3); with `--check` it reports differences. `our error` is ours, with
its place; where ours differs, `difference` says why. [format.rs](../it/cases/format.rs) describes the format. The tests
replay every case; those of charts are replayed by the command line's tests. `cargo xtask gen` writes this page.
";

/// Writes the index, or with `check` compares it.
pub(super) fn generate(check: bool) -> Result<(), Error> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(INDEX);
    let text = index()?;
    super::settle(path, &text, check)
}

fn index() -> Result<String, Error> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(INDEX);
    let read = |source| Error::Read {
        path: folder.clone(),
        source,
    };
    let mut text = HEADER.to_owned();
    let mut last = String::new();
    for path in cases().map_err(read)? {
        let case = std::fs::read_to_string(&path).map_err(|source| Error::Read {
            path: path.clone(),
            source,
        })?;
        let case =
            Case::parse(&case).map_err(|problem| Error::Source(format!("{}: {problem}", path.display())))?;
        let name = |path: Option<&Path>| {
            let name = path.and_then(Path::file_name).unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let (topic, file) = (name(path.parent()), name(Some(&path)));
        if topic != last {
            // writing to a String cannot fail
            let _ = write!(text, "\n## {}\n\n", topic.replace('_', " "));
            last.clone_from(&topic);
        }
        let rule = case.rule.split('\n').next().unwrap_or_default();
        let _ = writeln!(text, "- [{rule}]({topic}/{file})");
    }
    Ok(text)
}
