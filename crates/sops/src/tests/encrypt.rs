//! An encrypter for the tests. The real tool and this crate can read its output.

use aes_gcm::Nonce;
use aes_gcm::aead::consts::U32;
use aes_gcm::aead::{AeadInPlace as _, KeyInit as _};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha512};

use crate::age::{self, Identity};
use crate::envelope::{Cipher, NONCE_BYTES};
use crate::format::Format;
use crate::rules::{Place, Rule, regex};
use crate::shamir;
use crate::tree::{Comment, Entry, Node, fixed};

const LAST_MODIFIED: &str = "2026-11-22T00:00:00Z";

pub(super) struct Order<'o> {
    pub(super) format: Format,
    /// The field of the metadata and its value.
    pub(super) rule: Option<(&'o str, &'o str)>,
    pub(super) mac_only_encrypted: bool,
    /// Key groups of age recipients; of several, `threshold` are needed.
    pub(super) groups: Vec<Vec<Identity>>,
    pub(super) threshold: usize,
}

/// Pseudo-random bytes, the same in every run.
struct Random {
    seed: String,
    calls: u64,
}

impl Random {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut all = Vec::new();
        while all.len() < N {
            self.calls += 1;
            all.extend(Sha256::digest(format!("{}{}", self.seed, self.calls)));
        }
        all.truncate(N);
        all.try_into().unwrap()
    }
}

pub(super) fn encrypt(plain: &[u8], order: &Order<'_>) -> Vec<u8> {
    let mut random = Random {
        seed: format!("{:?}{}", order.format, plain.len()),
        calls: 0,
    };
    let data_key: [u8; 32] = random.bytes();
    let mut documents = order.format.read_plain(plain).unwrap();
    let rule = match order.rule {
        None => Rule::default(),
        Some(("unencrypted_suffix", text)) => Rule::UnencryptedSuffix(text.to_owned()),
        Some(("encrypted_suffix", text)) => Rule::EncryptedSuffix(text.to_owned()),
        Some(("unencrypted_regex", text)) => Rule::UnencryptedRegex(regex(text).unwrap()),
        Some(("encrypted_regex", text)) => Rule::EncryptedRegex(regex(text).unwrap()),
        Some(("encrypted_comment_regex", text)) => Rule::EncryptedComment(regex(text).unwrap()),
        Some((field, _)) => panic!("{field}"),
    };
    let mut sealer = Sealer {
        cipher: Cipher::new_from_slice(&data_key).unwrap(),
        place: Place::new(&rule),
        mac_only_encrypted: order.mac_only_encrypted,
        hash: Sha512::new(),
        random,
    };
    if order.mac_only_encrypted {
        sealer.hash.update(Sha256::digest("sops"));
    }
    for document in &mut documents {
        sealer.entries(document);
    }
    let mac: String = sealer
        .hash
        .clone()
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let mac = sealer.seal(mac.as_bytes(), "str", LAST_MODIFIED);
    let metadata = metadata(order, &data_key, &mac, &mut sealer.random);
    order.format.write_encrypted(documents, &metadata)
}

fn pair(key: &str, value: Node) -> Entry {
    Entry::Pair {
        key: key.to_owned(),
        value,
    }
}

fn text(text: &str) -> Node {
    Node::Text(text.into())
}

fn metadata(order: &Order<'_>, data_key: &[u8], mac: &str, random: &mut Random) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut group = |identities: &[Identity], share: &[u8]| {
        let items = identities.iter().map(|identity| {
            let sealed = age::seal(identity, &random.bytes(), share).unwrap();
            Node::Map(vec![
                pair("recipient", text(identity.recipient())),
                pair("enc", text(&sealed)),
            ])
        });
        pair("age", Node::List(items.collect()))
    };
    if let [only] = order.groups.as_slice() {
        entries.push(group(only, data_key));
    } else {
        let shares = split(data_key, order.groups.len(), order.threshold);
        let groups = order.groups.iter().zip(&shares);
        let groups = groups.map(|(identities, share)| Node::Map(vec![group(identities, share)]));
        entries.push(pair("key_groups", Node::List(groups.collect())));
        let threshold = i64::try_from(order.threshold).unwrap();
        entries.push(pair("shamir_threshold", Node::Int(threshold)));
    }
    entries.push(pair("lastmodified", text(LAST_MODIFIED)));
    entries.push(pair("mac", text(mac)));
    if let Some((field, value)) = order.rule {
        entries.push(pair(field, text(value)));
    }
    if order.mac_only_encrypted {
        entries.push(pair("mac_only_encrypted", Node::Bool(true)));
    }
    entries.push(pair("version", text("3.11.0")));
    entries
}

