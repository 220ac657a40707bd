use base64::{Engine as _, engine::general_purpose::STANDARD};
use russh::keys::HashAlg;

use super::read;
use crate::secret::Secret;

const KEYS: &str = include_str!("../../../../testdata/ssh_keys.txt");

/// The fingerprints by `ssh-keygen -l`.
const ED25519: &str = "ssh-ed25519 SHA256:EAb6gKcq3yXwBBLV255XBLQpLN7bWMilFg5GtoIbZn4";
const ED25519_PKCS8: &str = "ssh-ed25519 SHA256:dG2OiLQ3VG5OcCqooTOruBA1BAQjo9kyVWvv0gCUkjE";
const ECDSA_256: &str = "ecdsa-sha2-nistp256 SHA256:qVATRSi+vFGd5S5bjmv7If9BTrB6uE5bfIMkY2i9OJQ";
const ECDSA_384: &str = "ecdsa-sha2-nistp384 SHA256:zQ+CP/yCNwgwrpkkCm+0g1geScKM+zdNEJtkD77j4DY";
const ECDSA_521: &str = "ecdsa-sha2-nistp521 SHA256:9WTfRDvEOIXhHVXruuBWjKYt2pddNLpDWyJwsY5z2Q4";
const RSA: &str = "ssh-rsa SHA256:ui4z60WNGiXN4R4JMz58+dQPL7A19eZ/afV/+kaFHMI";

fn fixture(name: &str) -> &'static str {
    let head = format!("\n== {name}\n");
    let (_, rest) = KEYS.split_once(&head).expect("a key of this name");
    rest.split("\n== ").next().unwrap_or(rest)
}

fn told(text: &str, passphrase: Option<&str>) -> String {
    match read(&Secret::from(text), passphrase.map(Secret::from).as_ref()) {
        Ok(key) => format!("{} {}", key.algorithm(), key.fingerprint(HashAlg::Sha256)),
        Err(error) => format!("refused: {error}"),
    }
}

#[test]
fn every_key_format_is_read() {
    #[track_caller]
    fn check(name: &str, passphrase: Option<&str>, want: &str) {
        assert_eq!(told(fixture(name), passphrase), want, "{name}");
    }
    let right = Some("open sesame");
    let locked = "refused: it is encrypted and no passphrase is given";
    let wrong = "refused: the passphrase does not decrypt it";
    check("ed25519", None, ED25519);
    // as with ssh, an unnecessary passphrase is ignored
    check("ed25519", right, ED25519);
    check("ed25519 locked", right, ED25519);
    check("ed25519 locked", None, locked);
    check("ed25519 locked", Some("open barley"), wrong);
    check("ed25519 locked with gcm", right, ED25519);
    check("ed25519 locked with gcm", Some("open barley"), wrong);
    check(
        "ed25519 locked with 3000 rounds",
        right,
        "refused: its passphrase takes too much work: 3000 rounds of bcrypt, of 256 at most",
    );
    check("ed25519 pkcs8", None, ED25519_PKCS8);
    for (bits, want) in [("256", ECDSA_256), ("384", ECDSA_384), ("521", ECDSA_521)] {
        check(&format!("ecdsa {bits}"), None, want);
        check(&format!("ecdsa {bits} sec1"), None, want);
        check(&format!("ecdsa {bits} pkcs8"), None, want);
    }
    check("ecdsa 256 sec1 with parameters", None, ECDSA_256);
    check(
        "ecdsa 256 sec1 locked",
        right,
        "refused: its encryption AES-128-CBC of a \"EC PRIVATE KEY\" is not supported: convert it with \
         ssh-keygen -p",
    );
    check("rsa", None, RSA);
    check("rsa locked", right, RSA);
    check("rsa pkcs1", None, RSA);
    check("rsa pkcs1", right, RSA);
    check("rsa pkcs1 locked", right, RSA);
    check("rsa pkcs1 locked", None, locked);
    check("rsa pkcs1 locked", Some("open barley"), wrong);
    check(
        "rsa pkcs1 locked with 3des",
        right,
        "refused: its encryption DES-EDE3-CBC of a \"RSA PRIVATE KEY\" is not supported: convert it with \
         ssh-keygen -p",
    );
    check("rsa pkcs8", None, RSA);
    check("rsa pkcs8", right, RSA);
    check("rsa pkcs8 locked", right, RSA);
    check("rsa pkcs8 locked", None, locked);
    check("rsa pkcs8 locked", Some("open barley"), wrong);
    check("rsa pkcs8 locked with scrypt", right, RSA);
    check(
        "rsa pkcs8 locked with 6000000 iterations",
        right,
        "refused: its passphrase takes too much work: 6000000 iterations, of 1000000 at most",
    );
    check(
        "rsa pkcs8 locked as in pkcs5 v1",
        right,
        "refused: its encryption other than PBES2 is not supported: convert it with ssh-keygen -p",
    );
}

