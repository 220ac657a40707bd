//! `spec.decryption`: the keys of a Kustomization, and the decryption in its build.
//!
//! The Secret with the keys is in the Kustomization's own namespace. If it names none, its age keys come
//! from the Secret that all share. As in Flux, this process reads it with its own rights. It is read with
//! the variables, once for a run ([`super::substitute_from`]), under the same rules: other keys are another
//! build, and no error, log or event has keys. Decrypted values are hidden in the same way, by masks.
//!
//! A build occupies a processor and sends no requests. It notes the data keys that a transit engine has to
//! decrypt, and leaves their files encrypted. Then the engines are asked ([`super::vault_transit`]), and
//! everything is built again.
//!
//! As in Flux, no MAC is checked, and a file counts as encrypted if it has the bytes that Flux looks for.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use equate_api::kustomize::Decryption;
use equate_kustomize::{SecretError, SecretFile, Secrets, Stop};
use equate_manifest::object::Object;
use equate_sops::{
    Decrypter, ExposeSecret as _, Format, Integrity, Keys, Transit, TransitError, TransitKey, TransitRequest,
};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use serde_json::Value;
use zeroize::Zeroizing;

use crate::Key;
use crate::kit::processors::Processors;
use crate::kit::read::{self, chain};
use crate::masks::Masks;

/// The Secret's entry with the addresses that its token may be sent to, one in each line.
const ADDRESSES: &str = "sops.vault-address";
/// The Secret's entry with the token.
const TOKEN: &str = "sops.vault-token";
/// A shorter value is no secret, and masking it would garble messages.
const MASKED_BYTES_MIN: usize = 4;
/// More keys may take longer than some milliseconds.
const PARSED_HERE_BYTES_MAX: usize = 4 << 10;

/// An error while keys are read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    /// The Secret does not exist.
    #[error("secrets {name:?} not found in namespace {namespace:?} ({named_by})")]
    Absent {
        /// The field or flag that names it.
        named_by: &'static str,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// The API server refuses to return it.
    #[error("cannot get sops decryption Secret '{namespace}/{name}': {why}")]
    Refused {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The API server's message.
        why: String,
    },
    /// The API server was busy or did not answer.
    #[error("cannot get sops decryption Secret '{namespace}/{name}': {why}")]
    Unreachable {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The error.
        why: String,
    },
    /// An entry is not a valid key.
    #[error("failed to import '{entry}' data from sops decryption Secret '{namespace}/{name}': {why}")]
    Import {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// The entry.
        entry: String,
        /// The fault, without a quote of the entry.
        why: String,
    },
}

/// The keys of one Kustomization. `Debug` shows the public halves.
#[derive(Debug, Clone, Default)]
pub struct KeyRing {
    keys: Keys,
    /// The addresses that its token may be sent to; empty if the Secret names none.
    addresses: Vec<String>,
}

impl KeyRing {
    /// The token for transit engines, and the Secret's addresses for it.
    pub(in crate::kustomization) fn token(&self) -> Option<(&str, &[String])> {
        let token = self.keys.token()?;
        Some((token.expose_secret(), &self.addresses))
    }
}

/// The keys of a Secret, and its version.
pub(in crate::kustomization) struct Found {
    pub(in crate::kustomization) ring: KeyRing,
    pub(in crate::kustomization) version: Option<u64>,
    /// The relevant entries, to detect a change.
    pub(in crate::kustomization) entries: BTreeMap<String, Vec<u8>>,
}

/// The location of a Kustomization's keys.
#[derive(Debug, Clone, Copy)]
pub(in crate::kustomization) struct KeySecret<'a> {
    pub(in crate::kustomization) namespace: &'a str,
    pub(in crate::kustomization) name: &'a str,
    /// Whether all share it: then only its age keys count, since any other would be lent to everybody.
    shared: bool,
}

impl<'a> KeySecret<'a> {
    /// The Secret that it names, else the shared one.
    pub(in crate::kustomization) fn of(
        decryption: &'a Decryption,
        namespace: &'a str,
        shared: Option<&'a Key>,
    ) -> Option<Self> {
        if let Some(name) = holder(decryption) {
            let shared = false;
            return Some(Self {
                namespace,
                name,
                shared,
            });
        }
        let all = shared?;
        Some(Self {
            namespace: &all.namespace,
            name: &all.name,
            shared: true,
        })
    }

    fn counts(&self, entry: &str) -> bool {
        let age = entry.ends_with(".agekey");
        age || !self.shared && (entry.ends_with(".asc") || entry == TOKEN || entry == ADDRESSES)
    }
}

pub(in crate::kustomization) fn holder(decryption: &Decryption) -> Option<&str> {
    let name = decryption.secret_ref.as_ref().map(|reference| &*reference.name);
    name.filter(|name| !name.is_empty())
}

