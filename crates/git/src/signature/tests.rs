//! Verifies signatures of the real `gpg` and `ssh-keygen`; skipped where they are not installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::{KeyFile, SignatureError, Signers, openpgp, ssh};
use crate::{Limits, Mirrors, Reference, Remote};

const PAYLOAD: &[u8] = b"tree 1\nauthor A <a@b> 1 +0000\n\nwhat was signed\n";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn file(name: &str, text: &str) -> KeyFile {
    KeyFile {
        name: name.to_owned(),
        text: text.to_owned(),
    }
}

fn shown(result: Result<String, SignatureError>) -> String {
    result.unwrap_or_else(|error| format!("error: {error}"))
}

/// Runs a program. Returns `None` if it is not installed.
fn run(program: &str, arguments: &[&str], environment: &[(&str, &Path)]) -> Option<Vec<u8>> {
    let output = Command::new(program)
        .args(arguments)
        .envs(environment.iter().copied())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {program}: {error}");
            return None;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    Some(output.stdout)
}

/// A `gpg` home directory; its agent is stopped on drop.
struct Gpg {
    home: tempfile::TempDir,
}

impl Gpg {
    fn new() -> Self {
        Self {
            home: tempfile::Builder::new().prefix("gpg").tempdir().unwrap(),
        }
    }

    fn run(&self, arguments: &[&str]) -> Option<Vec<u8>> {
        let mut all = vec![
            "--batch",
            "--yes",
            "--quiet",
            "--pinentry-mode",
            "loopback",
            "--passphrase",
            "",
        ];
        all.extend_from_slice(arguments);
        run("gpg", &all, &[("GNUPGHOME", self.home.path())])
    }

    /// Creates a key and returns its fingerprint.
    fn key(&self, user: &str, algorithm: &str, expire: &str) -> Option<String> {
        self.run(&["--quick-generate-key", user, algorithm, "sign", expire])?;
        let listed = self.run(&["--with-colons", "--list-keys", user])?;
        let listed = String::from_utf8(listed).unwrap();
        let line = listed.lines().find(|line| line.starts_with("fpr:")).unwrap();
        Some(line.split(':').nth(9).unwrap().to_owned())
    }

    /// Exports the ring of one key, or of all.
    fn export(&self, key: &str) -> String {
        let mut arguments = vec!["--armor", "--export"];
        arguments.extend(Some(key).filter(|key| !key.is_empty()));
        String::from_utf8(self.run(&arguments).unwrap()).unwrap()
    }

    fn sign(&self, key: &str, more: &[&str]) -> String {
        let path = self.home.path().join("payload");
        fs::write(&path, PAYLOAD).unwrap();
        let mut arguments = vec!["--armor", "--local-user", key, "--output", "-"];
        arguments.extend_from_slice(more);
        arguments.extend_from_slice(&["--detach-sign", path.to_str().unwrap()]);
        String::from_utf8(self.run(&arguments).unwrap()).unwrap()
    }

    fn revoke(&self, key: &str) {
        let path = self.home.path().join(format!("openpgp-revocs.d/{key}.rev"));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(":-----BEGIN", "-----BEGIN")).unwrap();
        self.run(&["--import", path.to_str().unwrap()]).unwrap();
    }
}

impl Drop for Gpg {
    fn drop(&mut self) {
        let _ended = Command::new("gpgconf")
            .args(["--kill", "gpg-agent"])
            .env("GNUPGHOME", self.home.path())
            .status();
    }
}

/// 2026-01-01, the creation date of all recorded keys.
fn begin() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600)
}

