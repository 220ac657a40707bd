//! Reads the files of a local chart through the build's tree.
//!
//! Helm follows every link in a chart. Here a link may lead into the chart or to a file the kustomization may
//! name. Any other link is refused rather than skipped: skipping it would change the chart.

use crate::error::Fault;
use crate::loader::{Loader, ResolveFault};
use crate::path;
use crate::tree::EntryKind;
use bytes::Bytes;
use std::collections::BTreeMap;

const LINK_CYCLE: &str = "its symbolic links form a cycle";

/// Reads all files below the real path `chart`, keyed by path in the chart. `root` is the kustomization's
/// directory.
pub(super) fn read(
    loader: &mut Loader<'_>,
    root: &str,
    chart: &str,
) -> Result<BTreeMap<String, Bytes>, Fault> {
    let mut reader = Reader {
        loader,
        root,
        chart,
        above: Vec::new(),
        entries: 0,
        files: BTreeMap::new(),
    };
    reader.directory(chart, "")?;
    Ok(reader.files)
}

struct Reader<'l, 't> {
    loader: &'l mut Loader<'t>,
    root: &'l str,
    chart: &'l str,
    /// The directories being read, outermost first.
    above: Vec<String>,
    /// The entries listed so far: links can multiply a few directories.
    entries: usize,
    files: BTreeMap<String, Bytes>,
}

impl Reader<'_, '_> {
    fn directory(&mut self, real: &str, prefix: &str) -> Result<(), Fault> {
        if self.above.len() >= self.loader.limits.depth_max {
            return Err(Fault::ChartDepth(self.loader.limits.depth_max));
        }
        self.above.push(real.to_owned());
        for (name, kind) in self.loader.walk(real) {
            self.entries += 1;
            if self.entries > self.loader.limits.files_max {
                return Err(Fault::Files(self.loader.limits.files_max));
            }
            let found = path::join(real, &name).map_err(|_| Fault::OutsideTree { path: name.clone() })?;
            let below = format!("{prefix}{name}");
            let (found, kind) = match kind {
                EntryKind::Symlink => self.follow(&found)?,
                kind => (found, kind),
            };
            match kind {
                EntryKind::Directory => self.directory(&found, &format!("{below}/"))?,
                EntryKind::File | EntryKind::Symlink => {
                    let content = self.loader.read_real(&found)?;
                    self.files.insert(below, content);
                }
            }
        }
        self.above.pop();
        Ok(())
    }

    fn follow(&mut self, link: &str) -> Result<(String, EntryKind), Fault> {
        let lost = |reason| Fault::ChartLinkLost {
            link: link.to_owned(),
            reason,
        };
        let found = self.loader.locate(link).map_err(|found| match found {
            ResolveFault::Absent => lost("no such file or directory"),
            ResolveFault::Links => lost(LINK_CYCLE),
            ResolveFault::Outside(_) => lost("it leads out of the source"),
        });
        let (real, kind) = found?;
        if !path::is_within(&real, self.chart) && !self.loader.may_name(self.root, &real) {
            return Err(Fault::ChartLink {
                link: link.to_owned(),
                file: real,
                root: self.root.to_owned(),
            });
        }
        if self.above.contains(&real) {
            return Err(lost(LINK_CYCLE));
        }
        Ok((real, kind))
    }
}