type Entry = (String, Zeroizing<Vec<u8>>);

/// Reads the keys. Without processors, for a program of one user, they are read at once.
pub(in crate::kustomization) async fn read(
    client: &Client,
    processors: Option<&Processors>,
    keys: KeySecret<'_>,
) -> Result<Found, KeysError> {
    let secret = get(client, keys).await?;
    let version = secret.metadata.resource_version.as_ref();
    let version = version.and_then(|version| version.parse().ok());
    let entries = secret.data.into_iter().flatten();
    let entries = entries.filter(|(entry, _)| keys.counts(entry));
    let entries: Vec<Entry> = entries
        .map(|(entry, value)| (entry, Zeroizing::new(value.0)))
        .collect();
    let bytes: usize = entries.iter().map(|(_, value)| value.len()).sum();
    let parse = move || (parsed(&entries), entries);
    let (name, namespace) = (keys.name.to_owned(), keys.namespace.to_owned());
    let (ring, entries) = match processors.filter(|_| bytes > PARSED_HERE_BYTES_MAX) {
        None => parse(),
        Some(processors) => match processors.run(keys.namespace, parse).done().await {
            Ok(parsed) => parsed,
            Err(_) => {
                let why = "internal error; see the controller's log".to_owned();
                return Err(KeysError::Unreachable { name, namespace, why });
            }
        },
    };
    let ring = ring.map_err(|(entry, why)| KeysError::Import {
        name,
        namespace,
        entry,
        why,
    })?;
    let entries = entries.into_iter().map(|(entry, value)| (entry, value.to_vec()));
    Ok(Found {
        ring,
        version,
        entries: entries.collect(),
    })
}

/// The keys of these entries, or the name of the one that is none, and why.
fn parsed(entries: &[Entry]) -> Result<KeyRing, (String, String)> {
    let mut ring = KeyRing::default();
    for (entry, value) in entries {
        let failed = |why: String| (entry.clone(), why);
        if entry == ADDRESSES {
            let text = std::str::from_utf8(value).map_err(|_| failed("it is not text".to_owned()))?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            ring.addresses = lines.map(str::to_owned).collect();
        } else {
            let added = ring.keys.add(entry, value);
            added.map_err(|error| {
                let cause = std::error::Error::source(&error);
                failed(cause.map_or_else(|| error.to_string(), chain))
            })?;
        }
    }
    Ok(ring)
}

async fn get(client: &Client, keys: KeySecret<'_>) -> Result<Secret, KeysError> {
    let (name, namespace) = (keys.name.to_owned(), keys.namespace.to_owned());
    match read::read(client, keys.namespace, keys.name).await {
        Ok(Some(secret)) => Ok(secret),
        Ok(None) => Err(KeysError::Absent {
            named_by: match keys.shared {
                true => "--sops-age-secret",
                false => "spec.decryption.secretRef",
            },
            name,
            namespace,
        }),
        Err(error) => {
            let why = error.to_string();
            Err(match error.passes() {
                true => KeysError::Unreachable { name, namespace, why },
                false => KeysError::Refused { name, namespace, why },
            })
        }
    }
}

/// The answers of transit engines.
pub(in crate::kustomization) type Answers = HashMap<TransitRequest, Result<Zeroizing<Vec<u8>>, TransitError>>;

/// Decrypts the inputs and the output of one build.
pub(in crate::kustomization) struct Opening<'a> {
    ring: &'a KeyRing,
    asking: Asking<'a>,
    stop: &'a Stop,
    opened: RefCell<Masks>,
}

/// The transit engines in a build: known answers, and new questions.
struct Asking<'a> {
    /// Whether a token may be sent to an address.
    allowed: &'a dyn Fn(&str) -> bool,
    answers: &'a Answers,
    questions: RefCell<Vec<TransitRequest>>,
}

impl Transit for Asking<'_> {
    fn open(&self, key: &TransitKey<'_>) -> Result<Zeroizing<Vec<u8>>, TransitError> {
        if !(self.allowed)(key.address) {
            return Err(TransitError::NotAllowed(key.address.to_owned()));
        }
        let request = key.request()?;
        match self.answers.get(&request) {
            Some(answer) => answer.clone(),
            None => {
                self.questions.borrow_mut().push(request);
                // never shown: see `unless_asked`
                Err(TransitError::Answer)
            }
        }
    }
}

impl<'a> Opening<'a> {
    pub(in crate::kustomization) fn new(
        ring: &'a KeyRing,
        allowed: &'a dyn Fn(&str) -> bool,
        answers: &'a Answers,
        stop: &'a Stop,
    ) -> Self {
        Self {
            ring,
            asking: Asking {
                allowed,
                answers,
                questions: RefCell::default(),
            },
            stop,
            opened: RefCell::default(),
        }
    }