/// Recorded signatures and rings, verified a number of days after the keys were made. Signatures were made
/// on day 1, changes of the keys on day 2.
#[test]
fn recorded_openpgp_signatures_are_verified() {
    let read = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/openpgp");
        fs::read_to_string(folder.join(name)).unwrap()
    };
    let payload = read("payload");
    let check = |signature: &str, ring: &str, days: u32, want: &str| {
        let rings = [file(ring, &read(ring))];
        let now = begin() + DAY * days;
        let found = openpgp::verify(payload.as_bytes(), &read(signature), &rings, now);
        let found = match found {
            Ok(_) => "signed".to_owned(),
            Err(error) => error.to_string(),
        };
        let holds = found == want || (want != "signed" && found.contains(want));
        assert!(holds, "{signature} under {ring} after {days} days: {found}");
    };
    // one valid signature of several is enough, in any position
    check("two.sig", "alice.asc", 2, "signed");
    check("two.sig", "bob.asc", 2, "signed");
    check("two.sig", "both.asc", 2, "signed");
    check("two.sig", "subkey.asc", 2, "unable to verify payload");
    check("short.sig", "alice.asc", 5, "signed");
    check("short.sig", "alice.asc", 20, "it has expired");

    check("subkey.sig", "subkey.asc", 2, "signed");
    check("revoked.sig", "before.asc", 4, "signed");
    check(
        "revoked.sig",
        "revoked.asc",
        4,
        "has revoked the subkey that signed",
    );
    check("expired.sig", "expired.asc", 5, "signed");
    check("expired.sig", "expired.asc", 20, "has a subkey that has expired");
    check(
        "unflagged.sig",
        "unflagged.asc",
        4,
        "does not allow its subkey to sign",
    );
    // its statements were not made yet
    check(
        "unflagged.sig",
        "unflagged.asc",
        1,
        "does not bind the subkey that signed",
    );
    check("certifies.sig", "certifies.asc", 4, "may not sign or is too weak");
    check("disowned.sig", "disowned.asc", 4, "signed");
    check(
        "disowned.sig",
        "disowned.asc",
        1,
        "has no valid signature of its own",
    );
}

#[test]
fn unreadable_keys_do_not_hide_others() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/openpgp");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let strange = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n=twTO\n-----END PGP PUBLIC KEY BLOCK-----\n";
    let rings = [file("ring", &format!("{strange}{}", read("alice.asc")))];
    let signature = read("two.sig");
    let now = begin() + DAY * 2;
    let found = openpgp::verify(read("payload").as_bytes(), &signature, &rings, now);
    assert!(found.is_ok(), "{}", shown(found));
}

