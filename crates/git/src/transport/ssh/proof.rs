//! Checks that the host's key and signature match the negotiated algorithm.
//!
//! The library accepts a key of any type, and verifies a signature by the algorithm it names, even SHA-1.
//! So the key is checked on arrival, and the signature before ours is sent. Later exchanges are not
//! checked, because the first protects them.

use russh::keys::Algorithm;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NegotiationMismatch {
    #[error("the host negotiated {agreed} but presented a {shown} key")]
    Key { agreed: Algorithm, shown: Algorithm },
    #[error("the host negotiated {0} but signed with another algorithm")]
    Signature(Algorithm),
    #[error("its signature is missing")]
    Missing,
}

pub(super) fn key(agreed: &Algorithm, shown: &Algorithm) -> Result<(), NegotiationMismatch> {
    // An RSA key has one type for all signature algorithms.
    let rsa = |algorithm: &Algorithm| matches!(algorithm, Algorithm::Rsa { .. });
    let same = agreed == shown || (rsa(agreed) && rsa(shown));
    match same {
        true => Ok(()),
        false => Err(NegotiationMismatch::Key {
            agreed: agreed.clone(),
            shown: shown.clone(),
        }),
    }
}

/// An encoded signature begins with its algorithm's name.
pub(super) fn signature(
    agreed: Option<&Algorithm>,
    signature: Option<&[u8]>,
) -> Result<(), NegotiationMismatch> {
    let (Some(agreed), Some(signature)) = (agreed, signature) else {
        return Err(NegotiationMismatch::Missing);
    };
    let name = agreed.to_string();
    let length = u32::try_from(name.len()).unwrap_or(u32::MAX).to_be_bytes();
    let rest = signature.strip_prefix(&length);
    match rest.is_some_and(|rest| rest.starts_with(name.as_bytes())) {
        true => Ok(()),
        false => Err(NegotiationMismatch::Signature(agreed.clone())),
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
    fn host_key_must_fit_the_algorithm() {
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
    fn signature_must_fit_the_algorithm() {
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