    /// The decrypted texts, and the questions that the next build needs.
    pub(in crate::kustomization) fn ends(self) -> (Masks, Vec<TransitRequest>) {
        (self.opened.into_inner(), self.asking.questions.into_inner())
    }

    /// Decrypts; none where a transit engine has to be asked first, so it stays encrypted.
    fn unless_asked<T, E: std::error::Error + Send + Sync + 'static>(
        &self,
        open: impl FnOnce(Decrypter<'_>) -> Result<T, E>,
    ) -> Result<Option<T>, SecretError> {
        let asked = self.asking.questions.borrow().len();
        let meter = |steps| self.stop.work(steps);
        let collect = |value: &[u8]| self.note(value);
        let mut decrypter = Decrypter::new(&self.ring.keys)
            .with_integrity(Integrity::Skipped)
            .with_meter(&meter)
            .with_value_callback(&collect);
        if self.ring.keys.token().is_some() {
            decrypter = decrypter.with_transit(&self.asking);
        }
        match open(decrypter) {
            Ok(opened) => Ok(Some(opened)),
            Err(_) if self.asking.questions.borrow().len() > asked => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn note(&self, value: &[u8]) {
        if value.len() < MASKED_BYTES_MIN {
            return;
        }
        let mut opened = self.opened.borrow_mut();
        opened.add_bytes(value);
        if let Ok(text) = std::str::from_utf8(value) {
            // line-based formats are quoted by line
            let lines = text.lines().filter(|line| line.len() >= MASKED_BYTES_MIN);
            lines.for_each(|line| opened.add(line));
        }
    }
}

impl Secrets for Opening<'_> {
    fn file(&self, file: &SecretFile<'_>) -> Result<Option<Vec<u8>>, SecretError> {
        let format = match file.is_env {
            true => Format::of_env_path(file.name),
            false => Format::of_path(file.name),
        };
        let opened = self.unless_asked(|decrypter| decrypter.file(file.content, format))?;
        Ok(opened.flatten().map(|opened| opened.expose_secret().to_vec()))
    }

    fn object(&self, object: &mut Object) -> Result<(), SecretError> {
        // the object is put back on every path
        let mut value = Value::Object(std::mem::take(&mut object.0));
        let opened = self.unless_asked(|decrypter| decrypter.object(&mut value));
        if let Value::Object(map) = value {
            object.0 = map;
        }
        opened.map(|_| ())
    }
}

/// Whether an object is a Secret that is still encrypted, which Flux refuses to apply.
pub(in crate::kustomization) fn is_sealed(object: &Object) -> bool {
    let annotation = object.0.get("metadata").and_then(|meta| meta.get("annotations"));
    let annotation = annotation.and_then(|all| all.get("kustomize.toolkit.fluxcd.io/decrypt"));
    let excepted = annotation
        .and_then(Value::as_str)
        .is_some_and(|value| value.eq_ignore_ascii_case("disabled"));
    object.kind() == "Secret" && object.api_version() == "v1" && object.0.contains_key("sops") && !excepted
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::pin;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::json;

    use super::*;

    const KEY: &str = include_str!("../../../../sops/testdata/keys/one.agekey");

    async fn waits(times: usize) -> bool {
        let secret = json!({
            "metadata": { "name": "keys", "namespace": "apps", "resourceVersion": "7" },
            "data": { "one.agekey": STANDARD.encode(KEY.repeat(times)) },
        });
        let send = move |_: Request<Body>| {
            let answer = Response::new(Body::from(secret.to_string().into_bytes()));
            async move { Ok::<_, Infallible>(answer) }
        };
        let client = Client::new(tower::service_fn(send), "default");
        let processors = Processors::holding(1, usize::MAX);
        let (release, released) = std::sync::mpsc::channel::<()>();
        let busy = processors.run("apps", move || released.recv().is_ok());
        let decryption =
            serde_json::from_value(json!({ "provider": "sops", "secretRef": { "name": "keys" } }));
        let decryption: Decryption = decryption.unwrap();
        let keys = KeySecret::of(&decryption, "apps", None).unwrap();
        let mut reading = pin!(read(&client, Some(&processors), keys));
        let mut found = None;
        for _ in 0..1000 {
            match futures::poll!(&mut reading) {
                std::task::Poll::Ready(done) => {
                    found = Some(done);
                    break;
                }
                std::task::Poll::Pending => tokio::task::yield_now().await,
            }
        }
        drop(release);
        let has_waited = found.is_none();
        let found = match found {
            Some(found) => found,
            None => reading.await,
        };
        assert_eq!(found.unwrap().entries["one.agekey"].len(), times * KEY.len());
        assert_eq!(busy.done().await, Ok(false));
        has_waited
    }

    #[tokio::test]
    async fn many_keys_are_read_on_a_processor() {
        assert!(!waits(1).await);
        assert!(waits(100).await);
    }
}
