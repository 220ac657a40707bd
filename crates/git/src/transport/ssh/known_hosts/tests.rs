use russh::keys::{Algorithm, Certificate, EcdsaCurve, HashAlg, PublicKey};

use super::{Known, glob};

const CERTIFICATES: &str = include_str!("../../../../testdata/ssh_certificates.txt");

/// Two host keys, one of another type, and the names of the first two by `ssh-keygen -H`.
const ONE: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBQs30lGZPrISqtMBRoOJzhZnIjqS9XsJ7ToeGBfYNzo";
const TWO: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIE5NFQOaWloQp/D78FIuF7uEHlQiI5nsbqHNUqRjJr0A";
const CURVE: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBPT7YI7OeKhPQY6BJsrwP0ixfj6XXgU1kIQPuuj9T8XAYoJGh+aG2c2JP7ELTHM46tzwoMu88WU0e4ryyqHDqqc=";
const HASHED: &str = "|1|sgiSPOzzSG8OmLNzNQguwBA7kuw=|WniYgi08M7GsQoCxYleSBdryiVI=";
const HASHED_2222: &str = "|1|fz4sXZ19ouArl53QezIZU3zBBkU=|xJkc6Pf5DJuy3u9vqnQ+uvNOBu8=";

const HOST: &str = "git.example.org";

fn key(text: &str) -> PublicKey {
    PublicKey::from_openssh(text).unwrap()
}

fn certificate(name: &str) -> &'static str {
    let head = format!("\n== {name}\n");
    let (_, rest) = CERTIFICATES.split_once(&head).unwrap();
    rest.lines().next().unwrap()
}

/// The result for a host that presents the key.
fn told(lines: &str, host: &str, port: u16, shown: &str) -> String {
    match Known::read(lines.as_bytes(), host, port).and_then(|known| known.check(&key(shown))) {
        Ok(()) => "trusted".to_owned(),
        Err(refusal) => refusal.to_string(),
    }
}

#[test]
fn host_names_are_matched() {
    #[track_caller]
    fn check(names: &str, host: &str, port: u16, want: bool) {
        let got = told(&format!("{names} {ONE} comment\n"), host, port, ONE);
        let unknown = got.starts_with("no line is for ");
        assert!(got == "trusted" || unknown, "{got}");
        assert_eq!(got == "trusted", want, "{names} for {host}:{port}");
    }
    check(HOST, HOST, 22, true);
    check(HOST, "GIT.example.ORG", 22, true);
    check("Git.Example.org", HOST, 22, true);
    check(HOST, "example.org", 22, false);
    check("a,git.example.org,b", HOST, 22, true);
    check("a,b", HOST, 22, false);
    check("[git.example.org]:22", HOST, 22, true);
    check("[git.example.org]:2222", HOST, 2222, true);
    check("[git.example.org]:2222", HOST, 22, false);
    check("[git.example.org]:2222", HOST, 2223, false);
    // where no line is for the port
    check(HOST, HOST, 2222, true);
    check("*.example.org", HOST, 22, true);
    check("*.example.org", "example.org", 22, false);
    check("git.*,!*.example.org", HOST, 22, false);
    check("!*.example.org,git.*", HOST, 22, false);
    check("git.*,!*.example.net", HOST, 22, true);
    check("!git.example.net", HOST, 22, false);
    check("git?example.org", HOST, 22, true);
    check("git.example.or?", "git.example.or", 22, false);
    check("*", HOST, 22, true);
    check("[*.example.org]:2222", HOST, 2222, true);
    check(HASHED, HOST, 22, true);
    check(HASHED, "git.example.net", 22, false);
    check(HASHED_2222, HOST, 2222, true);
    check(HASHED_2222, HOST, 22, false);
    check("|1|!|!", HOST, 22, false);
    check("|1|nothing", HOST, 22, false);
    check("|2|AAAA|AAAA", HOST, 22, false);
    check("192.0.2.1", "192.0.2.1", 22, true);
    check("2001:db8::1", "2001:db8::1", 22, true);
    check("[2001:db8::1]:2222", "2001:db8::1", 2222, true);
}