#[test]
fn openpgp_signatures_need_a_valid_key() {
    let gpg = Gpg::new();
    let Some(alice) = gpg.key("alice", "ed25519", "never") else {
        return;
    };
    let bob = gpg.key("bob", "ed25519", "10d").unwrap();
    let carol = gpg.key("carol", "rsa2048", "never").unwrap();
    let now = SystemTime::now();
    let id = |fingerprint: &str| fingerprint[fingerprint.len() - 16..].to_owned();
    let check = |signature: &str, payload: &[u8], rings: &[&str], now: SystemTime, want: &str| {
        let rings: Vec<KeyFile> = rings.iter().map(|text| file("a.asc", text)).collect();
        let got = shown(openpgp::verify(payload, signature, &rings, now));
        assert!(
            got.starts_with("error") == (want.len() != 16) && got.contains(want),
            "{got}\nwant {want}"
        );
    };
    let ring = |key: &str| gpg.export(key);
    let both = format!("{}{}", ring(&bob), ring(&alice));
    let soon = now + Duration::from_secs(60);
    let by_alice = gpg.sign(&alice, &[]);
    check(&by_alice, PAYLOAD, &[&ring(&alice)], soon, &id(&alice));
    check(
        &by_alice,
        PAYLOAD,
        &[&ring(&bob), &ring(&alice)],
        soon,
        &id(&alice),
    );
    check(&by_alice, PAYLOAD, &[&both], soon, &id(&alice));
    check(&by_alice, PAYLOAD, &[&ring("")], soon, &id(&alice));
    check(&by_alice, PAYLOAD, &["junk", &ring(&alice)], soon, &id(&alice));
    let nobody = "error: unable to verify payload with any of the given key rings: no matching key";
    check(&by_alice, PAYLOAD, &[&ring(&bob)], soon, nobody);
    check(
        &by_alice,
        b"else",
        &[&ring(&alice)],
        soon,
        "did not sign this content",
    );
    check(
        &by_alice,
        PAYLOAD,
        &["junk"],
        soon,
        "unable to read armored key ring",
    );
    check(
        &by_alice,
        PAYLOAD,
        &[&ring(&alice)],
        now - DAY,
        "it was made in the future",
    );
    let garbled = by_alice.replace('\n', "\n@");
    check(
        &garbled,
        PAYLOAD,
        &[&ring(&alice)],
        soon,
        "error: the PGP signature is malformed",
    );

    let by_bob = gpg.sign(&bob, &[]);
    check(&by_bob, PAYLOAD, &[&ring(&bob)], soon, &id(&bob));
    check(&by_bob, PAYLOAD, &[&ring(&bob)], now + 20 * DAY, "has expired");

    check(
        &gpg.sign(&carol, &[]),
        PAYLOAD,
        &[&ring(&carol)],
        soon,
        &id(&carol),
    );
    let weak = gpg.sign(&carol, &["--digest-algo", "SHA1"]);
    check(&weak, PAYLOAD, &[&ring(&carol)], soon, "SHA1 is no longer secure");

    // a subkey signs for its primary key
    gpg.run(&["--quick-add-key", &carol, "ed25519", "sign", "never"])
        .unwrap();
    let by_subkey = gpg.sign(&carol, &[]);
    check(&by_subkey, PAYLOAD, &[&ring(&carol)], soon, &id(&carol));

    gpg.revoke(&alice);
    check(&by_alice, PAYLOAD, &[&ring(&alice)], soon, "is revoked");
}

#[test]
fn ssh_signatures_need_the_git_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let key = |name: &str, kind: &[&str]| {
        let file = path(name);
        let mut arguments = kind.to_vec();
        arguments.extend_from_slice(&["-q", "-N", "", "-C", "somebody", "-f", &file]);
        run("ssh-keygen", &arguments, &[])?;
        Some(fs::read_to_string(path(&format!("{name}.pub"))).unwrap())
    };
    let Some(alice) = key("alice", &["-t", "ed25519"]) else {
        return;
    };
    let bob = key("bob", &["-t", "rsa", "-b", "2048"]).unwrap();
    let carol = key("carol", &["-t", "ecdsa", "-b", "256"]).unwrap();
    let dora = key("dora", &["-t", "rsa", "-b", "1024"]).unwrap();
    let sign = |name: &str, namespace: &str| {
        let payload = path("payload");
        fs::write(&payload, PAYLOAD).unwrap();
        run(
            "ssh-keygen",
            &["-q", "-Y", "sign", "-n", namespace, "-f", &path(name), &payload],
            &[],
        )
        .unwrap();
        let signature = fs::read_to_string(path("payload.sig")).unwrap();
        fs::remove_file(path("payload.sig")).unwrap();
        signature
    };
    let fingerprint = |name: &str| {
        let said = run("ssh-keygen", &["-l", "-f", &path(&format!("{name}.pub"))], &[]).unwrap();
        let said = String::from_utf8(said).unwrap();
        said.split(' ').nth(1).unwrap().to_owned()
    };
    let check = |signature: &str, payload: &[u8], keys: &[&str], want: &str| {
        let keys: Vec<KeyFile> = keys.iter().map(|text| file("a.sshpub", text)).collect();
        let got = shown(ssh::verify(payload, signature.trim(), &keys));
        assert!(
            got.starts_with("error") != want.starts_with("SHA256") && got.contains(want),
            "{got}\nwant {want}"
        );
    };
    let all = format!("# who may sign\n\n{alice}{bob}{carol}");
    for name in ["alice", "bob", "carol"] {
        check(&sign(name, "git"), PAYLOAD, &[&all], &fingerprint(name));
    }
    let by_alice = sign("alice", "git");
    check(&by_alice, PAYLOAD, &[&bob, &alice], &fingerprint("alice"));
    check(
        &by_alice.replace('\n', "\r\n"),
        PAYLOAD,
        &[&alice],
        &fingerprint("alice"),
    );
    check(&by_alice, PAYLOAD, &["not a key", &alice], &fingerprint("alice"));
    check(
        &by_alice,
        PAYLOAD,
        &[&format!("no-pty {alice}")],
        &fingerprint("alice"),
    );
    check(&by_alice, PAYLOAD, &[&bob], "no matching key");
    check(&by_alice, b"else", &[&alice], "did not sign this content");
    check(
        &by_alice,
        PAYLOAD,
        &["not a key"],
        "has a line that is not a public key",
    );
    check(
        &by_alice,
        PAYLOAD,
        &[&format!("cert-authority {alice}")],
        "limited by cert-authority",
    );
    check(
        &by_alice,
        PAYLOAD,
        &[&format!("expiry-time=\"20200101\" {alice}")],
        "limited by expiry-time",
    );
    check(
        &sign("alice", "file"),
        PAYLOAD,
        &[&alice],
        "it was made for \"file\"",
    );
    check(
        &sign("dora", "git"),
        PAYLOAD,
        &[&dora],
        "an RSA key of 1024 bits is too short",
    );
    check(
        "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----",
        PAYLOAD,
        &[&alice],
        "malformed",
    );
}

