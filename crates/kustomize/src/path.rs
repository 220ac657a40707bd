//! Paths of a tree: joining and cleaning, lexically.

/// Why a path leads nowhere in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathFault {
    /// It begins with `/`.
    Absolute,
    /// It climbs out of the tree.
    Outside,
}

/// `path`, seen from the directory `base`, without `.`, `..` and empty segments.
pub(crate) fn join(base: &str, path: &str) -> Result<String, PathFault> {
    if path.starts_with('/') {
        return Err(PathFault::Absolute);
    }
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
    Ok(segments.join("/"))
}

/// The directory a path stands in; empty for one in the root.
pub(crate) fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The last segment of a path.
pub(crate) fn name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

/// Whether `path` is `dir` or stands below it.
pub(crate) fn is_within(path: &str, dir: &str) -> bool {
    dir.is_empty() || path == dir || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))
}

/// `path` as it is written in a kustomization file in the directory `base`.
pub(crate) fn relative(base: &str, path: &str) -> String {
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

/// Whether an entry names a repository rather than a path: the kustomize CLI's URL grammar.
///
/// A scheme, a user (`git@host:path`) or the bare host `github.com` is needed, so that no local
/// directory's name is one.
pub(crate) fn is_remote(entry: &str) -> bool {
    let entry = entry.strip_prefix("git::").unwrap_or(entry);
    let lower = entry.to_ascii_lowercase();
    if ["https://", "http://", "ssh://", "file://", "git://"]
        .iter()
        .any(|scheme| lower.starts_with(scheme))
    {
        return true;
    }
    if lower.starts_with("github.com/") || lower.starts_with("github.com:") || lower.starts_with("gh:") {
        return true;
    }
    match entry.split_once('@') {
        Some((user, rest)) => {
            !user.is_empty()
                && user
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
                && rest.contains(':')
        }
        None => false,
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
    fn a_url_is_told_from_a_path() {
        for (entry, expected) in [
            ("https://github.com/a/b//c?ref=v1", true),
            ("git@github.com:a/b", true),
            ("github.com/a/b", true),
            ("git::https://x/y", true),
            ("ssh://git@host/x", true),
            ("../base", false),
            ("github.com", false),
            ("a@b", false),
        ] {
            assert_eq!(is_remote(entry), expected, "{entry}");
        }
    }
}