#[test]
fn surrounding_text_and_wrong_labels_are_handled() {
    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(told(text, None), want, "{text}");
    }
    let key = fixture("ed25519");
    check(key.trim_end(), ED25519);
    check(&key.replace('\n', "\r\n"), ED25519);
    check(&key.replace('\n', "\n  "), ED25519);
    check(&format!("my key\n\n{key}"), ED25519);
    let unknown = "refused: it does not begin like a private key, with -----BEGIN OPENSSH PRIVATE KEY-----";
    check("", unknown);
    check("no key", unknown);
    check(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        unknown,
    );
    let public = "refused: it is a public key: give the private key";
    check("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAA me@here", public);
    check(
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        public,
    );
    check(
        "-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n",
        "refused: its type dsa is not supported: use ed25519, ecdsa or rsa",
    );
    check(
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\nAAAA\n---- END SSH2 ENCRYPTED PRIVATE KEY ----\n",
        unknown,
    );
    check(
        "-----BEGIN X PRIVATE KEY-----\nAAAA\n-----END X PRIVATE KEY-----\n",
        "refused: a \"X PRIVATE KEY\" is not supported: convert it with ssh-keygen -p",
    );
    let malformed = "refused: it is malformed";
    check(
        "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n",
        malformed,
    );
    check("-----BEGIN OPENSSH PRIVATE KEY-----\n", malformed);
    let half: String = key.lines().take(3).map(|line| format!("{line}\n")).collect();
    check(&half, malformed);
    check(
        &"x".repeat(40_000),
        "refused: it has 40000 bytes, more than the limit of 32768",
    );
}

/// An OpenSSH key with the deepest nesting of certificates that fits.
fn nested_certificates() -> Vec<u8> {
    let field = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let head = [
        field(b"ssh-ed25519-cert-v01@openssh.com"),
        field(&[0; 32]),
        field(&[0; 32]),
    ]
    .concat();
    // serial, type, id, principals, from, until, options, extensions, reserved; then the signer
    let rest = [[0; 8].as_slice(), &[0, 0, 0, 2], &[0; 8], &[0; 16], &[0; 12]].concat();
    let mut public = field(b"ssh-ed25519");
    while public.len() < 15_000 {
        public = [head.as_slice(), &rest, &field(&public), &field(&[])].concat();
    }
    let none = field(b"none");
    [
        b"openssh-key-v1\0".as_slice(),
        &none,
        &none,
        &field(&[]),
        &1_u32.to_be_bytes(),
        &field(&public),
        &field(&[0; 64]),
    ]
    .concat()
}

/// The lines between `BEGIN` and `END`.
fn body(name: &str) -> String {
    let lines = fixture(name).lines().filter(|line| !line.starts_with("-----"));
    lines.map(|line| format!("{line}\n")).collect()
}

#[test]
fn nested_certificates_are_refused() {
    let text = STANDARD.encode(nested_certificates());
    assert_eq!(
        told(
            &format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{text}\n-----END OPENSSH PRIVATE KEY-----\n"),
            None
        ),
        "refused: its type certificate is not supported: use ed25519, ecdsa or rsa"
    );
}

