//! Rules about documents: links, decisions, changelog fragments, the list of crates.

use std::collections::BTreeSet;

use super::File;

const DECISIONS: &str = "docs/decisions";

const CHANGES: &str = "changes";

const CHANGE_KINDS: [&str; 4] = ["added", "changed", "fixed", "removed"];

pub(super) fn check(files: &[File]) -> Vec<String> {
    let mut complaints = crates(files);
    complaints.extend(decision_numbers(files));
    for file in files.iter().filter(|file| file.path.ends_with(".md")) {
        complaints.extend(links(file, files));
        match file.folder() {
            DECISIONS if file.name() != "README.md" => complaints.extend(decision(file, files)),
            CHANGES if file.name() != "README.md" => complaints.extend(change(file)),
            _ => {}
        }
    }
    complaints
}

/// Every crate has a row in the architecture, and every row a crate.
fn crates(files: &[File]) -> Vec<String> {
    let crates: BTreeSet<&str> = files
        .iter()
        .filter_map(|file| file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .collect();
    let Some(architecture) = files.iter().find(|file| file.path == "ARCHITECTURE.md") else {
        return vec!["ARCHITECTURE.md: missing".to_owned()];
    };
    let rows: BTreeSet<&str> = architecture
        .text
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once('`').map(|(name, _)| name))
        .collect();
    let missing = crates
        .difference(&rows)
        .map(|name| format!("ARCHITECTURE.md: crate {name} has no row"));
    let stale = rows
        .difference(&crates)
        .map(|name| format!("ARCHITECTURE.md: there is no crate {name}"));
    missing.chain(stale).collect()
}

fn decision_numbers(files: &[File]) -> Vec<String> {
    let mut numbers: Vec<&str> = files
        .iter()
        .filter(|file| file.folder() == DECISIONS && file.name() != "README.md")
        .filter_map(|file| file.name().get(..4))
        .collect();
    numbers.sort_unstable();
    let wrong = numbers
        .iter()
        .enumerate()
        .find(|(index, number)| **number != format!("{:04}", index + 1));
    wrong
        .map(|(_, number)| format!("{DECISIONS}: {number} is used twice or follows a gap"))
        .into_iter()
        .collect()
}

/// `NNNN-name.md`: `# NNNN: title`, then context, decision and consequence; listed in the README.
fn decision(file: &File, files: &[File]) -> Vec<String> {
    let path = &file.path;
    let mut complaints = Vec::new();
    let number = file.name().split('-').next().unwrap_or_default();
    if number.len() != 4 || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        complaints.push(format!(
            "{path}: its name does not begin with a number of four digits"
        ));
    }
    if !file.text.starts_with(&format!("# {number}: ")) {
        complaints.push(format!("{path}: its title does not begin with `# {number}: `"));
    }
    for part in ["**Context.**", "**Decision.**", "**Consequence.**"] {
        if !file.text.contains(part) {
            complaints.push(format!("{path}: no {part}"));
        }
    }
    let index = files
        .iter()
        .find(|other| other.path == format!("{DECISIONS}/README.md"));
    if !index.is_some_and(|index| index.text.contains(&format!("({})", file.name()))) {
        complaints.push(format!("{path}: not listed in {DECISIONS}/README.md"));
    }
    complaints
}

/// `kind: title`, a blank line, then the meaning for a user.
fn change(file: &File) -> Vec<String> {
    let path = &file.path;
    let mut lines = file.text.lines();
    let first = lines.next().unwrap_or_default();
    let titled = first
        .split_once(": ")
        .is_some_and(|(kind, title)| CHANGE_KINDS.contains(&kind) && !title.trim().is_empty());
    let mut complaints = Vec::new();
    if !titled {
        complaints.push(format!(
            "{path}: its first line is not `{}: title`",
            CHANGE_KINDS.join("|")
        ));
    }
    if lines.next().is_some_and(|line| !line.is_empty()) || lines.all(|line| line.trim().is_empty()) {
        complaints.push(format!("{path}: no text after its first line and a blank one"));
    }
    complaints
}

/// Relative links lead to a file or folder of the repository.
fn links(file: &File, files: &[File]) -> Vec<String> {
    let mut complaints = Vec::new();
    for target in targets(&file.text) {
        let path = target.split('#').next().unwrap_or_default();
        if path.is_empty() || target.contains("://") || target.starts_with("mailto:") {
            continue;
        }
        let Some(resolved) = resolve(file.folder(), path) else {
            complaints.push(format!("{}: {target} leads out of the repository", file.path));
            continue;
        };
        let found = resolved.is_empty()
            || files
                .iter()
                .any(|other| other.path == resolved || other.path.starts_with(&format!("{resolved}/")));
        if !found {
            complaints.push(format!("{}: {target} leads nowhere", file.path));
        }
    }
    complaints
}

/// The targets of `](...)`, outside fenced and indented code.
fn targets(text: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced || line.starts_with("    ") {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, next)) = after.split_once(')') else {
                break;
            };
            targets.push(target);
            rest = next;
        }
    }
    targets
}

fn resolve(folder: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
