//! Limits on untrusted charts.
//!
//! [`Limits::archive_bytes_max`] and [`Limits::file_bytes_max`] are Helm's own, with its texts. The
//! others are ours and prevent memory exhaustion.

use equate_manifest::yaml;

/// The limits for one chart with all its subcharts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Unpacked bytes of one archive. Helm's own: 100 MiB.
    pub archive_bytes_max: u64,
    /// Bytes of one file. Helm's own: 5 MiB.
    pub file_bytes_max: u64,
    /// Unpacked bytes of all nested archives.
    pub total_bytes_max: u64,
    /// Bytes of all templates. A parsed template takes about forty times its length.
    pub templates_bytes_max: u64,
    /// Files, those of packed subcharts included; in an archive all entries.
    pub files_max: usize,
    /// Bytes of a file path.
    pub path_bytes_max: usize,
    /// Charts, including the root.
    pub charts_max: usize,
    /// Nesting of charts.
    pub depth_max: usize,
    /// Nesting of directories, links followed.
    pub directories_depth_max: usize,
    /// Nesting of values, in a `values.yaml` and after coalescing.
    pub values_depth_max: usize,
    /// Values in all texts, with expanded aliases: `values.yaml`, `Chart.yaml` and locks of all charts
    /// together; a user's values for each text. Each may be a map of 700 bytes.
    pub values_nodes_max: usize,
}

impl Default for Limits {
    /// Far above real charts: the largest of a thousand public ones has 160 charts and 3 MiB.
    fn default() -> Self {
        Self {
            archive_bytes_max: 100 << 20,
            file_bytes_max: 5 << 20,
            total_bytes_max: 64 << 20,
            templates_bytes_max: 16 << 20,
            files_max: 20_000,
            path_bytes_max: 1_024,
            charts_max: 1_000,
            depth_max: 16,
            directories_depth_max: 64,
            values_depth_max: 100,
            values_nodes_max: 200_000,
        }
    }
}

impl Limits {
    pub(crate) fn yaml(&self) -> yaml::Options {
        yaml::Options {
            duplicates: yaml::Duplicates::Collect,
            bytes_max: usize::try_from(self.file_bytes_max).unwrap_or(usize::MAX),
            depth_max: self.values_depth_max,
            nodes_max: self.values_nodes_max,
            ..yaml::Options::default()
        }
    }
}

/// An exceeded limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// [`Limits::archive_bytes_max`], in Helm's words.
    #[error("decompressed chart is larger than the maximum size {0}")]
    ArchiveBytes(u64),
    /// [`Limits::file_bytes_max`], in Helm's words for an archive entry.
    #[error(
        "decompressed chart file {} is larger than the maximum file size {max}",
        equate_manifest::go::quote(name)
    )]
    ArchivedFileBytes {
        /// The entry's name.
        name: String,
        /// The most bytes.
        max: u64,
    },
    /// [`Limits::file_bytes_max`], in Helm's words for a file in a directory.
    #[error(
        "chart file {} is larger than the maximum file size {max}",
        equate_manifest::go::quote(name)
    )]
    FileBytes {
        /// The file's name.
        name: String,
        /// The most bytes.
        max: u64,
    },
    /// [`Limits::total_bytes_max`].
    #[error("the chart and its subcharts are larger than {0} bytes")]
    TotalBytes(u64),
    /// [`Limits::templates_bytes_max`].
    #[error("the templates of the chart and its subcharts are larger than {0} bytes")]
    TemplatesBytes(u64),
    /// [`Limits::values_nodes_max`].
    #[error("the chart and its subcharts have more than {0} values")]
    Values(usize),
    /// [`Limits::files_max`].
    #[error("the chart has more than {0} files")]
    Files(usize),
    /// [`Limits::path_bytes_max`].
    #[error("the chart has a file whose path is longer than {0} bytes")]
    PathBytes(usize),
    /// [`Limits::charts_max`].
    #[error("the chart has more than {0} charts in it")]
    Charts(usize),
    /// [`Limits::depth_max`].
    #[error("charts are nested more than {0} deep")]
    Depth(usize),
    /// Bytes of a `.helmignore`.
    #[error(".helmignore is larger than {0} bytes")]
    IgnoreBytes(u64),
    /// Rules of a `.helmignore`.
    #[error(".helmignore has more than {0} rules")]
    IgnoreRules(usize),
    /// [`Limits::directories_depth_max`].
    #[error("directories are nested more than {0} deep")]
    Directories(usize),
}