#[test]
fn lines_decide_trust() {
    #[track_caller]
    fn check(lines: &str, shown: &str, want: &str) {
        assert_eq!(told(lines, HOST, 22, shown), want, "{lines}");
    }
    let shown = "the host presented ssh-ed25519 SHA256:EAb6gKcq3yXwBBLV255XBLQpLN7bWMilFg5GtoIbZn4";
    let two = "ssh-ed25519 SHA256:";
    check("", ONE, &format!("no line is for git.example.org; {shown}"));
    check(
        &format!("# {HOST} {ONE}\n\n   \n@marker {HOST} {ONE}\n\u{fffd}\n"),
        ONE,
        &format!("no line is for git.example.org; {shown}"),
    );
    check(&format!("\r\n  {HOST}\t{ONE}\r\n"), ONE, "trusted");
    check(
        &format!("other {TWO}\n{HOST} {TWO}\n{HOST} {ONE}"),
        ONE,
        "trusted",
    );
    check(
        &format!("other {ONE}\n{HOST} {TWO}\n"),
        ONE,
        &format!("line 2 has another ssh-ed25519 key for git.example.org; {shown}"),
    );
    check(
        &format!("{HOST} {CURVE}\n"),
        ONE,
        &format!("line 1 has a key of another type for git.example.org; {shown}"),
    );
    check(
        &format!("{HOST} {CURVE}\n{HOST} {TWO}\n"),
        ONE,
        &format!("line 2 has another ssh-ed25519 key for git.example.org; {shown}"),
    );
    let unread = format!("line 1 for git.example.org has an unreadable key; {shown}");
    check(&format!("{HOST} ssh-ed25519 AAAA\n"), ONE, &unread);
    check(&format!("{HOST} ssh-ed25519\n"), ONE, &unread);
    check(HOST, ONE, &unread);
    check(
        &format!("{HOST} ecdsa-sha2-nistp256 {}", &ONE["ssh-ed25519 ".len()..]),
        ONE,
        &unread,
    );
    check(&format!("{HOST} 1024 35 123456\n"), ONE, &unread);
    check(
        &format!("{HOST} ssh-ed25519 AAAA\n{HOST} {ONE}\n"),
        ONE,
        "trusted",
    );
    check(&format!("other ssh-ed25519 AAAA\n{HOST} {ONE}\n"), ONE, "trusted");
    let revoked = "revokes ssh-ed25519 SHA256:EAb6gKcq3yXwBBLV255XBLQpLN7bWMilFg5GtoIbZn4";
    check(
        &format!("{HOST} {ONE}\n@revoked * {ONE}\n"),
        ONE,
        &format!("line 2 {revoked}"),
    );
    check(&format!("@revoked other {ONE}\n{HOST} {ONE}\n"), ONE, "trusted");
    check(&format!("@revoked * {TWO}\n{HOST} {ONE}\n"), ONE, "trusted");
    // an authority's key is not a host certificate
    let got = told(&format!("@cert-authority {HOST} {ONE}\n"), HOST, 22, ONE);
    assert_eq!(got, format!("no line is for git.example.org; {shown}"));
    assert!(!got.contains(two) || got.contains(shown));
    check(
        &"x".repeat((4 << 20) + 1),
        ONE,
        "known_hosts has 4194305 bytes, more than the limit of 4194304",
    );
}

