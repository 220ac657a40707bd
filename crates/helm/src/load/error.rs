//! Why a chart cannot be loaded.

use crate::limits::LimitExceeded;
use crate::metadata::ValidationError;
use crate::values::ReadError;
use equate_manifest::yaml::YamlError;
use std::io;

/// Why a chart cannot be loaded. Printed with its causes, each after a colon, it is what Helm says.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory has no `Chart.yaml` that can be read.
    #[error("unable to detect chart at {path}")]
    Detect {
        /// The file.
        path: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The archive has no `Chart.yaml`.
    #[error("unable to detect chart version, no Chart.yaml found")]
    Undetected,
    /// There is no `Chart.yaml`.
    #[error("Chart.yaml file is missing")]
    Missing,
    /// An `apiVersion` other than `v1` and `v2`.
    #[error("unsupported chart version")]
    Version,
    /// `apiVersion: v3`, which nothing renders.
    #[error("invalid chart apiVersion")]
    NotYet,
    /// The bytes are no gzip.
    #[error("stream does not appear to be a valid chart file (details: gzip: invalid header)")]
    NotGzip,
    /// The archive cannot be taken.
    #[error("unable to load chart archive")]
    Archive(#[source] ArchiveError),
    /// A limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// `Chart.yaml`, or another file with fields of its own, cannot be read.
    #[error("cannot load {file}")]
    File {
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        #[source]
        source: FileError,
    },
    /// `values.yaml` cannot be read.
    #[error("cannot load values.yaml")]
    Values(#[source] ReadError),
    /// What `Chart.yaml` says is not valid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// A chart in `charts/` cannot be loaded.
    #[error("error unpacking subchart {name} in {chart}")]
    Subchart {
        /// The file or directory in `charts/`.
        name: String,
        /// The chart it is in.
        chart: String,
        /// Why.
        #[source]
        source: Box<LoadError>,
    },
    /// A directory in `charts/` has the name of an archive.
    #[error("error unpacking subchart tar in {chart}: expected {name}, got {found}")]
    NotPacked {
        /// The chart it is in.
        chart: String,
        /// What was expected.
        name: String,
        /// What was found.
        found: String,
    },
    /// A packed subchart cannot be taken; as [`LoadError::Archive`], without the words before it.
    #[error(transparent)]
    Packed(ArchiveError),
    /// A rule of `.helmignore` has two stars.
    #[error("double-star (**) syntax is not supported")]
    IgnoreStars,
    /// A rule of `.helmignore` is no pattern.
    #[error("syntax error in pattern")]
    IgnorePattern,
    /// A file that is no file.
    #[error("cannot load irregular file {path} as it has file mode type bits set")]
    Irregular {
        /// The file.
        path: String,
    },
    /// A link that leads nowhere, or in a circle.
    #[error("error evaluating symlink {path}")]
    Link {
        /// The link.
        path: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file or directory that cannot be read.
    #[error("error reading {path}")]
    Read {
        /// Which.
        path: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A file's name is no UTF-8, or no path below the chart.
    #[error("the chart has a file with the name {name}, which is no path")]
    Name {
        /// The name.
        name: String,
    },
    /// A file that is to be loaded as an archive is none.
    #[error("file '{path}' does not appear to be a gzipped archive")]
    NotArchive {
        /// The file.
        path: String,
    },
}

/// Why an archive cannot be taken.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An entry's name is absolute below its first part.
    #[error("chart illegally contains absolute paths")]
    Absolute,
    /// An entry is not in a directory.
    #[error("chart illegally contains content outside the base directory: {}", equate_template::quote(.0))]
    Outside(String),
    /// An entry is below a directory with the name of a chart's file.
    #[error("chart yaml not in base directory")]
    ChartYaml,
    /// An entry's name leads out of its directory.
    #[error("chart illegally references parent directory")]
    Parent,
    /// An entry's name begins with a drive.
    #[error("chart contains illegally named files")]
    Drive,
    /// An entry's name is not UTF-8.
    #[error("chart contains a file whose name is not UTF-8: {0}")]
    Name(String),
    /// There are no files.
    #[error("no files in chart archive")]
    Empty,
    /// The bytes are no gzip.
    #[error("gzip: invalid header")]
    NotGzip,
    /// There are no bytes.
    #[error("EOF")]
    NoBytes,
    /// The bytes end too early.
    #[error("unexpected EOF")]
    Truncated,
    /// The bytes are no archive.
    #[error("the archive is damaged")]
    Damaged(#[source] io::Error),
    /// A limit.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
}

/// What is wrong with a YAML file whose fields have types.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not UTF-8.
    #[error("the file is not UTF-8 from byte {0}")]
    NotUtf8(usize),
    /// It is no YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(YamlError),
    /// A value is of a wrong type; the words are those of Go's decoder.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    Type(String),
}
