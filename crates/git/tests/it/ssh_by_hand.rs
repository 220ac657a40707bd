//! SSH hosts that misbehave in ways that no library's server can: the first exchange, written by hand.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    thread::JoinHandle,
    time::Duration,
};

use equate_git::{Credentials, Kind, Limits, Mirrors, Reference, Remote, Secret, SshAlgorithms};
use equate_testkit::git::SshKey;
use ring::{agreement, digest, rand::SystemRandom};
use russh::keys::{HashAlg, PrivateKey, signature::Signer, ssh_key::Signature};

use crate::{Fixture, chain};

const KEYS: &str = include_str!("../../testdata/ssh_keys.txt");

const VERSION: &str = "SSH-2.0-by_hand";

/// The behaviour of a host in its first exchange.
#[derive(Clone, Copy)]
struct Host {
    kex: &'static str,
    /// The announced host key algorithm.
    announced: &'static str,
    /// The hash of the signature; SHA-1 without one.
    hash: Option<HashAlg>,
}

const HONEST: Host = Host {
    kex: "curve25519-sha256",
    announced: "rsa-sha2-512",
    hash: Some(HashAlg::Sha512),
};

fn rsa() -> PrivateKey {
    let (_, rest) = KEYS.split_once("\n== rsa\n").unwrap();
    russh::keys::decode_secret_key(rest.split("\n== ").next().unwrap(), None).unwrap()
}

/// Bytes with a length prefix.
fn field(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes(), bytes].concat()
}

fn send(wire: &mut TcpStream, payload: &[u8]) -> io::Result<()> {
    let padding = 8 - (payload.len() + 5) % 8 + 8;
    let length = u32::try_from(payload.len() + 1 + padding).unwrap();
    let head = [&length.to_be_bytes(), [u8::try_from(padding).unwrap()].as_slice()].concat();
    wire.write_all(&[&head, payload, &vec![0; padding]].concat())
}

fn receive(wire: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let mut head = [0; 5];
    wire.read_exact(&mut head)?;
    let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let mut rest = vec![0; length - 1];
    wire.read_exact(&mut rest)?;
    rest.truncate(length - 1 - usize::from(head[4]));
    Ok(rest)
}

impl Host {
    /// Serves one session. Returns the bytes that the client sent after the algorithm lists.
    fn serve(self, listener: TcpListener) -> JoinHandle<io::Result<Vec<u8>>> {
        std::thread::spawn(move || {
            let (mut wire, _) = listener.accept()?;
            wire.set_read_timeout(Some(Duration::from_secs(60)))?;
            self.converse(&mut wire)
        })
    }

    fn converse(self, wire: &mut TcpStream) -> io::Result<Vec<u8>> {
        let mut reader = BufReader::new(wire.try_clone()?);
        write!(wire, "{VERSION}\r\n")?;
        let mut version = String::new();
        reader.read_line(&mut version)?;
        let mut ours = [[20].as_slice(), &[7; 16]].concat();
        let (cipher, mac) = ("aes128-ctr", "hmac-sha2-256");
        for names in [
            self.kex,
            self.announced,
            cipher,
            cipher,
            mac,
            mac,
            "none",
            "none",
            "",
            "",
        ] {
            ours.extend(field(names.as_bytes()));
        }
        ours.extend([0; 5]);
        send(wire, &ours)?;
        let theirs = receive(&mut reader)?;
        let first = receive(&mut reader)?;
        if self.kex != HONEST.kex {
            return Ok(first);
        }

        let chance = SystemRandom::new();
        let private = agreement::EphemeralPrivateKey::generate(&agreement::X25519, &chance).unwrap();
        let public = private.compute_public_key().unwrap();
        let client = &first[5..];
        let peer = agreement::UnparsedPublicKey::new(&agreement::X25519, client);
        let secret = agreement::agree_ephemeral(private, &peer, <[u8]>::to_vec).unwrap();
        let key = rsa();
        let shown = key.public_key().to_bytes().unwrap();
        let exchange = [
            field(version.trim_end().as_bytes()),
            field(VERSION.as_bytes()),
            field(&theirs),
            field(&ours),
            field(&shown),
            field(client),
            field(public.as_ref()),
            number(&secret),
        ];
        let hash = digest::digest(&digest::SHA256, &exchange.concat());
        let pair = key.key_data().rsa().unwrap();
        let signature: Signature = (pair, self.hash).try_sign(hash.as_ref()).unwrap();
        let signature = [
            field(signature.algorithm().to_string().as_bytes()),
            field(signature.as_bytes()),
        ]
        .concat();
        let reply = [field(&shown), field(public.as_ref()), field(&signature)].concat();
        send(wire, &[[31].as_slice(), &reply].concat())?;
        send(wire, &[21])?;
        // the same from the client, then everything is encrypted
        assert_eq!(receive(&mut reader)?, [21]);
        let mut secret = [0; 1];
        reader.read(&mut secret).map(|read| secret[..read].to_vec())
    }
}

