//! The format of a test case: a text file with a rule, input files and expected results.
//!
//! ```text
//! The rule, in a sentence or two.
//!
//! build: overlay             (the directory to build; default: the root)
//! order: legacy              (default: input order)
//! files: anywhere            (default: files in or below each kustomization's root)
//! judge: none                (not compared with kustomize: the rule is ours)
//! helm: true                 (charts are rendered)
//! args: --helm-kube-version 1.30   (more arguments for kustomize, where charts are rendered)
//! args: demo . --set a=b     (arguments of `helm template`, in a case of a chart)
//! env: A=b C=d               (its additional environment)
//! judge: helm 4.2            (the Helm version to compare with; default: 4.3)
//!
//! -- kustomization.yaml
//! resources: [web.yaml]
//! -- web.yaml
//! ...
//! -- data.bin (hex)
//! ff fe 00
//! -- text.txt (json)
//! "\ttext that an editor would change\r\n"
//! -- link.yaml -> web.yaml
//! ~~ kustomization.yaml      (the file kustomize gets instead)
//! >> output                  (recorded from kustomize)
//! >> error                   (recorded from kustomize)
//! >> our error               (ours, with its place)
//! >> warnings                (standard error of a successful build)
//! >> difference              (why ours differs: `our output` or `our error` follows)
//! ```
//!
//! A file named `Kustomization.spec` makes it a build of a Flux Kustomization with those fields.
//! `cargo xtask baseline` and the chart tests include this file.

use std::fmt::Write as _;

/// The file that makes a case one of Flux's.
pub(crate) const SPEC: &str = "Kustomization.spec";

#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) rule: String,
    pub(crate) build: String,
    pub(crate) legacy_order: bool,
    pub(crate) any_file: bool,
    /// Whether the case is compared with the upstream tool.
    pub(crate) judged: bool,
    /// Arguments of a command other than a build.
    pub(crate) args: Option<String>,
    pub(crate) enable_helm: bool,
    /// Additional environment, `NAME=value` separated by blanks.
    pub(crate) env: Option<String>,
    /// The Helm version, if not the default.
    pub(crate) helm: Option<String>,
    pub(crate) files: Vec<File>,
    /// Recorded and written answers by name, in file order.
    answers: Vec<(String, String)>,
    given: String,
}

#[derive(Debug)]
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) content: Content,
    /// Whether only the upstream tool gets it.
    pub(crate) for_the_judge: bool,
}

#[derive(Debug)]
pub(crate) enum Content {
    Bytes(Vec<u8>),
    Link(String),
}

impl Case {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut case = Self {
            rule: String::new(),
            build: String::new(),
            legacy_order: false,
            any_file: false,
            judged: true,
            args: None,
            enable_helm: false,
            env: None,
            helm: None,
            files: Vec::new(),
            answers: Vec::new(),
            given: String::new(),
        };
        let mut sections: Vec<(&str, &str, String)> = Vec::new();
        for line in text.split_inclusive('\n') {
            let marker = ["-- ", "~~ ", ">> "]
                .iter()
                .find_map(|marker| Some((*marker, line.strip_prefix(marker)?.trim_end())));
            match (marker, sections.last_mut()) {
                (Some((marker, name)), _) => sections.push((marker, name, String::new())),
                (None, Some((_, _, content))) => content.push_str(line),
                (None, None) => case.header(line.trim_end())?,
            }
            if !matches!(sections.last(), Some((">> ", _, _))) {
                case.given.push_str(line);
            }
        }
        case.rule = case.rule.trim().to_owned();
        if case.rule.is_empty() {
            return Err("no rule is told".into());
        }
        for (marker, name, content) in sections {
            match marker {
                ">> " => case.answers.push((name.to_owned(), content)),
                marker => case.files.push(file(name, content, marker == "~~ ")?),
            }
        }
        Ok(case)
    }

    fn header(&mut self, line: &str) -> Result<(), String> {
        let option = line
            .split_once(": ")
            .filter(|(key, _)| ["build", "order", "files", "judge", "args", "env", "helm"].contains(key));
        match option {
            Some(("build", directory)) => directory.clone_into(&mut self.build),
            Some(("order", "legacy")) => self.legacy_order = true,
            Some(("files", "anywhere")) => self.any_file = true,
            Some(("judge", "none")) => self.judged = false,
            Some(("judge", "helm 4.2")) => self.helm = Some("4.2".to_owned()),
            Some(("helm", "true")) => self.enable_helm = true,
            Some(("args", args)) => self.args = Some(args.to_owned()),
            Some(("env", env)) => self.env = Some(env.to_owned()),
            Some(_) => return Err(format!("{line:?} is no option")),
            None if line.is_empty() => self.rule.push('\n'),
            None => {
                let blank = self.rule.is_empty() || self.rule.ends_with('\n');
                self.rule.push_str(if blank { "" } else { " " });
                self.rule.push_str(line);
            }
        }
        Ok(())
    }

    pub(crate) fn answer(&self, name: &str) -> Option<&str> {
        let found = self.answers.iter().find(|(known, _)| known == name);
        found.map(|(_, text)| text.as_str())
    }

    pub(crate) fn answer_names(&self) -> impl Iterator<Item = &str> {
        self.answers.iter().map(|(name, _)| name.as_str())
    }

    /// The case's text with new recorded answers; our own answers stay.
    pub(crate) fn with_answers(&self, recorded: &[(&str, String)]) -> String {
        let written = ["difference", "our output", "our error"];
        let kept = self
            .answers
            .iter()
            .filter(|(name, _)| written.contains(&name.as_str()));
        let all = recorded
            .iter()
            .map(|(name, text)| (*name, text.as_str()))
            .chain(kept.map(|(name, text)| (name.as_str(), text.as_str())));
        let mut text = self.given.clone();
        for (name, answer) in all {
            // writing to a String cannot fail
            let _ = write!(text, ">> {name}\n{answer}");
            if !answer.is_empty() && !answer.ends_with('\n') {
                text.push('\n');
            }
        }
        text
    }
}

fn file(name: &str, content: String, for_the_judge: bool) -> Result<File, String> {
    let (path, content) = if let Some((path, target)) = name.split_once(" -> ") {
        (path, Content::Link(target.to_owned()))
    } else if let Some(path) = name.strip_suffix(" (hex)") {
        let bytes: Result<Vec<u8>, _> = content
            .split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16))
            .collect();
        let bytes = bytes.map_err(|error| format!("{path}: {error}"))?;
        (path, Content::Bytes(bytes))
    } else if let Some(path) = name.strip_suffix(" (json)") {
        let text: String = serde_json::from_str(&content).map_err(|error| format!("{path}: {error}"))?;
        (path, Content::Bytes(text.into_bytes()))
    } else {
        (name, Content::Bytes(content.into_bytes()))
    };
    Ok(File {
        path: path.to_owned(),
        content,
        for_the_judge,
    })
}
