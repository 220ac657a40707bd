//! What a host proves its key with is what was agreed on.
//!
//! The library takes a key of any type, and verifies a signature by the algorithm that the signature names,
//! SHA-1 too: a host that agreed on one thing may do another. So both are compared here, the key before
//! anything else is said, and the signature before ours is given. Not looked at: later exchanges of one
//! conversation, which the first protects.

use russh::keys::Algorithm;

/// A host that does not do what it agreed on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unagreed {
    #[error("the host negotiated {agreed} but presented a {shown} key")]
    Key { agreed: Algorithm, shown: Algorithm },
    #[error("the host negotiated {0} but signed with another algorithm")]
    Signature(Algorithm),
    #[error("its signature is missing")]
    Missing,
}

/// Whether a key of this type is of the algorithm.
pub(super) fn key(agreed: &Algorithm, shown: &Algorithm) -> Result<(), Unagreed> {
    // An RSA key is of one type, whatever it signs with.
    let rsa = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rsa { .. });
    let same = agreed == shown || (rsa(agreed) && rsa(shown));
    match same {
        true => Ok(()),
        false => Err(Unagreed::Key {
            agreed: agreed.clone(),
            shown: shown.clone(),
        }),
    }
}

/// Whether a signature, as it came, is of the algorithm: it begins with its name.
pub(super) fn signature(agreed: Option<&Algorithm>, signature: Option<&[u8]>) -> Result<(), Unagreed> {
    let (Some(agreed), Some(signature)) = (agreed, signature) else {
        return Err(Unagreed::Missing);
    };
    let name = agreed.to_string();
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes();
    let rest = signature.strip_prefix(&length);
    match rest.is_some_and(|rest| rest.starts_with(name.as_bytes())) {
        true => Ok(()),
        false => Err(Unagreed::Signature(agreed.clone())),
    }
}

#[cfg(test)]
mod tests {
    use russh::keys::Algorithm;

    use super::{key, signature};

    fn algorithm(name: &str) -> Algorithm {
        Algorithm::new(name).unwrap()
    }

    #[test]
    fn keys() {
        #[track_caller]
        fn check(agreed: &str, shown: &str, want: Result<(), &str>) {
            let got = key(&algorithm(agreed), &algorithm(shown)).map_err(|error| error.to_string());
            assert_eq!(got, want.map_err(str::to_owned));
        }
        check("ssh-ed25519", "ssh-ed25519", Ok(()));
        check("ecdsa-sha2-nistp384", "ecdsa-sha2-nistp384", Ok(()));
        check("rsa-sha2-512", "ssh-rsa", Ok(()));
        check("rsa-sha2-256", "ssh-rsa", Ok(()));
        check(
            "ssh-ed25519",
            "ssh-rsa",
            Err("the host negotiated ssh-ed25519 but presented a ssh-rsa key"),
        );
        check(
            "ecdsa-sha2-nistp256",
            "ecdsa-sha2-nistp384",
            Err("the host negotiated ecdsa-sha2-nistp256 but presented a ecdsa-sha2-nistp384 key"),
        );
    }

    #[test]
    fn signatures() {
        #[track_caller]
        fn check(agreed: &str, named: &str, want: Result<(), &str>) {
            let blob = [
                &(named.len() as u32).to_be_bytes(),
                named.as_bytes(),
                &[0, 0, 0, 2],
                b"ab",
            ]
            .concat();
            let got = signature(Some(&algorithm(agreed)), Some(&blob)).map_err(|error| error.to_string());
            assert_eq!(got, want.map_err(str::to_owned), "{named}");
        }
        check("ssh-ed25519", "ssh-ed25519", Ok(()));
        check("rsa-sha2-512", "rsa-sha2-512", Ok(()));
        let other = Err("the host negotiated rsa-sha2-512 but signed with another algorithm");
        check("rsa-sha2-512", "rsa-sha2-256", other);
        check("rsa-sha2-512", "ssh-rsa", other);
        check("rsa-sha2-512", "rsa-sha2-5121", other);
        check("rsa-sha2-512", "", other);
        assert!(signature(Some(&algorithm("ssh-ed25519")), Some(&[])).is_err());
        assert!(signature(Some(&algorithm("ssh-ed25519")), None).is_err());
        assert!(signature(None, Some(b"\0\0\0\x0bssh-ed25519")).is_err());
    }
}
