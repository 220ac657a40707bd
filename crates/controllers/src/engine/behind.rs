//! Finds objects whose status `Ready` is outdated: a status outlives the process that wrote it, and a
//! new revision is known before any run begins with it.

use super::Engine;
use crate::ownership::declaration::Declaration;
use crate::ownership::other_shards::is_at;

impl Engine {
    /// The sources that this process has not fetched yet, and objects that are ready at an older
    /// revision, as sentences. Suspended objects are not behind.
    pub fn behind(&self) -> Vec<String> {
        let graph = self.kit.ownership();
        let sources = self.kit.sources.reconciled().into_iter();
        let sources = sources
            .filter(|source| !graph.announcements.is_source_checked(source))
            .map(|source| format!("{source}: not fetched yet"));
        let owners = graph.declarations().filter_map(|(owner, declaration)| {
            let artifact = self.kit.sources.artifact(&declaration.source)?;
            let outdated = is_outdated(declaration, &artifact.revision);
            outdated.then(|| format!("{owner}: {} is not applied yet", artifact.revision))
        });
        sources.chain(owners).collect()
    }
}

fn is_outdated(declaration: &Declaration, revision: &str) -> bool {
    let status = &declaration.status;
    let ready = status.ready.as_ref().is_some_and(|ready| ready.is_true);
    let applied = is_at(status.applied.as_deref(), revision);
    declaration.ours && !declaration.suspended && ready && !applied
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::graph::tests::ready;

    #[test]
    fn ready_at_an_earlier_revision_is_behind() {
        let check = |change: fn(&mut Declaration), expected: bool| {
            let mut declaration = ready("main@sha1:1", &[]);
            change(&mut declaration);
            assert_eq!(is_outdated(&declaration, "main@sha1:2"), expected);
        };
        check(|_| (), true);
        check(|it| it.status.applied = Some("main@sha1:2".to_owned()), false);
        // a release of an OCI artifact
        check(|it| it.status.applied = Some("sha1:2".to_owned()), false);
        check(|it| it.status.applied = Some("1:2".to_owned()), true);
        check(|it| it.suspended = true, false);
        check(|it| it.ours = false, false);
        // its own status says that it is not ready
        check(|it| it.status.ready = None, false);
    }
}
