//! The files of a chart that is at hand, through the tree of the build.
//!
//! Helm follows every link of a chart. Here a link leads to the chart itself, or to what the kustomization
//! may name; a link elsewhere is refused, not left out: the chart would be another without it.

use crate::error::Fault;
use crate::loader::{Loader, Lost};
use crate::path;
use crate::tree::EntryKind;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Where a link leads that leads to itself in the end.
const AROUND: &str = "around in a circle";

/// All files below the directory `chart`, a real path, by their paths in it. `root` is the kustomization's.
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
    /// How much was listed: links may make a few directories many.
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

    /// What a link leads to.
    fn follow(&mut self, link: &str) -> Result<(String, EntryKind), Fault> {
        let lost = |whither| Fault::ChartLinkLost {
            link: link.to_owned(),
            whither,
        };
        let found = self.loader.locate(link).map_err(|found| match found {
            Lost::Absent => lost("nowhere"),
            Lost::Links => lost(AROUND),
            Lost::Away(_) => lost("out of the source"),
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
            return Err(lost(AROUND));
        }
        Ok((real, kind))
    }
}