/// A number in SSH's encoding: no leading zeros, except one to keep it positive.
fn number(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut number = bytes[zeros..].to_vec();
    if number.first().is_some_and(|byte| *byte >= 0x80) {
        number.insert(0, 0);
    }
    field(&number)
}

/// The client's error, and the bytes that the host received.
fn asked(host: Host, kex: &[&str]) -> (Kind, String, io::Result<Vec<u8>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = host.serve(listener);
    let known = rsa().public_key().to_openssh().unwrap();
    let credentials = Credentials::Ssh {
        identity: Secret::from(SshKey::ed25519(1).private().as_str()),
        known_hosts: format!("[127.0.0.1]:{port} {known}\n").into_bytes(),
        passphrase: None,
    };
    let remote = Remote::new(format!("ssh://git@127.0.0.1:{port}/x")).with_credentials(credentials);
    let fixture = Fixture::new();
    let algorithms = SshAlgorithms::new(kex, &[]).unwrap();
    let mirrors = Mirrors::with_ssh(fixture.directory.path().join("x"), Limits::default(), algorithms);
    let error = mirrors.resolve(&remote, &Reference::branch("main")).unwrap_err();
    (error.kind(), chain(&error), serving.join().unwrap())
}

#[test]
fn deviation_from_the_negotiated_algorithm_is_refused() {
    let check = |host: Host, kind: Kind, want: &str, goes_on: bool| {
        let (got, told, heard) = asked(host, &[]);
        assert_eq!(got, kind, "{told}");
        assert!(told.contains(want), "{told}");
        // after the exchange come our user name and key
        let heard = heard.unwrap_or_default();
        assert_eq!(!heard.is_empty(), goes_on, "{told}");
    };
    // it receives our key and closes
    check(HONEST, Kind::Authentication, "the host refused the key", true);
    let problem = "the host's key does not match the negotiated algorithm";
    let other = "the host negotiated rsa-sha2-512 but signed with another algorithm";
    for hash in [None, Some(HashAlg::Sha256)] {
        let host = Host { hash, ..HONEST };
        check(host, Kind::Authentication, problem, false);
        check(host, Kind::Authentication, other, false);
    }
    let announced = "ssh-ed25519";
    let host = Host { announced, ..HONEST };
    let want = "the host negotiated ssh-ed25519 but presented a ssh-rsa key";
    check(host, Kind::Authentication, problem, false);
    check(host, Kind::Authentication, want, false);
}

#[test]
fn key_exchange_groups_are_limited() {
    let kex = "diffie-hellman-group-exchange-sha256";
    let (_, told, heard) = asked(Host { kex, ..HONEST }, &[kex]);
    let bits = [2048_u32, 3072, 4096].map(u32::to_be_bytes).concat();
    assert_eq!(heard.unwrap(), [[34].as_slice(), &bits].concat(), "{told}");
}

#[test]
fn host_messages_are_one_short_line() {
    let announced = "\x1b[2J\x1b]0;x\x07\r\nfatal: yes,ssh-rsa".repeat(500).leak();
    let (kind, told, _) = asked(Host { announced, ..HONEST }, &[]);
    assert_eq!(kind, Kind::RemoteFailure);
    assert!(told.contains(": it offers "), "{told:?}");
    assert!(!told.contains(char::is_control), "{told:?}");
    assert!(told.len() < 500, "{} bytes", told.len());
}