/// Shares of a secret: the points 1, 2, … of a polynomial for each byte.
pub(super) fn split(secret: &[u8], groups: usize, threshold: usize) -> Vec<Vec<u8>> {
    let coefficient = |byte: usize, degree: usize| match degree {
        0 => secret[byte],
        _ => Sha256::digest(format!("{byte} {degree}"))[0],
    };
    let share = |point: u8| {
        let values = (0..secret.len()).map(|byte| {
            let degrees = (0..threshold).rev();
            degrees.fold(0, |value, degree| {
                shamir::times(value, point) ^ coefficient(byte, degree)
            })
        });
        values.chain([point]).collect()
    };
    (1..=u8::try_from(groups).unwrap()).map(share).collect()
}

struct Sealer<'r> {
    cipher: Cipher,
    place: Place<'r>,
    mac_only_encrypted: bool,
    hash: Sha512,
    random: Random,
}

impl Sealer<'_> {
    fn seal(&mut self, plain: &[u8], kind: &str, additional: &str) -> String {
        let nonce: [u8; NONCE_BYTES] = self.random.bytes();
        let mut data = plain.to_vec();
        let tag = self
            .cipher
            .encrypt_in_place_detached(Nonce::<U32>::from_slice(&nonce), additional.as_bytes(), &mut data)
            .unwrap();
        let [data, iv, tag] = [data.as_slice(), &nonce, tag.as_slice()].map(|part| STANDARD.encode(part));
        format!("ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{kind}]")
    }

    fn additional(&self) -> String {
        self.place.additional().to_owned()
    }

    fn entries(&mut self, entries: &mut [Entry]) {
        self.place.enter_collection();
        for entry in entries {
            match entry {
                Entry::Comment(comment) => self.comment(comment),
                Entry::Pair { key, value } => {
                    self.place.enter_key(key);
                    self.value(value);
                    self.place.leave_key();
                    self.place.clear_comments();
                }
            }
        }
        self.place.leave_collection();
    }

    fn comment(&mut self, comment: &mut Comment) {
        if self.place.comment(&comment.text) && !comment.text.as_bytes().is_empty() {
            let sealed = self.seal(comment.text.as_bytes(), "comment", &self.additional());
            comment.text = sealed.as_str().into();
        }
    }

    fn value(&mut self, value: &mut Node) {
        match value {
            Node::Null => return,
            Node::Map(entries) => return self.entries(entries),
            Node::List(items) => {
                self.place.enter_collection();
                for item in items {
                    if let Node::Comment(comment) = item {
                        let before = comment.clone();
                        self.comment(comment);
                        // an encrypted comment of a list is written as an item
                        if *comment != before {
                            *item = Node::Text(comment.text.clone());
                        }
                    } else {
                        self.value(item);
                        self.place.clear_comments();
                    }
                }
                self.place.leave_collection();
                return;
            }
            _ => {}
        }
        let (plain, kind) = match &*value {
            Node::Bool(flag) => (if *flag { "True" } else { "False" }.into(), "bool"),
            Node::Int(number) => (number.to_string().into_bytes(), "int"),
            Node::Float(number) => (fixed(*number).into_bytes(), "float"),
            Node::Time(time) => (time.clone().into_bytes(), "time"),
            Node::Text(text) => (text.as_bytes().to_vec(), "str"),
            Node::Null | Node::List(_) | Node::Map(_) | Node::Comment(_) => return,
        };
        let sealed = self.place.seals();
        if sealed || !self.mac_only_encrypted {
            self.hash.update(&plain);
        }
        if sealed && !plain.is_empty() {
            *value = text(&self.seal(&plain, kind, &self.additional()));
        }
    }
}
