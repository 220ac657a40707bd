//! Lexical operations on paths of a tree.
//!
//! A path in a fetched repository begins with the repository's label and `//`:
//! `https://example.org/base@v1//app/kustomization.yaml`. A tree's own paths have no empty segment, so the
//! two cannot be confused, and `..` cannot cross between them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathFault {
    Absolute,
    Outside,
}

/// Splits off the label and `//` of a path in a fetched repository; the label is empty for the tree itself.
pub(crate) fn split_label(path: &str) -> (&str, &str) {
    path.rfind("//").map_or(("", path), |at| path.split_at(at + 2))
}

/// Resolves `path` relative to the directory `base`, without `.`, `..` and empty segments.
pub(crate) fn join(base: &str, path: &str) -> Result<String, PathFault> {
    if path.starts_with('/') {
        return Err(PathFault::Absolute);
    }
    let (label, base) = split_label(base);
    let mut segments: Vec<&str> = base.split('/').filter(|segment| !segment.is_empty()).collect();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop().ok_or(PathFault::Outside)?;
            }
            other => segments.push(other),
        }
    }
    Ok(format!("{label}{}", segments.join("/")))
}

/// The parent directory; empty for a path in the root.
pub(crate) fn parent(path: &str) -> &str {
    let label = split_label(path).0.len();
    path[label..]
        .rfind('/')
        .map_or(&path[..label], |at| &path[..label + at])
}

pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

pub(crate) fn is_within(path: &str, dir: &str) -> bool {
    let ((there, path), (here, dir)) = (split_label(path), split_label(dir));
    let below = || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'));
    there == here && (dir.is_empty() || path == dir || below())
}

/// `path` relative to the directory `base`. A path in another repository stays as it is.
pub(crate) fn relative(base: &str, path: &str) -> String {
    let ((here, base), (there, rest)) = (split_label(base), split_label(path));
    if here != there {
        return path.to_owned();
    }
    let path = rest;
    let mut base: Vec<&str> = base.split('/').filter(|segment| !segment.is_empty()).collect();
    let mut path: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    base.reverse();
    path.reverse();
    while !base.is_empty() && base.last() == path.last() {
        base.pop();
        path.pop();
    }
    path.reverse();
    let mut segments = vec![".."; base.len()];
    segments.extend(path);
    if segments.is_empty() {
        ".".to_owned()
    } else {
        segments.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_inside_the_tree() {
        for (base, path, expected) in [
            ("", ".", Ok("")),
            ("", "./a//b/", Ok("a/b")),
            ("a/b", "../../c", Ok("c")),
            ("a/b", "../b", Ok("a/b")),
            ("a", "../..", Err(PathFault::Outside)),
            ("a", "/etc/passwd", Err(PathFault::Absolute)),
        ] {
            assert_eq!(
                join(base, path).as_deref(),
                expected.as_ref().map(|path| *path),
                "{base} {path}"
            );
        }
    }

    #[test]
    fn a_path_is_written_relative_to_its_kustomization() {
        for (base, path, expected) in [
            ("a/b", "a/b/c", "c"),
            ("a/b", "a/c", "../c"),
            ("", "x", "x"),
            ("a", "a", "."),
        ] {
            assert_eq!(relative(base, path), expected);
        }
    }

    #[test]
    fn paths_do_not_leave_a_fetched_repository() {
        const ROOT: &str = "https://h/o/r@v1//";
        for (base, path, expected) in [
            ("https://h/o/r@v1//a/b", "../c", Ok("https://h/o/r@v1//a/c")),
            ("https://h/o/r@v1//a", "..", Ok(ROOT)),
            (ROOT, "..", Err(PathFault::Outside)),
            ("file:////", "a", Ok("file:////a")),
        ] {
            assert_eq!(
                join(base, path).as_deref(),
                expected.as_ref().map(|path| *path),
                "{base} {path}"
            );
        }
        assert_eq!(parent("https://h/o/r@v1//a/b"), "https://h/o/r@v1//a");
        assert_eq!(parent("https://h/o/r@v1//a"), ROOT);
        assert_eq!(name("https://h/o/r@v1//a"), "a");
        assert!(is_within("https://h/o/r@v1//a", ROOT));
        assert!(!is_within("https://h/o/r@v2//a", ROOT));
        assert!(!is_within(ROOT, ""));
        assert!(!is_within("a", ROOT));
        assert_eq!(relative("https://h/o/r@v1//a", "https://h/o/r@v1//b"), "../b");
        assert_eq!(relative("a", ROOT), ROOT);
    }
}
