//! The limit of open files. Shells and service managers set 1,024 and allow far more. Each connection, and each
//! artifact that was unpacked, is an open file.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit to the highest that is allowed.
pub(crate) fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current == maximum {
        return;
    }
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "cannot raise the limit of open files");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_the_highest_that_is_allowed() {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let lower = Rlimit {
            current: current.map(|limit| limit - 1),
            maximum,
        };
        setrlimit(Resource::Nofile, lower).unwrap();
        raise();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