/// A repository made by git, with commits and tags signed by one SSH key.
struct Signed {
    folder: tempfile::TempDir,
    signers: Signers,
}

impl Signed {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        run(
            "ssh-keygen",
            &["-q", "-t", "ed25519", "-N", "", "-f", key.to_str().unwrap()],
            &[],
        )?;
        let public = fs::read(folder.path().join("key.pub")).unwrap();
        let signed = Self {
            signers: Signers::new([("a.sshpub", public.as_slice())]),
            folder,
        };
        run(
            "git",
            &["init", "-q", "-b", "main", signed.path().to_str().unwrap()],
            &[],
        )?;
        Some(signed)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn git(&self, arguments: &[&str]) -> String {
        let path = self.path();
        let key = format!("user.signingkey={}", self.folder.path().join("key").display());
        let mut all = vec![
            "-C",
            path.to_str().unwrap(),
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
        ];
        all.extend_from_slice(&["-c", "gpg.format=ssh", "-c", &key, "-c", "tag.gpgSign=false"]);
        all.extend_from_slice(arguments);
        let none = Path::new("/dev/null");
        let said = run(
            "git",
            &all,
            &[("GIT_CONFIG_GLOBAL", none), ("GIT_CONFIG_SYSTEM", none)],
        )
        .unwrap();
        String::from_utf8(said).unwrap().trim().to_owned()
    }
}

