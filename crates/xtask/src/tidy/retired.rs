//! Definitions that were renamed or removed for good.
//!
//! A name that readers did not understand tends to come back with the next change. The list holds each
//! with the place it was in; the same name elsewhere is allowed.

use super::File;
use super::rust::Tokens;

/// One definition per line: the beginning of the path, and the name. `#` begins a comment.
const LIST: &str = include_str!("retired_names.txt");

pub(super) fn check(files: &[File]) -> Vec<String> {
    check_with(files, LIST)
}

pub(super) fn check_with(files: &[File], list: &str) -> Vec<String> {
    let (mut retired, mut complaints) = (Vec::new(), Vec::new());
    for (index, line) in list.lines().enumerate() {
        let entry = line.split('#').next().unwrap_or_default();
        match entry.split_whitespace().collect::<Vec<_>>()[..] {
            [] => {}
            [path, name] => retired.push((path, name)),
            _ => complaints.push(format!(
                "retired_names.txt:{}: not a path and a name: {line}",
                index + 1
            )),
        }
    }
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let here: Vec<&str> = retired
            .iter()
            .filter(|(path, _)| file.path.starts_with(path))
            .map(|(_, name)| *name)
            .collect();
        if here.is_empty() {
            continue;
        }
        for (name, line) in Tokens::of(&file.text).definitions() {
            if here.contains(&name) {
                complaints.push(format!(
                    "{}:{line}: `{name}` is a retired name: choose another",
                    file.path
                ));
            }
        }
    }
    complaints
}
