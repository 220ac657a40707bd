//! The causes for which a repository does not move a branch.

use std::{error::Error, io, path::PathBuf};

use crate::{store::Store, transport::RefUpdate};

/// The cause of a refused push, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Refusal {
    /// A rule of the remote: its words say which.
    #[default]
    Rule,
    /// The remote is a directory with a work tree on that branch.
    CheckedOut,
    /// The user may not write the files of the remote.
    Permission,
    /// Another push locks the ref, or one that was killed did.
    Locked,
}

/// The cause of an error of the system.
pub(super) fn refusal_of(error: &(dyn Error + 'static)) -> Refusal {
    let mut next = Some(error);
    while let Some(cause) = next {
        // gix keeps its causes in a tree of its own
        let tree = cause.downcast_ref::<gix::Error>();
        if is_denied(cause) || tree.is_some_and(|tree| tree.iter_errors().any(is_denied)) {
            return Refusal::Permission;
        }
        next = cause.source();
    }
    Refusal::Rule
}

fn is_denied(error: &(dyn Error + 'static)) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    matches!(
        kind,
        Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
    )
}

/// The lock of one of the refs, or of all packed ones, if its file is there.
pub(super) fn left_lock(store: &Store, updates: &[RefUpdate]) -> Option<PathBuf> {
    let common = store.with(|repository| repository.common_dir().to_owned());
    let names = updates.iter().map(|update| update.name.as_str());
    let mut locks = names
        .chain(["packed-refs"])
        .map(|name| common.join(format!("{name}.lock")));
    locks.find(|lock| lock.is_file())
}

#[cfg(test)]
mod tests {
    use super::{Refusal, refusal_of};
    use std::io;

    #[test]
    fn errors_of_the_system_have_causes() {
        #[track_caller]
        fn check(kind: io::ErrorKind, expected: Refusal) {
            let error = io::Error::from(kind);
            assert_eq!(refusal_of(&error), expected);
            // below the errors of libraries
            let wrapped = gix::Error::from_error(error);
            assert_eq!(refusal_of(&wrapped), expected);
        }
        check(io::ErrorKind::PermissionDenied, Refusal::Permission);
        check(io::ErrorKind::ReadOnlyFilesystem, Refusal::Permission);
        check(io::ErrorKind::NotFound, Refusal::Rule);
    }
}