#[test]
fn lines_with_the_port_take_precedence() {
    let lines = format!("{HOST} {ONE}\n[{HOST}]:2222 {TWO}\n");
    assert_eq!(told(&lines, HOST, 2222, TWO), "trusted");
    assert_eq!(
        told(&lines, HOST, 2222, ONE),
        "line 2 has another ssh-ed25519 key for [git.example.org]:2222; the host presented ssh-ed25519 \
         SHA256:EAb6gKcq3yXwBBLV255XBLQpLN7bWMilFg5GtoIbZn4"
    );
    // a key is revoked at every port its line names
    let lines = format!("[{HOST}]:2222 {ONE}\n@revoked [{HOST}]:* {ONE}\n");
    assert!(told(&lines, HOST, 2222, ONE).starts_with("line 2 revokes"));
    // even if only lines without a port apply
    for names in [format!("[{HOST}]:2222"), format!("[{HOST}]:*"), "*".to_owned()] {
        let lines = format!("{HOST} {ONE}\n@revoked {names} {ONE}\n");
        let got = told(&lines, HOST, 2222, ONE);
        assert!(got.starts_with("line 2 revokes"), "{names}: {got}");
        assert_eq!(
            told(&format!("{lines}{HOST} {TWO}\n"), HOST, 2222, TWO),
            "trusted"
        );
    }
    let authority = certificate("the authority");
    let lines = format!("@cert-authority {HOST} {authority}\n@revoked [{HOST}]:2222 {authority}\n");
    let shown = Certificate::from_openssh(certificate("for git.example.org and *.example.net")).unwrap();
    let check = |port| {
        Known::read(lines.as_bytes(), HOST, port)
            .unwrap()
            .check_certificate(&shown)
    };
    assert_eq!(check(22), Ok(()));
    let refusal = check(2222).unwrap_err().to_string();
    assert!(refusal.starts_with("line 2 revokes"), "{refusal}");
}

#[test]
fn known_key_types_are_offered_first() {
    let rsa = |hash| Algorithm::Rsa { hash: Some(hash) };
    let accepted = [
        Algorithm::Ed25519,
        Algorithm::Ecdsa {
            curve: EcdsaCurve::NistP256,
        },
        rsa(HashAlg::Sha512),
        rsa(HashAlg::Sha256),
    ];
    #[track_caller]
    fn check(accepted: &[Algorithm], lines: &str, want: &str) {
        let known = Known::read(lines.as_bytes(), HOST, 22).unwrap();
        let names: Vec<String> = known
            .algorithms(accepted)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names.join(" "), want);
    }
    let default = "ssh-ed25519 ecdsa-sha2-nistp256 rsa-sha2-512 rsa-sha2-256";
    check(&accepted, "", default);
    check(&accepted, &format!("{HOST} {ONE}"), default);
    check(&accepted, &format!("other {CURVE}"), default);
    check(
        &accepted,
        &format!("{HOST} {CURVE}"),
        "ecdsa-sha2-nistp256 ssh-ed25519 rsa-sha2-512 rsa-sha2-256",
    );
    check(
        &accepted[2..],
        &format!("{HOST} {CURVE}"),
        "rsa-sha2-512 rsa-sha2-256",
    );
    let rsa = "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQDPnbPPQ1MRY5ScmQckukhZKP5+6X8qHOfOJ9Ha/UmihMUD/dACXYZBis2MbW9D546pMCGbI7xbbrfqVneY25zkJdAWyn7lXZy1aVG5d+wK4V6B/alBHYQkdaOdh7bdmS30uYSLfny8Fujg48yra+SOA08zHT8OKUn09M1xxKqAfRGbqbOSpoeW8ob72CAf7qhrxdg0UVDBcJDPHHvgcYKDq8err+VQdbxuEBQ68sDQvRhCjpHycXuSaQfoUKg93UWSMZEBG6EmbsdDBg4+/RgMYP6dbTGEXv+8Gq5vD6ymjxZ/aAdtAkwXjGSV03/0ZzxeTpvxZ67UnJj4Ln7KMVkj";
    check(
        &accepted,
        &format!("{HOST} {rsa}"),
        "rsa-sha2-512 rsa-sha2-256 ssh-ed25519 ecdsa-sha2-nistp256",
    );
}