#[test]
fn scrypt_cost_is_limited() {
    let der = STANDARD
        .decode(body("rsa pkcs8 locked with scrypt").replace('\n', ""))
        .unwrap();
    // N of 1024 and r of 8, which become 16384 and 127
    let costs = [2, 2, 4, 0, 2, 1, 8];
    let at = der.windows(costs.len()).position(|bytes| bytes == costs).unwrap();
    let mut more = der.clone();
    (more[at + 2], more[at + 6]) = (0x40, 127);
    let text = |der: &[u8]| {
        let body = STANDARD.encode(der);
        format!("-----BEGIN ENCRYPTED PRIVATE KEY-----\n{body}\n-----END ENCRYPTED PRIVATE KEY-----\n")
    };
    assert_eq!(told(&text(&der), Some("open sesame")), RSA);
    assert_eq!(
        told(&text(&more), Some("open sesame")),
        "refused: its passphrase takes too much work: scrypt with 266338304 bytes, 1 times, of 67108864 \
         and 4 at most"
    );
}

/// The library alone would read the last `BEGIN`, not the checked one.
#[test]
fn nested_keys_are_refused() {
    let nested = STANDARD.encode(nested_certificates());
    let within = [
        ("OPENSSH PRIVATE KEY", body("ed25519 locked with 3000 rounds")),
        ("OPENSSH PRIVATE KEY", nested.clone()),
        ("OPENSSH PRIVATE KEY", body("ed25519")),
        (
            "ENCRYPTED PRIVATE KEY",
            body("rsa pkcs8 locked with 6000000 iterations"),
        ),
        ("ENCRYPTED PRIVATE KEY", body("rsa pkcs8 locked with scrypt")),
        ("PRIVATE KEY", body("rsa pkcs8")),
    ];
    let dek = "DEK-Info: AES-128-CBC,00000000000000000000000000000000\n";
    for outer in [
        "RSA PRIVATE KEY",
        "EC PRIVATE KEY",
        "PRIVATE KEY",
        "ENCRYPTED PRIVATE KEY",
    ] {
        for header in ["", dek] {
            for (inner, body) in &within {
                let text = format!(
                    "-----BEGIN {outer}-----\n{header}-----BEGIN {inner}-----\n{body}\n-----END {outer}-----\n"
                );
                assert_eq!(
                    told(&text, Some("open sesame")),
                    "refused: it contains a line of dashes: put one key and nothing else between BEGIN and \
                     END",
                    "{text}"
                );
                // and the label decides how the bytes are read
                let text = format!("-----BEGIN {outer}-----\n{header}{body}\n-----END {outer}-----\n");
                let got = told(&text, Some("open sesame"));
                // a plain key has no cost, under any label
                let plain = (outer == *inner || *inner == "PRIVATE KEY") && got == RSA;
                assert!(plain || got.starts_with("refused: "), "{got}: {text}");
            }
        }
    }
    // and only the exact header is passed on
    let text = format!(
        "-----BEGIN RSA PRIVATE KEY-----\nDEK-Info: AES-128-CBC,0 0\n{nested}\n-----END RSA PRIVATE KEY-----\n"
    );
    assert_eq!(told(&text, Some("open sesame")), "refused: it is malformed");
}

#[test]
fn no_error_shows_the_key() {
    let secret = "b3BlbnNzaC1rZXktdjEAAAAA hunter2";
    for label in ["OPENSSH ", "RSA ", "EC ", "", "ENCRYPTED ", "DSA "] {
        let text =
            format!("-----BEGIN {label}PRIVATE KEY-----\n{secret}\n-----END {label}PRIVATE KEY-----\n");
        let error = read(&Secret::from(text.as_str()), Some(&Secret::from("hunter3"))).unwrap_err();
        let mut told = format!("{error} {error:?}");
        let mut cause = std::error::Error::source(&error);
        while let Some(next) = cause {
            told.push_str(&next.to_string());
            cause = next.source();
        }
        assert!(!told.contains("hunter") && !told.contains("b3Blbn"), "{told}");
    }
}
