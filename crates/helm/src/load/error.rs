//! Errors of loading a chart.

use crate::limits::LimitExceeded;
use crate::metadata::ValidationError;
use crate::values::ReadError;
use equate_manifest::yaml::YamlError;
use std::io;

/// A chart cannot be loaded. Displayed with its sources, each after a colon, it is Helm's text.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory has no readable `Chart.yaml`.
    #[error("unable to detect chart at {path}")]
    Detect {
        /// The file.
        path: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The archive has no `Chart.yaml`.
    #[error("unable to detect chart version, no Chart.yaml found")]
    Undetected,
    /// `Chart.yaml` is missing.
    #[error("Chart.yaml file is missing")]
    Missing,
    /// An `apiVersion` other than `v1` and `v2`.
    #[error("unsupported chart version")]
    Version,
    /// `apiVersion: v3`, which cannot be rendered.
    #[error("invalid chart apiVersion")]
    NotYet,
    /// The data is not gzip.
    #[error("stream does not appear to be a valid chart file (details: gzip: invalid header)")]
    NotGzip,
    /// The archive is invalid.
    #[error("unable to load chart archive")]
    Archive(#[source] ArchiveError),
    /// A limit is exceeded.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
    /// `Chart.yaml` or another file with typed fields does not decode.
    #[error("cannot load {file}")]
    File {
        /// The file.
        file: &'static str,
        /// The cause.
        #[source]
        source: FileError,
    },
    /// `values.yaml` does not parse.
    #[error("cannot load values.yaml")]
    Values(#[source] ReadError),
    /// `Chart.yaml` is invalid.
    #[error(transparent)]
    Invalid(#[from] ValidationError),
    /// A chart in `charts/` cannot be loaded.
    #[error("error unpacking subchart {name} in {chart}")]
    Subchart {
        /// The file or directory in `charts/`.
        name: String,
        /// Its parent chart.
        chart: String,
        /// The cause.
        #[source]
        source: Box<LoadError>,
    },
    /// A directory in `charts/` has the name of an archive.
    #[error("error unpacking subchart tar in {chart}: expected {name}, got {found}")]
    NotPacked {
        /// The parent chart.
        chart: String,
        /// The expected name.
        name: String,
        /// The actual name.
        found: String,
    },
    /// A packed subchart is invalid: [`LoadError::Archive`] without its prefix.
    #[error(transparent)]
    Packed(ArchiveError),
    /// A rule of `.helmignore` contains `**`.
    #[error("double-star (**) syntax is not supported")]
    IgnoreStars,
    /// A rule of `.helmignore` is an invalid pattern.
    #[error("syntax error in pattern")]
    IgnorePattern,
    /// A device, pipe or socket.
    #[error("cannot load irregular file {path} as it has file mode type bits set")]
    Irregular {
        /// The file.
        path: String,
    },
    /// A dangling or circular link.
    #[error("error evaluating symlink {path}")]
    Link {
        /// The link.
        path: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file or directory is unreadable.
    #[error("error reading {path}")]
    Read {
        /// Its path.
        path: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file name is not UTF-8, or no path below the chart.
    #[error("the chart has a file with the invalid path {name}")]
    Name {
        /// The name.
        name: String,
    },
    /// The file is not an archive.
    #[error("file '{path}' does not appear to be a gzipped archive")]
    NotArchive {
        /// The file.
        path: String,
    },
}

/// An archive is invalid.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// An entry name is absolute after its first element.
    #[error("chart illegally contains absolute paths")]
    Absolute,
    /// An entry is not in a directory.
    #[error("chart illegally contains content outside the base directory: {}", equate_manifest::go::quote(.0))]
    Outside(String),
    /// An entry is below a directory named like a chart file.
    #[error("chart yaml not in base directory")]
    ChartYaml,
    /// An entry name leads out of its directory.
    #[error("chart illegally references parent directory")]
    Parent,
    /// An entry name starts with a drive letter.
    #[error("chart contains illegally named files")]
    Drive,
    /// An entry name is not UTF-8.
    #[error("chart contains a file whose name is not UTF-8: {0}")]
    Name(String),
    /// There are no files.
    #[error("no files in chart archive")]
    Empty,
    /// The data is not gzip.
    #[error("gzip: invalid header")]
    NotGzip,
    /// The data is empty.
    #[error("EOF")]
    NoBytes,
    /// The data ends too early.
    #[error("unexpected EOF")]
    Truncated,
    /// The data is not a tar archive.
    #[error("the archive is damaged")]
    Damaged(#[source] io::Error),
    /// A limit is exceeded.
    #[error(transparent)]
    Limit(#[from] LimitExceeded),
}

/// Errors of a YAML file with typed fields.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It is not UTF-8.
    #[error("the file is not UTF-8 from byte {0}")]
    NotUtf8(usize),
    /// It is not YAML.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(YamlError),
    /// A value has the wrong type; in the words of Go's decoder.
    #[error("error unmarshaling JSON: while decoding JSON: {0}")]
    Type(String),
}
