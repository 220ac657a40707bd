//! Build errors and their places.
//!
//! Texts that people search for are kustomize's. Paths are relative to the tree.

use crate::charts::ChartError;
use crate::path;
use crate::remote::{FileError, RemoteError, RemoteRepository};
use crate::secrets::SecretError;
use crate::tree::ReadError;
use equate_manifest::patch::json::{ApplyError, PatchError};
use equate_manifest::yaml;
use std::error::Error as _;
use std::fmt;

/// A place in a file of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file or directory, relative to the tree's root.
    pub path: String,
    /// The line, from 1; 0 where none is known.
    pub line: usize,
    /// The column in characters, from 1; 0 where none is known.
    pub column: usize,
}

impl Place {
    pub(crate) fn file(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            line: 0,
            column: 0,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(display_directory(&self.path))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
            if self.column > 0 {
                write!(f, ":{}", self.column)?;
            }
        }
        Ok(())
    }
}

/// An error and its causes, without line breaks and repetitions.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A build error: `file:line:column: message`.
#[derive(Debug)]
pub struct BuildError {
    /// The place of the fault.
    pub place: Place,
    /// The fault.
    pub fault: Box<Fault>,
    /// The entries of `resources`, `bases` and `components` that led to the file, innermost first.
    pub included_from: Vec<Place>,
    /// Lines kustomize would have printed to standard error before the failure.
    pub warnings: Vec<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.line == 0 && self.fault.names_place(&self.place.path) {
            self.fault.fmt(f)?;
        } else {
            write!(f, "{}: {}", self.place, self.fault)?;
        }
        // the causes belong to the fault: they come before the entries
        let mut cause = self.cause().filter(|_| !self.included_from.is_empty());
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        for (index, place) in self.included_from.iter().enumerate() {
            if index == INCLUDED_FROM_MAX {
                return write!(f, ", and {} more", self.included_from.len() - index);
            }
            f.write_str(if index == 0 { "; included from " } else { ", from " })?;
            place.fmt(f)?;
        }
        Ok(())
    }
}

/// The entries that a message shows.
const INCLUDED_FROM_MAX: usize = 8;

impl std::error::Error for BuildError {
    /// The fault's cause, unless it is in the text, as the fault is.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().filter(|_| self.included_from.is_empty())
    }
}

impl BuildError {
    fn cause(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &*self.fault {
            Fault::Accumulate { directory, .. } => directory.source(),
            fault => fault.source(),
        }
    }

    /// Rewrites paths relative to a directory of the tree, for a tree that is a whole file system. Paths
    /// quoted from a kustomization stay as written.
    #[must_use]
    pub fn with_paths_relative_to(mut self, directory: &str) -> Self {
        let rewrite = |path: &mut String| *path = path::relative(directory, path);
        self.rewrite_paths(&rewrite);
        self
    }

    /// Prefixes paths, for a tree that is not on disk: `fleet@v1:`. Paths in fetched repositories have a
    /// label already.
    #[must_use]
    pub fn with_path_prefix(mut self, tree: &str) -> Self {
        let rewrite = |path: &mut String| {
            if path::split_label(path).0.is_empty() {
                path.insert_str(0, tree);
            }
        };
        self.rewrite_paths(&rewrite);
        self
    }

    fn rewrite_paths(&mut self, rewrite: &dyn Fn(&mut String)) {
        let places = self.included_from.iter_mut().chain([&mut self.place]);
        places.for_each(|place| rewrite(&mut place.path));
        self.fault.rewrite_paths(rewrite);
    }

    /// Adds the entry that led to the file of this error.
    pub(crate) fn included_from(mut self, entry: Place) -> Self {
        self.included_from.push(entry);
        self
    }

    pub(crate) fn yaml(path: &str, error: yaml::YamlError) -> Self {
        Self {
            place: Place {
                path: path.to_owned(),
                line: error.line,
                column: error.column,
            },
            fault: Box::new(Fault::Yaml(error.fault)),
            included_from: Vec::new(),
            warnings: Vec::new(),
        }
    }
}