#[test]
fn commits_and_tags_of_git_are_verified() {
    let Some(signed) = Signed::new() else {
        return;
    };
    signed.git(&["commit", "-q", "--allow-empty", "-m", "plain"]);
    signed.git(&["branch", "plain"]);
    signed.git(&["tag", "light"]);
    signed.git(&["tag", "-a", "-m", "annotated", "annotated"]);
    signed.git(&[
        "commit",
        "-q",
        "--allow-empty",
        "-S",
        "-m",
        "signed\n\n-----BEGIN PGP SIGNATURE-----",
    ]);
    signed.git(&["tag", "-s", "-m", "first", "v1"]);
    // a tag of a tag, and an old tag under a new name
    signed.git(&["tag", "-s", "-m", "nested", "nested", "v1"]);
    signed.git(&["update-ref", "refs/tags/v2", "refs/tags/v1"]);

    let url = "https://local.invalid/signed";
    let mirrors =
        Mirrors::new(signed.folder.path().join("mirrors"), Limits::default()).instead_of(url, &signed.path());
    let remote = Remote::new(url);
    let now = SystemTime::now() + Duration::from_secs(60);
    let check = |reference: Reference, signers: &Signers, head: &str, tag: &str| {
        let revision = mirrors.resolve(&remote, &reference).unwrap();
        let commit = mirrors.fetch(&remote, &revision).unwrap();
        let said = shown(commit.verify(signers, now));
        assert!(said.contains(head), "{reference}: {said}");
        let found = mirrors.tag(&remote, &commit).unwrap();
        let said = match &found {
            None => "none".to_owned(),
            Some(found) => format!(
                "{} {}",
                found.is_signed().unwrap(),
                shown(found.verify(signers, now))
            ),
        };
        assert!(said.contains(tag), "{reference}: {said}");
    };
    let ours = &signed.signers;
    check(
        Reference::branch("plain"),
        ours,
        "error: unsupported signature type: empty",
        "none",
    );
    check(
        Reference::tag("light"),
        ours,
        "empty",
        "false error: unsupported signature type: empty",
    );
    check(
        Reference::tag("annotated"),
        ours,
        "empty",
        "false error: unsupported signature type: empty",
    );
    check(Reference::branch("main"), ours, "SHA256:", "none");
    check(Reference::tag("v1"), ours, "SHA256:", "true SHA256:");
    check(Reference::name("refs/tags/v1"), ours, "SHA256:", "true SHA256:");
    check(Reference::tag("nested"), ours, "SHA256:", "true SHA256:");
    check(
        Reference::tag("v2"),
        ours,
        "SHA256:",
        "true error: the tag object names \"v1\", not \"v2\"",
    );
    let pgp = Signers::new([("a.asc", b"x".as_slice())]);
    check(
        Reference::tag("v1"),
        &pgp,
        "no SSH public keys found",
        "no SSH public keys found",
    );
}

/// A public key with the deepest nesting of certificates in this many bytes.
fn nested_certificates(bytes: usize) -> Vec<u8> {
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
    while public.len() < bytes {
        public = [head.as_slice(), &rest, &field(&public), &field(&[])].concat();
    }
    public
}

#[test]
fn nested_certificates_are_refused_before_the_library_reads_them() {
    let key = nested_certificates(256 << 10);
    let field = |bytes: &[u8]| [&(bytes.len() as u32).to_be_bytes(), bytes].concat();
    let signature = [b"SSHSIG\0\0\0\x01".as_slice(), &field(&key), &field(b"git")].concat();
    let armor = |bytes: &[u8]| {
        let body = STANDARD.encode(bytes);
        format!("-----BEGIN SSH SIGNATURE-----\n{body}\n-----END SSH SIGNATURE-----\n")
    };
    assert_eq!(
        shown(ssh::verify(PAYLOAD, &armor(&signature), &[])),
        "error: the SSH signature is refused: it was made with a certificate, which is not supported"
    );

    // the fields of an ed25519 signature of zeros
    let zeros = [field(b"ssh-ed25519"), field(&[0; 32])].concat();
    let signed = [field(b"ssh-ed25519"), field(&[0; 64])].concat();
    let fields = [
        field(&zeros),
        field(b"git"),
        field(&[]),
        field(b"sha256"),
        field(&signed),
    ]
    .concat();
    let signature = [b"SSHSIG\0\0\0\x01".as_slice(), &fields].concat();
    let line = format!("ssh-ed25519-cert-v01@openssh.com {}", STANDARD.encode(&key));
    let renamed = format!("ssh-ed25519 {}", STANDARD.encode(&key));
    for line in [line, renamed] {
        let got = shown(ssh::verify(
            PAYLOAD,
            &armor(&signature),
            &[file("a.sshpub", &line)],
        ));
        assert!(
            got.contains("has a line with a certificate, which is not supported"),
            "{got}"
        );
    }
    let longer = [signature.as_slice(), &[0]].concat();
    assert_eq!(
        shown(ssh::verify(PAYLOAD, &armor(&longer), &[])),
        "error: the SSH signature is malformed: 1 bytes follow it"
    );
}
