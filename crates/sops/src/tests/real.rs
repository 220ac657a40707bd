//! Compares with the real sops, in both directions and byte for byte.
//!
//! `EQUATE_SOPS` and `EQUATE_BAO` name the programs (`cargo xtask test-peers` sets them); otherwise they
//! are looked up on the `PATH`. Without them the tests print a line and are skipped.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::encrypt::{Order, encrypt};
use super::mutations::Numbers;
use super::{decrypted, keys, read, testdata};
use crate::age::Identity;
use crate::tree::{Comment, Entry, Node};
use crate::{Decrypter, Format, Transit, TransitError, TransitKey};

fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = named
        .into_iter()
        .chain(std::env::split_paths(&path).map(|folder| folder.join(name)));
    let found = all.find(|path| path.is_file());
    if found.is_none() {
        println!("skipped: there is no {name}, neither in {variable} nor on the PATH");
    }
    found
}

struct Sops {
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Sops {
    fn find() -> Option<Self> {
        Some(Self {
            program: program("EQUATE_SOPS", "sops")?,
            folder: tempfile::tempdir().unwrap(),
        })
    }

    fn run(&self, input: &[u8], name: &str, arguments: &[&str], token: &str) -> Result<Vec<u8>, String> {
        let file = self.folder.path().join(name);
        std::fs::write(&file, input).unwrap();
        let output = Command::new(&self.program)
            .args(arguments)
            .arg(&file)
            .current_dir(self.folder.path())
            .env("SOPS_AGE_KEY_FILE", testdata("keys/one.agekey"))
            .env("VAULT_TOKEN", token)
            .output()
            .unwrap();
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn encrypt(&self, plain: &[u8], name: &str) -> Vec<u8> {
        self.encrypted(plain, name).unwrap()
    }

    fn encrypted(&self, plain: &[u8], name: &str) -> Result<Vec<u8>, String> {
        let identity = &keys(&["one.agekey"]).age[0];
        let arguments = ["--config", "/dev/null", "encrypt", "--age", identity.recipient()];
        self.run(plain, name, &arguments, "")
    }

    fn decrypt(&self, sealed: &[u8], name: &str) -> Result<Vec<u8>, String> {
        self.run(sealed, name, &["--config", "/dev/null", "decrypt"], "")
    }
}

fn same(sops: &Sops, sealed: &[u8], name: &str) -> Result<Vec<u8>, String> {
    let keys = keys(&["one.agekey"]);
    let ours = decrypted(&Decrypter::new(&keys), sealed, Format::of_path(name));
    let theirs = sops.decrypt(sealed, name);
    match (ours, theirs) {
        (Ok(ours), Ok(theirs)) if ours == theirs => Ok(ours),
        (ours, theirs) => {
            let shown = |found: Result<Vec<u8>, String>| {
                found.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            };
            let sealed = String::from_utf8_lossy(sealed);
            Err(format!(
                "ours   {:?}\ntheirs {:?}\n{sealed}",
                shown(ours),
                shown(theirs)
            ))
        }
    }
}

const DOCUMENTS: [(&str, &str); 12] = [
    (
        "a.yaml",
        "a_unencrypted: 1 # behind a\nl_unencrypted:\n- 1 # behind 1\n- 2\nc: 3 # sealed\nd: # above\n  e: f\n",
    ),
    (
        "a.yaml",
        "# head\n\n# key\na: 1 # behind\nb:\n  # inner\n  c: 2\n  # foot of b\n# tail\n",
    ),
    (
        "a.yaml",
        "a:\n- x # behind\n- y\n# before b\nb:\n- - 1\n  - - 2\n- {c: d}\n- k: [1, {z: 0}]\n  l: m\n",
    ),
    ("a.yaml", "---\na: 1\n---\n# second\nb: 2\n---\nc: {}\n"),
    (
        "a.yaml",
        "t: |+\n  keep\n\n\ns: >-\n  folded\n  text\n\nq: \"esc \\u00e9 \\x07 \\t \\U0001F389\"\ne: ''\nn: ~\n",
    ),
    (
        "a.yaml",
        "a: \" lead\"\nb: \"trail \"\nc: \"\\n\"\nd: \"\\n\\nx\"\ne: \"x\\n\"\nf: \"x\\n\\n\"\ng: \"  x\\n y\"\nh: \"x\\n \"\n",
    ),
    (
        "a.yaml",
        "l:\n- |\n  in\n  a list\n- |2\n    deep\n   y\n- \"a: b\"\n- '#c'\n- '- d'\n- '&e'\n- '*f'\n- '!g'\n- '%h'\n- '@i'\n- '`j'\n",
    ),
    (
        "a.yaml",
        "a: '1'\nb: '1.0'\nc: 'true'\nd: 'null'\ne: '~'\nf: 'yes'\ng: '0x1'\nh: '0o7'\ni: '1e3'\nj: '2001-01-01'\nk: '=' \nl: '<<'\nm: '1_000'\nn: '12:30:45'\no: '.inf'\np: 0.1\nq: 1e21\nr: 1234567.5\ns: 0.00001\nt: 0b11\nu: 0xff\nv: 1_000\nw: +1\n",
    ),
    (
        "a.yaml",
        "a: 2001-12-14\nb: 2001-12-14t21:59:43.10-05:00\nc: 2001-12-14 21:59:43\nd: 2001-12-14T21:59:43Z\ne: 2001-02-30\n",
    ),
    (
        "a.yaml",
        "a: &x {k: v, l: [1, 2]}\nb: *x\n'key with: colon': 1\n'true': 2\n\"multi\\nline\": 3\nempty: []\n? aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n: long\nwords: aaaaaaaaaaaaaaaaaaaaaaaa bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb ccccccccccccccccccccccccccccc dddddddddddddd \"quoted\" ü\n",
    ),
    (
        "a.json",
        "{\"a\": [1, 1.5, -0.0, 1e21, 1e-7, 123456789, \"\\u0001\\u2028<>&\\ud83c\\udf89\", null, [], {}], \"b\": {\"c\": {\"d\": true}}}",
    ),
    (
        "a.env",
        "# c\nA=1\nB=a=b\nC= spaces \nD='quoted'\nE=\\n\\\\n\n#\nF=\n",
    ),
];

#[test]
fn output_of_real_sops_is_decrypted() {
    let Some(sops) = Sops::find() else { return };
    let mut wrong = Vec::new();
    for (name, plain) in DOCUMENTS {
        if let Err(error) = same(&sops, &sops.encrypt(plain.as_bytes(), name), name) {
            wrong.push(error);
        }
    }
    for plain in [&b"\0\xff bytes"[..], b"text\n", b"{\"data\": 1}"] {
        if let Err(error) = same(&sops, &sops.encrypt(plain, "a.bin"), "a.bin") {
            wrong.push(error);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Pseudo-random documents, the same in every run.
struct Documents(Numbers);

impl Documents {
    fn text(&mut self) -> String {
        const PIECES: [&str; 24] = [
            "a", "word", " ", "  ", "\n", "\n\n", ":", ": ", "#", " #", "-", "- ", "'", "\"", "\\", "é",
            "🎉", "\t", "{", "]", "0", "12.5", "true", "&",
        ];
        let count = self.0.below(7);
        (0..count).map(|_| PIECES[self.0.below(PIECES.len())]).collect()
    }

    fn scalar(&mut self) -> Node {
        match self.0.below(10) {
            0 => Node::Null,
            1 => Node::Bool(self.0.below(2) == 0),
            2 => Node::Int(self.0.below(1_000_000) as i64 - 500_000),
            3 => Node::Float((self.0.below(1_000_000) as f64) / 128.0 + 0.001),
            _ => Node::Text(self.text().as_str().into()),
        }
    }

    fn comment(&mut self) -> Comment {
        // not the empty one: in a list the real tool makes an item of it
        let words = [" one", "two ", " three: 3", "#"];
        Comment {
            text: words[self.0.below(words.len())].into(),
            inline: false,
        }
    }

    fn node(&mut self, depth: usize) -> Node {
        match self.0.below(if depth == 0 { 1 } else { 3 }) {
            0 => self.scalar(),
            1 => Node::Map(self.map(depth - 1)),
            _ => {
                let mut items = Vec::new();
                for _ in 0..self.0.below(4) {
                    items.push(self.node(depth - 1));
                }
                Node::List(items)
            }
        }
    }

    fn map(&mut self, depth: usize) -> Vec<Entry> {
        let mut entries = Vec::new();
        for at in 0..self.0.below(5) {
            if self.0.below(3) == 0 {
                entries.push(Entry::Comment(self.comment()));
            }
            let mut key = format!("{}{at}", self.text());
            if self.0.below(10) > 0 {
                key = key.replace('\n', "_");
            }
            entries.push(Entry::Pair {
                key,
                value: self.node(depth),
            });
        }
        entries
    }
}

/// Written by this crate's emitter, which tests the real tool's reader, too.
#[test]
fn random_documents_match_real_sops() {
    let Some(sops) = Sops::find() else { return };
    let mut documents = Documents(Numbers(0xd0c5));
    let (mut wrong, mut compared) = (Vec::new(), 0);
    for _ in 0..30 {
        let document = documents.map(3);
        let plain = Format::Yaml.write(&[document]).unwrap();
        // go-yaml cannot read all it writes: |4 says four where it indents by two
        let Ok(sealed) = sops.encrypted(&plain, "a.yaml") else {
            continue;
        };
        compared += 1;
        if let Err(error) = same(&sops, &sealed, "a.yaml") {
            wrong.push(format!("{error}\nfrom\n{}", String::from_utf8_lossy(&plain)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    assert!(compared > 15, "only {compared} documents could be read");
}

/// Compared with the real tool's result for the plain text.
#[test]
fn real_sops_decrypts_our_output() {
    let Some(sops) = Sops::find() else { return };
    let one = || keys(&["one.agekey"]).age;
    let two = || keys(&["two.agekey"]).age;
    let orders: [(_, _, _, Vec<Vec<Identity>>, _); 6] = [
        (None, false, "secret.yaml", vec![one()], 1),
        (
            Some(("encrypted_regex", "^(data|stringData)$")),
            false,
            "secret.yaml",
            vec![two(), one(), one()],
            2,
        ),
        (
            Some(("encrypted_regex", "^stringData$")),
            true,
            "secret.yaml",
            vec![[two(), one()].concat()],
            1,
        ),
        (
            Some(("encrypted_suffix", "_unencrypted")),
            false,
            "values.json",
            vec![one()],
            1,
        ),
        (None, true, "settings.env", vec![one(), one()], 2),
        (None, false, "blob.bin", vec![one()], 1),
    ];
    for (rule, mac_only_encrypted, name, groups, threshold) in orders {
        let order = Order {
            format: Format::of_path(name),
            rule,
            mac_only_encrypted,
            groups,
            threshold,
        };
        let sealed = encrypt(&read(&format!("plain/{name}")), &order);
        let found = same(&sops, &sealed, name).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, read(&format!("opened/{name}")), "{name}");
    }
}

struct Http {
    token: &'static str,
}

impl Http {
    fn post(&self, url: &str, body: &str) -> std::io::Result<(u16, Vec<u8>)> {
        let rest = url.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let mut stream = TcpStream::connect(host)?;
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: {host}\r\nX-Vault-Token: {}\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        Ok((status, answer[end.unwrap() + 4..].to_vec()))
    }
}

impl Transit for Http {
    fn open(&self, key: &TransitKey<'_>) -> Result<Zeroizing<Vec<u8>>, TransitError> {
        let request = key.request()?;
        match self.post(&request.url, &request.body) {
            Ok((status, answer)) => request.read(status, &answer),
            Err(error) => Err(TransitError::NoAnswer {
                address: key.address.to_owned(),
                source: std::sync::Arc::new(error),
            }),
        }
    }
}

const PORT_ATTEMPTS: usize = 3;

/// OpenBao with in-memory storage.
struct Bao {
    child: Child,
    address: String,
}

impl Drop for Bao {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Bao {
    fn start(program: &Path, folder: &Path) -> Self {
        // a free port may be taken before it is bound
        let mut attempts = (0..PORT_ATTEMPTS).filter_map(|_| Self::started(program, folder));
        attempts.next().unwrap()
    }

    /// `None` if it exits.
    fn started(program: &Path, folder: &Path) -> Option<Self> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let listen = free.local_addr().unwrap().to_string();
        drop(free);
        let child = Command::new(program)
            .args(["server", "-dev", "-dev-no-store-token", "-dev-root-token-id=root"])
            .arg(format!("-dev-listen-address={listen}"))
            .env("HOME", folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut bao = Self {
            child,
            address: format!("http://{listen}"),
        };
        let deadline = Instant::now() + Duration::from_secs(120);
        while !bao.call("sys/mounts/sops", r#"{"type":"transit"}"#) {
            if bao.child.try_wait().unwrap().is_some() {
                return None;
            }
            assert!(
                Instant::now() < deadline,
                "OpenBao does not answer at {}",
                bao.address
            );
            std::thread::yield_now();
        }
        assert!(bao.call("sops/keys/first", "{}"));
        Some(bao)
    }

    fn call(&self, path: &str, body: &str) -> bool {
        let answer = Http { token: "root" }.post(&format!("{}/v1/{path}", self.address), body);
        answer.is_ok_and(|(status, _)| status < 300)
    }
}

#[test]
fn a_real_transit_engine_decrypts() {
    let Some(sops) = Sops::find() else { return };
    let Some(program) = program("EQUATE_BAO", "bao") else {
        return;
    };
    let bao = Bao::start(&program, sops.folder.path());
    let uri = format!("{}/v1/sops/keys/first", bao.address);
    let arguments = ["--config", "/dev/null", "encrypt", "--hc-vault-transit", &uri];
    let plain = read("plain/secret.yaml");
    let sealed = sops.run(&plain, "secret.yaml", &arguments, "root").unwrap();
    let keys = crate::Keys::default();
    let opens = |token| {
        let transit = Http { token };
        decrypted(
            &Decrypter::new(&keys).with_transit(&transit),
            &sealed,
            Format::Yaml,
        )
    };
    assert_eq!(opens("root"), Ok(read("opened/secret.yaml")));
    let refused = opens("wrong").unwrap_err();
    assert!(refused.contains("it answers 403: "), "{refused}");
}