/// The faults of a build. Each text states the failure and names the file, field or object.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the error texts describe the fields")]
pub enum Fault {
    #[error("{field} is not supported yet")]
    Unsupported { field: String },
    #[error("{url} is remote, and remote bases are refused here: commit a copy and name its directory")]
    Remote { url: String },
    #[error("external plugins disabled; unable to load external plugin '{kind}'")]
    Plugin { kind: String },
    #[error("unable to load builtin {kind}.builtin.[noGrp]")]
    Builtin { kind: String },
    #[error("must specify --enable-helm")]
    Helm,
    #[error("{0}")]
    ChartField(String),
    #[error("chart {name:?} cannot be rendered")]
    Chart {
        name: String,
        #[source]
        source: ChartError,
    },
    #[error("chart {name:?} cannot be pulled")]
    ChartAbsent {
        name: String,
        #[source]
        source: ChartError,
    },
    #[error("chart {name:?} renders an invalid manifest in {template}: {fault}")]
    ChartOutput {
        name: String,
        template: String,
        fault: Box<Fault>,
    },
    #[error("chart link '{link}' cannot be followed: {reason}")]
    ChartLinkLost { link: String, reason: &'static str },
    #[error(
        "security; chart link '{link}' leads to '{file}', which is neither in the chart nor in or below '{}'",
        display_directory(root)
    )]
    ChartLink {
        link: String,
        file: String,
        root: String,
    },
    #[error("could not parse values file into rnode: '{file}', {line}:{column}: {fault}")]
    ValuesYaml {
        file: String,
        line: usize,
        column: usize,
        fault: Box<Fault>,
    },
    #[error(
        "could not parse values file into rnode: EOF: '{file}' is empty, and inline values cannot be merged with it"
    )]
    NoValues { file: String },
    #[error("could not merge values: '{file}' must be a map: found {found}")]
    ValuesKind { file: String, found: &'static str },
    #[error("could not load additionalValuesFile: {0}")]
    AdditionalValues(Box<Fault>),
    #[error("could not merge values: {path}: wrong node kind: expected {expected} but got {found}")]
    ValuesMerge {
        path: String,
        expected: &'static str,
        found: &'static str,
    },

    #[error("the build reads more than {0} files")]
    Files(usize),
    #[error("the build reads more than {0} bytes")]
    Bytes(usize),
    #[error("file '{path}' is longer than {limit} bytes")]
    FileBytes { path: String, limit: usize },
    #[error("bases and components are nested deeper than {0} levels")]
    Depth(usize),
    #[error("the build has more than {0} objects")]
    Objects(usize),
    #[error(
        "the build uses more than {0} kustomizations: bases that list bases more than once multiply them"
    )]
    Kustomizations(usize),
    #[error("the build renders more than {0} charts")]
    Charts(usize),
    #[error("the directories of a chart are nested deeper than {0} levels")]
    ChartDepth(usize),
    #[error("the definitions refer to more than {0} properties")]
    Properties(usize),
    #[error("definitions refer to one another deeper than {0} levels")]
    DefinitionDepth(usize),
    #[error("{0}")]
    Exhausted(Exhausted),

    #[error(
        "unable to find one of 'kustomization.yaml', 'kustomization.yml' or 'Kustomization' in directory '{}'",
        display_directory(root)
    )]
    NoKustomization { root: String },
    #[error("Found multiple kustomization files under: {}", display_directory(root))]
    SeveralKustomizations { root: String },
    #[error("no such file or directory: '{path}'")]
    NoFile { path: String },
    #[error("too many links: the symbolic links of '{path}' form a cycle")]
    Links { path: String },
    #[error("security; '{path}' is not read: the symbolic link '{link}' leads out of the source")]
    LinkAway { path: String, link: String },
    #[error("'{path}' must resolve to a file, not a directory")]
    IsDirectory { path: String },
    #[error("must build at directory: not a valid directory: '{path}' is a file")]
    NotDirectory { path: String },
    #[error("new root '{path}' cannot be absolute")]
    AbsolutePath { path: String },
    #[error("security; '{path}' leads out of the source")]
    OutsideTree { path: String },
    #[error("security; file '{file}' is not in or below '{}'", display_directory(root))]
    LoadRestriction { file: String, root: String },
    #[error("file '{path}' cannot be read")]
    Read {
        path: String,
        #[source]
        source: ReadError,
    },
    #[error("file '{path}' is not UTF-8 text")]
    NotText { path: String },
    #[error("new root cannot be empty: an entry names a file, a directory or a URL, and this one is \"\"")]
    EmptyRoot,
    #[error(
        "path {path:?} is ambiguous; it is likely not the intended target: check for YAML indentation errors in your kustomization file"
    )]
    AmbiguousPath { path: String },

    #[error("{url} cannot be fetched: {}", in_one_line(&**cause))]
    Fetch { url: String, cause: RemoteError },
    #[error("{url} cannot be read: {}", in_one_line(cause))]
    Download { url: String, cause: FileError },
    #[error("'{path}' refers to a file; expecting directory")]
    ExpectedDirectory { path: String },
    #[error(
        "security; bases in kustomizations found in cloned git repos must be within the repo, but base '{path}' is outside '{repository}'"
    )]
    OutsideRepository { path: String, repository: String },
    #[error(
        "security; {url} is a local directory, and '{repository}', which refers to it, came over the network"
    )]
    LocalBase { url: String, repository: String },
    #[error("cycle detected: URI '{url}' referenced by previous URI '{previous}'")]
    RepositoryCycle { url: String, previous: String },
    #[error(
        "cycle detected: candidate root '{}' contains visited root '{}'",
        display_directory(candidate),
        display_directory(visited)
    )]
    Cycle { candidate: String, visited: String },
    #[error("accumulating resources: accumulation err='{file}': {directory}")]
    Accumulate { file: Box<Fault>, directory: Box<Fault> },

    #[error("kustomization.yaml is empty")]
    EmptyKustomization,
    #[error("invalid Kustomization: json: unknown field {field:?}")]
    UnknownField { field: String },
    #[error("error unmarshaling JSON: while decoding JSON: json: unknown field {field:?}")]
    UnknownConfiguration { field: String },
    #[error("invalid Kustomization: {0}")]
    Decode(String),
    #[error("kind should be Kustomization or Component")]
    Kind,
    #[error("apiVersion for {kind} should be {version}")]
    ApiVersion { kind: String, version: &'static str },
    #[error("expected kind 'Component' for path '{path}' but got '{kind}'")]
    NotComponent { path: String, kind: String },
    #[error("expected kind != 'Component' for path '{path}'")]
    IsComponent { path: String },
    #[error("component path '{path}' must be local and relative")]
    ComponentPath { path: String },
    #[error("the field 'sortOptions.order' must be one of [fifo, legacy], not '{order}'")]
    SortOrder { order: String },
    #[error(
        "the field 'sortOptions.legacySortOptions' is set but the selected sort order is '{order}', not 'legacy'"
    )]
    SortOptions { order: String },

    #[error("unable to parse open API definition: expected MappingNode but got {found}")]
    Definitions { found: &'static str },
    #[error("the specified OpenAPI version is not built in: {version}; use v1.21.2")]
    OpenApiVersion { version: String },
    #[error("builtin version and custom schema provided, cannot use both")]
    OpenApiBoth,

    #[error("{0}")]
    Yaml(yaml::Fault),
    #[error("missing metadata.name in object: {api_version} {kind}")]
    NoName { api_version: String, kind: String },
    #[error("missing Resource metadata: missing kind in object")]
    NoMetadata,
    #[error("missing Resource metadata: a manifest must be a map, but this is of type {found}")]
    NotMap { found: &'static str },
    #[error("{field} must be a {wanted}, but is of type {found}")]
    FieldType {
        field: &'static str,
        wanted: &'static str,
        found: &'static str,
    },
    #[error("expected array in {kind}/items, but found {found}")]
    ListItems { kind: String, found: &'static str },
    #[error("failed to decode Kubernetes YAML: {0}")]
    NotManifest(Box<Fault>),

    #[error("may not add resource with an already registered id: {id}")]
    AlreadyRegistered { id: String },
    #[error("id {id} does not exist; cannot merge or replace")]
    NothingToMerge { id: String },
    #[error("id {id} exists; can not use behavior: '{behavior}', behavior must be merge or replace")]
    Exists { id: String, behavior: String },
    #[error("found multiple objects {} that could accept merge of {id}", candidates.join(", "))]
    SeveralToMerge { id: String, candidates: Vec<String> },
    #[error("namespace transformation produces ID conflict: {id}")]
    NamespaceConflict { id: String },

    #[error("must specify one of patch and path")]
    NoPatch,
    #[error("patch and path can't be set at the same time")]
    PatchAndPath,
    #[error("empty file path and empty jsonOp: must specify one of patch and path")]
    NoJsonPatch,
    #[error("must specify a file path or jsonOp, not both")]
    JsonPatchAndPath,
    #[error("unable to parse SM or JSON patch from {source_text}: {why}")]
    NeitherPatch { source_text: String, why: Box<Fault> },
    #[error("illegally qualifies as both an SM and JSON patch: {source_text}")]
    BothPatches { source_text: String },
    #[error("must specify a target for JSON patch {source_text}")]
    NoTarget { source_text: String },
    #[error("must specify the target name")]
    NoTargetName,
    #[error(
        "Multiple Strategic-Merge Patches in one `patches` entry is not allowed to set `patches.target` field: {source_text}"
    )]
    SeveralPatches { source_text: String },
    #[error("patch appears to be empty: {source_text}")]
    EmptyPatch { source_text: String },
    #[error(
        "no resource matches strategic merge patch {id:?}: no matches for Id {id}; failed to find unique target for patch {id}"
    )]
    NoPatchTarget { id: String },
    #[error(
        "no resource matches strategic merge patch {id:?}: multiple matches for Id {id}; failed to find unique target for patch {id}"
    )]
    SeveralPatchTargets { id: String },
    #[error("unknown patch strategy '{directive}'")]
    Directive { directive: String },
    #[error("strategic merge patch of {id}: {path}: wrong node kind: expected {expected} but got {found}")]
    MergeKind {
        id: String,
        path: String,
        expected: &'static str,
        found: &'static str,
    },
    #[error("a patch that begins with '[' must be JSON: {0}")]
    PatchJson(serde_json::Error),
    #[error("a JSON patch must be a list of operations: {}", not_operations(.0))]
    JsonPatch(PatchError),
    #[error("JSON patch of {id}: {problem}")]
    JsonApply { id: String, problem: ApplyError },
    #[error("the result of the JSON patch of {id} is not an object")]
    JsonResult { id: String },

    #[error("{pattern:?} is not a regular expression: {}", last_line(problem))]
    Pattern { pattern: String, problem: regex::Error },
    #[error("unable to parse selector {selector:?}: {problem}")]
    Selector { selector: String, problem: String },

    #[error("considering field '{path}' of object {id}: {problem}")]
    Field {
        path: String,
        id: String,
        problem: FieldProblem,
    },
    #[error("conflicting fieldspecs: only one of them creates {path}")]
    FieldSpecConflict { path: String },
    #[error("resource with name {name} does not match a config with the following GVK [{kinds}]")]
    NoReplicas { name: String, kinds: String },
    #[error("found multiple possible referrals: {candidates}; '{path}' of {id} is ambiguous")]
    Referrals {
        id: String,
        path: String,
        candidates: String,
    },
    #[error("path config error; no 'name' field in node; '{path}' of {id}")]
    NoReferenceName { id: String, path: String },

    #[error(
        "invalid value {mode:?} for setRoleBindingSubjects: must be one of \"defaultOnly\", \"none\" or \"allServiceAccounts\""
    )]
    SubjectMode { mode: String },
    #[error("ValueAddTransformer: {0}")]
    ValueAdd(&'static str),
    #[error("cloud provider {cloud} not supported yet")]
    Cloud { cloud: String },
    #[error("validator shouldn't modify the resource map: {id} does")]
    Validator { id: String },
    #[error("Invalid Input: namespace is blank for resource {id:?}")]
    BlankNamespace { id: String },

    #[error("a configmap must have a name")]
    NoGeneratorName,
    #[error("configmap {name} illegally repeats the key `{key}`")]
    RepeatedKey { name: String, key: String },
    // these texts omit the source line: it may be a secret
    #[error("'{path}': line {line} has invalid utf8 bytes")]
    EnvText { path: String, line: usize },
    #[error("invalid literal source, expected key=value: literal {number} of generator {name:?}")]
    Literal { name: String, number: usize },
    #[error("{0}")]
    FileSource(String),
    #[error("stringData value for key {key:?} must be a scalar")]
    StringData { key: String },

    #[error("'{path}' cannot be decrypted")]
    Decrypt {
        path: String,
        #[source]
        source: SecretError,
    },
    #[error("{id} cannot be decrypted")]
    DecryptObject {
        id: String,
        #[source]
        source: SecretError,
    },

    #[error("{0}")]
    Replacement(String),
    #[error("var '{name}' already encountered")]
    VariableTwice { name: String },
    #[error("found {count} resId matches for var {name} (unable to disambiguate)")]
    SeveralVariableTargets { name: String, count: usize },
    #[error("var '{name}' cannot be mapped to a field in the set of known resources")]
    NoVariableTarget { name: String },
    #[error("field specified in var '{name}' not found in corresponding resource: {field} of {id}")]
    NoVariableField { name: String, field: String, id: String },

    #[error("'{name}' var name is invalid, must match '^[_[:alpha:]][_[:alpha:][:digit:]]*$'")]
    VariableName { name: String },
    #[error("variable substitution failed in {id}: {problem}")]
    Substitution {
        id: String,
        problem: crate::substitute::SubstituteError,
    },
    #[error("{id} is not YAML after substitution, line {line}: {fault}")]
    Substituted {
        id: String,
        line: usize,
        fault: yaml::Fault,
    },
    #[error("{id} is not an object after substitution")]
    SubstitutedKind { id: String },
}

