//! The keys of a bucket that are part of its artifact.

use super::{Ignore, IgnoreDecision, Rules, count_patterns, patterns};
use crate::limits::LimitExceeded;
use crate::pauses::{Pauses, Stopped};

/// Rules for the keys of a bucket. As in Flux, a bucket has no default patterns, and only the `.sourceignore`
/// at its root counts.
#[derive(Debug)]
pub struct KeyRules(Rules);

impl KeyRules {
    /// The rules of a `.sourceignore` and of `spec.ignore`, which comes later.
    ///
    /// # Errors
    /// They are too many.
    pub fn new(
        file: Option<&str>,
        spec: Option<&str>,
        patterns_max: usize,
    ) -> Result<KeyRules, LimitExceeded> {
        let given = [file, spec].into_iter().flatten();
        if given.clone().map(count_patterns).sum::<usize>() > patterns_max {
            return Err(LimitExceeded::IgnorePatterns(patterns_max));
        }
        Ok(KeyRules(Rules {
            patterns: given.flat_map(|text| patterns(text, "")).collect(),
            id: Ignore::new(spec).rules_id(&[]),
        }))
    }

    /// The rules of a tree without rules of its own: version control files and the default patterns.
    pub fn of_trees() -> KeyRules {
        KeyRules(Ignore::new(None).rules(&[]))
    }

    /// Whether an object is left out.
    ///
    /// # Errors
    /// The work is to end.
    pub fn excludes(&self, key: &str, pauses: &Pauses<'_>) -> Result<bool, Stopped> {
        let names: Vec<&str> = key.split('/').collect();
        let mut decision = IgnoreDecision::default();
        for depth in 1..=names.len() {
            let (path, is_directory) = (names.get(..depth).unwrap_or_default(), depth < names.len());
            decision = self.0.decide(decision, path, is_directory, pauses)?;
        }
        Ok(decision.is_excluded())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_the_spec_come_after_those_of_the_file() {
        let check = |file: &str, spec: Option<&str>, key: &str, expected: bool| {
            let rules = KeyRules::new(Some(file), spec, 9).unwrap();
            assert_eq!(
                rules.excludes(key, &Pauses::none()),
                Ok(expected),
                "{file:?} {spec:?} {key}"
            );
        };
        let of_trees = KeyRules::of_trees().excludes("x/logo.png", &Pauses::none());
        assert_eq!(of_trees, Ok(true));
        let many = KeyRules::new(Some("a\n#\n\nb"), Some("c"), 2).unwrap_err();
        assert_eq!(many, LimitExceeded::IgnorePatterns(2));
        check("", None, ".git/config", false);
        check("", None, "logo.png", false);
        check("*.md\n# *.yaml\n", None, "docs/a.md", true);
        check("*.md\n# *.yaml\n", None, "docs/a.yaml", false);
        check("docs/\n", None, "docs/x/a.md", true);
        check("docs/\n", Some("!docs/x/a.md"), "docs/x/a.md", false);
        check("/*\n!/apps\n", None, "apps/a.yaml", false);
        check("/*\n!/apps\n", None, "other/a.yaml", true);
    }
}