#[test]
fn host_certificates_are_verified() {
    #[track_caller]
    fn check(lines: &str, host: &str, name: &str, want: &str) {
        let known = Known::read(lines.as_bytes(), host, 22).unwrap();
        let certificate = Certificate::from_openssh(certificate(name)).unwrap();
        let got = match known.check_certificate(&certificate) {
            Ok(()) => "trusted".to_owned(),
            Err(refusal) => {
                let told = refusal.to_string();
                // without the fingerprint
                let words: Vec<&str> = told.split(' ').collect();
                [&words[..3], &words[4..]].concat().join(" ")
            }
        };
        assert_eq!(got, want, "{name}");
    }
    let authority = format!(
        "@cert-authority *.example.org,h.example.net {}\n",
        certificate("the authority")
    );
    let good = "for git.example.org and *.example.net";
    check(&authority, HOST, good, "trusted");
    check(&authority, "h.example.net", good, "trusted");
    check(
        &authority,
        "ftp.example.org",
        good,
        "its certificate ecdsa-sha2-nistp256 is for other hosts",
    );
    let none = "is from an authority that has no @cert-authority line in known_hosts";
    check(
        &authority,
        "git.example.com",
        good,
        &format!("its certificate ecdsa-sha2-nistp256 {none}"),
    );
    check(
        &authority,
        HOST,
        "of the ed25519 key",
        &format!("its certificate ssh-rsa {none}"),
    );
    check(
        &format!("{HOST} {}\n", certificate("the authority")),
        HOST,
        good,
        &format!("its certificate ecdsa-sha2-nistp256 {none}"),
    );
    check(
        &authority,
        HOST,
        "of 2020",
        "its certificate ecdsa-sha2-nistp384 is not valid at this time",
    );
    check(
        &authority,
        HOST,
        "of a person",
        "its certificate ecdsa-sha2-nistp521 is not a host certificate",
    );
    let rsa = format!("@cert-authority {HOST} {}\n", certificate("the rsa authority"));
    check(&rsa, HOST, "of the rsa authority with sha-512", "trusted");
    check(
        &rsa,
        HOST,
        "of the rsa authority with sha-1",
        "its certificate ssh-ed25519 is signed with an algorithm that is not accepted, such as ssh-rsa with \
         SHA-1",
    );
    // revoked by the authority's key, or by the host's
    let authority_key = certificate("the authority");
    let known = Known::read(
        format!("{authority}@revoked * {authority_key}\n").as_bytes(),
        HOST,
        22,
    )
    .unwrap();
    let shown = Certificate::from_openssh(certificate(good)).unwrap();
    assert!(
        known
            .check_certificate(&shown)
            .unwrap_err()
            .to_string()
            .starts_with("line 2 revokes")
    );
    let known = Known::read(format!("{authority}@revoked * {CURVE}\n").as_bytes(), HOST, 22).unwrap();
    assert!(
        known
            .check_certificate(&shown)
            .unwrap_err()
            .to_string()
            .starts_with("line 2 revokes")
    );
}

#[test]
fn patterns_are_matched_in_bounded_time() {
    #[track_caller]
    fn check(pattern: &str, name: &str, want: bool) {
        assert_eq!(glob(pattern, name), want, "{pattern} {name}");
    }
    check("", "", true);
    check("", "a", false);
    check("*", "", true);
    check("?", "", false);
    check("a*b*c", "abc", true);
    check("a*b*c", "aXbYbZc", true);
    check("a*b*c", "aXbYbZ", false);
    check("**a", "bca", true);
    check("a?c", "abc", true);
    check("a?c", "ac", false);
    // exponential if every star is tried with every rest
    check(&"a*".repeat(2000), &"a".repeat(250), false);
    check(&format!("{}b", "*a".repeat(100)), &"a".repeat(250), false);
}