/// The text of evanphx/json-patch, which kustomize uses, or one without Go's types.
fn not_operations(problem: &PatchError) -> String {
    match problem {
        PatchError::Type { found, wanted } if wanted.starts_with("[]") => {
            format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch")
        }
        PatchError::Type { found, .. } => format!("an operation must be an object, but is of type {found}"),
        PatchError::Field { found, field } => format!("{field} must be a string, but is of type {found}"),
        problem @ PatchError::TooMany { .. } => problem.to_string(),
    }
}

/// The regular expression's error without the ASCII drawing.
fn last_line(problem: &regex::Error) -> String {
    let text = problem.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// A directory for messages: the root prints as `.`.
fn display_directory(directory: &str) -> &str {
    if directory.is_empty() { "." } else { directory }
}

impl Fault {
    /// The [`Fault::Decrypt`] or [`Fault::DecryptObject`] within this fault, if any.
    pub fn decryption_fault(&self) -> Option<&Fault> {
        match self {
            Self::Decrypt { .. } | Self::DecryptObject { .. } => Some(self),
            // an entry that is not a file is tried as a directory, and that error counts
            Self::Accumulate { directory, .. } => directory.decryption_fault(),
            _ => None,
        }
    }

    /// Whether the text names the place already: for remote resources it starts with the URL.
    fn names_place(&self, place: &str) -> bool {
        match self {
            Self::Fetch { .. } | Self::Remote { .. } => RemoteRepository::parse(place).is_ok(),
            Self::NoKustomization { root: path }
            | Self::SeveralKustomizations { root: path }
            | Self::NoFile { path }
            | Self::Links { path }
            | Self::LinkAway { path, .. }
            | Self::ExpectedDirectory { path } => {
                !path::split_label(path).0.is_empty() && path.starts_with(place)
            }
            _ => false,
        }
    }

    /// Rewrites the tree's paths in the fault. Paths quoted from a kustomization stay as written.
    fn rewrite_paths(&mut self, rewrite: &dyn Fn(&mut String)) {
        match self {
            Self::NoKustomization { root: path }
            | Self::SeveralKustomizations { root: path }
            | Self::FileBytes { path, .. }
            | Self::Read { path, .. }
            | Self::NotText { path }
            | Self::NotComponent { path, .. }
            | Self::IsComponent { path }
            | Self::LinkAway { link: path, .. }
            | Self::ChartLinkLost { link: path, .. }
            | Self::ExpectedDirectory { path } => rewrite(path),
            Self::LoadRestriction {
                file: one,
                root: other,
            }
            | Self::Cycle {
                candidate: one,
                visited: other,
            } => {
                rewrite(one);
                rewrite(other);
            }
            Self::Accumulate {
                file,
                directory: base,
            } => {
                file.rewrite_paths(rewrite);
                base.rewrite_paths(rewrite);
            }
            Self::NotManifest(fault) | Self::AdditionalValues(fault) | Self::ChartOutput { fault, .. } => {
                fault.rewrite_paths(rewrite);
            }
            Self::ChartLink { link, file, root } => [link, file, root].into_iter().for_each(rewrite),
            _ => {}
        }
    }
}

/// A fault at a field of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts describe the variants")]
pub enum FieldProblem {
    #[error("expected sequence or mapping node")]
    NotCollection,
    #[error("wrong node kind: expected MappingNode but got {0}")]
    NotMap(&'static str),
    #[error("wrong node kind: expected ScalarNode but got {0}")]
    NotScalar(&'static str),
    #[error("cannot set or create an empty field name")]
    EmptyName,
    #[error("wrong node kind: expected SequenceNode but got MappingNode")]
    NotList,
    #[error("array index {0} cannot be negative")]
    NegativeIndex(i64),
    #[error("wildcard is not supported in PathGetter")]
    Wildcard,
    #[error("list path element must contain fieldName=fieldValue for element to match")]
    ElementSyntax,
    #[error("node must be a scalar, sequence or map")]
    Reference,
    #[error("invalid value type expect a string")]
    NotText,
    #[error("{0}")]
    Exhausted(Exhausted),
}

/// An exhausted limit of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the error texts describe the variants")]
pub enum Exhausted {
    #[error("the build produces more than {0} bytes")]
    Made(usize),
    #[error("an object has more than {0} bytes after substitution")]
    Text(usize),
    #[error("the regular expressions of the build take more than {0} bytes")]
    Patterns(usize),
    #[error("values are nested deeper than {0} levels")]
    Nesting(usize),
    #[error(
        "the build takes more than {0} steps of work; split it, or let patches, replacements and labels select fewer \
         objects"
    )]
    Steps(u64),
    #[error("the build was stopped")]
    Stopped,
}

impl From<Exhausted> for Fault {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(exhausted)
    }
}

impl From<Exhausted> for FieldProblem {
    fn from(exhausted: Exhausted) -> Self {
        Self::Exhausted(exhausted)
    }
}

/// The node kind in kustomize's messages.
pub(crate) fn node_kind(value: &serde_json::Value) -> &'static str {
    match value {
        serde_json::Value::Array(_) => "SequenceNode",
        serde_json::Value::Object(_) => "MappingNode",
        _ => "ScalarNode",
    }
}
