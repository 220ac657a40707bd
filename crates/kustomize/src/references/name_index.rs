//! An index of candidates that share a name, such as one name in every base or namespace.
//!
//! It finds them by namespace, former kind and affixes, so that a thousand bases with an `app` are not
//! scanned for each other.

use std::collections::HashMap;

/// The candidates of one name, as indexes into the list of all.
#[derive(Debug, Default)]
pub(super) struct NameIndex {
    /// By effective namespace, then by former kind; the empty kind holds all.
    groups: HashMap<String, HashMap<String, Group>>,
}

/// The affixes of the candidates with one namespace and former kind.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) all: Vec<usize>,
    prefixes: Affixes,
    suffixes: Affixes,
}

#[derive(Debug, Default)]
struct Affixes {
    none: Vec<usize>,
    /// By all affixes.
    whole: HashMap<Vec<String>, Vec<usize>>,
    /// By the last affix added.
    ends: HashMap<Vec<String>, Vec<usize>>,
}

impl NameIndex {
    pub(super) fn add(
        &mut self,
        at: usize,
        namespace: &str,
        kinds: &[String],
        prefixes: &[String],
        suffixes: &[String],
    ) {
        let by_kind = self.groups.entry(namespace.to_owned()).or_default();
        for kind in kinds.iter().map(String::as_str).chain([""]) {
            let group = by_kind.entry(kind.to_owned()).or_default();
            if group.all.last() == Some(&at) {
                continue;
            }
            group.all.push(at);
            group.prefixes.add(prefixes, at);
            group.suffixes.add(suffixes, at);
        }
    }

    /// The candidates of a namespace with this former kind; the empty kind means any.
    pub(super) fn group(&self, namespace: &str, kind: &str) -> Option<&Group> {
        self.groups.get(namespace)?.get(kind)
    }
}

impl Group {
    /// All candidates whose affixes may match: at least those where one list is a suffix of the other.
    pub(super) fn with_matching_affixes(&self, prefixes: &[String], suffixes: &[String]) -> Vec<usize> {
        if !prefixes.is_empty() {
            self.prefixes.with_matching_affixes(prefixes)
        } else if !suffixes.is_empty() {
            self.suffixes.with_matching_affixes(suffixes)
        } else {
            self.all.clone()
        }
    }
}

impl Affixes {
    fn add(&mut self, affixes: &[String], at: usize) {
        if affixes.is_empty() {
            self.none.push(at);
            return;
        }
        self.whole.entry(affixes.to_vec()).or_default().push(at);
        for from in 0..affixes.len() {
            self.ends.entry(affixes[from..].to_vec()).or_default().push(at);
        }
    }

    fn with_matching_affixes(&self, affixes: &[String]) -> Vec<usize> {
        let longer = self.ends.get(affixes);
        let shorter = (1..affixes.len()).filter_map(|from| self.whole.get(&affixes[from..]));
        let lists = longer.into_iter().chain(shorter).chain([&self.none]);
        lists.flatten().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_match_by_last_affixes() {
        let list = |text: &str| -> Vec<String> { text.split_whitespace().map(str::to_owned).collect() };
        let mut name_index = NameIndex::default();
        for (at, prefixes) in ["", "p", "a p", "b p", "x a p", "a"].into_iter().enumerate() {
            name_index.add(at, "ns", &list("Secret Secret"), &list(prefixes), &[]);
        }
        let group = name_index.group("ns", "Secret").unwrap();
        for (prefixes, expected) in [
            ("a p", vec![0, 1, 2, 4]),
            ("p", vec![0, 1, 2, 3, 4]),
            ("a", vec![0, 5]),
            ("", vec![0, 1, 2, 3, 4, 5]),
        ] {
            let mut found = group.with_matching_affixes(&list(prefixes), &[]);
            found.sort_unstable();
            assert_eq!(found, expected, "{prefixes}");
        }
        assert_eq!(name_index.group("ns", "").unwrap().all.len(), 6);
        assert!(name_index.group("other", "Secret").is_none());
    }
}
